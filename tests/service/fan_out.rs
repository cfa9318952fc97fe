//! Sharing frames out among workers as processes: the collector and its workers are the real program.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
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
    /// Where they listen.
    host: &'static str,
    namespace: Option<String>,
}

impl Workers {
    fn start(n: usize) -> Self {
        Self::at(n, "127.0.0.1", None)
    }

    fn at(n: usize, host: &'static str, namespace: Option<String>) -> Self {
        let mut workers = Self {
            folder: tempfile::tempdir().expect("a folder"),
            ports: (0..n).map(|_| free_port()).collect(),
            running: (0..n).map(|_| None).collect(),
            host,
            namespace,
        };
        (0..n).for_each(|i| workers.restart(i));
        workers
    }

    fn frames_of(&self, i: usize) -> PathBuf {
        self.folder.path().join(format!("worker-{i}"))
    }

    fn restart(&mut self, i: usize) {
        let output = format!(
            "file:{}?compress=off&keep_files=0",
            self.frames_of(i).display()
        );
        let mut program = Program::worker()
            .arg("--listen")
            .arg(format!("mux+tcp:{}:{}", self.host, self.ports[i]))
            .arg("--output")
            .arg(output);
        if let Some(namespace) = &self.namespace {
            program = program.within(namespace);
        }
        self.running[i] = Some(program.start());
    }

    fn uri(&self) -> String {
        let places: Vec<String> = self
            .ports
            .iter()
            .map(|p| format!("{}:{p}", self.host))
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
        "strategy=hash&streams=3",
        "strategy=hash&by=qname&streams=3",
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
        if strategy.contains("hash") {
            for sender in 0..4 {
                let its = |n: &u64| n / (FRAMES / 4) == sender;
                for file in &files {
                    assert!(
                        file.iter().filter(|n| its(n)).is_sorted(),
                        "{strategy}: order"
                    );
                }
            }
        }
        let shares: Vec<usize> = files.iter().map(Vec::len).collect();
        println!("{strategy}: {shares:?}");
        if strategy.contains("qname") {
            assert!(
                shares.contains(&(FRAMES as usize)),
                "one name goes to one worker"
            );
        }
    }
}

/// How long workers are harried, and how many frames are sent meanwhile: TAPFLOW_LONG=1 asks for the long form.
fn harrying() -> (Duration, u64) {
    match std::env::var_os("TAPFLOW_LONG") {
        Some(_) => (Duration::from_secs(60), 1_000_000),
        None => (Duration::from_secs(8), 150_000),
    }
}

/// A number that looks random, the same in each run.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// A worker a second is killed, or stopped for a while, or told to leave, and started again, while frames come. Every frame
/// is in the files in the end, and no more of them twice than the collector says it sent again.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_killed_stopped_and_restarted_under_load_lose_no_frame() {
    let (time, frames) = harrying();
    let mut workers = Workers::start(3);
    let collector = collector(&workers, &format!("{FAST}&strategy=least_loaded&streams=3"));
    let to = collector.unix();
    let pieces = 100;
    let sender = tokio::spawn(async move {
        let mut peer = Peer::bidirectional(&to).await;
        let (numbered, piece, began) = (Numbered::new(), frames / pieces, Instant::now());
        for n in 0..pieces {
            for first in (n * piece..(n + 1) * piece).step_by(100) {
                peer.send(&numbered.run(first..first + 100)).await;
            }
            // Spread over the time, so that whatever happens meets frames.
            let at = began + time.mul_f64((n + 1) as f64 / pieces as f64);
            tokio::time::sleep_until(at.into()).await;
        }
        peer.stop().await;
    });
    let (began, mut seed) = (Instant::now(), 88_172_645_463_325_252);
    let mut done = Vec::new();
    while began.elapsed() < time {
        let (what, i) = (next(&mut seed) % 3, (next(&mut seed) >> 20) as usize % 3);
        match what {
            0 => {
                workers.kill(i);
                tokio::time::sleep(Duration::from_millis(300)).await;
                workers.restart(i);
            }
            1 => {
                workers.worker(i).signal(Signal::STOP);
                tokio::time::sleep(Duration::from_millis(900)).await;
                workers.worker(i).signal(Signal::CONT);
            }
            _ => {
                let leaves = workers.running[i].take().expect("it runs");
                let (code, ledger, _) = leaves.terminate();
                assert_eq!(
                    (code, &ledger["closes"]),
                    (Some(0), &true.into()),
                    "{ledger}"
                );
                workers.restart(i);
            }
        }
        done.push((["kill", "stop", "leave"][what as usize], i));
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    sender.await.expect("the sender is served to its end");
    settled(&collector, frames);
    let scrape = collector.scrape();
    let again = scrape.sum("tapflow_worker_redelivered_frames_total", &[]) as u64;
    let (code, ledger, lines) = collector.terminate();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert_eq!(ledger["outputs"][0]["delivered"], frames, "{ledger}");
    let files = workers.finish(&Numbered::new());
    let counts = counts(&files, frames);
    let twice: u64 = counts.values().map(|n| n - 1).sum();
    println!("{done:?}: {frames} frames, {again} sent again, {twice} of them twice in the files");
    assert!(twice <= again, "{twice} duplicates, {again} sent again");
    assert!(
        done.iter().all(|d| d.0 == "leave") || again > 0,
        "nothing was harried"
    );
}

