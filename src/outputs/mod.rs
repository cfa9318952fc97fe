//! Outputs: where frames go. An output is an encoder (what is written) and a sink (where to), run by one driver.
//!
//! ```text
//!   Lane ─▶ Queue ─▶ Driver { Encoder ─▶ Outbox ─▶ Sink }      null: a lane that needs none of it
//!                 └▶ MuxOutput { Picker ─▶ Board ─▶ streams }  mux: batches go to workers as they are
//!
//!   encode/   frames  compressed  lines (records)                batch  ─▶ chunks
//!   sink/     file  stdout  forward                              chunks ─▶ a place
//! ```
//! The [driver](driver::Driver) receives, gathers, settles the ledger, keeps the timers and stops; so a further sink writes
//! bytes to a place and reports, a further encoder turns a batch into bytes, and either is one file and one line in
//! [`build`] (or [`encode::build`]).
//!
//! Read [`sink`] for what a sink promises, then [`driver`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::format::FormatError;
use crate::fstrm::Dialect;
use crate::link::sender::SenderOptions;
use crate::outputs::container::Container;
use crate::outputs::driver::{Driver, DriverParts};
use crate::outputs::encode::Encoder;
use crate::outputs::mux::{MuxOutput, MuxParts};
use crate::outputs::options::{
    DnstapOptions, FileOptions, ForwardMode, MuxOptions, OutputKind, OutputOptions, QueuePolicy,
    SendCompression, Strategy,
};
use crate::outputs::sink::file::compress::Compression;
use crate::outputs::sink::file::finish::FinishOptions;
use crate::outputs::sink::file::{FileSink, Rotation};
use crate::outputs::sink::forward::{Forward, ForwardOptions};
use crate::outputs::sink::stdout::Stdout;
use crate::outputs::sink::{Meter, Sink};
use crate::pipeline::lane::Lane;
use crate::pipeline::ledger::Ledger;
use crate::pipeline::queue::{Policy, Queue, QueueLimits};
use crate::shutdown::Signal;
use crate::telemetry::Telemetry;
use crate::transport::tls::client::ClientTls;
use crate::units::Endpoint;

pub mod container;
pub mod driver;
pub mod encode;
pub mod mux;
pub mod options;
pub mod sink;

/// Stands in paths for the data folder.
const DATA_DIR: &str = "{data_dir}";

/// Time a connection may take where the setting is off: not for ever, since nothing would come of it.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// What outputs are built with.
#[derive(Clone, Debug)]
pub struct OutputContext {
    /// Where they settle.
    pub ledger: Ledger,
    /// Where they count.
    pub telemetry: Telemetry,
    /// The data folder, which `{data_dir}` in a path stands for.
    pub data_dir: PathBuf,
    /// The stop.
    pub signal: Signal,
    /// Each change asks for a new file (logrotate's signal).
    pub rotate: watch::Receiver<u64>,
}

/// An output that is built and does not run yet.
#[derive(Debug)]
pub struct OutputParts {
    /// What connections put batches into.
    pub lane: Lane,
    /// What takes them out; an inline output needs none.
    pub driver: Option<Runner>,
}

/// What runs an output with a queue.
#[derive(Debug)]
pub enum Runner {
    /// An encoder and a sink.
    Driver(Driver),
    /// Workers.
    Mux(MuxOutput),
}

impl Runner {
    /// Whether it belongs on a thread of its own; see [`Driver::blocking`].
    pub fn blocking(&self) -> bool {
        match self {
            Self::Driver(driver) => driver.blocking(),
            Self::Mux(_) => false,
        }
    }

    /// The output's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Driver(driver) => driver.name(),
            Self::Mux(output) => output.name(),
        }
    }

    /// Runs until the queue is closed and everything in it is delivered, or until the process aborts.
    pub async fn run(self) {
        match self {
            Self::Driver(driver) => driver.run().await,
            Self::Mux(output) => output.run().await,
        }
    }
}

/// An output that cannot be built: the text says which, why, and where.
#[derive(Debug, thiserror::Error)]
#[error("output {output}: {what}")]
pub struct OutputError {
    output: String,
    what: String,
    #[source]
    source: io::Error,
}

