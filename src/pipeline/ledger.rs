//! The ledger: what became of every frame.
//!
//! It is double-entry book-keeping. A batch that has been through the stages is posted once, as received, with what the
//! listener and the stages dropped or filtered; what remains goes on the account *in flight* of every output. When an output
//! is done with frames it settles them: out of *in flight*, into *delivered*, *dropped* or *filtered*. A posting changes all
//! of its accounts under one lock, so a snapshot taken at any moment closes:
//!
//! `received = dropped before + filtered before + delivered + dropped + filtered + in flight`, for each output.
//!
//! The sum is never used to compute one of its terms; [`Snapshot::closes`] compares counts that were made at different
//! places. The lock is taken once a batch (some 20 ns when nobody else has it), never per frame.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::{DropSlot, ListenerId, OutputId};

/// Why an output did not deliver a frame. A closed set: these are label values of `tapflow_frames_dropped_total`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputDrop {
    /// The queue was full and the policy is to drop (`drop_newest`, `drop_oldest`).
    QueueFull,
    /// Still queued when the shutdown deadline passed.
    Shutdown,
    /// The place written to failed, and what was written cannot be trusted or repeated.
    WriteError,
    /// The frame cannot be written in this output's format.
    Unencodable,
    /// The frame is larger than the place takes.
    TooLarge,
}

impl OutputDrop {
    /// Every reason, in the order of their accounts.
    pub const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::Shutdown,
        Self::WriteError,
        Self::Unencodable,
        Self::TooLarge,
    ];

    /// The name in the ledger and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Shutdown => "shutdown",
            Self::WriteError => "write_error",
            Self::Unencodable => "unencodable",
            Self::TooLarge => "too_large",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// What a batch was when it left the stages. `received` must be `kept + filtered + all dropped`.
#[derive(Default, Debug, Clone)]
pub struct Arrival {
    /// Frames that came in.
    pub received: u64,
    /// Their bytes on the wire, length prefixes included, as they came (before decompression).
    pub bytes: u64,
    /// Frames that a filter or sampling stage took out.
    pub filtered: u64,
    /// Frames dropped, by place and reason.
    pub dropped: Vec<(DropSlot, u64)>,
    /// Frames that go on to every output.
    pub kept: u64,
}

#[derive(Debug)]
struct ListenerBook {
    name: Arc<str>,
    frames: u64,
    bytes: u64,
}

#[derive(Debug)]
struct OutputBook {
    name: Arc<str>,
    delivered: u64,
    dropped: [u64; OutputDrop::ALL.len()],
    filtered: u64,
    in_flight: u64,
}

#[derive(Debug)]
struct DropBook {
    at: Arc<str>,
    reason: &'static str,
    frames: u64,
}

#[derive(Default, Debug)]
struct Books {
    received: u64,
    filtered: u64,
    listeners: Vec<ListenerBook>,
    drops: Vec<DropBook>,
    outputs: Vec<OutputBook>,
}

