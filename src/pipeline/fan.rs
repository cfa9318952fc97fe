//! `Fan`: hands each batch of one connection to every lane, in order, and holds what a lane made to wait.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::Poll;

use crate::pipeline::batch::Batch;
use crate::pipeline::lane::Lane;

/// The lanes of one connection and what they still owe.
#[derive(Debug)]
pub struct Fan {
    lanes: Vec<Pending>,
    keeps_bytes: bool,
    backlog_bytes: usize,
}

#[derive(Debug)]
struct Pending {
    lane: Lane,
    /// Batches that wait for room, oldest first: the order of frames in a lane is the order of arrival.
    waiting: VecDeque<Batch>,
}

impl Fan {
    /// A fan over `lanes`.
    pub fn new(lanes: &[Lane]) -> Self {
        Self {
            lanes: lanes
                .iter()
                .map(|lane| Pending {
                    lane: lane.clone(),
                    waiting: VecDeque::new(),
                })
                .collect(),
            keeps_bytes: lanes.iter().any(Lane::keeps_bytes),
            backlog_bytes: 0,
        }
    }

    /// Whether any lane needs the bytes of a batch after the call; if not, use [`Fan::deliver_inline`].
    pub fn keeps_bytes(&self) -> bool {
        self.keeps_bytes
    }

    /// Settles `frames` on every lane, when none keeps bytes.
    pub fn deliver_inline(&self, frames: u64) {
        for p in &self.lanes {
            p.lane.deliver_inline(frames);
        }
    }

    /// Offers a batch to every lane. What must wait is kept here.
    pub fn push(&mut self, batch: &Batch) {
        for p in &mut self.lanes {
            let back = if p.waiting.is_empty() {
                p.lane.offer(batch.clone())
            } else {
                Some(batch.clone())
            };
            if let Some(batch) = back {
                self.backlog_bytes = self.backlog_bytes.saturating_add(batch.len_bytes());
                p.waiting.push_back(batch);
            }
        }
    }

    /// Offers what waits once more. `true`: nothing waits any longer.
    pub fn retry(&mut self) -> bool {
        let mut clear = true;
        for p in &mut self.lanes {
            while let Some(batch) = p.waiting.pop_front() {
                let len = batch.len_bytes();
                if let Some(batch) = p.lane.offer(batch) {
                    p.waiting.push_front(batch);
                    clear = false;
                    break;
                }
                self.backlog_bytes = self.backlog_bytes.saturating_sub(len);
            }
        }
        clear
    }

    /// Bytes that wait, counted once for each lane they wait for.
    pub fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Waits until any lane that something waits for may have room. Cancel-safe. Returns at once when nothing waits.
    pub async fn room(&self) {
        let mut rooms: Vec<_> = self
            .lanes
            .iter()
            .filter_map(|p| Some((p.lane.queue()?, p.waiting.front()?)))
            .map(|(queue, first)| Box::pin(queue.space(first.len_bytes())))
            .collect();
        if rooms.is_empty() {
            return;
        }
        poll_fn(|cx| {
            if rooms.iter_mut().any(|r| r.as_mut().poll(cx).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Gives up what waits, counted as lost in the shutdown.
    pub fn give_up(&mut self) {
        for p in &mut self.lanes {
            for batch in p.waiting.drain(..) {
                p.lane.give_up(&batch);
            }
        }
        self.backlog_bytes = 0;
    }
}

impl Drop for Fan {
    fn drop(&mut self) {
        // A connection task that ends early (a panic, an abort) must not leave frames in flight for ever.
        self.give_up();
    }
}
