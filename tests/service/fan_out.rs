//! Sharing frames out among workers as processes: the collector and its workers are the real program.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tapflow::fstrm::Frames;
use tapflow::units::Endpoint;

use crate::support::frames::{Numbered, part_all};
use crate::support::peer::Peer;
use crate::support::program::{Program, Started};
use crate::support::{eventually, eventually_blocking, files_in};

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address").port()
}

/// Workers with file outputs, each in a folder and at a port of its own, which it keeps when it is started again.
struct Workers {
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    running: Vec<Option<Started>>,
    extra: &'static str,
}

impl Workers {
    fn start(n: usize) -> Self {
        Self::with(n, "")
    }

    fn with(n: usize, extra: &'static str) -> Self {
        let mut workers = Self {
            folder: tempfile::tempdir().expect("a folder"),
            ports: (0..n).map(|_| free_port()).collect(),
            running: (0..n).map(|_| None).collect(),
            extra,
        };
        (0..n).for_each(|i| workers.restart(i));
        workers
    }

    fn frames_of(&self, i: usize) -> PathBuf {
        self.folder.path().join(format!("worker-{i}"))
    }

    fn restart(&mut self, i: usize) {
        let output = format!(
            "file:{}?compress=off&keep_files=0{}",
            self.frames_of(i).display(),
            self.extra
        );
        let started = Program::worker()
            .arg("--listen")
            .arg(format!("mux+tcp:127.0.0.1:{}", self.ports[i]))
            .arg("--output")
            .arg(output)
            .start();
        self.running[i] = Some(started);
    }

    fn uri(&self) -> String {
        let places: Vec<String> = self
            .ports
            .iter()
            .map(|p| format!("127.0.0.1:{p}"))
            .collect();
        format!("mux+tcp:{}", places.join(","))
    }

    fn worker(&self, i: usize) -> &Started {
        self.running[i].as_ref().expect("it runs")
    }

    /// SIGKILL.
    fn kill(&mut self, i: usize) {
        drop(self.running[i].take());
    }

    /// Starts those that do not run (which finishes the files that a kill left), then ends all of them in good order. What
    /// was in the files, by worker.
    fn finish(mut self, numbered: &Numbered) -> Vec<Vec<u64>> {
        for i in 0..self.running.len() {
            if self.running[i].is_none() {
                self.restart(i);
            }
            let frames = self.frames_of(i);
            eventually_blocking(
                || {
                    format!(
                        "files of worker {i} are finished: {:?}",
                        files_in(&frames, "")
                    )
                },
                || {
                    let parts = files_in(&frames, ".part");
                    // One may be the file that it writes.
                    (parts.len() <= 1).then_some(())
                },
            );
            let (code, ledger, _) = self.running[i].take().expect("it runs").terminate();
            assert_eq!(
                (code, &ledger["closes"]),
                (Some(0), &true.into()),
                "{ledger}"
            );
        }
        (0..self.running.len())
            .map(|i| numbers(&self.frames_of(i), numbered))
            .collect()
    }
}

fn numbers(folder: &Path, numbered: &Numbered) -> Vec<u64> {
    let mut all = Vec::new();
    for file in files_in(folder, ".fstrm") {
        let bytes = std::fs::read(&file).expect("a file");
        let parted = part_all(&bytes);
        all.extend(parted.payloads.iter().map(|p| numbered.number(p)));
    }
    all
}

/// A collector that gives its frames to these workers, with these settings of the output.
fn collector(workers: &Workers, settings: &str) -> Started {
    Program::new()
        .unix()
        .arg("--output")
        .arg(format!("{}?{settings}", workers.uri()))
        .start()
}

/// Settings that find out fast.
const FAST: &str = "keepalive=300ms&reconnect_max=200ms&ack_timeout=20s";

async fn send(to: &Endpoint, range: std::ops::Range<u64>) {
    let mut peer = Peer::bidirectional(to).await;
    let numbered = Numbered::new();
    let end = range.end;
    for first in range.step_by(1000) {
        peer.send(&numbered.run(first..(first + 1000).min(end)))
            .await;
    }
    peer.stop().await;
}

/// How often each number is among `files`; all of `0..n` must be.
fn counts(files: &[Vec<u64>], n: u64) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    for number in files.iter().flatten() {
        *counts.entry(*number).or_insert(0u64) += 1;
    }
    let missing: Vec<u64> = (0..n)
        .filter(|i| !counts.contains_key(i))
        .take(10)
        .collect();
    assert!(
        missing.is_empty(),
        "missing: {missing:?} and perhaps more of {n}"
    );
    counts
}

fn settled(collector: &Started, n: u64) {
    collector.wait_ledger("everything is acknowledged", |l| {
        l["received"] == n && l["outputs"][0]["in_flight"] == 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_frame_is_acknowledged_by_one_of_three_workers_whatever_the_strategy() {
    const FRAMES: u64 = 30_000;
    for strategy in [
        "strategy=round_robin",
        "strategy=least_loaded",
        "strategy=hash",
        "strategy=hash&by=qname",
        "strategy=round_robin&acknowledge=false",
    ] {
        let workers = Workers::start(3);
        let collector = collector(&workers, &format!("{FAST}&{strategy}"));
        for i in 0..3 {
            let name = format!("worker=\"tcp:127.0.0.1:{}\"", workers.ports[i]);
            eventually("all workers are up", || {
                (collector.scrape().sum("tapflow_worker_up", &[&name]) == 1.0).then_some(())
            })
            .await;
        }
        assert_eq!(collector.get("/readyz").unwrap().1, "ready\n");
        let to = collector.unix();
        let senders = (0..4).map(|n| {
            let to = to.clone();
            tokio::spawn(async move { send(&to, n * FRAMES / 4..(n + 1) * FRAMES / 4).await })
        });
        for sender in senders.collect::<Vec<_>>() {
            sender.await.unwrap();
        }
        settled(&collector, FRAMES);
        let (code, ledger, lines) = collector.terminate();
        assert_eq!(code, Some(0), "{lines:#?}");
        assert_eq!(ledger["outputs"][0]["delivered"], FRAMES, "{ledger}");
        let files = workers.finish(&Numbered::new());
        let counts = counts(&files, FRAMES);
        assert!(counts.values().all(|n| *n == 1), "{strategy}: each once");
        let shares: Vec<usize> = files.iter().map(Vec::len).collect();
        println!("{strategy}: {shares:?}");
        if strategy.ends_with("qname") {
            assert!(
                shares.contains(&(FRAMES as usize)),
                "one name goes to one worker"
            );
        }
    }
}
