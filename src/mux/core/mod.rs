//! The state of a session, without input, output or clock: octets and calls in, [`Event`]s and [`Batch`]es out.
//!
//! A peer cannot make it hold more than its configuration allows: payload is bounded by what was granted, grants by the
//! receive cap, streams by the quota, streams that wait by the backlog, and answers by what the peer leaves unread.

mod flow;
mod incoming;
mod stream;
mod streams;

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::buffer::Pinned;
use super::config::Config;
use super::frame::{Flags, Header, INITIAL_WINDOW, Kind};
use super::outgoing::{Batch, Outgoing};
use super::reason::CloseReason;
use stream::Stream;

/// The most that a stream writes in one turn, in octets.
const TURN: usize = 64 * 1024;
/// Control frames that may wait for a peer that does not read, in octets.
const CONTROL_CAP: usize = 1024 * 1024;

/// Which end of the connection this is: it decides about stream identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd identifiers.
    Client,
    /// Opens streams with even identifiers.
    Server,
}

/// Something that somebody may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A stream waits to be accepted.
    Incoming,
    /// A stream has octets, its end or an error to read.
    Readable(u32),
    /// A stream may have room to write, or an error.
    Writable(u32),
    /// A stream may be opened where it was refused before.
    CanOpen,
    /// The answer to a ping with this value.
    Pong(u32),
    /// The last stream is over.
    Idle,
    /// There is a stream again.
    Busy,
    /// The session is over.
    Closed,
}

/// What reading a stream gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The next octets.
    Octets(Bytes),
    /// The peer sends no more.
    End,
    /// Nothing yet.
    Nothing,
}

/// Counts of a session at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Open streams that were opened here.
    pub local_streams: usize,
    /// Open streams of the peer.
    pub remote_streams: usize,
    /// Streams held back by reservations.
    pub reserved: usize,
    /// Streams of the peer that nobody has accepted yet.
    pub backlog: usize,
    /// Streams of the peer that were refused.
    pub refused: u64,
    /// Octets received and not read.
    pub buffered: u64,
    /// Octets received and not read, or granted and not received; whole read buffers where payload stays in them.
    pub promised: u64,
    /// Octets of data that wait to be written.
    pub queued: usize,
    /// Frames for streams that no longer are.
    pub stray: u64,
}

/// One end of a session.
#[derive(Debug)]
pub struct Core {
    config: Config,
    role: Role,
    next_id: u32,
    streams: HashMap<u32, Stream>,
    local: usize,
    remote: usize,
    unaccepted: usize,
    reserved: usize,
    backlog: VecDeque<u32>,
    waiting: VecDeque<u32>,
    out: Outgoing,
    events: VecDeque<Event>,
    body: Option<incoming::Body>,
    begun: bool,
    /// What all streams hold or have been promised, beside what `pinned` counts.
    promised: u64,
    pinned: Pinned,
    refused_now: u32,
    refused: u64,
    stray: u64,
    ping: u32,
    said_go_away: bool,
    peer_gone: Option<u32>,
    closed: Option<CloseReason>,
}

impl Core {
    /// A session before its first octet.
    #[must_use]
    pub fn new(role: Role, config: Config) -> Self {
        Self {
            config,
            role,
            next_id: if role == Role::Client { 1 } else { 2 },
            streams: HashMap::new(),
            local: 0,
            remote: 0,
            unaccepted: 0,
            reserved: 0,
            backlog: VecDeque::new(),
            waiting: VecDeque::new(),
            out: Outgoing::default(),
            events: VecDeque::new(),
            body: None,
            begun: false,
            promised: 0,
            pinned: Pinned::default(),
            refused_now: 0,
            refused: 0,
            stray: 0,
            ping: 0,
            said_go_away: false,
            peer_gone: None,
            closed: None,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Why the session is over, if it is.
    #[must_use]
    pub const fn closed(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }

    /// Streams of the peer that nobody has accepted yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Counts.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            local_streams: self.local,
            remote_streams: self.remote,
            reserved: self.reserved,
            backlog: self.backlog.len(),
            refused: self.refused,
            buffered: self.streams.values().map(|s| u64::from(s.buffered)).sum(),
            promised: self.committed(),
            queued: self.out.queued(),
            stray: self.stray,
        }
    }

