//! The service: builds everything from a configuration, runs it, and stops it in order.
//!
//! [`Service::start`] binds and spawns; when it returns, every listener is bound and frames flow. [`Service::stop`] is the
//! way down: no new connections, what senders have written is taken, outputs drain until the deadline, what is left is given
//! up and counted, and the ledger says what became of every frame. [`listen`] holds the accept loop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::http;
use crate::outputs::{self, OutputContext};
use crate::pipeline::acks::Seen;
use crate::pipeline::intake::ReadAhead;
use crate::pipeline::lane::Lane;
use crate::pipeline::ledger::{Ledger, OutputDrop, Snapshot};
use crate::pipeline::stage::{StageContext, StageFactory};
use crate::shutdown::{self, Phase, Trigger};
use crate::stages;
use crate::telemetry::Telemetry;
use crate::transport::Bound;
use crate::transport::tls::FileError;
use crate::transport::tls::server::{ServerFiles, ServerTls};
use crate::units::{Endpoint, Span};

mod certificates;
pub mod listen;

/// Read-ahead of all connections that an output makes wait, in bytes; see [`ReadAhead`].
pub const READ_AHEAD_MAX: usize = 64 * 1024 * 1024;
/// Read-ahead of one connection, in bytes: more than the socket buffers of a TCP connection grow to by default.
pub const READ_AHEAD_PER_CONNECTION: usize = 8 * 1024 * 1024;
/// After the deadline, how long the tasks may take to give up.
const ABORT_GRACE: Duration = Duration::from_secs(2);

/// The service could not start: the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be made.
    #[error(
        "cannot make the data folder {path}: {cause}; set data_dir to a folder that can be written to"
    )]
    DataDir {
        /// The folder.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A listener cannot be bound.
    #[error("listener {name}: {cause}")]
    Bind {
        /// The listener's name.
        name: String,
        /// Why, and what to do.
        cause: crate::transport::BindError,
    },
    /// A certificate cannot be used.
    #[error("{place}: {cause}")]
    Tls {
        /// `listener NAME` or `http`.
        place: String,
        /// Why, and what to do.
        cause: FileError,
    },
    /// The HTTP server cannot be bound.
    #[error(
        "http: cannot listen on {address}: {cause}; set another address with --http or [http] address"
    )]
    Http {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// An output cannot be made.
    #[error(transparent)]
    Output(#[from] outputs::OutputError),
    /// A thread cannot be started.
    #[error("output {name}: cannot start its thread: {cause}")]
    Thread {
        /// The output's name.
        name: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A stage cannot be made.
    #[error("stage {number}: {cause}")]
    Stage {
        /// Its place in the configuration, from 1.
        number: usize,
        /// Why.
        cause: stages::StageError,
    },
}

/// A listener that is bound.
#[derive(Clone, Debug)]
pub struct BoundListener {
    /// Its name.
    pub name: String,
    /// Where it really listens.
    pub endpoint: Endpoint,
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    trigger: Trigger,
    ledger: Ledger,
    lanes: Vec<Lane>,
    listeners: Vec<BoundListener>,
    http: Option<SocketAddr>,
    pages: http::Pages,
    rotate: watch::Sender<u64>,
    certificates: watch::Sender<u64>,
    connections: mpsc::Receiver<()>,
    drivers: mpsc::Receiver<()>,
    shutdown_timeout: Duration,
}

impl Service {
    /// Builds and starts everything that `config` (resolved and checked) says. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]; what was started already stops again.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        std::fs::create_dir_all(&config.data_dir).map_err(|cause| StartError::DataDir {
            path: config.data_dir.display().to_string(),
            cause,
        })?;
        let (telemetry, ledger) = (Telemetry::new(), Ledger::new());
        let (trigger, signal) = shutdown::channel();
        let (rotate, rotations) = watch::channel(0);
        let stages = build_stages(config, &ledger, &telemetry)?;
        // Listeners first: nothing else is undone as easily, and readiness means that they are bound.
        let (certificates, requests) = watch::channel(0);
        let look_after = |place: String, tls: &Arc<ServerTls>, every: Span| {
            let (requests, signal) = (requests.clone(), signal.clone());
            let tls = tls.clone();
            certificates::look_after(place, tls, every.get(), &telemetry, requests, signal);
        };
        let mut bound = Vec::new();
        for options in &config.listener {
            let tls = load_tls(options.tls(), || format!("listener {}", options.name))?;
            let bind = listen::bind_options(options);
            let socket = Bound::bind(&bind).await.map_err(|cause| StartError::Bind {
                name: options.name.clone(),
                cause,
            })?;
            bound.push((options, bind, socket, tls));
        }
        let http_tls = load_tls(config.http.tls(), || "http".to_owned())?;
        let http_listener = if config.http.enabled {
            let address = config.http.address;
            Some(
                http::bind(address)
                    .await
                    .map_err(|cause| StartError::Http { address, cause })?,
            )
        } else {
            None
        };
        let context = OutputContext {
            ledger: ledger.clone(),
            telemetry: telemetry.clone(),
            data_dir: config.data_dir.clone(),
            signal: signal.clone(),
            rotate: rotations,
        };
        let (driver_guard, drivers) = mpsc::channel(1);
        let lanes = start_outputs(config, &context, &driver_guard)?;
        drop(driver_guard);
        let (connection_guard, connections) = mpsc::channel(1);
        let read_ahead = Arc::new(ReadAhead::new(READ_AHEAD_MAX, READ_AHEAD_PER_CONNECTION));
        let (mut listeners, seen) = (Vec::new(), Seen::default());
        for (options, bind, socket, tls) in bound {
            let endpoint = socket.address(&options.uri);
            listeners.push(BoundListener {
                name: options.name.clone(),
                endpoint,
            });
            let listener = listen::Listener::new(
                options,
                &ledger,
                &telemetry,
                &stages,
                &lanes,
                read_ahead.clone(),
                seen.clone(),
            )
            .with_tls(tls.clone());
            if let Some(tls) = &tls {
                look_after(
                    format!("listener:{}", options.name),
                    tls,
                    options.tls_reload,
                );
            }
            tokio::spawn(listener.run(socket, bind, signal.clone(), connection_guard.clone()));
        }
        drop(connection_guard);
        if let (Some(tls), true) = (&http_tls, config.http.enabled) {
            look_after("http".to_owned(), tls, config.http.tls_reload);
        }
        let pages = http::Pages::new(telemetry, ledger.clone(), lanes.clone(), signal.clone());
        let http = http_listener.as_ref().and_then(|l| l.local_addr().ok());
        if let Some(listener) = http_listener {
            tokio::spawn(http::serve(
                listener,
                http_tls,
                pages.clone(),
                signal.clone(),
            ));
        }
        let shutdown_timeout = config.shutdown_timeout.0;
        Ok(Self {
            trigger,
            ledger,
            lanes,
            listeners,
            http,
            pages,
            rotate,
            certificates,
            connections,
            drivers,
            shutdown_timeout,
        })
    }

    /// The listeners, with the ports that they really have.
    pub fn listeners(&self) -> &[BoundListener] {
        &self.listeners
    }

    /// The HTTP server's address.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What the HTTP server shows.
    pub fn pages(&self) -> &http::Pages {
        &self.pages
    }

    /// Moves the phase on from outside: [`Phase::Aborting`] while [`Service::stop`] waits ends the wait.
    pub fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    /// Asks every file output to begin a new file.
    pub fn rotate(&self) {
        self.rotate.send_modify(|n| *n += 1);
    }

    /// Reads certificates, keys and authorities again, whether they have changed or not. Open connections stay.
    pub fn reload_certificates(&self) {
        self.certificates.send_modify(|n| *n += 1);
    }

    /// Stops in order and returns the final ledger: nothing is in flight in it any more.
    pub async fn stop(mut self) -> Snapshot {
        self.trigger.advance(Phase::Draining);
        let mut signal = self.trigger.signal();
        let drained = async {
            // A `recv` that returns nothing says that the last task has dropped its sender.
            let _ = self.connections.recv().await;
            close_queues(&self.lanes);
            let _ = self.drivers.recv().await;
        };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(self.shutdown_timeout) => {
                tracing::warn!(timeout = ?self.shutdown_timeout, "the outputs have not drained in time; what is left is dropped and counted");
            }
            () = signal.reached(Phase::Aborting) => {}
        }
        self.trigger.advance(Phase::Aborting);
        let gave_up = async {
            let _ = self.connections.recv().await;
            close_queues(&self.lanes);
            for lane in &self.lanes {
                if let Some(queue) = lane.queue() {
                    self.ledger
                        .dropped(lane.id, OutputDrop::Shutdown, queue.abandon());
                }
            }
            let _ = self.drivers.recv().await;
        };
        if tokio::time::timeout(ABORT_GRACE, gave_up).await.is_err() {
            tracing::error!(
                "some tasks did not stop; frames that they hold stay in flight in the ledger"
            );
        }
        self.ledger.snapshot()
    }
}

