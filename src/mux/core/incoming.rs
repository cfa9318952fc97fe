//! What comes from the connection.

use crate::mux::buffer::ReadBuffer;
use crate::mux::frame::{Flags, HEADER_LEN, Header, HeaderError, INITIAL_WINDOW, Kind};
use crate::mux::reason::{CloseReason, StreamError};

use super::stream::{COPIED, Stream};
use super::{Core, Event, Role};

/// Streams refused, beyond those accepted meanwhile, after which the peer is taken for a flood.
const REFUSED_CAP: u32 = 1024;

/// Payload that a header has announced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    stream: u32,
    left: u32,
    fin: bool,
}

impl Core {
    /// Takes in octets. Incomplete headers stay in `input`; payload does not.
    pub fn receive(&mut self, input: &mut ReadBuffer) {
        while self.closed.is_none() && !input.is_empty() {
            if let Some(body) = self.body {
                self.on_payload(body, input);
                continue;
            }
            let Some(octets) = input.first::<HEADER_LEN>() else {
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
            input.skip(HEADER_LEN);
            self.begun = true;
            if let Err(reason) = self.on_header(header) {
                self.close(reason);
            }
        }
        if self.closed.is_some() {
            input.clear();
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

    fn on_payload(&mut self, body: Body, input: &mut ReadBuffer) {
        let n = input.len().min(body.left as usize);
        let octets = u32::try_from(n).unwrap_or(body.left);
        let left = body.left.saturating_sub(octets);
        self.body = (left > 0).then_some(Body { left, ..body });
        let keep = n >= COPIED && input.cost_of_keeping() <= self.spare();
        let pinned = self.pinned.clone();
        let taken = self.on_stream(body.stream, |stream| {
            stream.credit = stream.credit.saturating_sub(octets);
            let wanted = stream.held && stream.broken.is_none();
            if wanted && keep {
                stream.lend(input.keep(n, &pinned));
            } else {
                if wanted {
                    stream.copy(input.peek(n));
                }
                input.skip(n);
            }
            wanted
        });
        match taken {
            Some(true) => self.events.push_back(Event::Readable(body.stream)),
            Some(false) => {}
            None => input.skip(n),
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
        if !self.config.accept
            || self.said_go_away
            || self.remote >= self.config.max_streams
            || self.backlog.len() >= self.config.accept_backlog
            || self.room() < u64::from(INITIAL_WINDOW)
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
}