/// A worker that is told to leave acknowledges what it has; nothing is sent again and nothing is twice anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_loses_nothing_and_repeats_nothing() {
    const FRAMES: u64 = 100_000;
    let mut workers = Workers::start(2);
    let collector = collector(&workers, &format!("{FAST}&strategy=round_robin"));
    let to = collector.unix();
    let sender = tokio::spawn(async move { send(&to, 0..FRAMES).await });
    eventually("half of it has come", || {
        let ledger = collector.ledger();
        (ledger["outputs"][0]["delivered"].as_u64()? > FRAMES / 5).then_some(())
    })
    .await;
    let leaves = workers.running[0].take().expect("it runs");
    let (code, ledger, lines) = leaves.terminate();
    assert_eq!(
        (code, &ledger["closes"]),
        (Some(0), &true.into()),
        "{ledger}"
    );
    assert!(ledger["received"].as_u64().unwrap() > 0, "{lines:#?}");
    sender.await.expect("the sender is served to its end");
    settled(&collector, FRAMES);
    let notes = collector.get("/readyz").expect("/readyz");
    let port = workers.ports[0];
    assert!(
        notes.0 == 200
            && notes
                .1
                .contains(&format!("output mux: worker tcp:127.0.0.1:{port}: ")),
        "{notes:?}"
    );
    let scrape = collector.scrape();
    assert_eq!(
        scrape.sum("tapflow_worker_redelivered_frames_total", &[]),
        0.0
    );
    let (code, ledger, _) = collector.terminate();
    assert_eq!(
        (code, &ledger["outputs"][0]["delivered"]),
        (Some(0), &FRAMES.into())
    );
    let files = workers.finish(&Numbered::new());
    assert!(counts(&files, FRAMES).values().all(|n| *n == 1));
}

/// With no worker reachable the policy decides, and it shows.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_worker_the_policy_applies_and_it_shows() {
    let port = free_port();
    for policy in ["block", "drop_newest", "drop_oldest"] {
        let collector = Program::new()
            .unix()
            .arg("--output")
            .arg(format!(
                "mux+tcp:127.0.0.1:{port}?{FAST}&policy={policy}&queue_bytes=1MiB"
            ))
            .config("shutdown_timeout = \"200ms\"\n")
            .start();
        let to = collector.unix();
        let sender = tokio::spawn(async move { send(&to, 0..200_000).await });
        if policy == "block" {
            collector.wait_ledger("frames wait", |l| l["received"].as_u64() > Some(20_000));
            assert_eq!(
                collector.ledger()["outputs"][0]["dropped"],
                serde_json::json!({})
            );
            sender.abort();
        } else {
            sender.await.expect("the sender is not held up");
            let ledger = collector.wait_ledger("all have come", |l| l["received"] == 200_000);
            let dropped = ledger["outputs"][0]["dropped"]["queue_full"]
                .as_u64()
                .unwrap();
            let waiting = ledger["outputs"][0]["in_flight"].as_u64().unwrap();
            assert_eq!(dropped + waiting, 200_000, "{ledger}");
        }
        let line = format!("output mux: worker tcp:127.0.0.1:{port}: ");
        eventually("/readyz tells", || {
            collector
                .get("/readyz")
                .ok()?
                .1
                .contains(&line)
                .then_some(())
        })
        .await;
        assert_eq!(collector.scrape().sum("tapflow_output_connected", &[]), 0.0);
        assert!(!collector.lines_with("no session, trying again").is_empty());
        let (code, ledger, _) = collector.terminate();
        assert_eq!(
            (code, &ledger["closes"]),
            (Some(3), &true.into()),
            "{ledger}"
        );
    }
}