impl OutputError {
    /// A format that cannot be had; `check-config` finds these before.
    fn format(output: &str) -> impl FnOnce(FormatError) -> Self {
        let output = output.to_owned();
        move |error| Self {
            output,
            what: "its format cannot be had".to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, error),
        }
    }

    fn because(output: &str, what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let (output, what) = (output.to_owned(), what.into());
        move |source| Self {
            output,
            what,
            source,
        }
    }
}

/// A sink with the encoder that suits it.
struct Pair {
    encoder: Box<dyn Encoder>,
    sink: Box<dyn Sink>,
    /// The sink waits in system calls.
    blocking: bool,
}

/// Builds what an entry of the configuration stands for: an output, or with strategy `all` one for each worker.
///
/// # Errors
/// As [`build`].
pub fn build_all(
    options: &OutputOptions,
    ctx: &OutputContext,
) -> Result<Vec<OutputParts>, OutputError> {
    match &options.kind {
        OutputKind::Mux(o) if o.strategy == Strategy::All => {
            let one = |(n, worker): (usize, &Endpoint)| {
                let mux = MuxOptions {
                    workers: vec![worker.clone()],
                    strategy: Strategy::RoundRobin,
                    ..o.clone()
                };
                let options = OutputOptions {
                    name: format!("{}.{}", name_of(options), n + 1),
                    kind: OutputKind::Mux(mux),
                    ..options.clone()
                };
                build(&options, ctx)
            };
            o.workers.iter().enumerate().map(one).collect()
        }
        _ => Ok(vec![build(options, ctx)?]),
    }
}

fn name_of(options: &OutputOptions) -> &str {
    match options.name.as_str() {
        "" => options.kind.type_name(),
        name => name,
    }
}

/// Builds an output and opens its account in the ledger.
///
/// # Errors
/// [`OutputError`] when its place cannot be prepared: the folder of a file output cannot be made. A collector that is not
/// there is no error; the output goes on trying.
pub fn build(options: &OutputOptions, ctx: &OutputContext) -> Result<OutputParts, OutputError> {
    let name = name_of(options);
    let meter = Meter::new(&ctx.telemetry, name);
    let pair = match &options.kind {
        OutputKind::Null(_) => {
            meter.connected(true);
            return Ok(OutputParts {
                lane: Lane::inline(name, ctx.ledger.clone()),
                driver: None,
            });
        }
        OutputKind::Stdout(o) => {
            let fd = stdout_fd()
                .map_err(OutputError::because(name, "standard output cannot be used"))?;
            let settings = o.settings();
            let container =
                Container::new(&o.format, &settings).map_err(OutputError::format(name))?;
            let sink = Stdout::new(name, fd, container, ctx.signal.clone(), meter);
            Pair {
                encoder: encode::build(&o.format, &settings).map_err(OutputError::format(name))?,
                sink: Box::new(sink),
                blocking: true,
            }
        }
        OutputKind::File(o) => {
            let dir = folder(&o.path, &ctx.data_dir);
            let settings = o.settings();
            let container =
                Container::new(&o.format, &settings).map_err(OutputError::format(name))?;
            let sink = file(name, o, container, dir.clone(), ctx, meter).map_err(
                OutputError::because(name, format!("the folder {} cannot be used", dir.display())),
            )?;
            Pair {
                encoder: encode::build(&o.format, &settings).map_err(OutputError::format(name))?,
                sink: Box::new(sink),
                blocking: true,
            }
        }
        OutputKind::Dnstap(o) => {
            let sink = Forward::new(name, forward_options(o), &ctx.telemetry, meter);
            Pair {
                encoder: encode::build_stream(o.compress, o.bulk),
                sink: Box::new(sink),
                blocking: false,
            }
        }
        OutputKind::Mux(o) => return Ok(with_workers(name, options, o, ctx, meter)),
    };
    Ok(with_queue(name, options, ctx, pair))
}

