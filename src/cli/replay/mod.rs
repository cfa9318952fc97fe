//! `tapflow replay`: frames of files to a collector, as fast as it takes them or at a pace, and whether all arrived.

mod cargo;
mod send;
mod verify;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use self::cargo::{Cargo, Manifest, Shape};
use self::send::{Plan, Sent};
use self::verify::Verdict;
use crate::cli::convert::Compress;
use crate::cli::progress::Progress;
use crate::cli::read::Report;
use crate::cli::terms::{Sieve, Term};
use crate::cli::{exit, print_out};
use crate::fstrm::Dialect;
use crate::shutdown::{self, Phase, Trigger};
use crate::transport::tls::client::{ClientFiles, ClientTls};
use crate::units::{Endpoint, Span};

/// Longest wait for the collector to come to rest before the comparison begins.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// What `replay` is told.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Send the frames of dnstap files to a collector",
    long_about = "Send the frames of dnstap files to a collector, as a DNS server would.\n\n\
        FILE is whatever `tapflow read` reads: Frame Streams or a packet capture, compressed or not. Its frames go out \
        octet for octet as they are in it, unpacked where their payloads were compressed. With several connections the \
        frames are shared out among them: each is sent once.\n\n\
        Everything is sent as fast as the socket takes it, in writes of up to 4 MiB, unless --rate sets a pace. Files are \
        loaded beforehand (up to 256 MiB; with --loop whatever their size), so that reading them costs no time while the \
        clock runs.\n\n\
        SIGINT and SIGTERM end every stream in order, with what was begun; the report says what was sent. A second one \
        ends at once.\n\n\
        --verify asks the collector at HTTP_ADDR for its ledger before and after, and waits until it has nothing in \
        flight. Nobody else may be sending to it meanwhile. Every difference is an error: frames not received, frames \
        dropped anywhere, and a ledger that does not close.",
    after_long_help = "Examples:\n  \
        $ tapflow replay unbound.fstrm --to unix:/run/tapflow/dnstap.sock\n  \
        7350 frames, 1896778 bytes in 0.002 s, 3511827 frames/s; FINISH came\n  \
        $ tapflow replay day.fstrm.zst --to tcp:127.0.0.1:6000 --connections 8 --loop 10 --verify 127.0.0.1:9954\n  \
        $ tapflow replay day.fstrm --filter 'type == CLIENT_QUERY' --to tcp:127.0.0.1:6000\n  \
        $ tapflow replay sample.fstrm --to tcp:192.0.2.1:6000 --loop 0 --rate 50000 --compress zstd\n\n\
        Exit codes:\n  \
        0  everything was sent, FINISH came where it is due, and --verify found no difference\n  \
        1  a file cannot be read, or no connection can be made\n  \
        2  the command line is wrong\n  \
        3  frames were lost or may be: a connection broke, FINISH did not come, a file is cut, or --verify found a \
        difference"
)]
pub struct ReplayArgs {
    /// Files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where to: `unix:/path`, `tcp:host:port` or `tls:host:port`
    #[arg(long, value_name = "URI")]
    pub to: Endpoint,
    /// Authorities of the collector's certificate, in PEM (TLS); without it, those that this machine trusts
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate to show, in PEM (TLS)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, in PEM (TLS)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name that the collector's certificate must have (TLS); without it, the host in --to
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Connections to share the frames out to
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub connections: u32,
    /// How often everything is sent; 0: until a signal comes
    #[arg(long = "loop", value_name = "N", default_value_t = 1)]
    pub rounds: u64,
    /// Send only what matches, as `tapflow read --help` says; each that is given has to match. Frames that are no records
    /// cannot match: they are counted as errors then
    #[arg(long = "filter", value_name = "EXPR")]
    pub filters: Vec<Term>,
    /// Frames a second, over all connections together
    #[arg(long, value_name = "FRAMES_PER_SECOND", value_parser = rate)]
    pub rate: Option<f64>,
    /// The handshake
    #[arg(long, value_enum, default_value_t = Mode::Bidirectional)]
    pub mode: Mode,
    /// Compress the payloads, many frames in each, as DNS-collector does
    #[arg(long, value_enum, value_name = "CODEC", default_value_t = Compress::Off)]
    pub compress: Compress,
    /// The form of the report on standard output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub report: Report,
    /// Compare with the ledger of the collector whose HTTP is at this address
    #[arg(long, value_name = "HTTP_ADDR", value_parser = http_address)]
    pub verify: Option<String>,
    /// Longest wait for the collector to have nothing in flight
    #[arg(long, value_name = "SPAN", default_value = "30s", requires = "verify")]
    pub verify_timeout: Span,
    /// Longest wait for a connection, ACCEPT, a byte to be taken, FINISH
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    pub timeout: Span,
    /// No progress and no report in text, only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// The handshake of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// READY, ACCEPT, START, data, STOP, FINISH
    Bidirectional,
    /// START, data, STOP
    Unidirectional,
    /// Data only
    Raw,
}

