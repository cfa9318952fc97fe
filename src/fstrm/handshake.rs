//! The handshake of both roles, as machines that know no socket: [`Receiver`] answers, [`Sender`] asks.
//!
//! Feed them what the [`Decoder`](super::Decoder) finds, do what the [`Action`] says. They never wait; the timeouts are
//! the link's.

use super::control::ContentType;
use super::control::Control;
use super::control::ControlKind;
use super::detect::Sniff;
use super::detect::sniff;
use super::error::DecodeError;
use super::error::DecodeReason;
use super::error::FirstOctets;
use super::error::HandshakeError;

/// Which dialects a receiver takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Whatever the sender's first bytes show.
    #[default]
    Auto,
    /// READY first.
    Bidirectional,
    /// START first; the receiver never writes.
    Unidirectional,
    /// Data from the first byte; control frames are not needed, and ignored but for STOP. The receiver never writes.
    Raw,
}

/// How a stream is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// READY, ACCEPT, START, data, STOP, FINISH.
    Bidirectional,
    /// START, data, STOP: also the layout of a file.
    Unidirectional,
    /// Data only.
    Raw,
}

impl Dialect {
    /// A short name in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bidirectional => "bidirectional",
            Self::Unidirectional => "unidirectional",
            Self::Raw => "raw",
        }
    }
}

/// What a control frame asks of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Write this control frame (an ACCEPT) and go on reading.
    Reply(Control),
    /// START was taken: data follows.
    Started,
    /// Nothing to do but to count it.
    Ignored(ControlKind),
    /// STOP: the stream is complete. Write the reply (FINISH) at once where there is one, then close. Whatever the peer
    /// sends after it is not data.
    Stopped {
        /// FINISH in a bidirectional stream.
        reply: Option<Control>,
    },
}

/// What becomes of data frames that arrive now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Data {
    /// They are the stream's.
    Deliver,
    /// They came after STOP.
    Discard,
}

/// How a stream ended: a closed set, for the close reason in metrics and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// STOP was received (or FINISH, as a sender); for a raw stream, the end came at a frame boundary.
    Clean,
    /// The peer closed at a frame boundary, without STOP. dnsdist and PowerDNS Recursor always end so.
    NoStop,
    /// The peer closed within a frame.
    Truncated,
    /// The peer closed, at a frame boundary, before data was allowed to flow. Also a stream without a byte.
    HandshakeEof,
    /// No content type in common.
    ContentTypeMismatch,
    /// A control frame that is not well formed.
    Malformed,
    /// A control frame over the limit.
    ControlTooLong,
    /// A data frame over the limit, where that closes the stream.
    DataTooLong,
    /// A length that no sender means.
    LostFraming,
    /// A frame that has no place in the handshake.
    UnexpectedFrame,
    /// The first octets are those of a TLS handshake.
    Tls,
    /// The first octets are those of HTTP.
    Http,
    /// The first octets are those of PowerDNS's protobuf logger.
    PowerDnsProtobuf,
    /// The first octets are of some other protocol, or not of the dialect this receiver takes.
    WrongProtocol,
    /// As a sender: the peer closed after STOP without FINISH.
    NoFinish,
}

impl End {
    /// Every way to end, for metrics that exist from the start.
    pub const ALL: [Self; 15] = [
        Self::Clean,
        Self::NoStop,
        Self::Truncated,
        Self::HandshakeEof,
        Self::ContentTypeMismatch,
        Self::Malformed,
        Self::ControlTooLong,
        Self::DataTooLong,
        Self::LostFraming,
        Self::UnexpectedFrame,
        Self::Tls,
        Self::Http,
        Self::PowerDnsProtobuf,
        Self::WrongProtocol,
        Self::NoFinish,
    ];

    /// A short name in snake case, fit for a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::NoStop => "no_stop",
            Self::Truncated => "truncated",
            Self::HandshakeEof => "handshake_eof",
            Self::ContentTypeMismatch => "content_type_mismatch",
            Self::Malformed => "malformed",
            Self::ControlTooLong => "control_too_long",
            Self::DataTooLong => "data_too_long",
            Self::LostFraming => "lost_framing",
            Self::UnexpectedFrame => "unexpected_frame",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::PowerDnsProtobuf => "powerdns_protobuf",
            Self::WrongProtocol => "wrong_protocol",
            Self::NoFinish => "no_finish",
        }
    }
}

