//! The board: which batches are with which stream, and which wait for one.
//!
//! A batch that is given out is *waiting* at its stream until the stream's task takes it, and then *sent* until the worker has
//! acknowledged it. When a stream fails, both go to the *orphans*, in their order, and are given out again before anything
//! new. The bytes are those that came in, wherever a batch is: giving it out again copies nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge};
use tokio::sync::{Notify, watch};

use crate::outputs::mux::key;
use crate::pipeline::batch::Batch;
use crate::telemetry::{self, Telemetry};

/// Batches held at once. A worker remembers more of them (`pipeline::acks`), so that it knows each one that it may get again.
pub(super) const UNITS_MAX: usize = 2048;

/// A batch with its name.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) sequence: u64,
    pub(super) batch: Batch,
}

impl Unit {
    fn len(&self) -> usize {
        self.batch.len_bytes()
    }

    fn frames(&self) -> u64 {
        self.batch.frame_count() as u64
    }
}

/// A worker's name and what is counted of it.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) hash: u64,
    pub(super) up: Gauge,
    pub(super) round_trip: Gauge,
    unacked: Gauge,
    delivered: Counter,
    redelivered: Counter,
}

impl Worker {
    pub(super) fn new(output: &str, name: String, telemetry: &Telemetry) -> Self {
        let labels = [output, &name];
        Self {
            hash: key::hash(name.as_bytes()),
            up: telemetry.gauge(telemetry::WORKER_UP, &labels),
            round_trip: telemetry.gauge(telemetry::WORKER_ROUND_TRIP, &labels),
            unacked: telemetry.gauge(telemetry::WORKER_UNACKED_BYTES, &labels),
            delivered: telemetry.counter(telemetry::WORKER_DELIVERED, &labels),
            redelivered: telemetry.counter(telemetry::WORKER_REDELIVERED, &labels),
            name,
        }
    }
}

/// A live stream's number, never used again.
pub(super) type StreamKey = u64;

/// A live stream.
pub(super) struct Stream {
    pub(super) worker: Arc<Worker>,
    /// Which of the worker's streams it is, from 0.
    pub(super) slot: u32,
    waiting: VecDeque<Unit>,
    pub(super) waiting_bytes: usize,
    sent: VecDeque<Unit>,
    pub(super) sent_bytes: usize,
    /// Frames acknowledged, up to the front of `sent`.
    acknowledged: u64,
    wake: Arc<Notify>,
    /// It takes nothing new and ends.
    pub(super) leaving: bool,
}

#[derive(Default)]
struct State {
    streams: BTreeMap<StreamKey, Stream>,
    next_key: StreamKey,
    orphans: VecDeque<Unit>,
    bytes: usize,
    units: usize,
    sequence: u64,
    /// Changes with every stream that comes or goes.
    version: u64,
    delivered: u64,
}

/// What a stream does next.
pub(super) enum Next {
    /// Write this.
    Write(Unit),
    /// Wait to be woken.
    Wait,
    /// Stop, in good order.
    Stop,
}

/// Shared by the output and the tasks of its streams.
pub(super) struct Board {
    state: Mutex<State>,
    budget: usize,
    changed: Notify,
    closing: watch::Sender<bool>,
}

impl Board {
    /// An empty board that may hold so many bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            state: Mutex::default(),
            budget,
            changed: Notify::new(),
            closing: watch::Sender::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves a batch in two places: it is moved from one list to the other.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may be given out that could not be before, or is settled. For one waiter. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Bytes that may still be given out.
    pub(super) fn room(&self) -> usize {
        let state = self.state();
        if state.units >= UNITS_MAX {
            return 0;
        }
        match self.budget.saturating_sub(state.bytes) {
            // A batch larger than the whole budget goes when nothing else does.
            0 if state.units == 0 => 1,
            room => room,
        }
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.state().units == 0
    }

    /// Changes whenever a stream comes or goes.
    pub(super) fn version(&self) -> u64 {
        self.state().version
    }

