//! The number of frames that a server sent equals the number received, decoded, counted and written.

use std::process::Command;
use std::time::Duration;

use crate::kinds::Kind;
use crate::server::Server;
use crate::support::collector::{Collector, Ledger, contents, stored};
use crate::support::process::find;
use crate::support::{load, wait_for};

crate::for_each_server!(super::every_frame_that_was_sent_is_received_decoded_and_written);

/// Queries of the load, to which those are added that truncated answers make necessary.
const QUERIES: u64 = 2000;

/// The server sends straight to the collector here, with exactly the printed lines. What it must have sent is known from the
/// client's own count of queries and answers, and from the server's statistics.
fn every_frame_that_was_sent_is_received_decoded_and_written(kind: &'static Kind) {
    let dir = tempfile::tempdir().expect("folder");
    let collector = Collector::start(&dir.path().join("t"));
    let Some(mut server) = Server::start(kind, dir.path(), &collector, None) else { return };
    wait_for("every stream past its handshake", || {
        let open = collector.metric("tapflow_connections_active", &[]);
        open > 0 && collector.streams_started() == open
    });

    let asked = load::ask(server.target(), QUERIES, 1, Duration::from_secs(20));
    assert_eq!((asked.answers, &asked.unanswered[..]), (asked.queries, &[][..]), "every query was answered");
    assert!(asked.truncated > 0 && asked.by_rcode.len() > 1 && asked.by_way.len() >= 2, "{asked:?}");

    let messages = |types: &[&str]| types.iter().map(|t| collector.messages(t)).sum::<u64>();
    let all = || collector.metric("tapflow_dnstap_messages_total", &[]);
    if !kind.queries.is_empty() {
        wait_for("a frame for every query and every answer", || {
            messages(kind.queries) >= asked.queries && messages(kind.answers) >= asked.answers
        });
        assert_eq!((messages(kind.queries), messages(kind.answers)), (asked.queries, asked.answers));
    }
    let (types, own) = (kind.own_count)(&server.site);
    assert!(own >= QUERIES / 2, "{}'s own count is {own}", kind.name);
    let counted = || if types.is_empty() { all() } else { messages(types) };
    wait_for(&format!("as many frames as {} has counted, {own}", kind.name), || counted() >= own);
    assert_eq!(counted(), own, "{} has counted as many", kind.name);

    server.terminate();
    collector.wait_idle();
    let ledger = collector.ledger();
    collector.wait_written(ledger.received);
    let received = collector.ledger().received;
    assert_eq!(collector.ledger(), Ledger::all_delivered(received));
    assert_eq!(collector.metric("tapflow_frames_received_total", &[]), received);
    assert_eq!(all(), received, "every frame is decoded and counted");
    assert_eq!(collector.metric("tapflow_decode_errors_total", &[]), 0);
    let dns = collector.metric("tapflow_dns_queries_total", &[]) + collector.metric("tapflow_dns_responses_total", &[]);
    assert_eq!(dns, received, "every frame has a DNS message");
    let reason = if kind.finishes || kind.name == "Unbound" { "clean" } else { "no_stop" };
    let closed = |labels: &[&str]| collector.metric("tapflow_connections_closed_total", labels);
    assert_eq!(closed(&[&format!("reason=\"{reason}\"")]), closed(&[]), "every stream ended in {reason}");

    let frames = collector.frames_dir();
    let ended = collector.stop();
    assert_eq!((ended.code, ended.ledger), (Some(0), Ledger::all_delivered(received)), "{}", ended.log);
    assert_eq!(stored(&frames).len() as u64, received, "every frame is in a whole file");
    other_tools_read(&frames, received);
    eprintln!("{}: {} queries, {received} frames sent, received, decoded and written", kind.name, asked.queries);
}

/// `dnstap-read` and `fstrm_dump`, where they are installed, find as many frames in the files.
fn other_tools_read(folder: &std::path::Path, frames: u64) {
    let plain = folder.join("../all");
    std::fs::create_dir_all(&plain).expect("folder");
    let files: Vec<_> = std::fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    // dnstap-read prints one line a frame, fstrm_dump a head for every data frame.
    for (program, marks_frame) in [("dnstap-read", None), ("fstrm_dump", Some(b"Data frame (".as_slice()))] {
        let Some(path) = find(program) else { continue };
        let mut found = 0;
        for (n, file) in files.iter().enumerate() {
            let copy = plain.join(format!("{n}.fstrm"));
            std::fs::write(&copy, contents(file)).expect("copy");
            let output = Command::new(&path).arg(&copy).output().expect(program);
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            let lines = output.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            found += lines.filter(|l| marks_frame.is_none_or(|m| l.starts_with(m))).count() as u64;
        }
        assert_eq!(found, frames, "{program} reads every frame");
    }
}
