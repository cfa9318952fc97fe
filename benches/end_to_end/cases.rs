//! The cases at full rate, round after round.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::figures::{Spread, table};
use crate::support::input::Input;
use crate::support::proc::Usage;
use crate::support::serve::{Serve, Setup, Stages, send};
use crate::support::{Result, Settings, stream};

/// Connections of the cases with many.
pub(crate) const MANY: usize = 1_000;

/// What every case is given.
pub(crate) struct Bench<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) folder: &'a Path,
    pub(crate) input: &'a Input,
}

/// A case and what each round of it gave.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    run: fn(&Bench<'_>) -> Result<Round>,
    pub(crate) rounds: Vec<Round>,
}

/// What a round gave.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
    pub(crate) seconds: f64,
    /// What the collector used.
    pub(crate) collector: Usage,
    /// What the sender used.
    pub(crate) sender: Usage,
}

impl Round {
    /// Frames a second.
    pub(crate) fn rate(&self) -> f64 {
        self.frames as f64 / self.seconds
    }
}

pub(crate) const DECODED: &str = "decode and metrics, Unix";
pub(crate) const DECODED_TCP: &str = "decode and metrics, TCP";
pub(crate) const UNDECODED: &str = "undecoded, Unix";
pub(crate) const UNDECODED_TCP: &str = "undecoded, TCP";
pub(crate) const RELAY: &str = "relay, undecoded, Unix to Unix";
pub(crate) const COPY: &str = "plain copy of the same bytes, Unix to Unix";
pub(crate) const FSTRM: &str = "decode, metrics, .fstrm files, Unix";
pub(crate) const JSON: &str = "JSON lines to files, Unix";
pub(crate) const BESIDE_IDLE: &str = "decode and metrics, beside 1,000 idle connections";
pub(crate) const MANY_BUSY: &str = "decode and metrics, 1,000 busy connections";

type Run = fn(&Bench<'_>) -> Result<Round>;

const CASES: &[(&str, Run)] = &[
    (DECODED, |b| {
        through(b, &Setup::counting(), b.settings.frames, 1, 0)
    }),
    (DECODED_TCP, |b| {
        let setup = Setup {
            tcp: true,
            ..Setup::counting()
        };
        through(b, &setup, b.settings.frames, 1, 0)
    }),
    (UNDECODED, |b| {
        through(b, &undecoded(false), b.settings.frames, 1, 0)
    }),
    (UNDECODED_TCP, |b| {
        through(b, &undecoded(true), b.settings.frames, 1, 0)
    }),
    (RELAY, relay),
    (COPY, copy),
    (FSTRM, |b| {
        let setup = Setup {
            output: "type = \"file\"\ncompress = \"off\"\nkeep_files = 2".to_owned(),
            ..Setup::counting()
        };
        through(b, &setup, b.settings.frames / 2, 1, 0)
    }),
    (JSON, |b| {
        let setup = Setup {
            stages: Stages::Decode,
            output: "type = \"file\"\nformat = \"json\"\ncompress = \"off\"\nkeep_files = 2"
                .to_owned(),
            ..Setup::counting()
        };
        through(b, &setup, b.settings.frames / 20, 1, 0)
    }),
    (BESIDE_IDLE, |b| {
        through(b, &Setup::counting(), b.settings.frames, 1, MANY)
    }),
    (MANY_BUSY, |b| {
        through(b, &Setup::counting(), b.settings.frames, MANY, 0)
    }),
];

fn undecoded(tcp: bool) -> Setup {
    Setup {
        tcp,
        stages: Stages::None,
        ..Setup::counting()
    }
}

/// Lets this process, and those it starts, have as many open files as they may.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Runs the cases that were asked for.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = CASES
        .iter()
        .filter(|(name, _)| bench.settings.wants(name))
        .map(|(name, run)| Case {
            name,
            run: *run,
            rounds: Vec::new(),
        })
        .collect();
    for _ in 0..bench.settings.rounds {
        for case in &mut cases {
            let round = (case.run)(bench).map_err(|e| format!("{}: {e}", case.name))?;
            case.rounds.push(round);
        }
    }
    Ok(cases)
}

/// From `replay` into `serve`, beside connections that have made their handshake and say nothing.
pub(crate) fn through(
    bench: &Bench<'_>,
    setup: &Setup,
    frames: usize,
    connections: usize,
    idle: usize,
) -> Result<Round> {
    through_with(bench.folder, bench.input, setup, frames, connections, idle)
}

