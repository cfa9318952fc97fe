//! The mux output: shares frames out among workers, over sessions of many streams, and keeps each batch until a worker has
//! acknowledged it.
//!
//! ```text
//!   Queue ─▶ carry ─▶ Picker ─▶ Board ─▶ Pump (a stream) ─▶ worker
//!                       ▲         │  waiting ─▶ sent ──TAKEN──▶ delivered in the ledger
//!                       └─ orphans ┘  a stream that fails
//! ```
//! Nothing is taken out of the queue when no worker takes frames, or when as much is unacknowledged as the settings allow; so
//! the queue's policy decides what becomes of the frames that arrive. A batch is *delivered* when a worker has acknowledged it
//! ([`fstrm::mark`](crate::fstrm::mark)), or on a stream to a worker that does not, when its last byte is with the session.
//!
//! The order of frames: with strategy `hash` those of one key stay in order, as long as no worker or stream comes or goes; what
//! a failed stream leaves is sent before anything newer. With the other strategies each stream has its own order.
//!
//! `key` tells frames apart, `pick` chooses the stream, `board` is what the tasks share, `worker` keeps the sessions and
//! `stream` writes.

mod board;
mod key;
mod pick;
mod stream;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use crate::backoff::Backoff;
use crate::fstrm::ContentType;
use crate::ids::OutputId;
use crate::link::sender::{Failure, SenderOptions};
use crate::mux;
use crate::outputs::driver::BUDGET_BYTES;
use crate::outputs::mux::board::{Board, Unit, Worker};
use crate::outputs::mux::pick::Picker;
use crate::outputs::mux::stream::StreamOptions;
use crate::outputs::mux::worker::{Context, Link};
use crate::outputs::options::MuxOptions;
use crate::outputs::sink::Meter;
use crate::pipeline::batch::Batch;
use crate::pipeline::lane::Lane;
use crate::pipeline::ledger::{Ledger, OutputDrop};
use crate::pipeline::queue::Queue;
use crate::shutdown::{Phase, Signal};
use crate::telemetry::{self, Telemetry};
use crate::units::Endpoint;

/// Time a connection may take where the setting is off.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Octets that a session may have queued for the connection: what lies there is out of reach of other workers.
const WRITE_BUDGET: usize = 512 * 1024;

/// What the output is made of.
pub(super) struct MuxParts<'a> {
    pub(super) lane: &'a Lane,
    pub(super) queue: Arc<Queue>,
    pub(super) ledger: Ledger,
    pub(super) telemetry: Telemetry,
    pub(super) signal: Signal,
    pub(super) meter: Meter,
    pub(super) backoff: Backoff,
}

/// The output.
pub struct MuxOutput {
    id: OutputId,
    ledger: Ledger,
    queue: Arc<Queue>,
    signal: Signal,
    entries: Vec<Endpoint>,
    resolve_interval: Option<Duration>,
    finish_timeout: Duration,
    context: Arc<Context>,
    picker: Picker,
    /// Batches taken out of the queue that found no stream yet, in order.
    carry: VecDeque<Unit>,
}

impl std::fmt::Debug for MuxOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MuxOutput({})", self.context.output)
    }
}

impl MuxOutput {
    pub(super) fn new(options: &MuxOptions, parts: MuxParts<'_>) -> Self {
        let MuxParts {
            lane,
            queue,
            ledger,
            telemetry,
            signal,
            meter,
            backoff,
        } = parts;
        let context = Context {
            output: lane.name.to_string(),
            board: Board::new(options.unacked_bytes.as_usize()),
            streams: options.streams.max(1),
            stream: stream_options(options),
            session: session_config(options),
            connect_timeout: options.connect_timeout.get().unwrap_or(CONNECT_TIMEOUT_MAX),
            open_timeout: options.handshake_timeout.get(),
            backoff,
            meter,
            health: lane.health().clone(),
            telemetry,
            up: watch::Sender::new(0),
        };
        // Every series from zero, and what is not connected told, before the first attempt.
        for failure in Failure::ALL {
            let labels = [context.output.as_str(), failure.as_str()];
            let _ = context
                .telemetry
                .counter(telemetry::OUTPUT_RECONNECTS, &labels);
        }
        for entry in &options.workers {
            if name_in(entry).is_none() {
                let worker = Worker::new(&context.output, entry.to_string(), &context.telemetry);
                context.note(&worker.name, worker::NOT_YET);
            }
        }
        Self {
            id: lane.id,
            ledger,
            queue,
            signal,
            entries: options.workers.clone(),
            resolve_interval: options.resolve_interval.get(),
            finish_timeout: options
                .finish_timeout
                .get()
                .unwrap_or(Duration::from_secs(2)),
            context: Arc::new(context),
            picker: Picker::new(options),
            carry: VecDeque::new(),
        }
    }