/// The shared ledger. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub struct Ledger(Arc<Mutex<Books>>);

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic while the lock was held cannot leave half a posting: postings only add integers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an account for a listener.
    pub fn register_listener(&self, name: &str) -> ListenerId {
        let mut books = self.books();
        books.listeners.push(ListenerBook {
            name: name.into(),
            frames: 0,
            bytes: 0,
        });
        ListenerId(books.listeners.len() - 1)
    }

    /// Opens an account for an output. Outputs register before the first frame arrives.
    pub fn register_output(&self, name: &str) -> OutputId {
        let mut books = self.books();
        books.outputs.push(OutputBook {
            name: name.into(),
            delivered: 0,
            dropped: Default::default(),
            filtered: 0,
            in_flight: 0,
        });
        OutputId(books.outputs.len() - 1)
    }

    /// Opens an account for drops at `at` for `reason`, or gives the one that exists.
    pub fn register_drop(&self, at: &str, reason: &'static str) -> DropSlot {
        let mut books = self.books();
        if let Some(i) = books
            .drops
            .iter()
            .position(|d| &*d.at == at && d.reason == reason)
        {
            return DropSlot(i);
        }
        books.drops.push(DropBook {
            at: at.into(),
            reason,
            frames: 0,
        });
        DropSlot(books.drops.len() - 1)
    }

    /// Posts one batch: received, dropped and filtered on the way, and in flight to every output.
    pub fn arrive(&self, listener: ListenerId, arrival: &Arrival) {
        debug_assert_eq!(
            arrival.received,
            arrival.kept + arrival.filtered + arrival.dropped.iter().map(|d| d.1).sum::<u64>(),
            "a batch that does not add up"
        );
        let mut books = self.books();
        books.received += arrival.received;
        books.filtered += arrival.filtered;
        if let Some(l) = books.listeners.get_mut(listener.0) {
            l.frames += arrival.received;
            l.bytes += arrival.bytes;
        }
        for (slot, n) in &arrival.dropped {
            if let Some(d) = books.drops.get_mut(slot.0) {
                d.frames += n;
            }
        }
        for o in &mut books.outputs {
            o.in_flight += arrival.kept;
        }
    }

    fn settle(
        &self,
        output: OutputId,
        frames: u64,
        into: impl FnOnce(&mut OutputBook) -> &mut u64,
    ) {
        if frames == 0 {
            return;
        }
        let mut books = self.books();
        if let Some(o) = books.outputs.get_mut(output.0) {
            debug_assert!(
                o.in_flight >= frames,
                "output {} settles {frames} of {} in flight",
                o.name,
                o.in_flight
            );
            // Wrapping keeps the fault visible as a ledger that does not close, instead of hiding it.
            o.in_flight = o.in_flight.wrapping_sub(frames);
            *into(o) += frames;
        }
    }

    /// `frames` in flight have been delivered.
    pub fn delivered(&self, output: OutputId, frames: u64) {
        self.settle(output, frames, |o| &mut o.delivered);
    }

    /// `frames` in flight have been dropped by the output.
    pub fn dropped(&self, output: OutputId, reason: OutputDrop, frames: u64) {
        self.settle(output, frames, |o| &mut o.dropped[reason.index()]);
    }

    /// `frames` in flight were not for this output.
    pub fn filtered(&self, output: OutputId, frames: u64) {
        self.settle(output, frames, |o| &mut o.filtered);
    }

    /// All accounts at one moment.
    pub fn snapshot(&self) -> Snapshot {
        let books = self.books();
        Snapshot {
            received: books.received,
            filtered: books.filtered,
            listeners: books
                .listeners
                .iter()
                .map(|l| (l.name.clone(), l.frames, l.bytes))
                .collect(),
            dropped: books
                .drops
                .iter()
                .map(|d| (d.at.clone(), d.reason, d.frames))
                .collect(),
            outputs: books
                .outputs
                .iter()
                .map(|o| OutputSnapshot {
                    name: o.name.clone(),
                    delivered: o.delivered,
                    dropped: OutputDrop::ALL.map(|r| (r, o.dropped[r.index()])),
                    filtered: o.filtered,
                    in_flight: o.in_flight,
                })
                .collect(),
        }
    }
}

/// One output's accounts at one moment, in frames.
#[derive(Clone, Debug)]
pub struct OutputSnapshot {
    /// The output's name.
    pub name: Arc<str>,
    /// Frames written.
    pub delivered: u64,
    /// Frames not written, by reason, every reason listed.
    pub dropped: [(OutputDrop, u64); OutputDrop::ALL.len()],
    /// Frames that were not for this output.
    pub filtered: u64,
    /// Frames on the way.
    pub in_flight: u64,
}

impl OutputSnapshot {
    /// Frames not written, for whatever reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|d| d.1).sum()
    }
}

/// The whole ledger at one moment, in frames.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Frames that came in over all listeners.
    pub received: u64,
    /// Frames that stages filtered out, before the outputs.
    pub filtered: u64,
    /// Name, frames, bytes of each listener.
    pub listeners: Vec<(Arc<str>, u64, u64)>,
    /// Place, reason and frames of each drop before the outputs; zero ones too.
    pub dropped: Vec<(Arc<str>, &'static str, u64)>,
    /// Each output.
    pub outputs: Vec<OutputSnapshot>,
}

impl Snapshot {
    /// Frames dropped before the outputs.
    pub fn dropped_before(&self) -> u64 {
        self.dropped.iter().map(|d| d.2).sum()
    }

    /// Whether every frame is accounted for, for each output and each listener.
    pub fn closes(&self) -> bool {
        let before = self.dropped_before() + self.filtered;
        let listeners: u64 = self.listeners.iter().map(|l| l.1).sum();
        listeners == self.received
            && self.outputs.iter().all(|o| {
                let after = o
                    .delivered
                    .wrapping_add(o.dropped_total())
                    .wrapping_add(o.filtered)
                    .wrapping_add(o.in_flight);
                self.received == before.wrapping_add(after)
            })
    }