/// The same with other frames.
pub(crate) fn through_with(
    folder: &Path,
    input: &Input,
    setup: &Setup,
    frames: usize,
    connections: usize,
    idle: usize,
) -> Result<Round> {
    let serve = Serve::start(folder, setup)?;
    let others = connect_all(&serve, idle)?;
    let loops = input.loops(frames);
    let before = serve.usage()?;
    let (seconds, sender) = send(&serve.to, input, loops, connections)?;
    serve.settled(input.frames * loops)?;
    let mut collector = serve.usage()?;
    collector.cpu -= before.cpu;
    drop(others);
    Ok(Round {
        frames: input.frames * loops,
        bytes: input.bytes * loops,
        seconds,
        collector,
        sender,
    })
}

/// So many connections that have made their handshake.
pub(crate) fn connect_all(serve: &Serve, n: usize) -> Result<Vec<std::os::unix::net::UnixStream>> {
    let path = serve.to.strip_prefix("unix:").unwrap_or_default();
    (0..n).map(|_| stream::connect(path)).collect()
}

/// From `replay` through `serve` to a receiver that keeps nothing.
fn relay(bench: &Bench<'_>) -> Result<Round> {
    let path = bench.folder.join("sink.sock");
    let sink = stream::sink(&path)?;
    let setup = Setup {
        stages: Stages::None,
        output: format!("type = \"dnstap\"\nto = \"unix:{}\"", path.display()),
        ..Setup::counting()
    };
    let mut serve = Serve::start(bench.folder, &setup)?;
    let loops = bench.input.loops(bench.settings.frames / 2);
    let started = Instant::now();
    let (_, sender) = send(&serve.to, bench.input, loops, 1)?;
    serve.settled(bench.input.frames * loops)?;
    let seconds = started.elapsed().as_secs_f64();
    let collector = serve.usage()?;
    // It says STOP when it stops, so that the receiver can tell what it got.
    serve.stop()?;
    let bytes = sink.join().map_err(|_| "the receiver panicked")??;
    let _ = fs::remove_file(&path);
    let expected = bench.input.bytes * loops;
    if bytes != expected {
        return Err(format!("the receiver got {bytes} bytes of {expected}").into());
    }
    Ok(Round {
        frames: bench.input.frames * loops,
        bytes,
        seconds,
        collector,
        sender,
    })
}

/// From `replay` through a thread that reads and writes to the same receiver.
fn copy(bench: &Bench<'_>) -> Result<Round> {
    let (path, to) = (
        bench.folder.join("copy.sock"),
        bench.folder.join("sink.sock"),
    );
    let sink = stream::sink(&to)?;
    let copier = stream::copier(&path, &to)?;
    let loops = bench.input.loops(bench.settings.frames / 2);
    let uri = format!("unix:{}", path.display());
    let (seconds, sender) = send(&uri, bench.input, loops, 1)?;
    let bytes = sink.join().map_err(|_| "the receiver panicked")??;
    copier.join().map_err(|_| "the copier panicked")??;
    let _ = (fs::remove_file(&path), fs::remove_file(&to));
    if bytes != bench.input.bytes * loops {
        return Err(format!("the receiver got {bytes} bytes").into());
    }
    Ok(Round {
        frames: bench.input.frames * loops,
        bytes,
        seconds,
        collector: Usage::default(),
        sender,
    })
}

/// The table of all rounds.
pub(crate) fn report(cases: &[Case]) -> String {
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let of = |f: &dyn Fn(&Round) -> f64| Spread::of(case.rounds.iter().map(f));
            let each = |r: &Round, cpu: f64| cpu * 1e9 / r.frames as f64;
            let peak = case.rounds.iter().map(|r| r.collector.peak).max();
            let measured = peak.is_some_and(|peak| peak > 0);
            let or_dash = |text: String| {
                if measured { text } else { "–".to_owned() }
            };
            vec![
                case.name.to_owned(),
                format!("{:.2}", of(&|r| r.rate() / 1e6)),
                format!("{:.0}", of(&|r| r.bytes as f64 / r.seconds / 1e6).median()),
                or_dash(format!(
                    "{:.0} ns",
                    of(&|r| each(r, r.collector.cpu)).median()
                )),
                format!("{:.0} ns", of(&|r| each(r, r.sender.cpu)).median()),
                or_dash(format!("{} MiB", peak.unwrap_or(0).div_ceil(1 << 20))),
            ]
        })
        .collect();
    table(
        &[
            "case",
            "million frames/s",
            "MB/s",
            "collector's CPU a frame",
            "sender's CPU a frame",
            "collector's peak memory",
        ],
        &rows,
    )
}
