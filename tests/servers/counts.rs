//! The number of frames that a server sent equals the number received, decoded, counted and written.

use std::process::Command;
use std::time::Duration;

use crate::kinds::Kind;
use crate::server::Server;
use crate::support::collector::{Collector, Ledger, contents, stored};
use crate::support::load::Asked;
use crate::support::process::find;
use crate::support::relay::Relay;
use crate::support::{load, wait_for};

crate::for_each_server!(super::every_frame_that_was_sent_is_received_decoded_and_written);

/// Queries of the load, to which those are added that truncated answers make necessary.
const QUERIES: u64 = 2000;

/// The server sends straight to the collector here, with exactly the printed lines. What it must have sent is known from the
/// client's own count of queries and answers, and from the server's statistics; where these do not tell, from a relay in
/// between.
fn every_frame_that_was_sent_is_received_decoded_and_written(kind: &'static Kind) {
    let dir = tempfile::tempdir().expect("folder");
    let collector = Collector::start(&dir.path().join("t"));
    let relay = kind
        .unsure
        .map(|_| Relay::before(&collector, kind.over_tcp, true, &dir.path().join("relay")));
    let place = relay.as_ref().map(|r| &r.front[..]);
    let Some(mut server) = Server::start(kind, dir.path(), &collector, place) else {
        return;
    };
    wait_for("every stream past its handshake", || {
        let open = collector.metric("tapflow_connections_active", &[]);
        open > 0 && collector.streams_started() == open
    });

    if kind.unsure.is_some() {
        // It may send over several streams, and which of them matters shows when a frame has come.
        wait_for("the first frames", || {
            load::ask(server.target(), kind.pace, 2, 0, Duration::from_secs(20));
            all(&collector) > 0
        });
    }
    let asked = ask_in_rounds(kind, &server, &collector);
    assert!(
        asked.truncated > 0 && asked.by_rcode.len() > 1 && asked.by_way.len() >= 2,
        "{asked:?}"
    );
    let (types, own) = (kind.own_count)(&server.site);
    assert!(own >= QUERIES / 3, "{}'s own count is {own}", kind.name);
    let counted = || {
        if types.is_empty() {
            all(&collector)
        } else {
            messages(&collector, types)
        }
    };
    if kind.unsure.is_none() {
        wait_for(
            &format!("{own} frames, as {} has counted", kind.name),
            || counted() >= own,
        );
        assert_eq!(
            counted(),
            own,
            "as many frames as {} has counted",
            kind.name
        );
    }
    if let Some(relay) = &relay {
        // PowerDNS throws away what it has not written when it ends.
        relay.wait_quiet();
        // While the stream is open: its end would wake a reader that sleeps on what has come.
        wait_for("all that passed the relay", || {
            collector.ledger().received == relay.frames()
        });
    }
    server.terminate();
    collector.wait_idle();
    if let (Some(relay), Some(missing)) = (&relay, kind.unsure) {
        assert_eq!(
            collector.ledger().received,
            relay.frames(),
            "as many frames as passed the relay"
        );
        let sent = messages(&collector, types);
        assert!(
            sent <= own && sent >= own - own * missing / 100,
            "{sent} of {own}"
        );
        eprintln!(
            "{}: {sent} frames sent of {own} by its own count",
            kind.name
        );
    }
    let received = whole_account(kind, collector);
    eprintln!(
        "{}: {} queries; {received} frames sent, received, decoded and written",
        kind.name, asked.queries
    );
}

fn messages(collector: &Collector, types: &[&str]) -> u64 {
    types.iter().map(|t| collector.messages(t)).sum()
}

fn all(collector: &Collector) -> u64 {
    collector.metric("tapflow_dnstap_messages_total", &[])
}

/// Asks all queries, and after each round waits for the frames that they must have made.
fn ask_in_rounds(kind: &Kind, server: &Server, collector: &Collector) -> Asked {
    let mut asked = Asked::default();
    for round in 0..QUERIES / kind.round {
        asked.add(load::ask(
            server.target(),
            kind.pace,
            kind.round,
            round,
            Duration::from_secs(20),
        ));
        assert_eq!(
            (asked.answers, &asked.unanswered[..]),
            (asked.queries, &[][..]),
            "every query was answered"
        );
        if !kind.queries.is_empty() && kind.unsure.is_none() {
            let had = || {
                (
                    messages(collector, kind.queries),
                    messages(collector, kind.answers),
                )
            };
            let due = (asked.queries, asked.answers);
            wait_for(&format!("frames for {due:?} queries and answers"), || {
                had() >= due
            });
            assert_eq!(had(), due, "one frame for each query and answer");
        }
    }
    asked
}

/// Holds ledger, metrics, files and the collector's last words against each other, after the server has ended. Returns the
/// number of frames.
fn whole_account(kind: &Kind, collector: Collector) -> u64 {
    let received = collector.ledger().received;
    collector.wait_written(received);
    assert_eq!(collector.ledger(), Ledger::all_delivered(received));
    assert_eq!(
        collector.metric("tapflow_frames_received_total", &[]),
        received
    );
    assert_eq!(
        all(&collector),
        received,
        "every frame is decoded and counted"
    );
    assert_eq!(collector.metric("tapflow_decode_errors_total", &[]), 0);
    let dns = |name| collector.metric(name, &[]);
    let dns = dns("tapflow_dns_queries_total") + dns("tapflow_dns_responses_total");
    assert_eq!(dns, received, "every frame has a DNS message");
    let reason = if kind.stops { "clean" } else { "no_stop" };
    let closed = |labels: &[&str]| collector.metric("tapflow_connections_closed_total", labels);
    assert_eq!(
        closed(&[&format!("reason=\"{reason}\"")]),
        closed(&[]),
        "every stream ended in {reason}"
    );

    let frames = collector.frames_dir();
    let ended = collector.stop();
    assert_eq!(
        (ended.code, ended.ledger),
        (Some(0), Ledger::all_delivered(received)),
        "{}",
        ended.log
    );
    assert_eq!(
        stored(&frames).len() as u64,
        received,
        "every frame is in a whole file"
    );
    other_tools_read(&frames, received);
    received
}

/// `dnstap-read` and `fstrm_dump`, where they are installed, find as many frames in the files.
fn other_tools_read(folder: &std::path::Path, frames: u64) {
    let plain = folder.join("../all");
    std::fs::create_dir_all(&plain).expect("folder");
    let files: Vec<_> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .collect();
    // dnstap-read prints one line a frame, fstrm_dump a head for every data frame.
    for (program, marks_frame) in [
        ("dnstap-read", None),
        ("fstrm_dump", Some(b"Data frame (".as_slice())),
    ] {
        let Some(path) = find(program) else { continue };
        let mut found = 0;
        for (n, file) in files.iter().enumerate() {
            let copy = plain.join(format!("{n}.fstrm"));
            std::fs::write(&copy, contents(file)).expect("copy");
            let output = Command::new(&path).arg(&copy).output().expect(program);
            assert!(
                output.status.success(),
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            // fstrm_dump writes to standard error when no output file is given.
            let text = if marks_frame.is_some() {
                &output.stderr
            } else {
                &output.stdout
            };
            let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            found += lines
                .filter(|l| marks_frame.is_none_or(|m| l.starts_with(m)))
                .count() as u64;
        }
        assert_eq!(found, frames, "{program} reads every frame");
    }
}