    /// What counts towards the receive cap.
    fn committed(&self) -> u64 {
        self.promised + self.pinned.octets()
    }

    /// What the receive cap leaves.
    fn room(&self) -> u64 {
        self.config.receive_cap.saturating_sub(self.committed())
    }

    /// What may go to larger windows and to read buffers that payload stays in: together they take half of the receive cap
    /// at most, and the other half is for streams to come.
    fn spare(&self) -> u64 {
        let open = (self.local + self.remote) as u64;
        let beyond = self
            .committed()
            .saturating_sub(open * u64::from(INITIAL_WINDOW));
        (self.config.receive_cap / 2)
            .saturating_sub(beyond)
            .min(self.room())
    }

    /// The count of memory that slices of read buffers keep.
    pub(super) const fn pinned(&self) -> &Pinned {
        &self.pinned
    }

    /// Works on a stream and keeps the sums.
    fn on_stream<R>(&mut self, id: u32, work: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let stream = self.streams.get_mut(&id)?;
        let before = stream.promised();
        let result = work(stream);
        self.promised = self.promised.saturating_sub(before) + stream.promised();
        Some(result)
    }

    /// A control frame that the peer causes.
    fn answer(&mut self, header: Header) -> Result<(), CloseReason> {
        self.out.control(header);
        let waits = self.out.control_len();
        if waits > CONTROL_CAP {
            return Err(CloseReason::ControlFlood(waits));
        }
        Ok(())
    }

    /// Whether streams are open or reserved.
    #[must_use]
    pub const fn in_use(&self) -> bool {
        self.local + self.remote + self.reserved > 0
    }

    /// Sends a ping and gives its value.
    pub fn ping(&mut self) -> u32 {
        self.ping = self.ping.wrapping_add(1);
        self.out
            .control(Header::new(Kind::Ping, Flags::SYN, 0, self.ping));
        self.ping
    }

    /// Holds back `n` streams of the quota, if it has them.
    pub fn reserve(&mut self, n: usize) -> bool {
        let fits = self.closed.is_none()
            && n <= self
                .config
                .max_streams
                .saturating_sub(self.local + self.reserved);
        if fits {
            self.reserved += n;
        }
        fits
    }

    /// Gives back what was held back.
    pub fn unreserve(&mut self, n: usize) {
        self.reserved = self.reserved.saturating_sub(n);
        self.events.push_back(Event::CanOpen);
        if !self.in_use() {
            self.events.push_back(Event::Idle);
        }
    }

    /// Tells the peer that no more streams are taken; open ones go on.
    pub fn go_away(&mut self) {
        if !self.said_go_away && self.closed.is_none() {
            self.said_go_away = true;
            self.out
                .control(Header::new(Kind::GoAway, Flags::NONE, 0, 0));
            self.events.push_back(Event::CanOpen);
        }
    }

    /// Ends the session. What is queued may still be written, and ends with a go-away frame. Repeated calls do nothing.
    pub fn close(&mut self, reason: CloseReason) {
        if self.closed.is_some() {
            return;
        }
        let code = reason.code();
        self.closed = Some(reason);
        self.out
            .in_order(Header::new(Kind::GoAway, Flags::NONE, 0, code));
        self.waiting.clear();
        self.events.push_back(Event::CanOpen);
        self.events.push_back(Event::Closed);
    }

    /// Whether something waits to be written, or streams for their turn.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        !self.out.is_empty() || !self.waiting.is_empty()
    }

    /// Takes all that is queued, and gives the next streams in line their turn.
    pub fn take(&mut self) -> Batch {
        let batch = self.out.take();
        let mut turns = (self.config.write_budget / TURN).max(1);
        while turns > 0
            && let Some(id) = self.waiting.pop_front()
        {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.waiting = false;
                stream.turn = true;
                turns -= 1;
                self.events.push_back(Event::Writable(id));
            }
        }
        batch
    }

    /// Control frames that were queued since; they may go in at the end of any frame.
    pub fn take_control(&mut self) -> Option<Bytes> {
        self.out.take_control()
    }

    /// A batch has been written: the ends in it count from now.
    pub fn written(&mut self, batch: &mut Batch) {
        for id in std::mem::take(&mut batch.ends) {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.end_written = true;
                self.settle(id);
            }
        }
    }
}
