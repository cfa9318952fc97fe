//! The handshake of both roles, as machines that know no socket: [`Receiver`] answers, [`Sender`] asks.
//!
//! Feed them what the [`Decoder`](super::Decoder) finds, do what the [`Action`] says. They never wait; the timeouts are
//! the link's.

use super::control::ContentType;
use super::control::Control;
use super::control::ControlKind;
use super::detect::Sniff;
use super::detect::sniff;
use super::end::End;
use super::error::FirstOctets;
use super::error::HandshakeError;
use super::mark::Mark;

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
    /// A mark of the sender on an acknowledged stream.
    Mark(Mark),
    /// STOP: the stream is complete. Write the reply (FINISH) at once where there is one, then close. Whatever the peer
    /// sends after it is not data.
    Stopped {
        /// FINISH in a bidirectional stream. On an acknowledged one it is due when every frame is taken.
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
            (State::Streaming(_), ControlKind::Mark(mark), _) if self.acknowledged() => {
                Ok(Action::Mark(mark))
            }
            (_, kind @ ControlKind::Mark(_), _) => Ok(Action::Ignored(kind)),
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
                let due = dialect == Dialect::Bidirectional && !self.acknowledged();
                self.state = State::Done(dialect);
                let finish = || Control::plain(ControlKind::Finish);
                Ok(Action::Stopped {
                    reply: due.then(finish),
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

    /// Whether the sender waits for marks: see [`mark`](super::mark).
    #[must_use]
    pub fn acknowledged(&self) -> bool {
        self.content_type.as_ref() == Some(&ContentType::DNSTAP_ACK)
            && self.dialect() == Some(Dialect::Bidirectional)
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
        // Who names no type has not heard of acknowledgement.
        let plain = |types: &[ContentType]| {
            let plain = types.iter().find(|t| **t != ContentType::DNSTAP_ACK);
            plain.cloned()
        };
        return Ok(plain(ours).or_else(|| plain(theirs)));
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
    /// A mark of the receiver; it means something on an acknowledged stream alone.
    Mark(Mark),
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
            (_, ControlKind::Mark(mark)) => Ok(SenderAction::Mark(mark)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<ContentType> {
        names
            .iter()
            .map(|name| ContentType::new(name.as_bytes().to_vec()).unwrap())
            .collect()
    }

    fn control(kind: ControlKind, names: &[&str]) -> Control {
        Control {
            kind,
            content_types: types(names),
        }
    }

    /// A receiver of type "t" brought into a state by the control frames named, or by data.
    fn receiver(mode: Mode, steps: &[&str]) -> Receiver {
        let mut receiver = Receiver::new(mode, types(&["t"]));
        for step in steps {
            match *step {
                "data" => assert_eq!(receiver.on_data(), Ok(Data::Deliver)),
                name => drop(receiver.on_control(&control(kind(name), &[])).unwrap()),
            }
        }
        receiver
    }

    fn kind(name: &str) -> ControlKind {
        (1..=5)
            .map(ControlKind::from)
            .find(|k| k.as_str() == name)
            .unwrap_or(ControlKind::Unknown(9))
    }

    fn event(receiver: &mut Receiver, name: &str) -> &'static str {
        if name == "data" {
            return match receiver.on_data() {
                Ok(Data::Deliver) => "deliver",
                Ok(Data::Discard) => "discard",
                Err(error) => End::from(&error).as_str(),
            };
        }
        match receiver.on_control(&control(kind(name), &[])) {
            Ok(Action::Reply(reply)) if reply.kind == ControlKind::Accept => "ACCEPT",
            Ok(Action::Started) => "started",
            Ok(Action::Ignored(got)) if got == kind(name) => "ignore",
            Ok(Action::Stopped { reply: None }) => "stopped",
            Ok(Action::Stopped { reply: Some(reply) }) if reply.kind == ControlKind::Finish => {
                "FINISH"
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => End::from(&error).as_str(),
        }
    }

    #[test]
    fn the_receiver_follows_the_table_in_its_documentation() {
        use Mode::*;
        const F: &str = "unexpected_frame";
        const I: &str = "ignore";
        const EVENTS: [&str; 7] = ["READY", "START", "data", "STOP", "ACCEPT", "FINISH", "?"];
        type Row = (
            &'static str,
            Mode,
            &'static [&'static str],
            [&'static str; 7],
            &'static str,
        );
        let rows: &[Row] = &[
            (
                "auto",
                Auto,
                &[],
                ["ACCEPT", "started", "deliver", F, F, F, I],
                "handshake_eof",
            ),
            (
                "bi",
                Bidirectional,
                &[],
                ["ACCEPT", F, F, F, F, F, I],
                "handshake_eof",
            ),
            (
                "uni",
                Unidirectional,
                &[],
                [F, "started", F, F, F, F, I],
                "handshake_eof",
            ),
            (
                "raw",
                Raw,
                &[],
                [I, I, "deliver", "stopped", I, I, I],
                "clean",
            ),
            (
                "await start",
                Auto,
                &["READY"],
                ["ACCEPT", "started", F, F, F, F, I],
                "handshake_eof",
            ),
            (
                "streaming bi",
                Auto,
                &["READY", "START"],
                [I, I, "deliver", "FINISH", I, I, I],
                "no_stop",
            ),
            (
                "streaming uni",
                Auto,
                &["START"],
                [I, I, "deliver", "stopped", I, I, I],
                "no_stop",
            ),
            (
                "streaming raw",
                Auto,
                &["data"],
                [I, I, "deliver", "stopped", I, I, I],
                "clean",
            ),
            (
                "done bi",
                Auto,
                &["READY", "START", "STOP"],
                [I, I, "discard", I, I, I, I],
                "clean",
            ),
            (
                "done uni",
                Auto,
                &["START", "data", "STOP"],
                [I, I, "discard", I, I, I, I],
                "clean",
            ),
        ];
        for (name, mode, steps, want, eof) in rows {
            for (at, want) in EVENTS.into_iter().zip(want) {
                assert_eq!(
                    event(&mut receiver(*mode, steps), at),
                    *want,
                    "{name}: {at}"
                );
            }
            let ended = receiver(*mode, steps);
            assert_eq!(ended.on_eof(false).as_str(), *eof, "{name}: EOF");
            let mid = if ended.stopped() {
                "clean"
            } else {
                "truncated"
            };
            assert_eq!(
                ended.on_eof(true).as_str(),
                mid,
                "{name}: EOF within a frame"
            );
        }
    }

    #[test]
    fn content_types_are_negotiated_with_an_empty_list_as_wildcard() {
        const MISMATCH: &str = "content_type_mismatch";
        type Row = (
            &'static [&'static str],
            &'static [&'static str],
            Result<Option<&'static str>, &'static str>,
        );
        let rows: &[Row] = &[
            (&["t"], &["t"], Ok(Some("t"))),
            (&["t"], &["u"], Err(MISMATCH)),
            (&["t"], &[], Ok(Some("t"))),
            (&[], &["u", "v"], Ok(Some("u"))),
            (&[], &[], Ok(None)),
            (&["t"], &["u", "t"], Ok(Some("t"))),
            (&["a", "b", "c"], &["d", "c", "b"], Ok(Some("b"))),
            (&["t"], &[""], Err(MISMATCH)),
            (&["t"], &["t\0"], Err(MISMATCH)),
            (&["t"], &["T"], Err(MISMATCH)),
        ];
        for (ours, theirs, want) in rows {
            let mut receiver = Receiver::new(Mode::Auto, types(ours));
            let got = receiver.on_control(&control(ControlKind::Ready, theirs));
            let got = got
                .as_ref()
                .map_err(|error| End::from(error).as_str())
                .map(|action| match action {
                    Action::Reply(accept) => {
                        assert!(
                            accept.content_types.len() <= 1,
                            "unbound reads only the first"
                        );
                        accept.content_types.first().cloned()
                    }
                    other => panic!("{other:?}"),
                });
            let want = (*want).map(|t| t.map(|t| types(&[t]).remove(0)));
            assert_eq!(got, want, "ours {ours:?}, READY {theirs:?}");

            // START may carry one type only, so only such rows say something about it.
            if theirs.len() <= 1 {
                let mut receiver = Receiver::new(Mode::Auto, types(ours));
                let got = receiver.on_control(&control(ControlKind::Start, theirs));
                assert_eq!(got.is_ok(), want.is_ok(), "ours {ours:?}, START {theirs:?}");
                assert_eq!(receiver.content_type(), want.unwrap_or(None).as_ref());
            }
        }
    }

    #[test]
    fn start_after_ready_may_leave_its_type_out_or_name_any_of_ours() {
        let mut receiver = Receiver::new(Mode::Auto, types(&["a", "b"]));
        let _ = receiver
            .on_control(&control(ControlKind::Ready, &["b", "a"]))
            .unwrap();
        assert_eq!(receiver.content_type(), Some(&types(&["a"])[0]));
        let mut silent = receiver.clone();
        assert_eq!(
            silent.on_control(&control(ControlKind::Start, &[])),
            Ok(Action::Started)
        );
        assert_eq!(silent.content_type(), Some(&types(&["a"])[0]));
        assert_eq!(
            receiver.on_control(&control(ControlKind::Start, &["b"])),
            Ok(Action::Started)
        );
        assert_eq!(receiver.content_type(), Some(&types(&["b"])[0]));
        assert_eq!(receiver.dialect(), Some(Dialect::Bidirectional));
    }

    #[test]
    fn the_first_octets_of_another_protocol_are_refused_by_name() {
        let rows: &[(Mode, &[u8], Result<bool, &str>)] = &[
            (Mode::Auto, b"\0\0\0\0", Ok(true)),
            (Mode::Auto, b"\0\0", Ok(false)),
            (Mode::Auto, b"\0\0\0\x05\x0a", Ok(true)),
            (Mode::Auto, b"\0\0\0\x05\xff", Err("wrong_protocol")),
            (Mode::Raw, b"\0\0\0\x05\xff", Ok(true)),
            (Mode::Raw, b"GET / HTTP", Err("http")),
            (
                Mode::Bidirectional,
                b"\0\0\0\x05\x0a",
                Err("wrong_protocol"),
            ),
            (
                Mode::Unidirectional,
                b"\0\0\0\x05\x0a",
                Err("wrong_protocol"),
            ),
            (Mode::Auto, b"\x16\x03\x01\x02\0\x01", Err("tls")),
            (Mode::Auto, b"\0\x64\x08\x01\x12", Err("powerdns_protobuf")),
            (Mode::Auto, b"<14>Jan 1", Err("wrong_protocol")),
        ];
        for (mode, bytes, want) in rows {
            let got = Receiver::new(*mode, types(&["t"])).check_first(bytes, 1 << 20);
            assert_eq!(
                got.as_ref()
                    .map_err(|error| End::from(error).as_str())
                    .copied(),
                *want,
                "{mode:?} {bytes:02x?}"
            );
        }
    }

    #[test]
    fn sender_and_receiver_understand_each_other_in_every_dialect() {
        for dialect in [
            Dialect::Bidirectional,
            Dialect::Unidirectional,
            Dialect::Raw,
        ] {
            let mut sender = Sender::new(dialect, types(&["t"]));
            let mut receiver = Receiver::new(Mode::Auto, types(&["t"]));
            let mut wire: Vec<Control> = sender.start().into_iter().collect();
            while let Some(frame) = wire.pop() {
                if let Action::Reply(reply) = receiver.on_control(&frame).unwrap() {
                    match sender.on_control(&reply).unwrap() {
                        SenderAction::Start(start) => wire.push(start),
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(sender.streaming());
            assert_eq!(receiver.on_data(), Ok(Data::Deliver));
            assert_eq!(
                (receiver.streaming(), receiver.dialect()),
                (true, Some(dialect))
            );
            if let Some(stop) = sender.stop()
                && let Action::Stopped {
                    reply: Some(finish),
                } = receiver.on_control(&stop).unwrap()
            {
                assert_eq!(sender.on_control(&finish), Ok(SenderAction::Finished));
            }
            assert!(sender.finished());
            assert_eq!(
                (sender.on_eof(false), receiver.on_eof(false)),
                (End::Clean, End::Clean),
                "{dialect:?}"
            );
        }
    }

    fn sender(dialect: Dialect, steps: &[&str]) -> Sender {
        let mut sender = Sender::new(dialect, types(&["t"]));
        for step in steps {
            match *step {
                "start" => drop(sender.start()),
                "stop" => drop(sender.stop()),
                name => drop(sender.on_control(&control(kind(name), &[])).unwrap()),
            }
        }
        sender
    }

    #[test]
    fn the_sender_follows_the_table_in_its_documentation() {
        use Dialect::*;
        const F: &str = "unexpected_frame";
        const I: &str = "ignore";
        const EVENTS: [&str; 6] = ["ACCEPT", "FINISH", "READY", "START", "STOP", "?"];
        type Row = (
            &'static [&'static str],
            Dialect,
            [&'static str; 6],
            &'static str,
            Option<ControlKind>,
        );
        let rows: &[Row] = &[
            (
                &[],
                Bidirectional,
                [F, F, F, F, F, I],
                "handshake_eof",
                None,
            ),
            (
                &["start"],
                Bidirectional,
                ["START", F, F, F, F, I],
                "handshake_eof",
                None,
            ),
            (
                &["start", "ACCEPT"],
                Bidirectional,
                [I, I, I, I, I, I],
                "no_stop",
                Some(ControlKind::Stop),
            ),
            (
                &["start", "ACCEPT", "stop"],
                Bidirectional,
                [I, "done", I, I, I, I],
                "no_finish",
                None,
            ),
            (
                &["start", "ACCEPT", "stop", "FINISH"],
                Bidirectional,
                [I, I, I, I, I, I],
                "clean",
                None,
            ),
            (
                &["start"],
                Unidirectional,
                [I, I, I, I, I, I],
                "no_stop",
                Some(ControlKind::Stop),
            ),
            (
                &["start", "stop"],
                Unidirectional,
                [I, I, I, I, I, I],
                "clean",
                None,
            ),
            (&["start"], Raw, [I, I, I, I, I, I], "no_stop", None),
            (&["start", "stop"], Raw, [I, I, I, I, I, I], "clean", None),
        ];
        for (steps, dialect, want, eof, stop) in rows {
            for (at, want) in EVENTS.into_iter().zip(want) {
                let got = match sender(*dialect, steps).on_control(&control(kind(at), &[])) {
                    Ok(SenderAction::Start(start))
                        if start == control(ControlKind::Start, &["t"]) =>
                    {
                        "START"
                    }
                    Ok(SenderAction::Ignored(_)) => I,
                    Ok(SenderAction::Finished) => "done",
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => End::from(&error).as_str(),
                };
                assert_eq!(got, *want, "{dialect:?} {steps:?}: {at}");
            }
            let mut ended = sender(*dialect, steps);
            assert_eq!(ended.on_eof(false).as_str(), *eof, "{dialect:?} {steps:?}");
            assert!(ended.on_data().is_err());
            assert_eq!(ended.stop().map(|c| c.kind), *stop, "{dialect:?} {steps:?}");
            assert!(!ended.streaming());
        }
        assert_eq!(
            sender(Bidirectional, &["start"]).on_eof(true),
            End::Truncated
        );
    }

    #[test]
    fn a_sender_starts_with_the_accepted_type_and_refuses_a_foreign_one() {
        type Names = &'static [&'static str];
        let rows: &[(Names, Names, Result<Names, ()>)] = &[
            (&["a", "b"], &["b"], Ok(&["b"])),
            (&["a", "b"], &[], Ok(&["a"])),
            (&["a", "b"], &["c"], Err(())),
            (&[], &["c"], Ok(&["c"])),
            (&[], &[], Ok(&[])),
        ];
        for (ours, accepted, want) in rows {
            let mut sender = Sender::new(Dialect::Bidirectional, types(ours));
            assert_eq!(sender.start(), Some(control(ControlKind::Ready, ours)));
            assert_eq!(sender.start(), None, "once");
            let got = sender.on_control(&control(ControlKind::Accept, accepted));
            let want = (*want).map(|names| SenderAction::Start(control(ControlKind::Start, names)));
            assert_eq!(
                got.map_err(|_| ()),
                want,
                "ours {ours:?}, ACCEPT {accepted:?}"
            );
        }
    }

    #[test]
    fn a_closed_connection_after_stop_is_success_where_finish_is_optional() {
        let mut sender = Sender::new(Dialect::Bidirectional, types(&["t"])).finish_optional(true);
        sender.start();
        let _ = sender
            .on_control(&control(ControlKind::Accept, &[]))
            .unwrap();
        assert_eq!(sender.on_eof(false), End::NoStop);
        sender.stop();
        assert_eq!(sender.on_eof(false), End::Clean);
    }
}