    /// The output's name.
    pub fn name(&self) -> &str {
        &self.context.output
    }

    /// Runs until the queue is closed and everything in it is delivered, or until the process aborts. Afterwards no frame is
    /// in flight on this output.
    pub async fn run(mut self) {
        let mut members = JoinSet::new();
        for entry in &self.entries {
            let members_of = members_of(self.context.clone(), entry.clone(), self.resolve_interval);
            members.spawn(members_of);
        }
        let drained = self.share_out().await;
        self.context.board.close();
        if drained {
            let mut signal = self.signal.clone();
            let ended = async { while members.join_next().await.is_some() {} };
            tokio::select! {
                ended = timeout(self.finish_timeout, ended) => if ended.is_err() {
                    warn!(output = self.name(), "not every worker has ended its streams in time; they had everything");
                },
                () = aborting(&mut signal) => {}
            }
            info!(output = self.name(), "output closed");
        }
        members.shutdown().await;
        self.context.meter.connected(false);
        self.give_up();
    }

    /// Gives batches to streams. `true`: everything is delivered; `false`: the process aborts.
    async fn share_out(&mut self) -> bool {
        let (mut incoming, mut open): (Vec<Batch>, bool) = (Vec::new(), true);
        loop {
            self.give_out();
            let board = &self.context.board;
            self.ledger.delivered(self.id, board.take_delivered());
            if !open && self.carry.is_empty() && board.is_empty() {
                return true;
            }
            let room = board.room();
            let wanted = open && room > 0 && self.carry.is_empty();
            tokio::select! {
                biased;
                () = aborting(&mut self.signal) => return false,
                () = board.changed() => {}
                more = self.queue.recv_many(&mut incoming, room.min(BUDGET_BYTES)), if wanted => {
                    open = more;
                    let named = incoming.drain(..).map(|batch| board.name(batch));
                    self.carry.extend(named);
                }
            }
        }
    }

    fn give_out(&mut self) {
        let board = &self.context.board;
        while let Some(unit) = board.take_orphan() {
            let back = self.picker.give(board, unit, true);
            if !back.is_empty() {
                // The first is the oldest.
                back.into_iter().rev().for_each(|unit| board.put_back(unit));
                return;
            }
        }
        while board.room() > 0
            && let Some(unit) = self.carry.pop_front()
        {
            let back = self.picker.give(board, unit, false);
            if !back.is_empty() {
                back.into_iter()
                    .rev()
                    .for_each(|unit| self.carry.push_front(unit));
                return;
            }
        }
    }

    /// Closes the queue and counts everything that is here as lost in the shutdown.
    fn give_up(&mut self) {
        self.queue.close();
        let board = &self.context.board;
        self.ledger.delivered(self.id, board.take_delivered());
        self.carry.iter().for_each(|unit| unit.batch.lose());
        let carried: u64 = self
            .carry
            .drain(..)
            .map(|u| u.batch.frame_count() as u64)
            .sum();
        let lost = carried + board.give_up() + self.queue.abandon();
        self.ledger.dropped(self.id, OutputDrop::Shutdown, lost);
        if lost > 0 {
            error!(
                output = self.name(),
                frames = lost,
                "frames not acknowledged when the output stopped"
            );
        }
    }
}

impl Drop for MuxOutput {
    fn drop(&mut self) {
        // After `run` there is nothing left; one that panicked or was never run must not leave frames in flight.
        self.give_up();
    }
}

fn stream_options(options: &MuxOptions) -> StreamOptions {
    let random = || RandomState::new().build_hasher().finish();
    let types = match options.acknowledge {
        true => vec![ContentType::DNSTAP_ACK, ContentType::DNSTAP],
        false => vec![ContentType::DNSTAP],
    };
    StreamOptions {
        sender: SenderOptions {
            content_types: types,
            handshake_timeout: options.handshake_timeout.get(),
            write_timeout: options.ack_timeout.get(),
            finish_timeout: options.finish_timeout.get(),
            ..SenderOptions::default()
        },
        instance: u128::from(random()) << 64 | u128::from(random()),
        ack_timeout: options.ack_timeout.get(),
        finish_timeout: options.finish_timeout.get(),
    }
}

fn session_config(options: &MuxOptions) -> mux::Config {
    let keepalive = options.keepalive.get();
    mux::Config {
        accept: false,
        write_budget: WRITE_BUDGET,
        keepalive_interval: keepalive,
        keepalive_timeout: keepalive.unwrap_or(Duration::from_secs(10)),
        max_streams: options.streams.max(1) as usize,
        close_timeout: options
            .finish_timeout
            .get()
            .unwrap_or(Duration::from_secs(2)),
        ..mux::Config::default()
    }
}

