//! `tapflow serve`: the main job.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::Service;
use crate::cli::{Usage, exit};
use crate::config::problem::Severity;
use crate::config::resolve::Surroundings;
use crate::config::uris::Overrides;
use crate::config::{Config, LogFormat, check, load};
use crate::pipeline::ledger::Snapshot;
use crate::shutdown::Phase;
use crate::units::Endpoint;

/// What `serve` is told.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(
    about = "Take dnstap in, count it, store it, pass it on (the main job)",
    long_about = "Take dnstap in, count it, store it, pass it on.\n\n\
        Without a configuration it listens on a Unix socket in its data folder and on TCP 127.0.0.1:6000, shows \
        metrics and the ledger on http://127.0.0.1:9954, and keeps the frames in rotated files in the data folder. It \
        prints where it listens and what to put into each DNS server's configuration.\n\n\
        SIGTERM or SIGINT stops it in order: no new connections, what senders have written is taken, outputs drain \
        until shutdown_timeout, files are completed, and the ledger says what became of every frame. A second signal \
        ends it at once and counts what that cost. SIGUSR1 begins a new file in every file output. \
        SIGHUP reads TLS certificates again and does nothing else, so a terminal that closes does not end it.",
    after_long_help = "Exit codes:\n  \
        0  stopped, and every frame was delivered or filtered on purpose\n  \
        1  it could not start\n  \
        2  the command line is wrong\n  \
        3  stopped, and frames were lost: the ledger says where and why\n\n\
        Example:\n  \
        $ tapflow serve --listen unix:/run/tapflow/dnstap.sock --output stdout:json"
)]
pub struct ServeArgs {
    /// Configuration file (TOML); without it, the built-in defaults
    #[arg(long, short, value_name = "FILE", env = "TAPFLOW_CONFIG")]
    pub config: Option<PathBuf>,
    /// Listen here instead of where the configuration says: unix:/path, tcp:host:port, or mux+ and one of them for
    /// sessions of many streams; may be repeated
    #[arg(long, short, value_name = "URI")]
    pub listen: Vec<String>,
    /// Address of the HTTP server, or `off`
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Write here instead of where the configuration says: null:, stdout:FORMAT, file:/folder, unix:/path or
    /// tcp:host:port; may be repeated
    #[arg(long, short, value_name = "URI")]
    pub output: Vec<String>,
    /// Folder for the socket and the files, instead of what the configuration says
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Do not print where it listens and how to point DNS servers at it
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs until a signal stops it.
///
/// # Errors
/// When it cannot start: the configuration, a socket, a folder.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let config = configure(args)?;
    start_logging(&config)?;
    raise_open_files();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        builder.worker_threads(config.worker_threads as usize);
    }
    let runtime = builder
        .enable_all()
        .thread_name("tapflow")
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&config, args.quiet));
    // A task that hangs in a system call must not keep the process.
    runtime.shutdown_background();
    result
}

fn configure(args: &ServeArgs) -> anyhow::Result<Config> {
    let mut config = match &args.config {
        None => Config::default(),
        Some(path) => {
            let loaded = load::file(path)?;
            for warning in loaded.warnings() {
                crate::cli::say!("warning: {}: {}", path.display(), warning.what);
            }
            loaded.into_valid()?
        }
    };
    let overrides = Overrides {
        listen: args.listen.clone(),
        http: args.http.clone(),
        output: args.output.clone(),
    };
    if let Err(errors) = config.apply(&overrides) {
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(Usage(text.join("\n")).into());
    }
    if let Some(folder) = &args.data_dir {
        config.data_dir.clone_from(folder);
    }
    // Once more: what the command line put in has not been checked yet.
    let mut problems = config.check();
    let config = config.resolve(&Surroundings::of_process());
    problems.extend(check::machine(&config));
    let errors: Vec<String> = problems
        .iter()
        .filter(|p| p.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    if !errors.is_empty() {
        anyhow::bail!("{}", errors.join("\n"));
    }
    Ok(config)
}

/// Raises the soft limit of open files to the hard one: each connection takes one, and the usual soft limit is 1,024.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

fn start_logging(config: &Config) -> anyhow::Result<()> {
    use tracing_subscriber::EnvFilter;
    let filter = match std::env::var("TAPFLOW_LOG") {
        Ok(text) => EnvFilter::try_new(&text).map_err(|e| {
            Usage(format!(
                "TAPFLOW_LOG={text:?} is no log filter: {e}; write debug, or tapflow::link=trace"
            ))
        })?,
        Err(_) => EnvFilter::try_new(config.log.level.as_str())
            .context("the log level is not understood")?,
    };
    let colour = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Unfailing)
        .log_internal_errors(false)
        .with_ansi(colour);
    // A second service in one process (tests) keeps the first one's log.
    let _ = match config.log.format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}

