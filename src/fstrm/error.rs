//! What can be wrong with a stream. Errors carry numbers, so that one log line tells a lost framing from a limit that is
//! too low; reasons are closed sets, so that they can be metric labels.

use std::fmt;

use super::control::ContentType;
use super::control::ControlKind;
use super::detect::Sniff;

/// Why the bytes are not Frame Streams, or not within the limits. Every reason ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeReason {
    /// A control frame of fewer than the four octets of its type.
    ControlTooShort,
    /// A control frame over the limit.
    ControlTooLong,
    /// A data frame over the limit, where oversized frames close the stream.
    DataTooLong,
    /// A data length that no sender means, see [`Limits::skip_len_max`](super::Limits::skip_len_max).
    LostFraming,
    /// A control frame that ends within the header of a field.
    FieldCut,
    /// A field that runs past the end of its control frame.
    FieldOverrun,
    /// A field of a type other than 1, the content type.
    FieldUnknown,
    /// A content type of more than 256 octets.
    ContentTypeTooLong,
    /// More content types than this control type may carry.
    TooManyContentTypes,
}

impl DecodeReason {
    /// A short name in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControlTooShort => "control_too_short",
            Self::ControlTooLong => "control_too_long",
            Self::DataTooLong => "data_too_long",
            Self::LostFraming => "lost_framing",
            Self::FieldCut => "field_cut",
            Self::FieldOverrun => "field_overrun",
            Self::FieldUnknown => "field_unknown",
            Self::ContentTypeTooLong => "content_type_too_long",
            Self::TooManyContentTypes => "too_many_content_types",
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::ControlTooShort => "control frame shorter than its type",
            Self::ControlTooLong => "control frame over the limit",
            Self::DataTooLong => "data frame over the limit",
            Self::LostFraming => "impossible length, so the framing is lost",
            Self::FieldCut => "control frame ends within a field header",
            Self::FieldOverrun => "field runs past the end of its control frame",
            Self::FieldUnknown => "unknown field type in a control frame",
            Self::ContentTypeTooLong => "content type over 256 octets",
            Self::TooManyContentTypes => "too many content types in a control frame",
        }
    }
}

/// A stream that cannot be read on, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {offset}: length {len} (limit {limit}), first octets {octets}", .reason.describe())]
pub struct DecodeError {
    /// What is wrong.
    pub reason: DecodeReason,
    /// Stream offset, in bytes, of the frame's first octet (its length word or escape).
    pub offset: u64,
    /// The length read: of the data frame, or of the control frame without escape and length word.
    pub len: u32,
    /// The limit that applied to this length, in bytes.
    pub limit: usize,
    /// The first octets of the frame, as far as they had arrived.
    pub octets: FirstOctets,
}

/// Up to sixteen octets from where it went wrong, shown in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FirstOctets {
    octets: [u8; 16],
    len: u8,
}

impl FirstOctets {
    /// The first octets of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut octets = [0; 16];
        let mut len = 0;
        for (to, from) in octets.iter_mut().zip(bytes) {
            *to = *from;
            len += 1;
        }
        Self { octets, len }
    }

    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Display for FirstOctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for FirstOctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes that are not a run of whole data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a run of whole data frames: broken at byte {offset}")]
pub struct NotARun {
    /// Offset of the frame that is empty or cut.
    pub offset: usize,
}

/// A peer that speaks Frame Streams, but not in this order or not about this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// None of the peer's content types is one of ours.
    #[error("no content type in common: the peer's {got:?}, ours {ours:?}")]
    ContentTypeMismatch {
        /// What the peer named.
        got: Vec<ContentType>,
        /// What we take.
        ours: Vec<ContentType>,
    },
    /// A control frame that has no place here.
    #[error("unexpected {got} while {state}")]
    UnexpectedControl {
        /// What we were doing.
        state: &'static str,
        /// What came.
        got: ControlKind,
    },
    /// A data frame before the stream was started.
    #[error("unexpected data frame while {state}")]
    UnexpectedData {
        /// What we were doing.
        state: &'static str,
    },
    /// The first octets are another protocol's, or raw data where raw is not allowed.
    #[error("not Frame Streams: {} (first octets {octets})", .looks_like.describe())]
    WrongProtocol {
        /// What they look like.
        looks_like: Sniff,
        /// The first octets.
        octets: FirstOctets,
    },
}