    /// Looks at the streams that take batches.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&mut dyn Iterator<Item = (StreamKey, &Stream)>) -> T,
    ) -> T {
        let state = self.state();
        let mut live = state
            .streams
            .iter()
            .filter(|(_, s)| !s.leaving)
            .map(|(key, s)| (*key, s));
        look(&mut live)
    }

    /// A name for a batch.
    pub(super) fn name(&self, batch: Batch) -> Unit {
        let mut state = self.state();
        state.sequence += 1;
        Unit {
            sequence: state.sequence,
            batch,
        }
    }

    /// Frames settled since the last call.
    pub(super) fn take_delivered(&self) -> u64 {
        std::mem::take(&mut self.state().delivered)
    }

    /// The next batch that lost its stream; it is not held any more.
    pub(super) fn take_orphan(&self) -> Option<Unit> {
        let mut state = self.state();
        let unit = state.orphans.pop_front()?;
        state.bytes -= unit.len();
        state.units -= 1;
        Some(unit)
    }

    /// Puts back what [`take_orphan`](Self::take_orphan) gave.
    pub(super) fn put_back(&self, unit: Unit) {
        let mut state = self.state();
        state.bytes += unit.len();
        state.units += 1;
        state.orphans.push_front(unit);
    }

    /// Gives a batch to a stream. It comes back when the stream is no more.
    pub(super) fn give(&self, key: StreamKey, unit: Unit) -> Option<Unit> {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(&key).filter(|s| !s.leaving) else {
            return Some(unit);
        };
        let len = unit.len();
        stream.waiting_bytes += len;
        stream.worker.unacked.increment(len as f64);
        stream.waiting.push_back(unit);
        stream.wake.notify_one();
        state.bytes += len;
        state.units += 1;
        None
    }

    // ---- for the tasks of the streams

    /// A stream begins.
    pub(super) fn join(&self, worker: Arc<Worker>, slot: u32, wake: Arc<Notify>) -> StreamKey {
        let mut state = self.state();
        let key = state.next_key;
        state.next_key += 1;
        state.version += 1;
        let stream = Stream {
            worker,
            slot,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            acknowledged: 0,
            wake,
            leaving: false,
        };
        state.streams.insert(key, stream);
        self.changed.notify_one();
        key
    }

    /// What the stream does next. A batch counts as sent from now on.
    pub(super) fn next(&self, key: StreamKey) -> Next {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(&key) else {
            return Next::Stop;
        };
        match stream.waiting.pop_front() {
            Some(unit) => {
                stream.waiting_bytes -= unit.len();
                stream.sent_bytes += unit.len();
                stream.sent.push_back(unit.clone());
                Next::Write(unit)
            }
            None if stream.leaving || *self.closing.borrow() => Next::Stop,
            None => Next::Wait,
        }
    }

    /// The worker says that it has taken so many frames of the stream. Returns whether that settles a batch.
    pub(super) fn taken(&self, key: StreamKey, frames: u64) -> bool {
        self.settle(key, |stream, unit| {
            stream.acknowledged + unit.frames() <= frames
        })
    }

    /// Everything that was sent is written, on a stream without acknowledgement.
    pub(super) fn written(&self, key: StreamKey) {
        self.settle(key, |_, _| true);
    }

    fn settle(&self, key: StreamKey, is_done: impl Fn(&Stream, &Unit) -> bool) -> bool {
        let mut done = Vec::new();
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(&key) else {
            return false;
        };
        while let Some(unit) = stream.sent.pop_front() {
            if !is_done(stream, &unit) {
                stream.sent.push_front(unit);
                break;
            }
            stream.acknowledged += unit.frames();
            stream.sent_bytes -= unit.len();
            stream.worker.unacked.decrement(unit.len() as f64);
            stream.worker.delivered.increment(unit.frames());
            done.push(unit);
        }
        let bytes: usize = done.iter().map(Unit::len).sum();
        state.bytes -= bytes;
        state.units -= done.len();
        state.delivered += done.iter().map(Unit::frames).sum::<u64>();
        // Batches are dropped without the lock: the last one tells its own sender.
        drop(state);
        if !done.is_empty() {
            self.changed.notify_one();
        }
        !done.is_empty()
    }

    /// Whether something is sent and not acknowledged.
    pub(super) fn owes(&self, key: StreamKey) -> bool {
        let state = self.state();
        state.streams.get(&key).is_some_and(|s| !s.sent.is_empty())
    }

    /// The stream takes nothing new: what it has not sent goes to others.
    pub(super) fn leave(&self, key: StreamKey) {
        let mut state = self.state();
        state.version += 1;
        if let Some(stream) = state.streams.get_mut(&key) {
            stream.leaving = true;
            stream.worker.unacked.decrement(stream.waiting_bytes as f64);
            stream.waiting_bytes = 0;
            stream.wake.notify_one();
            let waiting = std::mem::take(&mut stream.waiting);
            state.orphans.extend(waiting);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// As [`leave`](Self::leave), for all streams of a worker.
    pub(super) fn retire(&self, worker: &Arc<Worker>) {
        let keys: Vec<StreamKey> = {
            let state = self.state();
            let of_worker = |s: &&Stream| Arc::ptr_eq(&s.worker, worker);
            let streams = state.streams.iter();
            streams
                .filter(|(_, s)| of_worker(s))
                .map(|(key, _)| *key)
                .collect()
        };
        keys.into_iter().for_each(|key| self.leave(key));
    }

    /// The stream is over. What it had and was not acknowledged goes to others; returns how many frames of that had been
    /// sent, so that they may arrive twice.
    pub(super) fn end(&self, key: StreamKey) -> u64 {
        let mut state = self.state();
        state.version += 1;
        let mut again = 0;
        if let Some(stream) = state.streams.remove(&key) {
            again = stream.sent.iter().map(Unit::frames).sum();
            stream.worker.redelivered.increment(again);
            let bytes = stream.waiting_bytes + stream.sent_bytes;
            stream.worker.unacked.decrement(bytes as f64);
            state.orphans.extend(stream.sent);
            state.orphans.extend(stream.waiting);
        }
        drop(state);
        self.changed.notify_one();
        again
    }

    // ---- the end

    /// Streams with nothing to write stop from now on, and no new ones begin.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
        let state = self.state();
        state.streams.values().for_each(|s| s.wake.notify_one());
    }

    /// Becomes true with [`close`](Self::close).
    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Takes everything that is held, as lost.
    pub(super) fn give_up(&self) -> u64 {
        let mut state = self.state();
        let mut lost: Vec<Unit> = state.orphans.drain(..).collect();
        for stream in state.streams.values_mut() {
            let bytes = stream.waiting_bytes + stream.sent_bytes;
            stream.worker.unacked.decrement(bytes as f64);
            (stream.waiting_bytes, stream.sent_bytes) = (0, 0);
            lost.extend(stream.sent.drain(..));
            lost.extend(stream.waiting.drain(..));
        }
        (state.bytes, state.units) = (0, 0);
        drop(state);
        lost.iter().for_each(|unit| unit.batch.lose());
        lost.iter().map(Unit::frames).sum()
    }
}
