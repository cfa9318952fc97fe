//! BIND waits for FINISH before it ends, so that a restart of named takes as long as FINISH does.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::kinds::BIND;
use crate::server::Server;
use crate::support::collector::{Collector, Ended, Ledger};
use crate::support::process::testdata;
use crate::support::relay::Relay;
use crate::support::{load, wait_for};

/// From STOP to FINISH. What is measured is the median of [`ROUNDS`] restarts: a machine with much else to do may keep one
/// of them waiting.
const FINISH_WITHIN: Duration = Duration::from_millis(100);
/// From SIGTERM to the end of named.
const END_WITHIN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// Restarts named under this collector, each time after `queries`. Returns how the collector ended.
fn restart_named(
    collector: Collector,
    dir: &std::path::Path,
    queries: u64,
    blocked: bool,
) -> Option<Ended> {
    let relay = Relay::before(&collector, false, true, &dir.join("relay"));
    let mut server = Server::start(&BIND, dir, &collector, Some(&relay.front))?;
    let mut ends = Vec::new();
    for round in 0..ROUNDS {
        if round > 0 {
            server.start_again();
        }
        wait_for("a stream", || relay.ready());
        load::ask(
            server.target(),
            BIND.pace,
            queries,
            round as u64,
            Duration::from_secs(20),
        );
        let frames = || {
            relay
                .frames_by_connection()
                .get(round)
                .copied()
                .unwrap_or(0)
        };
        wait_for("frames", || frames() >= queries);
        if blocked {
            assert!(
                collector.ledger().in_flight > 0,
                "the output takes nothing more"
            );
        }
        let start = Instant::now();
        assert!(server.terminate().success());
        ends.push(start.elapsed());
    }
    relay.wait_closed();
    let mut finishes: Vec<_> = relay
        .connections()
        .iter()
        .map(|c| c.stop_to_finish().expect("FINISH came"))
        .collect();
    eprintln!(
        "BIND, output {}: FINISH after {finishes:?}, end after {ends:?}",
        if blocked { "blocked" } else { "free" }
    );
    assert!(
        ends.iter().all(|e| *e < END_WITHIN),
        "named ended after {ends:?}"
    );
    finishes.sort_unstable();
    assert!(
        finishes[ROUNDS / 2] < FINISH_WITHIN,
        "FINISH came {finishes:?} after STOP"
    );
    collector.wait_idle();
    let ended = collector.stop();
    assert_eq!(
        ended.ledger.received,
        relay.frames(),
        "every frame that passed was taken"
    );
    Some(ended)
}

#[test]
fn named_ends_at_once_when_it_stops() {
    let dir = tempfile::tempdir().expect("folder");
    let collector = Collector::start(&dir.path().join("t"));
    let Some(ended) = restart_named(collector, dir.path(), 200, false) else {
        return;
    };
    assert_eq!(
        (ended.code, &ended.ledger),
        (Some(0), &Ledger::all_delivered(ended.ledger.received)),
        "{}",
        ended.log
    );
}

/// The only output goes to a socket that nobody reads, and must not lose anything, so reading from BIND comes to wait.
#[test]
fn named_ends_at_once_although_the_output_is_blocked() {
    let dir = tempfile::tempdir().expect("folder");
    let sink = dir.path().join("sink");
    // Connections wait in its queue, and what is written to them in theirs.
    let _nobody_reads = UnixListener::bind(&sink).expect("sink");
    let config = std::fs::read_to_string(testdata("blocked.toml")).expect("template");
    let path = dir.path().join("blocked.toml");
    std::fs::write(&path, config.replace("@SINK@", &sink.display().to_string()))
        .expect("configuration");
    let config = path.display().to_string();
    let collector = Collector::start_with(&dir.path().join("t"), &["--config", &config]);
    let Some(ended) = restart_named(collector, dir.path(), 1000, true) else {
        return;
    };
    // At the end it says what became of the frames that nobody took.
    let Ledger {
        received,
        delivered,
        in_flight,
        dropped,
        closes,
        ..
    } = ended.ledger;
    assert_eq!(
        (in_flight, delivered + dropped, closes),
        (0, received, true),
        "{}",
        ended.log
    );
    assert!(dropped > 0);
    assert_eq!(ended.code, Some(3), "{}", ended.log);
}
