//! The bounded queue in front of each output, with a named policy for when it is full.
//!
//! It is bounded in bytes and in batches, whichever is reached first; a batch larger than the whole byte limit is taken when
//! the queue is empty, so that it cannot get stuck. Senders are the connections, the one receiver is the output's driver.
//! Everything is per batch: one lock, no allocation.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::pipeline::batch::Batch;

/// What happens to a batch that finds the queue full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The connection waits: senders feel backpressure and nothing is lost here.
    Block,
    /// The arriving batch is dropped and counted.
    DropNewest,
    /// The oldest queued batches are dropped and counted until the new one fits.
    DropOldest,
}

/// What [`Queue::try_push`] did.
#[derive(Debug)]
pub enum Push {
    /// The batch is queued.
    Queued,
    /// The batch is queued; so many frames of older batches were dropped for it.
    Evicted(u64),
    /// The queue is full and the policy is to drop: the batch comes back.
    Refused(Batch),
    /// The queue is full and the policy is to wait: the batch comes back, wait for [`Queue::space`].
    Full(Batch),
    /// The queue is closed: the batch comes back.
    Closed(Batch),
}

/// Limits of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Bytes on the wire of all queued batches.
    pub bytes: usize,
    /// Queued batches.
    pub batches: usize,
    /// What to do when either is reached.
    pub policy: Policy,
}

#[derive(Default, Debug)]
struct State {
    batches: VecDeque<Batch>,
    bytes: usize,
    closed: bool,
}

/// A bounded queue of batches: many senders, one receiver.
#[derive(Debug)]
pub struct Queue {
    limits: QueueLimits,
    state: Mutex<State>,
    items: Notify,
    space: Notify,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            items: Notify::new(),
            space: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `batch` at the end, or does what the policy says.
    pub fn try_push(&self, batch: Batch) -> Push {
        let mut evicted = 0;
        {
            let mut state = self.state();
            if state.closed {
                return Push::Closed(batch);
            }
            while !self.fits(&state, batch.len_bytes()) {
                match self.limits.policy {
                    Policy::Block => return Push::Full(batch),
                    Policy::DropNewest => return Push::Refused(batch),
                    Policy::DropOldest => match state.batches.pop_front() {
                        Some(old) => {
                            state.bytes -= old.len_bytes();
                            evicted += old.frame_count() as u64;
                        }
                        None => break,
                    },
                }
            }
            state.bytes += batch.len_bytes();
            state.batches.push_back(batch);
        }
        self.items.notify_one();
        if evicted > 0 {
            Push::Evicted(evicted)
        } else {
            Push::Queued
        }
    }

    fn fits(&self, state: &State, len: usize) -> bool {
        state.batches.is_empty()
            || (state.bytes.saturating_add(len) <= self.limits.bytes
                && state.batches.len() < self.limits.batches)
    }

    /// Waits until the receiver has made room (or the queue is closed). A hint: try again and be ready to wait again.
    pub async fn space(&self, len: usize) {
        loop {
            let room = self.space.notified();
            {
                let state = self.state();
                if state.closed || self.fits(&state, len) {
                    return;
                }
            }
            room.await;
        }
    }

    /// Takes everything that is queued, up to `max_bytes` (but one batch at least), into `into`; waits while there is
    /// nothing. `false`: the queue is closed and empty. Cancel-safe.
    pub async fn recv_many(&self, into: &mut Vec<Batch>, max_bytes: usize) -> bool {
        loop {
            let more = self.items.notified();
            {
                let mut state = self.state();
                let mut taken = 0;
                while let Some(len) = state.batches.front().map(Batch::len_bytes) {
                    if taken > 0 && taken + len > max_bytes {
                        break;
                    }
                    taken += len;
                    state.bytes -= len;
                    into.extend(state.batches.pop_front());
                }
                if !into.is_empty() {
                    drop(state);
                    self.space.notify_waiters();
                    return true;
                }
                if state.closed {
                    return false;
                }
            }
            more.await;
        }
    }

    /// No more batches are taken; what is queued can still be received. Waiting senders get their batch back.
    pub fn close(&self) {
        self.state().closed = true;
        self.items.notify_one();
        self.space.notify_waiters();
    }

