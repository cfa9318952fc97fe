//! The life of streams: opened, accepted, finished, reset, let go.

use crate::mux::frame::{Flags, Header, INITIAL_WINDOW, Kind};
use crate::mux::reason::{OpenError, StreamError};

use super::stream::Stream;
use super::{Core, Event};

impl Core {
    pub(super) fn insert(&mut self, id: u32, stream: Stream) {
        if self.local + self.remote == 1 {
            self.events.push_back(Event::Busy);
        }
        self.promised += stream.promised();
        self.streams.insert(id, stream);
    }

    /// Takes a stream that is over out of the counts, and away when nobody holds it.
    pub(super) fn settle(&mut self, id: u32) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        if !stream.is_over() {
            return;
        }
        let (local, acked, held) = (stream.local, stream.acked, stream.held);
        if self.on_stream(id, |stream| std::mem::take(&mut stream.counted)) == Some(true) {
            if local {
                self.local = self.local.saturating_sub(1);
                if !acked {
                    self.unaccepted = self.unaccepted.saturating_sub(1);
                }
            } else {
                self.remote = self.remote.saturating_sub(1);
            }
            self.events.push_back(Event::CanOpen);
            if self.local + self.remote == 0 {
                self.events.push_back(Event::Idle);
            }
        }
        if !held {
            self.on_stream(id, Stream::forget);
            self.streams.remove(&id);
        }
    }

    /// Ends a stream that nobody holds and that the peer goes on with; what was written before is before it on the wire.
    pub(super) fn abandon(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.broken.get_or_insert(StreamError::Closed);
            self.out
                .in_order(Header::new(Kind::WindowUpdate, Flags::RST, id, 0));
            self.settle(id);
        }
    }

    /// Opens a stream; the peer hears of it at once. `from_reserve` uses up one of those held back.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(&mut self, from_reserve: bool) -> Result<u32, OpenError> {
        if let Some(reason) = &self.closed {
            return Err(OpenError::Session(reason.clone()));
        }
        if self.said_go_away || self.peer_gone.is_some() {
            return Err(OpenError::GoneAway);
        }
        let reserved = self.reserved - usize::from(from_reserve && self.reserved > 0);
        if self.local + reserved >= self.config.max_streams {
            return Err(OpenError::Quota);
        }
        if self.unaccepted >= self.config.accept_backlog.max(1) {
            return Err(OpenError::Backlog);
        }
        if self.room() < u64::from(INITIAL_WINDOW) {
            return Err(OpenError::ReceiveCap);
        }
        let id = self.next_id;
        self.next_id = id.checked_add(2).ok_or(OpenError::Exhausted)?;
        self.reserved = reserved;
        self.local += 1;
        self.unaccepted += 1;
        self.insert(id, Stream::new(true, self.config.window()));
        let increment = self.grant(id);
        self.out
            .control(Header::new(Kind::WindowUpdate, Flags::SYN, id, increment));
        Ok(id)
    }

    /// The longest waiting stream of the peer; the peer is told that it is accepted.
    pub fn accept(&mut self) -> Option<u32> {
        let id = self.backlog.pop_front()?;
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.acked = true;
        }
        if self.closed.is_none() {
            let increment = self.grant(id);
            self.out
                .control(Header::new(Kind::WindowUpdate, Flags::ACK, id, increment));
        }
        Some(id)
    }

    /// Ends this direction of a stream, after what was written.
    pub fn finish(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.finished
            && stream.broken.is_none()
            && self.closed.is_none()
        {
            stream.finished = true;
            self.out.end(id, Header::new(Kind::Data, Flags::FIN, id, 0));
            self.events.push_back(Event::Writable(id));
        }
    }

    /// Ends a stream in both directions at once. Peers of other make read no code.
    pub fn reset(&mut self, id: u32, code: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let over = stream.is_over();
        stream.broken = Some(StreamError::Closed);
        self.on_stream(id, Stream::forget);
        if !over && self.closed.is_none() {
            self.out
                .control(Header::new(Kind::WindowUpdate, Flags::RST, id, code));
        }
        self.events.push_back(Event::Readable(id));
        self.events.push_back(Event::Writable(id));
        self.settle(id);
    }

    /// Nobody holds the stream any more: what was written goes out and the stream ends; what comes is dropped, and a peer
    /// that sends on is reset.
    pub fn release(&mut self, id: u32) {
        self.finish(id);
        let closed = self.closed.is_some();
        self.on_stream(id, |stream| {
            stream.held = false;
            stream.forget();
            if closed {
                stream.broken.get_or_insert(StreamError::Closed);
            }
        });
        self.settle(id);
    }

    /// Resets streams that nobody holds and that the peer has not ended for two sweeps, and gives up memory that is not
    /// used.
    pub fn sweep(&mut self) {
        let mut old = Vec::new();
        for (id, stream) in &mut self.streams {
            stream.shrink();
            if !stream.held {
                stream.age = stream.age.saturating_add(1);
                if stream.age > 2 {
                    old.push(*id);
                }
            }
        }
        for id in old {
            self.abandon(id);
        }
        self.streams.shrink_to_fit();
        self.backlog.shrink_to_fit();
        self.waiting.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Sets the receive window of one stream, in octets. What was granted stays granted.
    pub fn set_receive_window(&mut self, id: u32, window: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.window = window.max(1);
            self.grant_if_due(id);
        }
    }
}
