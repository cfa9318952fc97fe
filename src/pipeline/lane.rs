//! A lane: one target of the fan-out, with the account it settles on.
//!
//! An output that needs its batches later has a queue. One that is done with a frame as soon as it has seen it (`null`) is
//! *inline*: it needs no queue and no reference to the bytes, so a connection whose lanes are all inline reads into the same
//! buffer for ever.

use std::sync::Arc;

use crate::ids::OutputId;
use crate::pipeline::batch::Batch;
use crate::pipeline::health::Health;
use crate::pipeline::ledger::{Ledger, OutputDrop};
use crate::pipeline::queue::{Push, Queue};

/// One fan-out target. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The output's account.
    pub id: OutputId,
    /// The output's name.
    pub name: Arc<str>,
    ledger: Ledger,
    queue: Option<Arc<Queue>>,
    health: Health,
}

impl Lane {
    /// A lane that ends in `queue`.
    pub fn queued(name: &str, ledger: Ledger, queue: Arc<Queue>) -> Self {
        let id = ledger.register_output(name);
        Self {
            id,
            name: name.into(),
            ledger,
            queue: Some(queue),
            health: Health::default(),
        }
    }

    /// A lane that delivers at once and keeps nothing.
    pub fn inline(name: &str, ledger: Ledger) -> Self {
        let id = ledger.register_output(name);
        Self {
            id,
            name: name.into(),
            ledger,
            queue: None,
            health: Health::default(),
        }
    }

    /// Whether this lane needs the bytes after the call.
    pub fn keeps_bytes(&self) -> bool {
        self.queue.is_some()
    }

    /// What keeps the output from its work.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The queue, unless the lane is inline.
    pub fn queue(&self) -> Option<&Arc<Queue>> {
        self.queue.as_ref()
    }

    /// Settles `frames` on an inline lane.
    pub fn deliver_inline(&self, frames: u64) {
        if self.queue.is_none() {
            self.ledger.delivered(self.id, frames);
        }
    }

    /// Offers a batch whose frames are in flight on this lane's account. Comes back when the lane wants the sender to wait.
    pub fn offer(&self, batch: Batch) -> Option<Batch> {
        let Some(queue) = &self.queue else {
            self.ledger.delivered(self.id, batch.frame_count() as u64);
            return None;
        };
        match queue.try_push(batch) {
            Push::Queued => None,
            Push::Evicted(frames) => {
                self.ledger.dropped(self.id, OutputDrop::QueueFull, frames);
                None
            }
            Push::Refused(batch) => {
                self.ledger
                    .dropped(self.id, OutputDrop::QueueFull, batch.frame_count() as u64);
                None
            }
            Push::Closed(batch) => {
                batch.lose();
                self.ledger
                    .dropped(self.id, OutputDrop::Shutdown, batch.frame_count() as u64);
                None
            }
            Push::Full(batch) => Some(batch),
        }
    }

    /// Gives a batch up because the process stops.
    pub fn give_up(&self, batch: &Batch) {
        batch.lose();
        self.ledger
            .dropped(self.id, OutputDrop::Shutdown, batch.frame_count() as u64);
    }
}