fn with_workers(
    name: &str,
    options: &OutputOptions,
    o: &MuxOptions,
    ctx: &OutputContext,
    meter: Meter,
) -> OutputParts {
    let queue = queue(options);
    let lane = Lane::queued(name, ctx.ledger.clone(), queue.clone());
    let parts = MuxParts {
        lane: &lane,
        queue,
        ledger: ctx.ledger.clone(),
        telemetry: ctx.telemetry.clone(),
        signal: ctx.signal.clone(),
        meter,
        backoff: Backoff::new(o.reconnect_min.0, o.reconnect_max.0, seed()),
    };
    let output = MuxOutput::new(o, parts);
    OutputParts {
        lane,
        driver: Some(Runner::Mux(output)),
    }
}

fn queue(options: &OutputOptions) -> Arc<Queue> {
    let limits = QueueLimits {
        bytes: options.queue_bytes.as_usize(),
        batches: usize::try_from(options.queue_batches).unwrap_or(usize::MAX),
        policy: match options.policy {
            QueuePolicy::Block => Policy::Block,
            QueuePolicy::DropNewest => Policy::DropNewest,
            QueuePolicy::DropOldest => Policy::DropOldest,
        },
    };
    Arc::new(Queue::new(limits))
}

fn with_queue(name: &str, options: &OutputOptions, ctx: &OutputContext, pair: Pair) -> OutputParts {
    let queue = queue(options);
    let lane = Lane::queued(name, ctx.ledger.clone(), queue.clone());
    let driver = Driver::new(DriverParts {
        name: lane.name.clone(),
        id: lane.id,
        ledger: ctx.ledger.clone(),
        queue,
        encoder: pair.encoder,
        sink: pair.sink,
        signal: ctx.signal.clone(),
        rotate: ctx.rotate.clone(),
        blocking: pair.blocking,
    });
    OutputParts {
        lane,
        driver: Some(Runner::Driver(driver)),
    }
}

/// A descriptor of our own, so that closing it does not close the process's.
fn stdout_fd() -> io::Result<OwnedFd> {
    io::stdout().as_fd().try_clone_to_owned()
}

fn folder(path: &Path, data_dir: &Path) -> PathBuf {
    match path.strip_prefix(DATA_DIR) {
        Ok(rest) => data_dir.join(rest),
        Err(_) => path.to_owned(),
    }
}

fn file(
    name: &str,
    o: &FileOptions,
    container: Container,
    dir: PathBuf,
    ctx: &OutputContext,
    meter: Meter,
) -> io::Result<FileSink> {
    let rotation = Rotation {
        bytes: (!o.rotate_size.is_zero()).then_some(o.rotate_size.bytes()),
        age: o.rotate_time.get(),
    };
    let finish = FinishOptions {
        output: name.to_owned(),
        dir,
        prefix: o.prefix.clone(),
        compress: Compression::of(o.compress),
        keep: usize::try_from(o.keep_files).ok().filter(|n| *n > 0),
        sync: o.sync,
    };
    FileSink::new(container, rotation, finish, ctx.signal.clone(), meter)
}

/// Two collectors started in the same nanosecond may share a step; no more is lost by it than that.
fn seed() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |d| {
            u64::from(d.subsec_nanos()) ^ u64::from(std::process::id()) << 32
        })
}

fn forward_options(o: &DnstapOptions) -> ForwardOptions {
    ForwardOptions {
        to: o.to.clone(),
        tls: o.tls().map(|files| Arc::new(ClientTls::new(files))),
        sender: SenderOptions {
            dialect: match o.mode {
                ForwardMode::Bidirectional => Dialect::Bidirectional,
                ForwardMode::Unidirectional => Dialect::Unidirectional,
                ForwardMode::Raw => Dialect::Raw,
            },
            compressed: o.compress != SendCompression::Off,
            handshake_timeout: o.handshake_timeout.get(),
            write_timeout: o.write_timeout.get(),
            finish_timeout: o.finish_timeout.get(),
            ..SenderOptions::default()
        },
        connect_timeout: o.connect_timeout.get().unwrap_or(CONNECT_TIMEOUT_MAX),
        backoff: Backoff::new(o.reconnect_min.0, o.reconnect_max.0, seed()),
    }
}
