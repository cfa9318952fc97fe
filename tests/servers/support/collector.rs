//! `tapflow serve`, as an operator starts it.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use tapflow::fstrm::{BufOptions, BufPool, ControlKind, Decoder, FrameBuf, Limits, Oversize, View};

use super::process::Process;
use super::walker::{START, STOP, Walker};
use super::{http_get, until, wait_for};

/// A running collector in a folder of its own.
pub(crate) struct Collector {
    process: Process,
    http: SocketAddr,
    data_dir: PathBuf,
    /// The Unix socket that it said it listens on.
    pub(crate) unix: PathBuf,
    /// The TCP address that it said it listens on.
    pub(crate) tcp: SocketAddr,
}

/// What `/ledger` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) received: u64,
    /// Of the only output.
    pub(crate) delivered: u64,
    pub(crate) in_flight: u64,
    /// Everything lost, wherever.
    pub(crate) dropped: u64,
    pub(crate) filtered: u64,
    pub(crate) closes: bool,
}

impl Ledger {
    fn parse(text: &str) -> Self {
        let json: serde_json::Value =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("ledger: {e}: {text}"));
        let number = |value: &serde_json::Value| value.as_u64().expect("a count");
        let sum = |value: &serde_json::Value| {
            value
                .as_object()
                .expect("drops")
                .values()
                .map(number)
                .sum::<u64>()
        };
        let outputs = json["outputs"].as_array().expect("outputs");
        assert_eq!(outputs.len(), 1, "{text}");
        let output = &outputs[0];
        Self {
            received: number(&json["received"]),
            delivered: number(&output["delivered"]),
            in_flight: number(&output["in_flight"]),
            dropped: sum(&json["dropped"]) + sum(&output["dropped"]),
            filtered: number(&json["filtered"]) + number(&output["filtered"]),
            closes: json["closes"] == true,
        }
    }

    /// A ledger in which every one of `frames` was delivered.
    pub(crate) fn all_delivered(frames: u64) -> Self {
        Self {
            received: frames,
            delivered: frames,
            in_flight: 0,
            dropped: 0,
            filtered: 0,
            closes: true,
        }
    }
}

/// How a collector ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// Its last words.
    pub(crate) ledger: Ledger,
    pub(crate) log: String,
}

impl Collector {
    /// Starts one with the built-in stages and its file output in `data_dir`, on a Unix socket in it and a TCP port.
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Starts one with further arguments.
    pub(crate) fn start_with(data_dir: &Path, args: &[&str]) -> Self {
        std::fs::create_dir_all(data_dir).expect("data folder");
        let socket = format!("unix:{}", data_dir.join("dnstap.sock").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapflow"));
        command.arg("serve").arg("--data-dir").arg(data_dir);
        command
            .args([
                "--listen",
                &socket,
                "--listen",
                "tcp:127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
            ])
            .args(args);
        command
            .env("TAPFLOW_LOG", "info,tapflow=debug")
            .env_remove("TAPFLOW_CONFIG");
        let log = data_dir.join("tapflow.log");
        // A second run in the folder has a log of its own.
        let log = (1..)
            .map(|n| log.with_extension(format!("{n}.log")))
            .find(|l| !l.exists())
            .expect("a name");
        let mut process = Process::start("tapflow", &mut command, log);
        let printed = until("start of tapflow", Duration::from_secs(30), || {
            process.assert_running();
            // The advice for CoreDNS is the last that it prints.
            Some(process.printed()).filter(|p| p.contains("CoreDNS") && p.ends_with('\n'))
        });
        let line = |prefix: &str| {
            let found = printed.lines().find_map(|l| l.trim().strip_prefix(prefix));
            found.unwrap_or_else(|| panic!("{prefix} in {printed}"))
        };
        let http = line("metrics: http://")
            .split('/')
            .next()
            .unwrap_or_default()
            .parse()
            .expect("HTTP address");
        let (unix, tcp) = (
            PathBuf::from(line("unix:")),
            line("tcp:").parse().expect("TCP address"),
        );
        let collector = Self {
            process,
            http,
            data_dir: data_dir.to_owned(),
            unix,
            tcp,
        };
        assert_eq!(collector.get("/readyz"), "ready\n");
        collector
    }

    /// The lines that it has printed for `server`.
    pub(crate) fn advice(&self, server: &str) -> String {
        let printed = self.process.printed();
        let heading = format!("  {server} (");
        let mut lines = printed
            .lines()
            .skip_while(|l| !l.starts_with(&heading))
            .skip(1);
        let block: Vec<&str> = lines
            .by_ref()
            .map_while(|l| l.strip_prefix("      "))
            .collect();
        assert!(!block.is_empty(), "no lines for {server} in {printed}");
        block.join("\n")
    }

    fn get(&self, path: &str) -> String {
        http_get(self.http, path)
    }

    /// `/ledger`, which must close at every moment.
    pub(crate) fn ledger(&self) -> Ledger {
        let ledger = Ledger::parse(&self.get("/ledger"));
        assert!(ledger.closes, "{ledger:?}");
        ledger
    }

    /// The sum of a metric's series whose labels contain all of `labels`, from `/metrics`.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        sum(&self.get("/metrics"), name, labels)
    }