fn load_tls(
    files: Option<ServerFiles>,
    place: impl Fn() -> String,
) -> Result<Option<Arc<ServerTls>>, StartError> {
    let load = |files| {
        ServerTls::load(files).map_err(|cause| StartError::Tls {
            place: place(),
            cause,
        })
    };
    Ok(files.map(load).transpose()?.map(Arc::new))
}

fn close_queues(lanes: &[Lane]) {
    for queue in lanes.iter().filter_map(Lane::queue) {
        queue.close();
    }
}

fn build_stages(
    config: &Config,
    ledger: &Ledger,
    telemetry: &Telemetry,
) -> Result<Arc<[Box<dyn StageFactory>]>, StartError> {
    let context = StageContext { ledger, telemetry };
    let build = |(i, options)| {
        stages::build(options, &context).map_err(|cause| StartError::Stage {
            number: i + 1,
            cause,
        })
    };
    config.stage.iter().enumerate().map(build).collect()
}

/// Starts every output and returns their lanes. A driver that blocks gets a thread of its own.
fn start_outputs(
    config: &Config,
    context: &OutputContext,
    guard: &mpsc::Sender<()>,
) -> Result<Vec<Lane>, StartError> {
    let mut parts = Vec::new();
    for options in &config.output {
        for built in outputs::build_all(options, context)? {
            parts.push((options.name.clone(), built));
        }
    }
    let mut lanes = Vec::new();
    for (name, part) in parts {
        lanes.push(part.lane);
        let Some(driver) = part.driver else { continue };
        let guard = guard.clone();
        if driver.blocking() {
            let handle = tokio::runtime::Handle::current();
            let run = move || {
                handle.block_on(driver.run());
                drop(guard);
            };
            std::thread::Builder::new()
                .name(format!("out-{name}").chars().take(15).collect())
                .spawn(run)
                .map_err(|cause| StartError::Thread { name, cause })?;
        } else {
            tokio::spawn(async move {
                driver.run().await;
                drop(guard);
            });
        }
    }
    Ok(lanes)
}
