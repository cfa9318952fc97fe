//! The frame header of yamux: twelve octets, big-endian, nothing optional.
//!
//! ```text
//!  0        1        2                 4                 8                12
//! ┌────────┬────────┬─────────────────┬─────────────────┬────────────────┐
//! │version │ type   │ flags           │ stream id       │ length         │
//! └────────┴────────┴─────────────────┴─────────────────┴────────────────┘
//! ```
//!
//! `length` is the number of octets that follow for data, the increment for a window update, the opaque value of a ping and
//! the code of a go-away. Source: the specification of yamux, version 0.

/// Octets of a header.
pub const HEADER_LEN: usize = 12;
/// The only version there is.
pub const VERSION: u8 = 0;
/// Credit that each end of a stream has before anybody grants any, in octets.
pub const INITIAL_WINDOW: u32 = 256 * 1024;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Octets of a stream follow.
    Data,
    /// The receiver of this may send so many octets more.
    WindowUpdate,
    /// A question (SYN) or its answer (ACK) about the round trip.
    Ping,
    /// The sender takes no more streams.
    GoAway,
}

impl Kind {
    const fn octet(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::WindowUpdate => 1,
            Self::Ping => 2,
            Self::GoAway => 3,
        }
    }
}

/// Flags of a frame; they combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Opens a stream; in a ping: the question.
    pub const SYN: Self = Self(1);
    /// Accepts a stream; in a ping: the answer.
    pub const ACK: Self = Self(2);
    /// The sender sends no more on the stream.
    pub const FIN: Self = Self(4);
    /// The stream is over in both directions at once.
    pub const RST: Self = Self(8);

    /// Whether every flag of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As on the wire.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Flags from the wire; bits that mean nothing are kept.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Its flags.
    pub flags: Flags,
    /// The stream it is about; 0 is the session.
    pub stream: u32,
    /// Octets that follow, increment, ping value or code, by kind.
    pub length: u32,
}

/// Twelve octets that are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Right in all but the version.
    #[error("version {0} of yamux, where there is only version 0")]
    Version(u8),
    /// Version 0 and a type that is none.
    #[error("frame type {0}, where 0 to 3 are types")]
    Kind(u8),
    /// Not yamux in any version.
    #[error("no frame of yamux: {}", .0.escape_ascii())]
    Foreign([u8; HEADER_LEN]),
}

impl Header {
    /// A header.
    #[must_use]
    pub const fn new(kind: Kind, flags: Flags, stream: u32, length: u32) -> Self {
        Self {
            kind,
            flags,
            stream,
            length,
        }
    }

    /// As on the wire.
    #[must_use]
    pub const fn encode(&self) -> [u8; HEADER_LEN] {
        let [f0, f1] = self.flags.0.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        [
            VERSION,
            self.kind.octet(),
            f0,
            f1,
            s0,
            s1,
            s2,
            s3,
            l0,
            l1,
            l2,
            l3,
        ]
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]: a plausible header of another version, a type that is none, or something else altogether.
    pub const fn decode(octets: [u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let [version, kind, f0, f1, s0, s1, s2, s3, l0, l1, l2, l3] = octets;
        let flags = u16::from_be_bytes([f0, f1]);
        // All flags that exist fit four bits: text and TLS records show themselves here.
        if flags > 0xf {
            return Err(HeaderError::Foreign(octets));
        }
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::WindowUpdate,
            2 => Kind::Ping,
            3 => Kind::GoAway,
            other if version == VERSION => return Err(HeaderError::Kind(other)),
            _ => return Err(HeaderError::Foreign(octets)),
        };
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        Ok(Self {
            kind,
            flags: Flags(flags),
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_stand_on_the_wire_as_the_specification_has_them() {
        let table: &[(Header, [u8; 12])] = &[
            (
                Header::new(Kind::Data, Flags::NONE, 1, 5),
                [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5],
            ),
            (
                Header::new(Kind::WindowUpdate, Flags::SYN, 0x0102_0304, 0x0506_0708),
                [0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8],
            ),
            (
                Header::new(Kind::Ping, Flags::ACK, 0, u32::MAX),
                [0, 2, 0, 2, 0, 0, 0, 0, 255, 255, 255, 255],
            ),
            (
                Header::new(Kind::GoAway, Flags::NONE, 0, 2),
                [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            ),
            (
                Header::new(Kind::Data, Flags::FIN.and(Flags::ACK), 2, 0),
                [0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 0],
            ),
            (
                Header::new(Kind::WindowUpdate, Flags::RST, u32::MAX, 0),
                [0, 1, 0, 8, 255, 255, 255, 255, 0, 0, 0, 0],
            ),
        ];
        for (header, wire) in table {
            assert_eq!(header.encode(), *wire, "{header:?}");
            assert_eq!(Header::decode(*wire), Ok(*header));
        }
    }

    #[test]
    fn what_is_no_header_is_told_apart() {
        let http = *b"GET / HTTP/1";
        let tls = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0];
        let table: &[([u8; 12], HeaderError)] = &[
            (
                [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
                HeaderError::Version(1),
            ),
            ([0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], HeaderError::Kind(4)),
            (http, HeaderError::Foreign(http)),
            (tls, HeaderError::Foreign(tls)),
        ];
        for (octets, error) in table {
            assert_eq!(Header::decode(*octets), Err(*error));
        }
    }
}
