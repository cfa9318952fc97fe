//! The state of one stream, in both directions.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::mux::frame::INITIAL_WINDOW;
use crate::mux::reason::StreamError;

/// Payload is copied together in pieces of this many octets, as long as it comes in shorter ones.
pub(super) const COPIED: usize = 16 * 1024;

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) local: bool,
    /// The peer has accepted it (opened here), or we have (opened there).
    pub(super) acked: bool,
    pub(super) send_credit: u32,
    /// Our end (FIN) is queued.
    pub(super) finished: bool,
    /// Our end has gone to the connection.
    pub(super) end_written: bool,
    /// The peer's end has come.
    pub(super) peer_finished: bool,
    /// Over at once, for this reason.
    pub(super) broken: Option<StreamError>,
    /// Somebody at this end holds it (or may yet accept it).
    pub(super) held: bool,
    /// Counted among open streams.
    pub(super) counted: bool,
    /// In the line of streams that wait for the write budget.
    pub(super) waiting: bool,
    /// It has the turn to write beyond those who wait.
    pub(super) turn: bool,
    /// Sweeps since nobody holds it.
    pub(super) age: u8,
    pub(super) window: u32,
    /// What the peer may still send.
    pub(super) credit: u32,
    pub(super) buffered: u32,
    /// Of `buffered`, what lies in read buffers.
    pub(super) lent: u32,
    chunks: VecDeque<Chunk>,
    tail: BytesMut,
}

#[derive(Debug)]
struct Chunk {
    octets: Bytes,
    lent: bool,
}

fn length(octets: &[u8]) -> u32 {
    u32::try_from(octets.len()).unwrap_or(u32::MAX)
}

impl Stream {
    pub(super) fn new(local: bool, window: u32) -> Self {
        Self {
            local,
            acked: false,
            send_credit: INITIAL_WINDOW,
            finished: false,
            end_written: false,
            peer_finished: false,
            broken: None,
            held: true,
            counted: true,
            waiting: false,
            turn: false,
            age: 0,
            window,
            credit: INITIAL_WINDOW,
            buffered: 0,
            lent: 0,
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
        }
    }

    /// What it takes of the session's receive cap: the copies that it holds and what the peer may send. Payload in read
    /// buffers is counted there.
    pub(super) fn promised(&self) -> u64 {
        let buffered = u64::from(self.buffered.saturating_sub(self.lent));
        let spare = (self.tail.capacity() - self.tail.len()) as u64;
        if self.counted {
            // Spare memory is for what the peer may send.
            (buffered + spare.max(u64::from(self.credit))).max(u64::from(INITIAL_WINDOW))
        } else {
            buffered + spare
        }
    }

    /// Whether neither direction can carry more.
    pub(super) const fn is_over(&self) -> bool {
        self.broken.is_some() || (self.end_written && self.peer_finished)
    }

    /// Takes payload that lies in a read buffer.
    pub(super) fn lend(&mut self, octets: Bytes) {
        self.buffered = self.buffered.saturating_add(length(&octets));
        self.lent = self.lent.saturating_add(length(&octets));
        self.seal();
        self.chunks.push_back(Chunk { octets, lent: true });
    }

    /// Takes a copy of payload.
    pub(super) fn copy(&mut self, octets: &[u8]) {
        self.buffered = self.buffered.saturating_add(length(octets));
        if octets.len() >= COPIED {
            self.seal();
            self.chunks.push_back(Chunk {
                octets: Bytes::copy_from_slice(octets),
                lent: false,
            });
            return;
        }
        if self.tail.len() + octets.len() > COPIED {
            self.seal();
        }
        if self.tail.capacity() - self.tail.len() < octets.len() {
            // Twice as much each time, but never more than may come.
            let more = self.tail.len().min(self.credit as usize).min(COPIED);
            let most = octets.len() + self.credit as usize;
            let more = octets.len().max(more).max(most.min(64));
            let mut longer = BytesMut::with_capacity(self.tail.len() + more);
            longer.extend_from_slice(&self.tail);
            self.tail = longer;
        }
        self.tail.extend_from_slice(octets);
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push_back(Chunk {
                octets: std::mem::take(&mut self.tail).freeze(),
                lent: false,
            });
        }
    }

    /// The next octets in order, at most `max`.
    pub(super) fn pop(&mut self, max: usize) -> Option<Bytes> {
        let octets = match self.chunks.front_mut() {
            Some(front) => {
                let octets = if front.octets.len() > max {
                    front.octets.split_to(max)
                } else {
                    std::mem::take(&mut front.octets)
                };
                if front.lent {
                    self.lent = self.lent.saturating_sub(length(&octets));
                }
                if front.octets.is_empty() {
                    self.chunks.pop_front();
                }
                octets
            }
            None if self.tail.is_empty() => return None,
            None if self.tail.len() > max => self.tail.split_to(max).freeze(),
            None => std::mem::take(&mut self.tail).freeze(),
        };
        self.buffered = self.buffered.saturating_sub(length(&octets));
        Some(octets)
    }

    /// Forgets what came and was not read.
    pub(super) fn forget(&mut self) {
        self.chunks = VecDeque::new();
        self.tail = BytesMut::new();
        self.buffered = 0;
        self.lent = 0;
    }

    /// Gives up memory that nothing lies in.
    pub(super) fn shrink(&mut self) {
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
        if self.tail.is_empty() {
            self.tail = BytesMut::new();
        }
    }

    /// The increment that is due: a quarter of the window or more has been read; `room` is what the session has left beyond
    /// the initial window of every stream.
    pub(super) fn grant_due(&self, room: u64) -> Option<u32> {
        let used = self.buffered.saturating_add(self.credit);
        let due = self.window.saturating_sub(used);
        let due = if due < self.window / 4 { 0 } else { due };
        let base = INITIAL_WINDOW.saturating_sub(used);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let grant = due.min(base.saturating_add(room));
        // Where the cap leaves the initial window only, a quarter of that.
        (grant >= (INITIAL_WINDOW / 4).min(self.window / 4) && grant > 0).then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_mebibytes_come_out_as_they_went_in() {
        let mut stream = Stream::new(true, u32::MAX);
        stream.credit = u32::MAX;
        let all: Vec<u8> = (0..16u32 << 20).map(|n| (n / 5 % 251) as u8).collect();
        let mut rest = &all[..];
        for length in [1usize, 70, 16_383, 16_384, 100_000, 9, 4_000]
            .iter()
            .cycle()
        {
            let (piece, after) = rest.split_at(rest.len().min(*length));
            match length % 3 {
                0 => stream.lend(Bytes::copy_from_slice(piece)),
                _ => stream.copy(piece),
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(stream.buffered, 16 << 20);
        let mut back = Vec::new();
        for max in [3usize, 5_000, usize::MAX].iter().cycle() {
            match stream.pop(*max) {
                Some(octets) => back.extend_from_slice(&octets),
                None => break,
            }
        }
        assert!(back == all);
        assert_eq!((stream.buffered, stream.lent), (0, 0));
    }

    #[test]
    fn copies_take_no_more_memory_than_they_hold_and_may_come() {
        let mut stream = Stream::new(true, INITIAL_WINDOW);
        for n in 0..INITIAL_WINDOW {
            stream.credit = INITIAL_WINDOW - n - 1;
            stream.copy(&[1]);
            assert!(stream.promised() <= u64::from(INITIAL_WINDOW));
        }
    }
}