impl From<&DecodeError> for End {
    fn from(error: &DecodeError) -> Self {
        match error.reason {
            DecodeReason::ControlTooLong => Self::ControlTooLong,
            DecodeReason::DataTooLong => Self::DataTooLong,
            DecodeReason::LostFraming => Self::LostFraming,
            DecodeReason::ControlTooShort
            | DecodeReason::FieldCut
            | DecodeReason::FieldOverrun
            | DecodeReason::FieldUnknown
            | DecodeReason::ContentTypeTooLong
            | DecodeReason::TooManyContentTypes => Self::Malformed,
        }
    }
}

impl From<&HandshakeError> for End {
    fn from(error: &HandshakeError) -> Self {
        match error {
            HandshakeError::ContentTypeMismatch { .. } => Self::ContentTypeMismatch,
            HandshakeError::UnexpectedControl { .. } | HandshakeError::UnexpectedData { .. } => {
                Self::UnexpectedFrame
            }
            HandshakeError::WrongProtocol {
                looks_like: Sniff::Tls,
                ..
            } => Self::Tls,
            HandshakeError::WrongProtocol {
                looks_like: Sniff::Http,
                ..
            } => Self::Http,
            HandshakeError::WrongProtocol {
                looks_like: Sniff::PowerDnsProtobuf,
                ..
            } => Self::PowerDnsProtobuf,
            HandshakeError::WrongProtocol { .. } => Self::WrongProtocol,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    AwaitStart,
    Streaming(Dialect),
    Done(Dialect),
}

impl State {
    const fn describe(self) -> &'static str {
        match self {
            Self::First => "waiting for the first frame",
            Self::AwaitStart => "waiting for START",
            Self::Streaming(_) => "streaming",
            Self::Done(_) => "stopped",
        }
    }
}

/// The receiving side.
///
/// | state | READY | START | data | STOP | ACCEPT, FINISH | unknown | EOF |
/// |---|---|---|---|---|---|---|---|
/// | first bytes, auto | ACCEPT → await START | → streaming (uni) | → streaming (raw) | fail | fail | ignore | `handshake_eof` |
/// | first bytes, bidirectional | ACCEPT → await START | fail | fail | fail | fail | ignore | `handshake_eof` |
/// | first bytes, unidirectional | fail | → streaming (uni) | fail | fail | fail | ignore | `handshake_eof` |
/// | await START | ACCEPT again | → streaming (bi) | fail | fail | fail | ignore | `handshake_eof` |
/// | streaming (bi) | ignore | ignore | deliver | FINISH → done | ignore | ignore | `no_stop` |
/// | streaming (uni) | ignore | ignore | deliver | → done | ignore | ignore | `no_stop` |
/// | streaming (raw); raw mode begins here | ignore | ignore | deliver | → done | ignore | ignore | `clean` |
/// | done | ignore | ignore | discard | ignore | ignore | ignore | `clean` |
///
/// Within a frame, EOF is `truncated` in every state but done. READY and START fail with a content type mismatch when
/// they name types of which none is ours; a list that is empty on either side matches everything. ACCEPT names exactly
/// one type (unbound reads only the first, and closes when there is none). READY is answered each time, because libfstrm
/// senders send it again after a negotiation that failed. Ignored frames are reported, so that they can be counted.
#[derive(Clone, Debug)]
pub struct Receiver {
    mode: Mode,
    ours: Vec<ContentType>,
    state: State,
    content_type: Option<ContentType>,
}

impl Receiver {
    /// A receiver at the start of a stream that takes these content types; with none, it takes every type.
    #[must_use]
    pub const fn new(mode: Mode, content_types: Vec<ContentType>) -> Self {
        let state = match mode {
            Mode::Raw => State::Streaming(Dialect::Raw),
            Mode::Auto | Mode::Bidirectional | Mode::Unidirectional => State::First,
        };
        Self {
            mode,
            ours: content_types,
            state,
            content_type: None,
        }
    }