/// With `all` each worker gets everything, and one that is away holds nobody up when its policy is to drop.
#[tokio::test(flavor = "multi_thread")]
async fn with_strategy_all_every_worker_gets_every_frame() {
    const FRAMES: u64 = 20_000;
    let workers = Workers::start(3);
    let collector = collector(&workers, &format!("{FAST}&strategy=all"));
    send(&collector.unix(), 0..FRAMES).await;
    let ledger = collector.wait_ledger("everything is acknowledged", |l| {
        l["outputs"]
            .as_array()
            .is_some_and(|o| o.iter().all(|o| o["delivered"] == FRAMES))
    });
    let names: Vec<&str> = ledger["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|o| o["name"].as_str())
        .collect();
    assert_eq!(names, ["mux.1", "mux.2", "mux.3"]);
    assert_eq!(collector.terminate().0, Some(0));
    for file in workers.finish(&Numbered::new()) {
        assert_eq!(file.len() as u64, FRAMES);
        assert!(file.is_sorted() || counts(&[file], FRAMES).len() as u64 == FRAMES);
    }
}

/// A name stands for the workers at its addresses.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_resolved_to_its_workers() {
    const FRAMES: u64 = 5000;
    let workers = Workers::start(1);
    let collector = Program::new()
        .unix()
        .arg("--output")
        .arg(format!("mux+tcp:localhost:{}?{FAST}", workers.ports[0]))
        .start();
    send(&collector.unix(), 0..FRAMES).await;
    settled(&collector, FRAMES);
    let name = format!("worker=\"tcp:127.0.0.1:{}\"", workers.ports[0]);
    assert_eq!(collector.scrape().sum("tapflow_worker_up", &[&name]), 1.0);
    assert_eq!(collector.terminate().0, Some(0));
    assert_eq!(workers.finish(&Numbered::new())[0].len() as u64, FRAMES);
}

/// Workers in a network namespace of their own, behind a link that can be cut and made to lose packets.
struct Network(String);

impl Network {
    const WORKERS: &str = "10.213.77.2";

    /// Why there is none, when it cannot be made.
    fn make() -> Result<Self, String> {
        let name = format!("tapflow{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        // From here on dropping it takes it away.
        let network = Self(name);
        let (name, link) = (&network.0, network.link());
        ip(&format!(
            "link add {link} type veth peer name eth0 netns {name}"
        ))?;
        ip(&format!("addr add 10.213.77.1/24 dev {link}"))?;
        ip(&format!("link set {link} up"))?;
        ip(&format!("-n {name} addr add {}/24 dev eth0", Self::WORKERS))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} link set lo up"))?;
        Ok(network)
    }

    fn link(&self) -> String {
        format!("tf{}", std::process::id())
    }

    fn lose_packets(&self) {
        let words = [
            "qdisc",
            "add",
            "dev",
            &self.link(),
            "root",
            "netem",
            "loss",
            "1%",
        ];
        let tc = std::process::Command::new("tc").args(words).output();
        if !tc.is_ok_and(|o| o.status.success()) {
            println!("skipped the loss of packets: tc or the kernel has no netem here (sch_netem)");
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = std::process::Command::new("ip")
        .args(words.split(' '))
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// A link that loses packets, and is cut for some seconds while frames come: every frame is there in the end.
#[tokio::test(flavor = "multi_thread")]
async fn over_a_link_that_loses_packets_and_is_cut_no_frame_is_lost() {
    let network = match Network::make() {
        Ok(network) => network,
        Err(why) => {
            println!("skipped: no network namespace here (root and iproute2 are wanted): {why}");
            return;
        }
    };
    network.lose_packets();
    let (time, frames) = harrying();
    let workers = Workers::at(3, Network::WORKERS, Some(network.0.clone()));
    let collector = collector(&workers, &format!("{FAST}&strategy=round_robin"));
    let to = collector.unix();
    let sender = tokio::spawn(async move {
        let mut peer = Peer::bidirectional(&to).await;
        let (numbered, piece, began) = (Numbered::new(), frames / 100, Instant::now());
        for n in 0..100 {
            peer.send(&numbered.run(n * piece..(n + 1) * piece)).await;
            let at = began + time.mul_f64((n + 1) as f64 / 100.0);
            tokio::time::sleep_until(at.into()).await;
        }
        peer.stop().await;
    });
    eventually("some of it has come", || {
        let delivered = collector.ledger()["outputs"][0]["delivered"].as_u64()?;
        (delivered > frames / 5).then_some(())
    })
    .await;
    let link = network.link();
    ip(&format!("link set {link} down")).expect("the link is cut");
    let notes = || collector.get("/readyz").expect("/readyz").1;
    eventually("it shows that no worker can be reached", || {
        (notes().lines().count() == 4).then_some(())
    })
    .await;
    tokio::time::sleep(time.mul_f64(5.0 / 60.0).max(Duration::from_secs(2))).await;
    ip(&format!("link set {link} up")).expect("the link is whole again");
    sender.await.expect("the sender is served to its end");
    settled(&collector, frames);
    let scrape = collector.scrape();
    let again = scrape.sum("tapflow_worker_redelivered_frames_total", &[]) as u64;
    assert_eq!(collector.terminate().0, Some(0));
    let files = workers.finish(&Numbered::new());
    let twice: u64 = counts(&files, frames).values().map(|n| n - 1).sum();
    println!("{frames} frames, {again} sent again, {twice} of them twice in the files");
    assert!(twice <= again);
}