/// Standard error for the log: a line that cannot be written is lost, and the collector goes on.
struct Unfailing;

impl std::io::Write for Unfailing {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let _ = std::io::stderr().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn serve(config: &Config, quiet: bool) -> anyhow::Result<ExitCode> {
    // Before anything else, so that no signal finds the default action, which loses everything.
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
    let mut rotate = signal(SignalKind::user_defined1()).context("cannot watch for SIGUSR1")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot watch for SIGHUP")?;
    let service = Service::start(config).await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), data_dir = %config.data_dir.display(), "ready");
    for listener in service.listeners() {
        tracing::info!(listener = listener.name, at = %listener.endpoint, "listening");
    }
    if let Some(address) = service.http() {
        tracing::info!(at = %address, "serving http");
    }
    if !quiet {
        // Standard output belongs to an output of that type; people get it on the other channel.
        let _ = std::io::stderr()
            .lock()
            .write_all(welcome(&service, config).as_bytes());
    }
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                tracing::warn!("SIGHUP: reading certificates again; the configuration is read at the start only, restart to change it");
                service.reload_certificates();
            }
            _ = rotate.recv() => {
                tracing::info!("SIGUSR1: beginning new files");
                service.rotate();
            }
        }
    }
    tracing::info!("stopping: a second signal ends at once");
    let trigger = service.trigger();
    let mut stop = std::pin::pin!(service.stop());
    let ledger = tokio::select! {
        ledger = &mut stop => ledger,
        _ = terminate.recv() => { trigger.advance(Phase::Aborting); stop.await }
        _ = interrupt.recv() => { trigger.advance(Phase::Aborting); stop.await }
    };
    report(&ledger);
    Ok(if ledger.lost() > 0 || !ledger.closes() {
        ExitCode::from(exit::LOST)
    } else {
        ExitCode::SUCCESS
    })
}

/// The ledger as the last words.
fn report(ledger: &Snapshot) {
    for output in &ledger.outputs {
        let shutdown: u64 = output
            .dropped
            .iter()
            .filter(|d| d.0 == crate::pipeline::ledger::OutputDrop::Shutdown)
            .map(|d| d.1)
            .sum();
        if shutdown > 0 {
            tracing::warn!(
                output = &*output.name,
                frames = shutdown,
                "frames were still on their way when the process ended"
            );
        }
    }
    let text = ledger.to_json().to_string();
    let (received, lost) = (ledger.received, ledger.lost());
    if ledger.closes() && lost == 0 {
        tracing::info!(received, lost, ledger = text, "stopped");
        if !tracing::enabled!(tracing::Level::INFO) {
            // What became of every frame is said whatever the log leaves out.
            crate::cli::say!("tapflow: stopped, received {received}, lost {lost}, ledger {text}");
        }
    } else if ledger.closes() {
        tracing::warn!(
            received,
            lost,
            ledger = text,
            "stopped, and frames were lost"
        );
        if !tracing::enabled!(tracing::Level::WARN) {
            crate::cli::say!("tapflow: stopped, received {received}, lost {lost}, ledger {text}");
        }
    } else {
        tracing::error!(
            received,
            lost,
            ledger = text,
            "stopped, and the ledger does not close: this is a fault of tapflow"
        );
    }
}

/// Where it listens, and what DNS servers need to be told.
fn welcome(service: &Service, config: &Config) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\ntapflow {} takes dnstap in at",
        env!("CARGO_PKG_VERSION")
    );
    let (mut unix, mut tcp) = (None, None);
    for listener in service.listeners() {
        let _ = writeln!(text, "  {}", listener.endpoint);
        match &listener.endpoint {
            // DNS servers open no sessions.
            Endpoint::Mux(_) => {}
            Endpoint::Unix(path) => unix = unix.or_else(|| std::path::absolute(path).ok()),
            Endpoint::Tcp { host, port } => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                tcp = tcp.or(Some((host, *port)));
            }
            // What DNS servers need to be told depends on the certificates: docs/ has it.
            Endpoint::Tls { .. } => {}
        }
    }
    for output in &config.output {
        let _ = writeln!(
            text,
            "and gives it to {} ({})",
            output.name,
            output.kind.type_name()
        );
    }
    if let Some(address) = service.http() {
        let _ = writeln!(
            text,
            "metrics: http://{address}/metrics   ledger: http://{address}/ledger"
        );
    }
    if unix.is_none() && tcp.is_none() {
        let _ = writeln!(
            text,
            "\nName it among the `workers` of another tapflow's output of type \"mux\"."
        );
        return text;
    }
    let _ = writeln!(
        text,
        "\nPut this into your DNS server's configuration, and restart it:\n"
    );
    text.push_str(&crate::cli::servers::snippets(
        unix.as_deref(),
        tcp.as_ref().map(|(h, p)| (h.as_str(), *p)),
    ));
    text
}