    /// Looks at the first bytes of the connection, before the decoder does, and refuses at once what cannot be meant for
    /// us. `false` when that takes more bytes (never more than 12). See [`sniff`] for the rules.
    ///
    /// # Errors
    /// [`HandshakeError::WrongProtocol`], naming what it looks like.
    pub fn check_first(&self, bytes: &[u8], data_len_max: usize) -> Result<bool, HandshakeError> {
        match (sniff(bytes, data_len_max), self.mode) {
            (Sniff::NeedMore, _) => Ok(false),
            (Sniff::Control, _) | (Sniff::RawData { .. }, Mode::Auto | Mode::Raw) => Ok(true),
            // Who says raw may send payloads of another kind than dnstap; the decoder's limits decide.
            (Sniff::Unknown, Mode::Raw) => Ok(true),
            (looks_like, _) => Err(HandshakeError::WrongProtocol {
                looks_like,
                octets: FirstOctets::of(bytes),
            }),
        }
    }

    /// What to do about a control frame.
    ///
    /// # Errors
    /// [`HandshakeError`] when the stream cannot go on: close it. There is nothing to answer.
    pub fn on_control(&mut self, control: &Control) -> Result<Action, HandshakeError> {
        match (self.state, control.kind, self.mode) {
            // Numbers without a meaning are left to later versions of the protocol.
            (_, kind @ ControlKind::Unknown(_), _) | (State::Done(_), kind, _) => {
                Ok(Action::Ignored(kind))
            }
            (State::First, ControlKind::Ready, Mode::Auto | Mode::Bidirectional)
            | (State::AwaitStart, ControlKind::Ready, _) => self.on_ready(control),
            (State::First, ControlKind::Start, Mode::Auto | Mode::Unidirectional) => {
                self.on_start(control, Dialect::Unidirectional)
            }
            (State::AwaitStart, ControlKind::Start, _) => {
                self.on_start(control, Dialect::Bidirectional)
            }
            (State::First | State::AwaitStart, got, _) => Err(HandshakeError::UnexpectedControl {
                state: self.state.describe(),
                got,
            }),
            (State::Streaming(dialect), ControlKind::Stop, _) => {
                self.state = State::Done(dialect);
                let finish = || Control::plain(ControlKind::Finish);
                Ok(Action::Stopped {
                    reply: (dialect == Dialect::Bidirectional).then(finish),
                })
            }
            (State::Streaming(_), kind, _) => Ok(Action::Ignored(kind)),
        }
    }

    /// What to do about data frames, whole or skipped: once a run is enough.
    ///
    /// # Errors
    /// [`HandshakeError::UnexpectedData`] before the handshake is complete.
    #[inline]
    pub fn on_data(&mut self) -> Result<Data, HandshakeError> {
        match (self.state, self.mode) {
            (State::Streaming(_), _) => Ok(Data::Deliver),
            (State::Done(_), _) => Ok(Data::Discard),
            (State::First, Mode::Auto) => {
                self.state = State::Streaming(Dialect::Raw);
                Ok(Data::Deliver)
            }
            (State::First | State::AwaitStart, _) => Err(HandshakeError::UnexpectedData {
                state: self.state.describe(),
            }),
        }
    }

    /// What the end of the byte stream means now. `mid_frame` is [`Decoder::mid_frame`](super::Decoder::mid_frame).
    #[must_use]
    pub const fn on_eof(&self, mid_frame: bool) -> End {
        match (self.state, mid_frame) {
            (State::Done(_), _) | (State::Streaming(Dialect::Raw), false) => End::Clean,
            (_, true) => End::Truncated,
            (State::First | State::AwaitStart, false) => End::HandshakeEof,
            (State::Streaming(_), false) => End::NoStop,
        }
    }

    /// Whether data may flow: the handshake is over. What a handshake timeout waits for.
    #[must_use]
    pub const fn streaming(&self) -> bool {
        matches!(self.state, State::Streaming(_))
    }

