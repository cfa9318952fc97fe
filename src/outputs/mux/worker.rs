//! A worker: the session to it, connected again as often as it takes, and its streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::link::sender::{Failure, SendError};
use crate::log_limit::LogLimit;
use crate::mux::{self, Session};
use crate::outputs::mux::board::{Board, Worker};
use crate::outputs::mux::stream::{Pump, StreamOptions};
use crate::outputs::sink::Meter;
use crate::pipeline::health::Health;
use crate::telemetry::{self, Telemetry};
use crate::transport::dial;
use crate::units::Endpoint;

/// At most one line about a lost worker in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How often a worker is asked for the round trip.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// What all workers of an output are run with.
pub(super) struct Context {
    pub(super) output: String,
    pub(super) board: Board,
    pub(super) streams: u32,
    pub(super) stream: StreamOptions,
    pub(super) session: mux::Config,
    pub(super) connect_timeout: Duration,
    pub(super) open_timeout: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) meter: Meter,
    pub(super) health: Health,
    pub(super) telemetry: Telemetry,
    /// Workers that take frames.
    pub(super) up: watch::Sender<usize>,
}

/// What is said of a worker before the first attempt has succeeded or failed.
pub(super) const NOT_YET: &str = "not connected yet";

impl Context {
    /// Says in the health notes what keeps a worker from taking frames.
    pub(super) fn note(&self, worker: &str, why: &str) {
        self.health.note(&format!("worker {worker}"), why);
    }

    fn lost(&self, reason: Failure) {
        self.meter.error();
        let labels = [self.output.as_str(), reason.as_str()];
        let metric = telemetry::OUTPUT_RECONNECTS;
        self.telemetry.counter(metric, &labels).increment(1);
    }
}

/// One worker at one address.
pub(super) struct Link {
    context: Arc<Context>,
    to: Endpoint,
    worker: Arc<Worker>,
    /// Becomes true when the worker is not wanted any more.
    retired: watch::Receiver<bool>,
    closing: watch::Receiver<bool>,
    log: LogLimit,
}

impl Link {
    pub(super) fn new(context: Arc<Context>, to: Endpoint, retired: watch::Receiver<bool>) -> Self {
        let worker = Worker::new(&context.output, to.to_string(), &context.telemetry);
        let link = Self {
            closing: context.board.closing(),
            worker: Arc::new(worker),
            log: LogLimit::new(LOG_INTERVAL),
            context,
            to,
            retired,
        };
        link.note(NOT_YET);
        link
    }

    fn note(&self, why: &str) {
        self.context.note(&self.worker.name, why);
    }

    /// Runs until the output closes or the worker is retired.
    pub(super) async fn run(mut self) {
        let mut backoff = self.context.backoff.clone();
        loop {
            let over = tokio::select! {
                biased;
                () = ordered(&mut self.closing) => None,
                () = ordered(&mut self.retired) => None,
                io = dial(&self.to, self.context.connect_timeout) => Some(io),
            };
            let (reason, error) = match over {
                None => break,
                Some(Ok(io)) => {
                    let began = Instant::now();
                    let session = Session::client(io, self.context.session.clone());
                    let lost = self.serve(&session).await;
                    if began.elapsed() > Duration::from_secs(1) {
                        backoff.reset();
                    }
                    lost
                }
                Some(Err(e)) => (Failure::of_dial(&e), e.to_string()),
            };
            if *self.closing.borrow() || *self.retired.borrow() {
                break;
            }
            self.context.lost(reason);
            self.note(&error);
            let delay = backoff.delay();
            self.complain(reason, &error, delay);
            tokio::select! {
                () = ordered(&mut self.closing) => break,
                () = ordered(&mut self.retired) => break,
                () = sleep_until(Instant::now() + delay) => {}
            }
        }
        let what = format!("worker {}", self.worker.name);
        self.context.health.clear(&what);
    }

    fn complain(&self, reason: Failure, error: &str, delay: Duration) {
        let (output, worker, reason) = (&self.context.output, &self.worker.name, reason.as_str());
        match self.log.pass(std::time::Instant::now()) {
            Some(more) => {
                warn!(
                    output,
                    worker,
                    reason,
                    suppressed = more,
                    "no session, trying again in {delay:?}: {error}"
                );
            }
            None => debug!(
                output,
                worker, reason, "no session, trying again in {delay:?}: {error}"
            ),
        }
    }

