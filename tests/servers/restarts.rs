//! The server and the collector are restarted in the middle of a load; senders find the way back by themselves.

use crate::kinds::Kind;
use crate::server::Server;
use crate::support::collector::{Collector, Ledger, stored};
use crate::support::load::Background;
use crate::support::relay::Relay;
use crate::support::wait_for;

crate::for_each_server!(super::every_frame_that_was_sent_is_in_the_ledger_of_one_run_or_the_other);

fn every_frame_that_was_sent_is_in_the_ledger_of_one_run_or_the_other(kind: &'static Kind) {
    let dir = tempfile::tempdir().expect("folder");
    let data_dir = dir.path().join("t");
    let first = Collector::start(&data_dir);
    let frames = first.frames_dir();
    let relay = Relay::before(&first, kind.over_tcp, false, &dir.path().join("relay"));
    let Some(mut server) = Server::start(kind, dir.path(), &first, Some(&relay.front)) else {
        return;
    };
    wait_for("a stream", || relay.ready());
    let load = Background::start(server.target(), kind.pace, 1);
    wait_for("frames before the restarts", || relay.frames() >= 100);

    server.terminate();
    relay.wait_closed();
    let before = relay.frames();
    server.start_again();
    wait_for("frames after the server's restart", || {
        relay.frames() >= before + 100
    });

    // The collector stops under the load. What the relay wrote to it before, it must have taken.
    let streams = relay.frames_by_connection().len();
    let first = first.stop();
    let second = Collector::start(&data_dir);
    let again = || {
        relay
            .frames_by_connection()
            .iter()
            .skip(streams)
            .sum::<u64>()
    };
    wait_for("frames after the collector's restart", || again() >= 100);

    drop(load);
    server.terminate();
    relay.wait_closed();
    second.wait_idle();
    let passed = relay.frames();
    second.wait_written(passed - first.ledger.received);
    let second = second.stop();
    for ended in [&first, &second] {
        assert_eq!(
            (ended.code, &ended.ledger),
            (Some(0), &Ledger::all_delivered(ended.ledger.received)),
            "{}",
            ended.log
        );
    }
    assert_eq!(
        first.ledger.received + second.ledger.received,
        passed,
        "what passed is in one ledger or the other"
    );
    // Streams come in side by side, so the order over all of them is not told.
    let mut sent: Vec<_> = relay
        .connections()
        .into_iter()
        .flat_map(|c| c.up.payloads)
        .collect();
    let mut written = stored(&frames);
    sent.sort_unstable();
    written.sort_unstable();
    assert!(
        sent == written,
        "the files of both runs hold what passed, octet for octet"
    );
    eprintln!(
        "{}: {} frames before the collector's restart, {} after",
        kind.name, first.ledger.received, second.ledger.received
    );
}