    /// Takes out what is queued, as lost, and returns its number of frames; with [`Queue::close`] this ends the receiver.
    pub fn abandon(&self) -> u64 {
        let mut state = self.state();
        let batches = std::mem::take(&mut state.batches);
        state.bytes = 0;
        drop(state);
        batches.iter().for_each(Batch::lose);
        let frames = batches.iter().map(|b| b.frame_count() as u64).sum();
        self.space.notify_waiters();
        frames
    }

    /// Queued batches and their bytes now.
    pub fn depth(&self) -> (usize, usize) {
        let state = self.state();
        (state.batches.len(), state.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use bytes::Bytes;

    use super::*;
    use crate::ids::ConnId;
    use crate::pipeline::batch::Origin;

    fn batch(frames: usize) -> Batch {
        let origin = Arc::new(Origin {
            conn: ConnId::next(),
            listener: "t".into(),
            peer: "p".into(),
        });
        let bytes: Vec<u8> = [0, 0, 0, 1, 7].repeat(frames);
        Batch::new(origin, SystemTime::UNIX_EPOCH, Bytes::from(bytes), frames)
    }

    fn queue(bytes: usize, batches: usize, policy: Policy) -> Queue {
        Queue::new(QueueLimits {
            bytes,
            batches,
            policy,
        })
    }

    #[tokio::test]
    async fn the_policy_decides_what_a_full_queue_does() {
        for (policy, limit_bytes, limit_batches) in [
            (Policy::Block, 10, 100),
            (Policy::DropNewest, 10, 100),
            (Policy::DropOldest, 10, 100),
            (Policy::Block, 1000, 2),
            (Policy::DropNewest, 1000, 2),
            (Policy::DropOldest, 1000, 2),
        ] {
            let q = queue(limit_bytes, limit_batches, policy);
            assert!(matches!(q.try_push(batch(1)), Push::Queued));
            assert!(matches!(q.try_push(batch(1)), Push::Queued));
            let third = q.try_push(batch(1));
            match policy {
                Policy::Block => assert!(matches!(third, Push::Full(_))),
                Policy::DropNewest => assert!(matches!(third, Push::Refused(_))),
                Policy::DropOldest => assert!(matches!(third, Push::Evicted(1))),
            }
            assert_eq!(q.depth(), (2, 10));
        }
    }

    #[tokio::test]
    async fn a_batch_larger_than_the_queue_is_taken_when_the_queue_is_empty() {
        for policy in [Policy::Block, Policy::DropNewest, Policy::DropOldest] {
            let q = queue(10, 4, policy);
            assert!(matches!(q.try_push(batch(50)), Push::Queued));
            let mut got = Vec::new();
            assert!(q.recv_many(&mut got, 10).await);
            assert_eq!(got[0].frame_count(), 50);
        }
    }

    #[tokio::test]
    async fn a_waiting_sender_gets_room_when_the_receiver_takes_batches() {
        let q = Arc::new(queue(5, 10, Policy::Block));
        assert!(matches!(q.try_push(batch(1)), Push::Queued));
        let waiter = tokio::spawn({
            let q = q.clone();
            async move {
                let mut b = batch(1);
                loop {
                    match q.try_push(b) {
                        Push::Full(back) => b = back,
                        other => return matches!(other, Push::Queued),
                    }
                    q.space(5).await;
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 2 {
            let mut more = Vec::new();
            assert!(q.recv_many(&mut more, 100).await);
            got.append(&mut more);
        }
        assert!(waiter.await.unwrap());
    }

    #[tokio::test]
    async fn after_close_the_rest_is_received_and_then_the_end() {
        let q = queue(100, 10, Policy::Block);
        q.try_push(batch(2));
        q.close();
        assert!(matches!(q.try_push(batch(1)), Push::Closed(_)));
        let mut got = Vec::new();
        assert!(q.recv_many(&mut got, 100).await);
        got.clear();
        assert!(!q.recv_many(&mut got, 100).await);
    }

    #[tokio::test]
    async fn abandon_tells_how_many_frames_it_gave_up() {
        let q = queue(100, 10, Policy::Block);
        q.try_push(batch(2));
        q.try_push(batch(3));
        q.close();
        assert_eq!(q.abandon(), 5);
        assert!(!q.recv_many(&mut Vec::new(), 100).await);
    }
}
