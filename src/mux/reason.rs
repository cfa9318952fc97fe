//! Why sessions and streams end, by name.

use std::io;

use super::frame::{Header, HeaderError};

/// Why a session is over. The first reason stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This end closed it, with this go-away code (0 is the normal one).
    #[error("closed here with code {0}")]
    Local(u32),
    /// The peer said go away, with this code.
    #[error("the peer went away with code {0}")]
    GoAway(u32),
    /// The peer ended the connection between two frames.
    #[error("the peer ended the connection")]
    PeerClosed,
    /// The connection ended within a frame.
    #[error("the connection ended within a frame, {missing} octets short")]
    Cut {
        /// Octets of the header or payload that did not come.
        missing: u32,
    },
    /// The peer speaks something else.
    #[error("the peer speaks no yamux; it began with {:?}", String::from_utf8_lossy(.0))]
    ForeignProtocol([u8; 12]),
    /// The peer speaks another version.
    #[error("the peer speaks version {0} of yamux, not version 0")]
    WrongVersion(u8),
    /// A later header is none.
    #[error("a frame out of step: {0}")]
    BadFrame(HeaderError),
    /// A frame that breaks the protocol.
    #[error("{what}: {header:?}")]
    Protocol {
        /// What is wrong with it.
        what: &'static str,
        /// The frame.
        header: Header,
    },
    /// More data than was granted.
    #[error("stream {stream} sent {by} octets more than it was granted")]
    WindowOverrun {
        /// The stream.
        stream: u32,
        /// Octets beyond the grant.
        by: u32,
    },
    /// The peer keeps opening streams that are refused.
    #[error("the peer went on opening streams after {0} were refused")]
    StreamFlood(u32),
    /// The peer asks for answers and does not read them.
    #[error("the peer does not read: {0} octets of control frames wait")]
    ControlFlood(usize),
    /// Nothing came, not even an answer to a ping: a half-open connection.
    #[error("the peer is silent: no answer to a keepalive ping")]
    KeepaliveTimeout,
    /// The connection took nothing for the write timeout.
    #[error("the connection takes nothing: no progress for the write timeout")]
    WriteTimeout,
    /// No stream was open for as long as the configuration allows.
    #[error("no stream for the idle timeout")]
    IdleTimeout,
    /// Reading or writing the connection failed.
    #[error("{text}")]
    Io {
        /// Its kind.
        kind: io::ErrorKind,
        /// Its text.
        text: String,
    },
}

impl CloseReason {
    /// Short name for metrics and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::GoAway(_) => "go_away",
            Self::PeerClosed => "peer_closed",
            Self::Cut { .. } => "cut",
            Self::ForeignProtocol(_) => "foreign_protocol",
            Self::WrongVersion(_) => "wrong_version",
            Self::BadFrame(_) => "bad_frame",
            Self::Protocol { .. } => "protocol",
            Self::WindowOverrun { .. } => "window_overrun",
            Self::StreamFlood(_) => "stream_flood",
            Self::ControlFlood(_) => "control_flood",
            Self::KeepaliveTimeout => "keepalive_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Io { .. } => "io",
        }
    }

    /// Whether the peer may still be there to read what is written.
    pub(super) const fn leaves_a_peer(&self) -> bool {
        !matches!(
            self,
            Self::KeepaliveTimeout | Self::WriteTimeout | Self::Io { .. }
        )
    }

    /// Code of the go-away frame that tells the peer.
    pub(super) const fn code(&self) -> u32 {
        match self {
            Self::Local(code) => *code,
            Self::ForeignProtocol(_)
            | Self::WrongVersion(_)
            | Self::BadFrame(_)
            | Self::Protocol { .. }
            | Self::WindowOverrun { .. }
            | Self::StreamFlood(_)
            | Self::ControlFlood(_) => 1,
            _ => 0,
        }
    }
}

impl From<&io::Error> for CloseReason {
    fn from(e: &io::Error) -> Self {
        Self::Io {
            kind: e.kind(),
            text: e.to_string(),
        }
    }
}

/// Why a stream takes or gives no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The peer reset it, with this code (0 from implementations that send none, and for a refused stream).
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// It was reset or closed at this end.
    #[error("the stream is closed here")]
    Closed,
    /// A write made no progress for the write timeout.
    #[error("no progress for the write timeout")]
    WriteTimeout,
    /// The session is over.
    #[error("session: {0}")]
    Session(CloseReason),
}

impl From<StreamError> for io::Error {
    fn from(e: StreamError) -> Self {
        let kind = match &e {
            StreamError::Reset(_) => io::ErrorKind::ConnectionReset,
            StreamError::Closed => io::ErrorKind::BrokenPipe,
            StreamError::WriteTimeout => io::ErrorKind::TimedOut,
            StreamError::Session(CloseReason::KeepaliveTimeout | CloseReason::WriteTimeout) => {
                io::ErrorKind::TimedOut
            }
            StreamError::Session(_) => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, e)
    }
}

/// Why no stream could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The quota of concurrent streams is used up, by streams or by what is reserved.
    #[error("the quota of streams is used up")]
    Quota,
    /// The session-wide receive cap has no room for one more window.
    #[error("the receive cap of the session has no room for one more stream")]
    ReceiveCap,
    /// So many streams await the peer's acceptance as its backlog may hold.
    #[error("the peer has not accepted the streams that are open")]
    Backlog,
    /// One of the two ends said that it wants no more streams.
    #[error("one end of the session has said go away")]
    GoneAway,
    /// All identifiers are used.
    #[error("the session has used all stream identifiers")]
    Exhausted,
    /// The session is over.
    #[error("session: {0}")]
    Session(CloseReason),
}

impl OpenError {
    /// Whether it may pass when other streams end or are accepted.
    #[must_use]
    pub const fn is_momentary(&self) -> bool {
        matches!(self, Self::Quota | Self::ReceiveCap | Self::Backlog)
    }
}
