//! Senders that die: every whole frame of theirs is kept, the reason is counted, and nobody else notices.

use crate::kinds::{BRISK, Kind};
use crate::server::Server;
use crate::support::collector::{Collector, Ledger, decode, stored};
use crate::support::load::Background;
use crate::support::process::testdata;
use crate::support::relay::Relay;
use crate::support::sender::{Sender, frame};
use crate::support::wait_for;

crate::for_each_server!(super::a_server_killed_under_load_costs_no_whole_frame);

/// Answers of a server whose frames nobody reads, which is more than its socket takes.
const UNREAD: u64 = 6000;

fn payloads() -> Vec<Vec<u8>> {
    let payloads = decode(&std::fs::read(testdata("../captures/nsd.fstrm")).expect("capture"));
    payloads.into_iter().take(20).collect()
}

/// The relay stops reading for a while, so that the server comes to wait within a write, where SIGKILL finds it.
fn a_server_killed_under_load_costs_no_whole_frame(kind: &'static Kind) {
    let dir = tempfile::tempdir().expect("folder");
    let collector = Collector::start(&dir.path().join("t"));
    let frames = collector.frames_dir();
    let relay = Relay::before(&collector, kind.over_tcp, false, &dir.path().join("relay"));
    let Some(mut server) = Server::start(kind, dir.path(), &collector, Some(&relay.front)) else {
        return;
    };
    let payloads = payloads();
    let mut other = Sender::connect(&collector.unix);
    payloads.iter().for_each(|p| other.frame(p));
    wait_for("a stream", || relay.ready());

    let load = Background::start(server.target(), BRISK, 1);
    wait_for("frames", || relay.frames() >= 50);
    relay.pause(true);
    let before = load.answers();
    wait_for("a server under load", || load.answers() >= before + UNREAD);
    server.kill();
    relay.pause(false);
    drop(load);
    relay.wait_closed();

    // The other sender goes on as before.
    payloads.iter().for_each(|p| other.frame(p));
    other.stop();
    collector.wait_idle();
    let own = 2 * payloads.len() as u64;
    collector.wait_written(relay.frames() + own);
    let (cut, whole): (Vec<_>, Vec<_>) = relay
        .connections()
        .into_iter()
        .partition(|c| c.up.tail() > 0);
    let closed = |reason: &str| {
        collector.metric(
            "tapflow_connections_closed_total",
            &[&format!("reason=\"{reason}\"")],
        )
    };
    let want = (cut.len() as u64, whole.len() as u64, 1);
    assert_eq!(
        (closed("truncated"), closed("no_stop"), closed("clean")),
        want,
        "cut within a frame, between frames, stopped"
    );
    let received = relay.frames() + own;
    assert_eq!(collector.ledger(), Ledger::all_delivered(received));
    let ended = collector.stop();
    assert_eq!(
        (ended.code, ended.ledger),
        (Some(0), Ledger::all_delivered(received))
    );
    let mut sent: Vec<_> = cut
        .iter()
        .chain(&whole)
        .flat_map(|c| c.up.payloads.clone())
        .collect();
    sent.extend(payloads.iter().chain(&payloads).cloned());
    let mut written = stored(&frames);
    sent.sort_unstable();
    written.sort_unstable();
    assert!(
        sent == written,
        "every whole frame is kept, octet for octet"
    );
    let tails: Vec<_> = cut.iter().map(|c| c.up.tail()).collect();
    eprintln!(
        "{}: killed after {} whole frames and {tails:?} bytes of another",
        kind.name,
        relay.frames()
    );
}

/// The same with a sender that breaks off wherever the table says.
#[test]
fn a_sender_that_breaks_off_anywhere_costs_only_the_frame_it_was_writing() {
    let dir = tempfile::tempdir().expect("folder");
    let collector = Collector::start(&dir.path().join("t"));
    let frames = collector.frames_dir();
    let payloads = payloads();
    let last = frame(&payloads[0]);
    let table = [
        ("no_stop", 0),
        ("truncated", 1),
        ("truncated", 3),
        ("truncated", 4),
        ("truncated", 5),
        ("truncated", last.len() - 1),
        ("no_stop", last.len()),
    ];
    let mut other = Sender::connect(&collector.unix);
    let mut whole = 0;
    for (n, (reason, kept)) in (1..).zip(table) {
        let closed = || {
            collector.metric(
                "tapflow_connections_closed_total",
                &[&format!("reason=\"{reason}\"")],
            )
        };
        let before = closed();
        let mut sender = Sender::connect(&collector.unix);
        payloads.iter().for_each(|p| sender.frame(p));
        sender.write(&last[..kept]);
        drop(sender);
        wait_for(reason, || closed() == before + 1);
        other.frame(&payloads[1]);
        whole += payloads.len() as u64 + u64::from(kept == last.len()) + 1;
        collector.wait_written(whole);
        assert_eq!(
            collector.ledger(),
            Ledger::all_delivered(whole),
            "after row {n}"
        );
    }
    other.stop();
    let ended = collector.stop();
    assert_eq!(
        (ended.code, ended.ledger),
        (Some(0), Ledger::all_delivered(whole))
    );
    assert_eq!(stored(&frames).len() as u64, whole);
}