    /// Runs the streams of a session until the last has ended; says why.
    async fn serve(&mut self, session: &Session) -> (Failure, String) {
        let mut streams = JoinSet::new();
        let (started, mut starts) = watch::channel(false);
        for slot in 0..self.context.streams {
            let lane = Lane {
                context: self.context.clone(),
                worker: self.worker.clone(),
                session: session.clone(),
                slot,
                started: started.clone(),
            };
            streams.spawn(lane.run());
        }
        drop(started);
        let mut last = None;
        let (mut up, mut watching) = (false, true);
        let mut pinged = Instant::now();
        let mut retiring = false;
        loop {
            tokio::select! {
                biased;
                begun = begins(&mut starts), if watching => {
                    watching = false;
                    if begun {
                        up = true;
                        self.up(true);
                    }
                }
                () = ordered(&mut self.retired), if !retiring => {
                    retiring = true;
                    self.context.board.retire(&self.worker);
                }
                ended = streams.join_next() => match ended {
                    Some(Ok(Some(error))) => last = Some(error),
                    Some(_) => {}
                    None => break,
                },
                () = sleep_until(pinged) => {
                    // Answers to pings come in the session's own time; a stream that ends meanwhile is looked at after it.
                    if let Ok(Ok(time)) = timeout(PING_INTERVAL, session.ping()).await {
                        self.worker.round_trip.set(time.as_secs_f64());
                    }
                    pinged = Instant::now() + PING_INTERVAL;
                }
            }
        }
        if up {
            self.up(false);
        }
        let closed = session.close_reason();
        session.close();
        match (closed, last) {
            (Some(reason), _) => (Failure::Closed, format!("{}: {reason}", reason.name())),
            (None, Some(error)) => (error.failure, error.to_string()),
            (None, None) => (Failure::Closed, "the worker leaves".to_owned()),
        }
    }

    fn up(&self, yes: bool) {
        let context = &self.context;
        self.worker.up.set(if yes { 1.0 } else { 0.0 });
        context
            .up
            .send_modify(|n| *n = if yes { *n + 1 } else { n.saturating_sub(1) });
        context.meter.connected(*context.up.borrow() > 0);
        let what = format!("worker {}", self.worker.name);
        if yes {
            context.health.clear(&what);
            info!(
                output = context.output,
                worker = self.worker.name,
                "worker takes frames"
            );
        } else {
            info!(
                output = context.output,
                worker = self.worker.name,
                "worker takes no more frames"
            );
        }
    }
}

/// One of a worker's streams, opened again while the session lasts.
struct Lane {
    context: Arc<Context>,
    worker: Arc<Worker>,
    session: Session,
    slot: u32,
    started: watch::Sender<bool>,
}

impl Lane {
    /// Returns why it ended, where it did not end in good order.
    async fn run(self) -> Option<SendError> {
        let mut backoff = self.context.backoff.clone();
        let mut closing = self.context.board.closing();
        loop {
            let started = tokio::select! {
                biased;
                () = ordered(&mut closing) => return None,
                started = self.start() => match started {
                    Ok(started) => started,
                    Err(error) => return Some(error),
                },
            };
            let began = Instant::now();
            let error = match started {
                Ok(pump) => {
                    let acknowledged = pump.acknowledged();
                    debug!(
                        output = self.context.output,
                        worker = self.worker.name,
                        slot = self.slot,
                        acknowledged,
                        "stream started"
                    );
                    self.started.send_replace(true);
                    let (result, again) = pump.run().await;
                    if again > 0 {
                        info!(
                            output = self.context.output,
                            worker = self.worker.name,
                            slot = self.slot,
                            frames = again,
                            "frames not acknowledged are sent again"
                        );
                    }
                    match result {
                        // In good order: the worker leaves, or we do.
                        Ok(()) => return None,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // A stream that stands still stands for its worker: the others would only wait as long.
            if error.failure == Failure::WriteTimeout {
                self.session.close();
            }
            if self.session.close_reason().is_some() {
                return Some(error);
            }
            debug!(
                output = self.context.output,
                worker = self.worker.name,
                slot = self.slot,
                "stream ended: {error}"
            );
            if began.elapsed() > Duration::from_secs(1) {
                backoff.reset();
            }
            tokio::select! {
                () = ordered(&mut closing) => return Some(error),
                () = sleep_until(Instant::now() + backoff.delay()) => {}
            }
        }
    }

    /// One attempt. Outer error: it is of no use to try again on this session.
    async fn start(&self) -> Result<Result<Pump<'_>, SendError>, SendError> {
        let (board, options) = (&self.context.board, &self.context.stream);
        let limit = self.context.open_timeout.unwrap_or(Duration::MAX);
        match timeout(limit, self.session.open()).await {
            Ok(Ok(io)) => {
                let (worker, slot) = (self.worker.clone(), self.slot);
                Ok(Pump::start(board, options, &self.context.meter, io, worker, slot).await)
            }
            // The session is over, or the worker wants no more streams.
            Ok(Err(e)) => Err(SendError::new(Failure::Closed, e.to_string())),
            Err(_) => Ok(Err(SendError::new(
                Failure::HandshakeTimeout,
                format!("no stream within {limit:?}"),
            ))),
        }
    }
}

/// Waits for the first stream to begin; `false`: none will.
async fn begins(started: &mut watch::Receiver<bool>) -> bool {
    started.wait_for(|begun| *begun).await.is_ok()
}

/// Waits until the order is given; for ever when nobody can give it any more.
async fn ordered(order: &mut watch::Receiver<bool>) {
    if order.wait_for(|given| *given).await.is_err() {
        std::future::pending().await
    }
}
