//! How streams end, whichever of decoder, handshake and peer ended them.

use super::detect::Sniff;
use super::error::DecodeError;
use super::error::DecodeReason;
use super::error::HandshakeError;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_a_label_of_its_own() {
        let labels: std::collections::BTreeSet<_> =
            End::ALL.iter().map(|end| end.as_str()).collect();
        assert_eq!(labels.len(), End::ALL.len());
    }
}