    /// Frames that came in and were neither delivered everywhere nor filtered on purpose.
    pub fn lost(&self) -> u64 {
        self.dropped_before()
            + self
                .outputs
                .iter()
                .map(OutputSnapshot::dropped_total)
                .sum::<u64>()
    }

    /// The JSON document of `GET /ledger`. Drops of zero are left out.
    pub fn to_json(&self) -> serde_json::Value {
        let before: BTreeMap<String, u64> = self
            .dropped
            .iter()
            .filter(|d| d.2 > 0)
            .map(|(at, reason, n)| (format!("{at}/{reason}"), *n))
            .collect();
        let outputs: Vec<serde_json::Value> = self
            .outputs
            .iter()
            .map(|o| {
                let dropped: BTreeMap<&str, u64> = o
                    .dropped
                    .iter()
                    .filter(|d| d.1 > 0)
                    .map(|(r, n)| (r.as_str(), *n))
                    .collect();
                serde_json::json!({
                    "name": &*o.name,
                    "delivered": o.delivered,
                    "dropped": dropped,
                    "filtered": o.filtered,
                    "in_flight": o.in_flight,
                })
            })
            .collect();
        serde_json::json!({
            "received": self.received,
            "dropped": before,
            "filtered": self.filtered,
            "outputs": outputs,
            "closes": self.closes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(kept: u64, filtered: u64, dropped: Vec<(DropSlot, u64)>) -> Arrival {
        let received = kept + filtered + dropped.iter().map(|d| d.1).sum::<u64>();
        Arrival {
            received,
            bytes: received * 10,
            filtered,
            dropped,
            kept,
        }
    }

    #[test]
    fn closes_at_every_step_of_a_frames_life() {
        let ledger = Ledger::new();
        let l = ledger.register_listener("unix");
        let a = ledger.register_output("a");
        let b = ledger.register_output("b");
        let bad = ledger.register_drop("stage:decode", "malformed");
        assert!(ledger.snapshot().closes());
        ledger.arrive(l, &arrival(7, 2, vec![(bad, 1)]));
        assert!(ledger.snapshot().closes());
        ledger.delivered(a, 5);
        ledger.dropped(a, OutputDrop::QueueFull, 2);
        ledger.filtered(b, 1);
        let s = ledger.snapshot();
        assert!(s.closes());
        assert_eq!((s.received, s.dropped_before(), s.filtered), (10, 1, 2));
        assert_eq!((s.outputs[0].in_flight, s.outputs[1].in_flight), (0, 6));
        assert_eq!(s.lost(), 3);
    }

    #[test]
    fn does_not_close_when_an_output_counts_a_frame_that_never_came() {
        let ledger = Ledger::new();
        let l = ledger.register_listener("unix");
        let a = ledger.register_output("a");
        ledger.arrive(l, &arrival(3, 0, vec![]));
        ledger.books().outputs[a.0].delivered += 1;
        assert!(!ledger.snapshot().closes());
    }

    #[test]
    fn the_json_document_has_the_fields_that_the_issue_names() {
        let ledger = Ledger::new();
        let l = ledger.register_listener("unix");
        ledger.register_output("files");
        let slot = ledger.register_drop("listener:unix", "oversized");
        ledger.arrive(l, &arrival(1, 0, vec![(slot, 2)]));
        let want = serde_json::json!({
            "received": 3, "dropped": {"listener:unix/oversized": 2}, "filtered": 0, "closes": true,
            "outputs": [{"name": "files", "delivered": 0, "dropped": {}, "filtered": 0, "in_flight": 1}],
        });
        assert_eq!(ledger.snapshot().to_json(), want);
    }

    #[test]
    fn postings_from_many_threads_close_whenever_one_looks() {
        let ledger = Ledger::new();
        let l = ledger.register_listener("unix");
        let o = ledger.register_output("o");
        std::thread::scope(|s| {
            for _ in 0..4 {
                let ledger = ledger.clone();
                s.spawn(move || {
                    for n in 1..500 {
                        ledger.arrive(l, &arrival(n % 7, 0, vec![]));
                        ledger.delivered(o, n % 7);
                    }
                });
            }
            for _ in 0..500 {
                assert!(ledger.snapshot().closes());
            }
        });
        assert_eq!(ledger.snapshot().outputs[0].in_flight, 0);
    }
}