impl Mode {
    const fn dialect(self) -> Dialect {
        match self {
            Self::Bidirectional => Dialect::Bidirectional,
            Self::Unidirectional => Dialect::Unidirectional,
            Self::Raw => Dialect::Raw,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a rate is a number of frames a second, more than 0".to_owned()),
    }
}

/// Files held open beside the connections.
const OTHER_FILES: u64 = 64;
/// With a pace, what is due in this time goes out together.
const PACE_STEP_SECONDS: f64 = 0.005;
/// After the first signal, what was begun may take so long.
const DRAIN_MAX: Duration = Duration::from_secs(3);
const PROGRESS_TICK: Duration = Duration::from_millis(100);

/// All that came of a replay.
struct Done {
    sent: Sent,
    manifest: Manifest,
    interrupted: bool,
    verdict: Option<Verdict>,
    /// A file could not be read to its end, found while sending.
    unreadable: Option<String>,
}

/// Replays the files.
///
/// # Errors
/// A file cannot be read, a connection cannot be made, the ledger cannot be had.
pub fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let connections = args.connections as usize;
    allow_files(u64::from(args.connections) + OTHER_FILES);
    let rate = args.rate.map(|rate| rate / connections as f64);
    let shape = Shape {
        connections,
        rounds: args.rounds,
        piece_frames: rate.map(|rate| ((rate * PACE_STEP_SECONDS) as u64).max(1)),
        codec: args.compress.codec(),
    };
    let plan = Plan {
        to: args.to.clone(),
        tls: Arc::new(ClientTls::new(ClientFiles {
            ca: args.tls_ca.clone().unwrap_or_default(),
            server_name: args.tls_server_name.clone().unwrap_or_default(),
            cert: args.tls_cert.clone().unwrap_or_default(),
            key: args.tls_key.clone().unwrap_or_default(),
            ..ClientFiles::default()
        })),
        connections,
        dialect: args.mode.dialect(),
        compressed: shape.codec.is_some(),
        timeout: args.timeout.get().unwrap_or(Duration::MAX / 4),
        rate,
    };
    anyhow::ensure!(
        args.rounds == 1 || !args.files.iter().any(|file| is_stdin(file)) || args.files.len() == 1,
        "--loop with standard input takes no other files"
    );
    let cargo = cargo::load(&args.files, Sieve::new(&args.filters), shape)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    // One connection is best served by one thread: nothing is ever handed over.
    let runtime = if connections == 1 {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    } else {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers.min(connections))
            .enable_all()
            .build()
    };
    let done = runtime
        .context("the runtime cannot be started")?
        .block_on(replay(args, &plan, cargo))?;
    report(args, &done)?;
    Ok(done.code())
}

fn is_stdin(file: &std::path::Path) -> bool {
    file == std::path::Path::new("-")
}

/// Raises the limit of open files as far as it goes, should it be too low.
fn allow_files(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = limit
            .maximum
            .map_or(Some(wanted), |max| Some(max.min(wanted)));
        // If it cannot be raised, connecting says so with the number that could be made.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// An address of HTTP as it is written behind `http =`: host and port.
fn http_address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err("give HOST:PORT, as in 127.0.0.1:9954".to_owned()),
    }
}

async fn replay(args: &ReplayArgs, plan: &Plan, cargo: Cargo) -> anyhow::Result<Done> {
    let before = match &args.verify {
        // What an earlier sender left on its way would be taken for ours.
        Some(address) => Some(verify::at_rest(address, REST_LIMIT).await?),
        None => None,
    };
    let (trigger, signal) = shutdown::channel();
    let interrupted = watch_signals(trigger)?;
    let senders = tokio::select! {
        senders = send::connect(plan) => senders?,
        () = drained(&signal) => anyhow::bail!("interrupted before anything was sent"),
    };
    let progress = Progress::bytes(cargo.bytes, args.quiet);
    progress.name("sending");
    let bytes = Arc::new(AtomicU64::new(0));
    let sent = {
        let sending = send::send(senders, cargo.supplies, plan, &signal, &bytes);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                sent = &mut sending => break sent,
                () = tokio::time::sleep(PROGRESS_TICK) => progress.set(bytes.load(Ordering::Relaxed)),
            }
        }
    };
    progress.finish();
    let (manifest, unreadable) = match cargo.reading.map(std::thread::JoinHandle::join) {
        None => (cargo.manifest, None),
        Some(Ok(Ok(manifest))) => (manifest, None),
        Some(Ok(Err(fault))) => (cargo.manifest, Some(fault.to_string())),
        Some(Err(_)) => anyhow::bail!("the reading thread failed"),
    };
    let verdict = match (&args.verify, &before) {
        (Some(address), Some(before)) => {
            let limit = args.verify_timeout.get().unwrap_or(Duration::MAX / 4);
            Some(verify::compare(address, before, sent.frames, limit).await?)
        }
        _ => None,
    };
    Ok(Done {
        sent,
        manifest,
        interrupted: interrupted.load(Ordering::Relaxed) > 0,
        verdict,
        unreadable,
    })
}