    /// Whether STOP has been received.
    #[must_use]
    pub const fn stopped(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// How the sender speaks, once that is known.
    #[must_use]
    pub const fn dialect(&self) -> Option<Dialect> {
        match self.state {
            State::First => None,
            State::AwaitStart => Some(Dialect::Bidirectional),
            State::Streaming(dialect) | State::Done(dialect) => Some(dialect),
        }
    }

    /// The content type that START named, or else the one we accepted.
    #[must_use]
    pub const fn content_type(&self) -> Option<&ContentType> {
        self.content_type.as_ref()
    }

    fn on_ready(&mut self, control: &Control) -> Result<Action, HandshakeError> {
        let chosen = negotiate(&self.ours, &control.content_types)?;
        self.content_type.clone_from(&chosen);
        self.state = State::AwaitStart;
        Ok(Action::Reply(Control::with_type(
            ControlKind::Accept,
            chosen,
        )))
    }

    fn on_start(&mut self, control: &Control, dialect: Dialect) -> Result<Action, HandshakeError> {
        let chosen = negotiate(&self.ours, &control.content_types)?;
        if self.content_type.is_none() || !control.content_types.is_empty() {
            self.content_type = chosen;
        }
        self.state = State::Streaming(dialect);
        Ok(Action::Started)
    }
}

/// The first of our types that is among theirs. An empty list stands for every type, so then it is the first of the
/// other list.
fn negotiate(
    ours: &[ContentType],
    theirs: &[ContentType],
) -> Result<Option<ContentType>, HandshakeError> {
    if ours.is_empty() || theirs.is_empty() {
        return Ok(ours.first().or_else(|| theirs.first()).cloned());
    }
    match ours.iter().find(|t| theirs.contains(t)) {
        Some(common) => Ok(Some(common.clone())),
        None => Err(HandshakeError::ContentTypeMismatch {
            got: theirs.to_vec(),
            ours: ours.to_vec(),
        }),
    }
}

/// What a control frame asks of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SenderAction {
    /// Write this control frame (START); data may follow it.
    Start(Control),
    /// Nothing to do but to count it.
    Ignored(ControlKind),
    /// FINISH: the receiver has everything. Close.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderState {
    New,
    AwaitAccept,
    Streaming,
    AwaitFinish,
    Done,
}

impl SenderState {
    const fn describe(self) -> &'static str {
        match self {
            Self::New => "not started",
            Self::AwaitAccept => "waiting for ACCEPT",
            Self::Streaming => "streaming",
            Self::AwaitFinish => "waiting for FINISH",
            Self::Done => "finished",
        }
    }
}

/// The sending side.
///
/// | state | `start()` | ACCEPT | FINISH | other control | data | `stop()` | EOF |
/// |---|---|---|---|---|---|---|---|
/// | new, bidirectional | READY → await ACCEPT | fail | fail | fail | fail | – → done | `handshake_eof` |
/// | new, unidirectional | START → streaming | | | | | – → done | `handshake_eof` |
/// | new, raw | – → streaming | | | | | – → done | `handshake_eof` |
/// | await ACCEPT | – | START → streaming | fail | fail | fail | – → done | `handshake_eof` |
/// | streaming | – | ignore | ignore | ignore | fail | STOP → await FINISH (bi) or done | `no_stop` |
/// | await FINISH | – | ignore | → done | ignore | fail | – | `no_finish`, or `clean` where FINISH is optional |
/// | done | – | ignore | ignore | ignore | fail | – | `clean` |
///
/// Unknown control types are ignored everywhere. Within a frame, EOF is `truncated` in every state but done. START names
/// the first of our types that the ACCEPT lists, or our first where it lists none.
#[derive(Clone, Debug)]
pub struct Sender {
    dialect: Dialect,
    ours: Vec<ContentType>,
    finish_optional: bool,
    state: SenderState,
}

impl Sender {
    /// A sender that has not begun, of these content types (normally one).
    #[must_use]
    pub const fn new(dialect: Dialect, content_types: Vec<ContentType>) -> Self {
        Self {
            dialect,
            ours: content_types,
            finish_optional: false,
            state: SenderState::New,
        }
    }