/// The name and port of a place that has to be resolved.
fn name_in(entry: &Endpoint) -> Option<(String, u16)> {
    match entry {
        Endpoint::Tcp { host, port } if host.parse::<IpAddr>().is_err() => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}

/// Keeps a task for each address that an entry of the list stands for, until the output closes.
async fn members_of(context: Arc<Context>, entry: Endpoint, interval: Option<Duration>) {
    let mut tasks = JoinSet::new();
    let mut known: HashMap<Endpoint, watch::Sender<bool>> = HashMap::new();
    let mut closing = context.board.closing();
    let name = name_in(&entry);
    loop {
        match &name {
            None => join(&context, &mut known, &mut tasks, vec![entry.clone()]),
            Some((host, port)) => match resolve(host, *port).await {
                Ok(found) => {
                    context.health.clear(&format!("name {host}"));
                    join(&context, &mut known, &mut tasks, found);
                }
                Err(e) => {
                    context.health.note(&format!("name {host}"), e.to_string());
                    warn!(
                        output = context.output,
                        name = host,
                        "cannot resolve the name of workers, those known stay: {e}"
                    );
                }
            },
        }
        // Without an interval a name that gave nothing is still tried again.
        let again = match (interval, known.is_empty()) {
            (Some(interval), _) => Some(interval),
            (None, true) => Some(Duration::from_secs(30)),
            (None, false) => None,
        };
        let at = again
            .filter(|_| name.is_some())
            .map(|wait| Instant::now() + wait);
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => break,
            () = until(at) => {}
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

/// Starts a task for each new address, and retires those that are not among `now`.
fn join(
    context: &Arc<Context>,
    known: &mut HashMap<Endpoint, watch::Sender<bool>>,
    tasks: &mut JoinSet<()>,
    now: Vec<Endpoint>,
) {
    known.retain(|at, retire| {
        let stays = now.contains(at);
        if !stays {
            info!(output = context.output, worker = %at, "the name stands for this worker no more");
            retire.send_replace(true);
        }
        stays
    });
    for at in now {
        known.entry(at).or_insert_with_key(|at| {
            let (retire, retired) = watch::channel(false);
            tasks.spawn(Link::new(context.clone(), at.clone(), retired).run());
            retire
        });
    }
}

async fn resolve(host: &str, port: u16) -> std::io::Result<Vec<Endpoint>> {
    let found = tokio::net::lookup_host((host, port)).await?;
    let mut found: Vec<Endpoint> = found
        .map(|a| Endpoint::tcp(a.ip().to_string(), a.port()))
        .collect();
    found.sort_by_key(ToString::to_string);
    found.dedup();
    Ok(found)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits for the order to abort; for ever when nobody can give it any more.
async fn aborting(signal: &mut Signal) {
    signal.reached(Phase::Aborting).await;
    if signal.phase() != Phase::Aborting {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::queue::{Policy, QueueLimits};
    use crate::shutdown;

    fn output(options: &MuxOptions) -> MuxOutput {
        let (ledger, telemetry) = (Ledger::new(), Telemetry::new());
        let queue = Arc::new(Queue::new(QueueLimits {
            bytes: 1 << 20,
            batches: 1 << 10,
            policy: Policy::Block,
        }));
        let lane = Lane::queued("mux", ledger.clone(), queue.clone());
        let parts = MuxParts {
            meter: Meter::new(&telemetry, "mux"),
            lane: &lane,
            queue,
            ledger,
            telemetry,
            signal: shutdown::channel().1,
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 1),
        };
        MuxOutput::new(options, parts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_resolves_anew_begins_its_new_workers_and_retires_those_it_has_lost() {
        let output = output(&MuxOptions {
            workers: Vec::new(),
            ..MuxOptions::default()
        });
        let (mut known, mut tasks) = (HashMap::new(), JoinSet::new());
        // Nobody listens there; a retired one ends all the same.
        let at = |n: u16| Endpoint::unix(format!("/nonexistent/worker-{n}"));
        let context = &output.context;
        join(context, &mut known, &mut tasks, vec![at(1), at(2)]);
        assert_eq!((known.len(), tasks.len()), (2, 2));
        assert_eq!(
            context.health.lines().len(),
            2,
            "both are not connected yet"
        );
        join(context, &mut known, &mut tasks, vec![at(2), at(3)]);
        assert!(known.contains_key(&at(2)) && known.contains_key(&at(3)));
        assert_eq!(tasks.len(), 3);
        assert!(tasks.join_next().await.is_some(), "the first one ends");
        assert_eq!(
            context.health.lines().len(),
            2,
            "nobody asks for it any more"
        );
        context.board.close();
        while tasks.join_next().await.is_some() {}
    }
}