async fn drained(signal: &shutdown::Signal) {
    signal.clone().reached(Phase::Draining).await;
}

/// Turns signals into phases; the number tells how many came.
fn watch_signals(trigger: Trigger) -> std::io::Result<Arc<AtomicU64>> {
    let count = Arc::new(AtomicU64::new(0));
    let counter = count.clone();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! { _ = int.recv() => {} _ = term.recv() => {} }
        counter.fetch_add(1, Ordering::Relaxed);
        trigger.advance(Phase::Draining);
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            () = tokio::time::sleep(DRAIN_MAX) => {}
        }
        trigger.advance(Phase::Aborting);
        // Whatever still waits, such as for the ledger: whoever asks again means it.
        tokio::select! { _ = int.recv() => {} _ = term.recv() => {} }
        std::process::exit(crate::cli::interrupt::EXIT_INTERRUPTED);
    });
    Ok(count)
}

impl Done {
    fn lossy(&self) -> bool {
        !self.sent.failed.is_empty()
            || self.manifest.tally.errors() > 0
            || !self.manifest.damage.is_empty()
            || self
                .verdict
                .as_ref()
                .is_some_and(|v| !v.differences.is_empty())
    }

    fn code(&self) -> ExitCode {
        match (&self.unreadable, self.lossy()) {
            (Some(_), _) => ExitCode::FAILURE,
            (None, true) => ExitCode::from(exit::LOST),
            (None, false) => ExitCode::SUCCESS,
        }
    }

    fn rate(&self) -> f64 {
        if self.sent.seconds > 0.0 {
            self.sent.frames as f64 / self.sent.seconds
        } else {
            0.0
        }
    }

    fn json(&self, connections: u32) -> Value {
        json!({
            "frames": self.sent.frames,
            "bytes": self.sent.bytes,
            "seconds": self.sent.seconds,
            "frames_per_second": self.rate(),
            "connections": connections,
            "finished": self.sent.finished,
            "unasked": self.sent.unasked,
            "failed": self.sent.failed,
            "interrupted": self.interrupted,
            "files": self.manifest.tally.json(),
            "damage": self.manifest.damage,
            "unreadable": self.unreadable,
            "verify": self.verdict,
        })
    }
}

fn report(args: &ReplayArgs, done: &Done) -> std::io::Result<()> {
    if args.report == Report::Json {
        return print_out(format!("{}\n", done.json(args.connections)).as_bytes());
    }
    for line in done.unreadable.iter().chain(&done.manifest.damage) {
        crate::cli::say!("tapflow: {line}");
    }
    for (why, connections) in &done.sent.failed {
        crate::cli::say!(
            "tapflow: {}: {why} ({connections} of {})",
            args.to,
            args.connections
        );
    }
    for difference in done.verdict.iter().flat_map(|v| &v.differences) {
        crate::cli::say!("tapflow: ledger: {difference}");
    }
    if args.quiet {
        return Ok(());
    }
    let tally = &done.manifest.tally;
    if tally.errors() > 0 {
        crate::cli::say!("tapflow: not sent: {}", tally.errors_text());
    }
    print_out(text(args, done).as_bytes())
}

fn text(args: &ReplayArgs, done: &Done) -> String {
    let sent = &done.sent;
    let mut text = format!(
        "{} frames, {} bytes in {:.3} s, {:.0} frames/s",
        sent.frames,
        sent.bytes,
        sent.seconds,
        done.rate()
    );
    let total = u64::from(args.connections);
    let _ = match (args.mode, sent.finished) {
        (Mode::Bidirectional, n) if n == total => write!(text, "; FINISH came"),
        (Mode::Bidirectional, n) => write!(text, "; FINISH came on {n} of {total}"),
        _ => write!(text, "; no FINISH is due"),
    };
    if !args.filters.is_empty() {
        let _ = write!(
            text,
            "; {} filtered out of {}",
            done.manifest.tally.filtered, done.manifest.tally.frames
        );
    }
    if done.interrupted {
        text.push_str("; interrupted");
    }
    if let Some(verdict) = &done.verdict {
        text.push_str(if verdict.differences.is_empty() {
            "; the ledger agrees"
        } else {
            "; the ledger does NOT agree"
        });
    }
    text.push('\n');
    text
}
