//! `tapflow replay` as a program, into a receiver in the test that keeps a ledger of its own.

mod cli_support;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cli_support::{Ran, capture, first, run_of, start, tapflow, testdata};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tapflow::app::listen::link_options;
use tapflow::fstrm::{BufPool, Dialect, Frames};
use tapflow::ids::{ListenerId, OutputId};
use tapflow::link::fstrm::{Event, Link};
use tapflow::pipeline::ledger::{Arrival, Ledger};
use tapflow::transport::options::ListenerOptions;
use tapflow::transport::unix::Access;
use tapflow::transport::{BindOptions, Bound, Stream};
use tapflow::units::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// What one connection brought.
#[derive(Debug)]
struct Stretch {
    dialect: Option<Dialect>,
    clean: bool,
    run: Vec<u8>,
}

/// A collector in the test.
struct Collector {
    runtime: Runtime,
    to: String,
    http: String,
    frames: Arc<AtomicU64>,
    stretches: mpsc::Receiver<Stretch>,
    _folder: tempfile::TempDir,
}

impl Collector {
    /// On a Unix socket or on TCP; `lose` frames of each connection are not booked.
    fn new(unix: bool, lose: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let address = if unix {
            Endpoint::unix(folder.path().join("s"))
        } else {
            Endpoint::tcp("127.0.0.1", 0)
        };
        let options = BindOptions {
            address: address.clone(),
            access: Access {
                mode: 0o600,
                owner: None,
                group: None,
            },
            receive_buffer: 0,
            keepalive: None,
        };
        let (bound, http) = runtime.block_on(async {
            let bound = Bound::bind(&options).await.unwrap();
            (bound, TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let to = bound.address(&address).to_string();
        let http_address = http.local_addr().unwrap().to_string();
        let ledger = Ledger::new();
        let accounts = (ledger.register_listener("l"), ledger.register_output("o"));
        let frames = Arc::new(AtomicU64::new(0));
        let (out, stretches) = mpsc::channel(1024);
        let counted = frames.clone();
        let books = ledger.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = bound.accept(&options).await {
                tokio::spawn(receive(
                    stream,
                    books.clone(),
                    accounts,
                    lose,
                    counted.clone(),
                    out.clone(),
                ));
            }
        });
        runtime.spawn(async move {
            while let Ok((mut stream, _)) = http.accept().await {
                let body = ledger.snapshot().to_json().to_string();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self {
            runtime,
            to,
            http: http_address,
            frames,
            stretches,
            _folder: folder,
        }
    }

    /// What the next `n` connections to end brought.
    fn take(&mut self, n: usize) -> Vec<Stretch> {
        let stretches = &mut self.stretches;
        self.runtime.block_on(async {
            let mut got = Vec::new();
            while got.len() < n {
                let next = tokio::time::timeout(Duration::from_secs(60), stretches.recv());
                got.push(next.await.expect("a connection ends").unwrap());
            }
            got
        })
    }
}

async fn receive(
    stream: Stream,
    ledger: Ledger,
    (listener, output): (ListenerId, OutputId),
    lose: u64,
    counted: Arc<AtomicU64>,
    out: mpsc::Sender<Stretch>,
) {
    let mut link = Link::new(
        stream,
        link_options(&ListenerOptions::default()),
        BufPool::new(256 * 1024, 4),
    );
    let mut stretch = Stretch {
        dialect: None,
        clean: false,
        run: Vec::new(),
    };
    let mut lose = lose;
    loop {
        match link.next().await {
            Ok(Event::Started { dialect }) => stretch.dialect = Some(dialect),
            Ok(Event::Run { frames, .. }) => {
                stretch.run.extend_from_slice(link.run());
                counted.fetch_add(frames as u64, Ordering::SeqCst);
                let lost = lose.min(frames as u64);
                lose -= lost;
                let kept = frames as u64 - lost;
                ledger.arrive(
                    listener,
                    &Arrival {
                        received: kept,
                        kept,
                        ..Arrival::default()
                    },
                );
                ledger.delivered(output, kept);
            }
            Ok(Event::Stopped) => {
                stretch.clean = true;
                break;
            }
            Ok(Event::Eof(end)) => {
                stretch.clean = end.as_str() == "clean";
                break;
            }
            Ok(_) => {}
            Err(e) => panic!("{e}"),
        }
    }
    out.send(stretch).await.unwrap();
}

fn replay(file: &Path, to: &str, args: &[&str]) -> (Ran, Value) {
    let mut command = tapflow(["replay", "--report", "json", "--to", to]);
    let ran = Ran::of(&command.args(args).arg(file).output().unwrap());
    let report = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
    (ran, report)
}

#[test]
fn every_frame_arrives_once_in_every_mode_compression_and_number_of_connections() {
    let (frames, n) = capture("kdig.fstrm");
    let file = testdata("captures/kdig.fstrm");
    for unix in [true, false] {
        let mut collector = Collector::new(unix, 0);
        let modes = [
            ("bidirectional", Dialect::Bidirectional),
            ("unidirectional", Dialect::Unidirectional),
            ("raw", Dialect::Raw),
        ];
        for (mode, dialect) in modes {
            // A raw stream has no handshake to tell of.
            let named = Some(dialect).filter(|dialect| *dialect != Dialect::Raw);
            for codec in ["off", "gzip", "lz4", "snappy", "zstd"] {
                for (connections, rounds) in [(1, 1), (1, 50), (7, 3)] {
                    let (c, r) = (connections.to_string(), rounds.to_string());
                    let args = [
                        "--mode",
                        mode,
                        "--compress",
                        codec,
                        "--connections",
                        &c,
                        "--loop",
                        &r,
                    ];
                    let (ran, report) = replay(&file, &collector.to, &args);
                    let what = format!("{args:?}: {ran:?}");
                    assert_eq!(ran.code, Some(0), "{what}");
                    let want = n * rounds;
                    assert_eq!(report["frames"], want, "{what}");
                    let finished = if mode == "bidirectional" {
                        connections
                    } else {
                        0
                    };
                    assert_eq!(report["finished"], finished, "{what}");
                    let got = collector.take(connections);
                    let total: usize = got.iter().map(|s| Frames::count_of(&s.run).unwrap()).sum();
                    assert_eq!(total, want, "{what}");
                    assert!(got.iter().all(|s| s.clean && s.dialect == named), "{what}");
                    if connections == 1 {
                        assert!(
                            got[0].run == frames.repeat(rounds),
                            "{what}: octet for octet"
                        );
                    } else {
                        assert!(
                            got.iter().all(|s| !s.run.is_empty()),
                            "{what}: all have a share"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn several_files_of_every_kind_are_sent_one_after_another() {
    let mut collector = Collector::new(true, 0);
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("b.fstrm.zst");
    let knot = testdata("captures/knot.fstrm");
    assert!(
        tapflow(["convert", "--quiet"])
            .arg(&knot)
            .arg(&packed)
            .status()
            .unwrap()
            .success()
    );
    let pcap = testdata("pcap/knot.pcap");
    let plain = folder.path().join("c.fstrm");
    assert!(
        tapflow(["convert", "--quiet"])
            .arg(&pcap)
            .arg(&plain)
            .status()
            .unwrap()
            .code()
            .is_some()
    );
    let mut command = tapflow(["replay", "--to", &collector.to]);
    let ran = Ran::of(
        &command
            .arg(testdata("captures/kdig.fstrm"))
            .arg(&packed)
            .arg(&pcap)
            .output()
            .unwrap(),
    );
    assert!(
        ran.code == Some(0) && ran.out.contains("FINISH came"),
        "{ran:?}"
    );
    let want = [
        capture("kdig.fstrm").0,
        capture("knot.fstrm").0,
        run_of(&fs::read(&plain).unwrap()).to_vec(),
    ];
    assert!(collector.take(1)[0].run == want.concat());
    // What cannot be read is said before anything is sent; what is cut is sent as far as it goes.
    let (ran, _) = replay(Path::new("/nowhere"), &collector.to, &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("/nowhere"),
        "{ran:?}"
    );
    let (frames, _) = capture("kdig.fstrm");
    fs::write(
        &plain,
        [start(), first(&frames, 3).to_vec(), vec![0, 0]].concat(),
    )
    .unwrap();
    let (ran, report) = replay(&plain, &collector.to, &[]);
    assert_eq!(
        (ran.code, &report["frames"]),
        (Some(3), &3.into()),
        "{ran:?}"
    );
    assert!(
        report["damage"][0].as_str().unwrap().contains("cut within"),
        "{ran:?}"
    );
}

#[test]
fn a_pace_is_kept_within_a_hundredth() {
    let collector = Collector::new(true, 0);
    let file = testdata("captures/unbound.fstrm");
    let (_, n) = capture("unbound.fstrm");
    for (connections, codec, rate) in [
        ("1", "off", 5000.0),
        ("8", "off", 4000.0),
        ("1", "gzip", 5000.0),
    ] {
        let text = format!("{rate}");
        let args = [
            "--rate",
            &text,
            "--connections",
            connections,
            "--compress",
            codec,
        ];
        // A machine that stops for a moment at the very end is not the fault of the pace.
        let mut got = Vec::new();
        let kept = (0..3).any(|_| {
            let (ran, report) = replay(&file, &collector.to, &args);
            assert_eq!(
                (ran.code, &report["frames"]),
                (Some(0), &n.into()),
                "{ran:?}"
            );
            let achieved = report["frames_per_second"].as_f64().unwrap();
            got.push(achieved);
            (achieved / rate - 1.0).abs() < 0.01
        });
        assert!(kept, "{args:?}: {got:?}");
    }
}

#[test]
fn the_ledger_is_compared() {
    let file = testdata("captures/kdig.fstrm");
    let (_, n) = capture("kdig.fstrm");
    for (lose, args, code, want) in [
        (0, &["--connections", "3", "--loop", "5"][..], 0, None),
        (
            0,
            &["--compress", "zstd", "--mode", "unidirectional"],
            0,
            None,
        ),
        (
            2,
            &["--verify-timeout", "300ms"],
            3,
            Some(format!("received {} of {n} sent", n - 2)),
        ),
    ] {
        let collector = Collector::new(true, lose);
        let args = [args, &["--verify", &collector.http]].concat();
        let (ran, report) = replay(&file, &collector.to, &args);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let differences = report["verify"]["differences"].as_array().unwrap();
        assert_eq!(
            differences.first().and_then(Value::as_str),
            want.as_deref(),
            "{ran:?}"
        );
    }
    let collector = Collector::new(true, 0);
    let (ran, _) = replay(&file, &collector.to, &["--verify", "127.0.0.1:1"]);
    assert!(
        ran.code == Some(1) && ran.err.contains("http://127.0.0.1:1/ledger"),
        "{ran:?}"
    );
    assert_eq!(
        collector.frames.load(Ordering::SeqCst),
        0,
        "nothing is sent without a ledger to compare with"
    );
}

#[test]
fn what_breaks_is_reported_and_is_no_success() {
    let file = testdata("captures/unbound.fstrm");
    let (ran, _) = replay(&file, "unix:/nowhere/s", &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("unix:/nowhere/s: cannot connect"),
        "{ran:?}"
    );
    let (ran, _) = replay(&file, "/tmp/s", &[]);
    assert!(
        ran.code == Some(2) && ran.err.contains("unix:/tmp/s"),
        "{ran:?}"
    );
    // A receiver that takes a little and closes.
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let to = format!("tcp:{}", listener.local_addr().unwrap());
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = vec![0; 100_000];
            let _ = stream.read_exact(&mut some).await;
        }
    });
    let (ran, report) = replay(&file, &to, &["--mode", "unidirectional", "--loop", "1000"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(report["failed"].as_object().unwrap().len(), 1, "{report}");
    assert!(report["frames"].as_u64().unwrap() < 1000 * 7466, "{report}");
}

#[test]
fn a_signal_ends_every_stream_in_order() {
    let mut collector = Collector::new(true, 0);
    let child = tapflow([
        "replay",
        "--report",
        "json",
        "--to",
        &collector.to,
        "--connections",
        "3",
        "--loop",
        "0",
    ])
    .args(["--rate", "3000"])
    .arg(testdata("captures/kdig.fstrm"))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    // Interrupt it once something has arrived.
    while collector.frames.load(Ordering::SeqCst) < 100 {
        std::thread::yield_now();
    }
    kill_process(
        Pid::from_raw(child.id().cast_signed()).unwrap(),
        Signal::INT,
    )
    .unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap());
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, &report["interrupted"], &report["finished"]),
        (Some(0), &true.into(), &3.into()),
        "{ran:?}"
    );
    let got = collector.take(3);
    assert!(got.iter().all(|stretch| stretch.clean));
    let total: usize = got
        .iter()
        .map(|stretch| Frames::count_of(&stretch.run).unwrap())
        .sum();
    assert_eq!(report["frames"], total);
}

#[test]
fn filters_choose_the_frames_that_are_sent_and_the_ledger_agrees() {
    let mut collector = Collector::new(true, 0);
    let folder = tempfile::tempdir().unwrap();
    let file = testdata("captures/unbound.fstrm");
    let (_, n) = capture("unbound.fstrm");
    let kept = folder.path().join("kept.fstrm");
    let args = [
        "--filter",
        "qtype in {AAAA, DS}",
        "--filter",
        "!type=CLIENT_QUERY",
    ];
    let converted = tapflow(["convert", "--quiet"])
        .args(args)
        .arg(&file)
        .arg(&kept)
        .status();
    assert!(converted.unwrap().success());
    let want = fs::read(&kept).unwrap();
    let want = run_of(&want);
    let count = Frames::count_of(want).unwrap();
    assert!(count > 0 && count < n);
    let http = collector.http.clone();
    for extra in [&[][..], &["--loop", "3"], &["--verify", &http]] {
        let rounds = if extra.contains(&"--loop") { 3 } else { 1 };
        let args = [&args[..], extra].concat();
        let (ran, report) = replay(&file, &collector.to, &args);
        assert_eq!(
            (ran.code, &report["frames"]),
            (Some(0), &(rounds * count).into()),
            "{ran:?}"
        );
        assert_eq!(report["files"]["frames"], n, "{ran:?}");
        assert_eq!(report["files"]["filtered"], n - count, "{ran:?}");
        assert!(collector.take(1)[0].run == want.repeat(rounds));
    }
    let ran = Ran::of(
        &tapflow(["replay", "--filter", "type == 0", "--to", &collector.to])
            .arg(&file)
            .output()
            .unwrap(),
    );
    assert!(
        ran.code == Some(0) && ran.out.contains(&format!("{n} filtered out of {n}")),
        "{ran:?}"
    );
}
