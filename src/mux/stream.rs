//! The state of one stream, in both directions.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::frame::INITIAL_WINDOW;
use super::reason::StreamError;

/// Pieces of payload shorter than this are copied together, so that they don't pin the buffer they were read into.
const COPIED: usize = 16 * 1024;

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
    chunks: VecDeque<Bytes>,
    tail: BytesMut,
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
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
        }
    }

    /// What it takes of the session's receive cap.
    pub(super) fn promised(&self) -> u64 {
        let held = u64::from(self.buffered);
        if self.counted {
            (held + u64::from(self.credit)).max(u64::from(INITIAL_WINDOW))
        } else {
            held
        }
    }

    /// Whether neither direction can carry more.
    pub(super) const fn is_over(&self) -> bool {
        self.broken.is_some() || (self.end_written && self.peer_finished)
    }

    /// Takes payload that the credit covers.
    pub(super) fn push(&mut self, payload: Bytes) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.buffered = self.buffered.saturating_add(length);
        if payload.len() < COPIED {
            self.tail.extend_from_slice(&payload);
        } else {
            if !self.tail.is_empty() {
                self.chunks.push_back(self.tail.split().freeze());
            }
            self.chunks.push_back(payload);
        }
    }

    /// The next octets in order, at most `max`.
    pub(super) fn pop(&mut self, max: usize) -> Option<Bytes> {
        let chunk = match self.chunks.front_mut() {
            Some(front) if front.len() > max => front.split_to(max),
            Some(_) => self.chunks.pop_front()?,
            None if self.tail.is_empty() => return None,
            None if self.tail.len() > max => self.tail.split_to(max).freeze(),
            None => std::mem::take(&mut self.tail).freeze(),
        };
        self.buffered = self
            .buffered
            .saturating_sub(u32::try_from(chunk.len()).unwrap_or(u32::MAX));
        Some(chunk)
    }

    /// Forgets what came and was not read.
    pub(super) fn forget(&mut self) {
        self.chunks = VecDeque::new();
        self.tail = BytesMut::new();
        self.buffered = 0;
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