    /// Takes the peer's closing after STOP for success: DNS-collector never answers FINISH on a compressed stream.
    #[must_use]
    pub const fn finish_optional(mut self, optional: bool) -> Self {
        self.finish_optional = optional;
        self
    }

    /// The first control frame to write, if the dialect has one.
    pub fn start(&mut self) -> Option<Control> {
        match (self.state, self.dialect) {
            (SenderState::New, Dialect::Bidirectional) => {
                self.state = SenderState::AwaitAccept;
                Some(Control {
                    kind: ControlKind::Ready,
                    content_types: self.ours.clone(),
                })
            }
            (SenderState::New, Dialect::Unidirectional) => {
                self.state = SenderState::Streaming;
                Some(Control::with_type(
                    ControlKind::Start,
                    self.ours.first().cloned(),
                ))
            }
            (SenderState::New, Dialect::Raw) => {
                self.state = SenderState::Streaming;
                None
            }
            _ => None,
        }
    }

    /// What to do about a control frame from the receiver.
    ///
    /// # Errors
    /// [`HandshakeError`] when the stream cannot be started: close it.
    pub fn on_control(&mut self, control: &Control) -> Result<SenderAction, HandshakeError> {
        match (self.state, control.kind) {
            (_, kind @ ControlKind::Unknown(_)) => Ok(SenderAction::Ignored(kind)),
            (SenderState::AwaitAccept, ControlKind::Accept) => {
                let chosen = negotiate(&self.ours, &control.content_types)?;
                self.state = SenderState::Streaming;
                Ok(SenderAction::Start(Control::with_type(
                    ControlKind::Start,
                    chosen,
                )))
            }
            (SenderState::AwaitFinish, ControlKind::Finish) => {
                self.state = SenderState::Done;
                Ok(SenderAction::Finished)
            }
            (SenderState::New | SenderState::AwaitAccept, got) => {
                Err(HandshakeError::UnexpectedControl {
                    state: self.state.describe(),
                    got,
                })
            }
            (SenderState::Streaming | SenderState::AwaitFinish | SenderState::Done, kind) => {
                Ok(SenderAction::Ignored(kind))
            }
        }
    }

    /// A receiver has no data to send.
    ///
    /// # Errors
    /// Always [`HandshakeError::UnexpectedData`]: close.
    pub const fn on_data(&self) -> Result<(), HandshakeError> {
        Err(HandshakeError::UnexpectedData {
            state: self.state.describe(),
        })
    }

    /// Ends the stream: the control frame to write (STOP), if there is one. Then wait for FINISH unless
    /// [`finished`](Self::finished) says that none will come.
    pub fn stop(&mut self) -> Option<Control> {
        let (next, stop) = match (self.state, self.dialect) {
            (SenderState::Streaming, Dialect::Bidirectional) => (SenderState::AwaitFinish, true),
            (SenderState::Streaming, Dialect::Unidirectional) => (SenderState::Done, true),
            (SenderState::AwaitFinish, _) => (SenderState::AwaitFinish, false),
            _ => (SenderState::Done, false),
        };
        self.state = next;
        stop.then(|| Control::plain(ControlKind::Stop))
    }

    /// What the end of the byte stream means now. `mid_frame` is [`Decoder::mid_frame`](super::Decoder::mid_frame).
    #[must_use]
    pub const fn on_eof(&self, mid_frame: bool) -> End {
        match (self.state, mid_frame) {
            (SenderState::Done, _) => End::Clean,
            (_, true) => End::Truncated,
            (SenderState::New | SenderState::AwaitAccept, false) => End::HandshakeEof,
            (SenderState::Streaming, false) => End::NoStop,
            (SenderState::AwaitFinish, false) if self.finish_optional => End::Clean,
            (SenderState::AwaitFinish, false) => End::NoFinish,
        }
    }

    /// Whether data frames may be written now.
    #[must_use]
    pub const fn streaming(&self) -> bool {
        matches!(self.state, SenderState::Streaming)
    }

    /// Whether nothing more is to be written or waited for.
    #[must_use]
    pub const fn finished(&self) -> bool {
        matches!(self.state, SenderState::Done)
    }
}