    /// The count of dnstap messages of a type.
    pub(crate) fn messages(&self, kind: &str) -> u64 {
        self.metric(
            "tapflow_dnstap_messages_total",
            &[&format!("type=\"{kind}\"")],
        )
    }

    /// How many streams have got past the handshake.
    pub(crate) fn streams_started(&self) -> u64 {
        self.process.printed().matches("stream started").count() as u64
    }

    /// Waits until `received` frames have come in and all of them are written.
    pub(crate) fn wait_written(&self, received: u64) {
        wait_for(
            &format!("{received} frames written; {:?}", self.ledger()),
            || {
                let ledger = self.ledger();
                ledger.received >= received && ledger.in_flight == 0
            },
        );
    }

    /// Waits until no connection is open.
    pub(crate) fn wait_idle(&self) {
        wait_for("all connections closed", || {
            self.metric("tapflow_connections_active", &[]) == 0
        });
    }

    /// Stops it as a service manager does.
    pub(crate) fn stop(mut self) -> Ended {
        let status = self.process.terminate();
        let log = self.process.printed();
        let quoted = log
            .rsplit_once("ledger=")
            .unwrap_or_else(|| panic!("no ledger at the end of {log}"))
            .1;
        let quoted = quoted.lines().next().unwrap_or_default();
        let text: String = serde_json::from_str(quoted).unwrap_or_else(|e| panic!("{e}: {quoted}"));
        Ended {
            code: status.code(),
            ledger: Ledger::parse(&text),
            log,
        }
    }

    /// The folder of its frames.
    pub(crate) fn frames_dir(&self) -> PathBuf {
        self.data_dir.join("frames")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if std::thread::panicking() && self.process.runs() {
            let metrics = self.get("/metrics");
            eprintln!(
                "--- ledger: {}--- metrics that are not zero:",
                self.get("/ledger")
            );
            let counts = metrics
                .lines()
                .filter(|l| l.starts_with("tapflow") && l.contains("_total") && !l.ends_with(" 0"));
            counts.for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The sum of the series of `name` in a Prometheus text whose labels contain all of `labels`.
fn sum(text: &str, name: &str, labels: &[&str]) -> u64 {
    let mut total = 0.0;
    for line in text
        .lines()
        .filter_map(|l| l.strip_prefix(name))
        .filter(|l| l.starts_with(['{', ' ']))
    {
        if labels.iter().all(|label| line.contains(label)) {
            let value = line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok());
            total += value.unwrap_or_else(|| panic!("{name}{line}"));
        }
    }
    total as u64
}

/// The payloads of all frames in the files of a folder, which must all be whole: START first, STOP last, nothing unfinished.
/// The library's decoder and the tests' own walker must see the same.
pub(crate) fn stored(folder: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let bytes = contents(&file);
        let mut walker = Walker::keeping();
        walker.feed(&bytes);
        assert_eq!(
            (&walker.controls[..], walker.tail()),
            (&[START, STOP][..], 0),
            "{}",
            file.display()
        );
        assert_eq!(decode(&bytes), walker.payloads, "{}", file.display());
        all.append(&mut walker.payloads);
    }
    all
}

/// A stored file, decompressed.
pub(crate) fn contents(file: &Path) -> Vec<u8> {
    let bytes = std::fs::read(file).expect("stored file");
    match file.extension().and_then(|e| e.to_str()) {
        Some("zst") => {
            let mut plain = Vec::new();
            let decoder = zstd::Decoder::new(&bytes[..]).expect("zstd");
            decoder.take(1 << 30).read_to_end(&mut plain).expect("zstd");
            plain
        }
        Some("fstrm") => bytes,
        _ => panic!("{}: not a finished file", file.display()),
    }
}

/// The payloads of a Frame Streams file, as the library reads them.
pub(crate) fn decode(bytes: &[u8]) -> Vec<Vec<u8>> {
    let options = BufOptions {
        initial_capacity: 64 * 1024,
        growth_limit: bytes.len().max(64 * 1024),
    };
    let mut buf = FrameBuf::new(options, BufPool::new(64 * 1024, 1));
    let mut decoder = Decoder::new(Limits::default(), Oversize::Close);
    let (mut payloads, mut rest, mut stopped) = (Vec::new(), bytes, false);
    loop {
        match decoder.next_view(&mut buf).expect("a valid file") {
            Some(View::Frame(payload)) => payloads.push(Bytes::copy_from_slice(payload).to_vec()),
            Some(View::Control(control)) => stopped = control.kind == ControlKind::Stop,
            Some(View::Skipped { len }) => panic!("a frame of {len} bytes was skipped"),
            None if rest.is_empty() => break,
            None => {
                let spare = buf.spare(64 * 1024);
                let n = spare.len().min(rest.len());
                spare[..n].copy_from_slice(&rest[..n]);
                buf.filled(n);
                rest = &rest[n..];
            }
        }
    }
    assert!(stopped && !decoder.mid_frame(&buf), "a file ends in STOP");
    payloads
}

#[test]
fn the_metric_reader_adds_up_the_series_that_match() {
    let text = "# HELP a x\na{b=\"1\",c=\"2\"} 3\na{b=\"2\"} 4\na_total 100\nd 5\n";
    assert_eq!(sum(text, "a", &[]), 7);
    assert_eq!(sum(text, "a", &["b=\"1\""]), 3);
    assert_eq!(sum(text, "d", &[]), 5);
}
