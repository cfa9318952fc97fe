//! The state of a session, without input, output or clock: octets and calls in, [`Event`]s and [`Batch`]es out.
//!
//! A peer cannot make it hold more than its configuration allows: payload is bounded by what was granted, grants by the
//! receive cap, streams by the quota, streams that wait by the backlog, and answers by what the peer leaves unread.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, Bytes, BytesMut};

use super::config::Config;
use super::frame::{Flags, HEADER_LEN, Header, HeaderError, INITIAL_WINDOW, Kind};
use super::outgoing::{Batch, Outgoing};
use super::reason::{CloseReason, OpenError, StreamError};
use super::stream::Stream;

/// The most that a stream writes in one turn, in octets.
const TURN: usize = 64 * 1024;
/// Control frames that may wait for a peer that does not read, in octets.
const CONTROL_CAP: usize = 1024 * 1024;
/// Streams refused, beyond those accepted meanwhile, after which the peer is taken for a flood.
const REFUSED_CAP: u32 = 1024;

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
    /// Octets received and not read, or granted and not received.
    pub promised: u64,
    /// Octets of data that wait to be written.
    pub queued: usize,
    /// Frames for streams that no longer are.
    pub stray: u64,
}

#[derive(Debug, Clone, Copy)]
struct Body {
    stream: u32,
    left: u32,
    fin: bool,
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
    body: Option<Body>,
    begun: bool,
    promised: u64,
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
            promised: self.promised,
            queued: self.out.queued(),
            stray: self.stray,
        }
    }

    /// Whether streams are open or reserved.
    #[must_use]
    pub const fn in_use(&self) -> bool {
        self.local + self.remote + self.reserved > 0
    }

    // ---- what comes from the connection

    /// Takes in octets. Incomplete headers stay in `buf`; payload does not.
    pub fn receive(&mut self, buf: &mut BytesMut) {
        while self.closed.is_none() && !buf.is_empty() {
            if let Some(body) = self.body {
                let n = buf.len().min(body.left as usize);
                self.on_payload(body, buf.split_to(n));
                continue;
            }
            let Some(octets) = buf.first_chunk::<HEADER_LEN>().copied() else {
                return;
            };
            let header = match Header::decode(octets) {
                Ok(header) => header,
                Err(e) => {
                    self.close(match e {
                        HeaderError::Foreign(octets) if !self.begun => {
                            CloseReason::ForeignProtocol(octets)
                        }
                        HeaderError::Version(version) if !self.begun => {
                            CloseReason::WrongVersion(version)
                        }
                        e => CloseReason::BadFrame(e),
                    });
                    break;
                }
            };
            buf.advance(HEADER_LEN);
            self.begun = true;
            if let Err(reason) = self.on_header(header) {
                self.close(reason);
            }
        }
        if self.closed.is_some() {
            buf.clear();
        }
    }

    /// The connection gives no more; `left` is what stayed in the buffer.
    pub fn end_of_input(&mut self, left: usize) {
        let missing = match (&self.body, left) {
            (Some(body), _) => body.left,
            (None, 0) => 0,
            (None, left) => u32::try_from(HEADER_LEN.saturating_sub(left)).unwrap_or(0),
        };
        self.close(match (missing, self.peer_gone) {
            (0, Some(code)) => CloseReason::GoAway(code),
            (0, None) => CloseReason::PeerClosed,
            (missing, _) => CloseReason::Cut { missing },
        });
    }

    fn on_header(&mut self, header: Header) -> Result<(), CloseReason> {
        match header.kind {
            Kind::Ping if header.flags.has(Flags::SYN) => {
                self.answer(Header::new(Kind::Ping, Flags::ACK, 0, header.length))
            }
            Kind::Ping => {
                self.events.push_back(Event::Pong(header.length));
                Ok(())
            }
            Kind::GoAway if header.length == 0 => {
                self.peer_gone = Some(0);
                self.events.push_back(Event::CanOpen);
                Ok(())
            }
            Kind::GoAway => Err(CloseReason::GoAway(header.length)),
            Kind::Data | Kind::WindowUpdate => self.on_stream_frame(header),
        }
    }

    fn on_stream_frame(&mut self, header: Header) -> Result<(), CloseReason> {
        let Header {
            kind,
            flags,
            stream: id,
            length,
        } = header;
        if flags.has(Flags::SYN) {
            self.on_syn(header)?;
        }
        let data = if kind == Kind::Data { length } else { 0 };
        let Some(stream) = self.streams.get_mut(&id) else {
            self.stray = self.stray.saturating_add(1);
            self.await_body(id, data, false);
            return Ok(());
        };
        if flags.has(Flags::ACK) && stream.local && !stream.acked {
            stream.acked = true;
            self.unaccepted = self.unaccepted.saturating_sub(1);
            self.events.push_back(Event::CanOpen);
        }
        if flags.has(Flags::RST) {
            let code = if kind == Kind::WindowUpdate {
                length
            } else {
                0
            };
            self.on_reset(id, code);
            self.await_body(id, data, false);
            return Ok(());
        }
        match kind {
            Kind::WindowUpdate => {
                let Some(credit) = stream.send_credit.checked_add(length) else {
                    return Err(CloseReason::Protocol {
                        what: "credit beyond 32 bits",
                        header,
                    });
                };
                stream.send_credit = credit;
                self.events.push_back(Event::Writable(id));
            }
            _ if length > 0 && stream.peer_finished => {
                return Err(CloseReason::Protocol {
                    what: "data after the end of the stream",
                    header,
                });
            }
            _ => {
                // The credit is used up as the payload comes, so that what is promised is never understated.
                if length > stream.credit {
                    return Err(CloseReason::WindowOverrun {
                        stream: id,
                        by: length - stream.credit,
                    });
                }
                if !stream.held && stream.credit < INITIAL_WINDOW / 4 {
                    self.abandon(id);
                }
            }
        }
        self.await_body(id, data, flags.has(Flags::FIN));
        Ok(())
    }

    fn await_body(&mut self, stream: u32, left: u32, fin: bool) {
        if left > 0 {
            self.body = Some(Body { stream, left, fin });
        } else if fin {
            self.on_fin(stream);
        }
    }

    fn on_payload(&mut self, body: Body, payload: BytesMut) {
        let n = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let left = body.left.saturating_sub(n);
        self.body = (left > 0).then_some(Body { left, ..body });
        if let Some(stream) = self.streams.get_mut(&body.stream) {
            let before = stream.promised();
            stream.credit = stream.credit.saturating_sub(n);
            if stream.held && stream.broken.is_none() {
                stream.push(payload.freeze());
                self.events.push_back(Event::Readable(body.stream));
            }
            self.promised = self.promised - before + stream.promised();
        }
        if left == 0 && body.fin {
            self.on_fin(body.stream);
        }
    }

    fn on_fin(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.peer_finished = true;
            self.events.push_back(Event::Readable(id));
            self.settle(id);
        }
    }

    fn on_reset(&mut self, id: u32, code: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.broken.get_or_insert(StreamError::Reset(code));
        if !stream.local && !stream.acked {
            stream.held = false;
            self.backlog.retain(|&waiting| waiting != id);
        }
        self.events.push_back(Event::Readable(id));
        self.events.push_back(Event::Writable(id));
        self.settle(id);
    }

    fn on_syn(&mut self, header: Header) -> Result<(), CloseReason> {
        let id = header.stream;
        let what = match self.role {
            _ if id == 0 => Some("stream 0 cannot be opened"),
            Role::Client if !id.is_multiple_of(2) => {
                Some("the peer opened a stream of this end's identifiers")
            }
            Role::Server if id.is_multiple_of(2) => {
                Some("the peer opened a stream of this end's identifiers")
            }
            _ if self.streams.contains_key(&id) => Some("the stream is open already"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(CloseReason::Protocol { what, header });
        }
        let room = self.promised + u64::from(INITIAL_WINDOW) <= self.config.receive_cap;
        if !self.config.accept
            || self.said_go_away
            || self.remote >= self.config.max_streams
            || self.backlog.len() >= self.config.accept_backlog
            || !room
        {
            self.refused = self.refused.saturating_add(1);
            self.refused_now = self.refused_now.saturating_add(1);
            if self.refused_now > REFUSED_CAP {
                return Err(CloseReason::StreamFlood(self.refused_now));
            }
            return self.answer(Header::new(Kind::WindowUpdate, Flags::RST, id, 0));
        }
        self.refused_now = self.refused_now.saturating_sub(1);
        self.remote += 1;
        self.insert(id, Stream::new(false, self.config.window()));
        self.backlog.push_back(id);
        self.events.push_back(Event::Incoming);
        Ok(())
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

    // ---- streams

    fn insert(&mut self, id: u32, stream: Stream) {
        if self.local + self.remote == 1 {
            self.events.push_back(Event::Busy);
        }
        self.promised += stream.promised();
        self.streams.insert(id, stream);
    }

    /// Takes a stream that is over out of the counts, and away when nobody holds it.
    fn settle(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if !stream.is_over() {
            return;
        }
        if stream.counted {
            let before = stream.promised();
            stream.counted = false;
            self.promised = self.promised - before + stream.promised();
            if stream.local {
                self.local = self.local.saturating_sub(1);
                if !stream.acked {
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
        if !stream.held {
            self.promised -= stream.promised();
            self.streams.remove(&id);
        }
    }

    /// Ends a stream that nobody holds and that the peer goes on with; what was written before is before it on the wire.
    fn abandon(&mut self, id: u32) {
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
        if self.promised + u64::from(INITIAL_WINDOW) > self.config.receive_cap {
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

    /// Grants what is due and gives the increment.
    fn grant(&mut self, id: u32) -> u32 {
        let room = self.config.receive_cap.saturating_sub(self.promised);
        let Some(stream) = self.streams.get_mut(&id) else {
            return 0;
        };
        let Some(increment) = stream.grant_due(room) else {
            return 0;
        };
        let before = stream.promised();
        stream.credit = stream.credit.saturating_add(increment);
        self.promised = self.promised - before + stream.promised();
        increment
    }

    fn grant_if_due(&mut self, id: u32) {
        if self.closed.is_some() {
            return;
        }
        if let Some(stream) = self.streams.get(&id)
            && !stream.peer_finished
            && stream.broken.is_none()
        {
            let increment = self.grant(id);
            if increment > 0 {
                let frame = Header::new(Kind::WindowUpdate, Flags::NONE, id, increment);
                if let Err(reason) = self.answer(frame) {
                    self.close(reason);
                }
            }
        }
    }

    /// Reads at most `max` octets of a stream.
    ///
    /// # Errors
    ///
    /// [`StreamError`], after all that came before it.
    pub fn recv(&mut self, id: u32, max: usize) -> Result<Received, StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(StreamError::Closed);
        };
        if stream.broken == Some(StreamError::Closed) {
            return Err(StreamError::Closed);
        }
        let before = stream.promised();
        if let Some(octets) = stream.pop(max) {
            self.promised = self.promised - before + stream.promised();
            self.grant_if_due(id);
            return Ok(Received::Octets(octets));
        }
        match (&stream.broken, stream.peer_finished, &self.closed) {
            (_, true, _) => Ok(Received::End),
            (Some(e), ..) => Err(e.clone()),
            (None, false, Some(reason)) => Err(StreamError::Session(reason.clone())),
            (None, false, None) => Ok(Received::Nothing),
        }
    }

    /// How many octets of `wanted` the stream may write now; 0 where it has to wait for [`Event::Writable`].
    fn admit(&mut self, id: u32, wanted: usize) -> Result<usize, StreamError> {
        if let Some(reason) = &self.closed {
            return Err(StreamError::Session(reason.clone()));
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(StreamError::Closed);
        };
        if let Some(e) = &stream.broken {
            return Err(e.clone());
        }
        if stream.finished {
            return Err(StreamError::Closed);
        }
        if stream.send_credit == 0 || wanted == 0 {
            return Ok(0);
        }
        let full = self.out.queued() >= self.config.write_budget.max(1);
        if !stream.turn && (full || !self.waiting.is_empty()) {
            if !stream.waiting {
                stream.waiting = true;
                self.waiting.push_back(id);
            }
            return Ok(0);
        }
        stream.turn = false;
        let n = wanted.min(stream.send_credit as usize).min(TURN);
        stream.send_credit -= u32::try_from(n).unwrap_or(0);
        Ok(n)
    }

    /// Queues the beginning of `data` and takes it from there; gives its length, 0 where the stream has to wait.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; `data` is as it was.
    pub fn send(&mut self, id: u32, data: &mut Bytes) -> Result<usize, StreamError> {
        let n = self.admit(id, data.len())?;
        if n > 0 {
            self.out.data(id, Flags::NONE, data.split_to(n));
        }
        Ok(n)
    }

    /// As [`Core::send`], for octets that have to be copied.
    ///
    /// # Errors
    ///
    /// [`StreamError`].
    pub fn send_slice(&mut self, id: u32, data: &[u8]) -> Result<usize, StreamError> {
        let n = self.admit(id, data.len())?;
        if let Some(data) = data.get(..n)
            && n > 0
        {
            self.out.data(id, Flags::NONE, Bytes::copy_from_slice(data));
        }
        Ok(n)
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
        let before = stream.promised();
        let over = stream.is_over();
        stream.broken = Some(StreamError::Closed);
        stream.forget();
        self.promised = self.promised - before + stream.promised();
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
        if let Some(stream) = self.streams.get_mut(&id) {
            let before = stream.promised();
            stream.held = false;
            stream.forget();
            self.promised = self.promised - before + stream.promised();
            if self.closed.is_some() {
                stream.broken.get_or_insert(StreamError::Closed);
            }
            self.settle(id);
        }
    }

    /// Resets streams that nobody holds and that the peer has not ended for two sweeps.
    pub fn sweep(&mut self) {
        let mut old = Vec::new();
        for (id, stream) in &mut self.streams {
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
    }

    /// Sets the receive window of one stream, in octets. What was granted stays granted.
    pub fn set_receive_window(&mut self, id: u32, window: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.window = window.max(1);
            self.grant_if_due(id);
        }
    }

    // ---- the session

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
