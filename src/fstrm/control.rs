//! Control frames: parse and encode as a pair.

use std::fmt;

use bytes::Bytes;

use super::error::DecodeReason;
use super::mark::Mark;
use crate::wire::Reader;
use crate::wire::index;

/// The content type of dnstap.
pub const CONTENT_TYPE_DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";

/// The content type of acknowledged delivery of dnstap; see [`mark`](super::mark).
pub const CONTENT_TYPE_DNSTAP_ACK: &[u8] = b"protobuf:dnstap.Dnstap+ack";

/// Octets a content type may have, inclusive; libfstrm's limit.
pub const CONTENT_TYPE_LEN_MAX: usize = 256;

/// The only field type there is.
const FIELD_CONTENT_TYPE: u32 = 1;

/// A content type: any octets, at most [`CONTENT_TYPE_LEN_MAX`], compared octet for octet.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ContentType(Bytes);

impl ContentType {
    /// The content type of dnstap, [`CONTENT_TYPE_DNSTAP`].
    pub const DNSTAP: Self = Self(Bytes::from_static(CONTENT_TYPE_DNSTAP));

    /// The content type of acknowledged delivery of dnstap, [`CONTENT_TYPE_DNSTAP_ACK`].
    pub const DNSTAP_ACK: Self = Self(Bytes::from_static(CONTENT_TYPE_DNSTAP_ACK));

    /// A content type of these octets.
    ///
    /// # Errors
    /// [`ContentTypeTooLong`] when there are more than [`CONTENT_TYPE_LEN_MAX`].
    pub fn new(octets: impl Into<Bytes>) -> Result<Self, ContentTypeTooLong> {
        let octets = octets.into();
        if octets.len() > CONTENT_TYPE_LEN_MAX {
            Err(ContentTypeTooLong { len: octets.len() })
        } else {
            Ok(Self(octets))
        }
    }

    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ContentType {
    /// The octets as text; what is not printable ASCII is escaped, so that a peer cannot write into our log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A content type of more than [`CONTENT_TYPE_LEN_MAX`] octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a content type of {len} octets is over the limit of {CONTENT_TYPE_LEN_MAX}")]
pub struct ContentTypeTooLong {
    /// Octets it has.
    pub len: usize,
}

/// The type of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlKind {
    /// 1: the receiver's answer to READY.
    Accept,
    /// 2: data follows.
    Start,
    /// 3: no more data follows.
    Stop,
    /// 4: a sender that wants an answer says which content types it has.
    Ready,
    /// 5: the receiver's answer to STOP.
    Finish,
    /// One of acknowledged delivery; without a meaning on other streams.
    Mark(Mark),
    /// Any other number: a later version's.
    Unknown(u32),
}

impl ControlKind {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Accept => 1,
            Self::Start => 2,
            Self::Stop => 3,
            Self::Ready => 4,
            Self::Finish => 5,
            Self::Mark(mark) => mark.code(),
            Self::Unknown(code) => code,
        }
    }

    /// The name, upper case; `UNKNOWN` for a number without one (a closed set, fit for metric labels).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "ACCEPT",
            Self::Start => "START",
            Self::Stop => "STOP",
            Self::Ready => "READY",
            Self::Finish => "FINISH",
            Self::Mark(mark) => mark.as_str(),
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    /// How many content types a frame of this type may carry, or `None` for any number.
    const fn content_types_max(self) -> Option<usize> {
        match self {
            // An old golang-framestream repeats the type in STOP; harmless, so tolerated.
            Self::Accept | Self::Ready | Self::Stop => None,
            Self::Start => Some(1),
            Self::Finish | Self::Mark(_) | Self::Unknown(_) => Some(0),
        }
    }
}

impl From<u32> for ControlKind {
    fn from(code: u32) -> Self {
        match code {
            1 => Self::Accept,
            2 => Self::Start,
            3 => Self::Stop,
            4 => Self::Ready,
            5 => Self::Finish,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(code) => write!(f, "control type {code}"),
            known => f.write_str(known.as_str()),
        }
    }
}

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its type.
    pub kind: ControlKind,
    /// Its content types: READY, ACCEPT and a tolerated STOP any number, START none or one, FINISH none. An unknown
    /// type's fields are not looked at.
    pub content_types: Vec<ContentType>,
}

impl Control {
    /// A control frame without content types.
    #[must_use]
    pub const fn plain(kind: ControlKind) -> Self {
        Self {
            kind,
            content_types: Vec::new(),
        }
    }

    /// A control frame with one content type, or with none.
    #[must_use]
    pub fn with_type(kind: ControlKind, content_type: Option<ContentType>) -> Self {
        Self {
            kind,
            content_types: content_type.into_iter().collect(),
        }
    }

    /// Parses what follows the length word of a control frame: its type and fields, all of them.
    ///
    /// # Errors
    /// The reason why it is malformed: shorter than its type, a field that is cut or runs past the end, an unknown
    /// field type, a content type over [`CONTENT_TYPE_LEN_MAX`], more content types than the control type may carry.
    pub fn parse(body: &[u8]) -> Result<Self, DecodeReason> {
        let mut reader = Reader::new(body);
        let kind = ControlKind::from(reader.u32().ok_or(DecodeReason::ControlTooShort)?);
        let mut content_types = Vec::new();
        if let ControlKind::Unknown(code) = kind {
            let mark = Mark::parse(code, reader.rest());
            return Ok(Self {
                kind: mark.map_or(kind, ControlKind::Mark),
                content_types,
            });
        }
        while !reader.is_empty() {
            let (Some(field), Some(len)) = (reader.u32(), reader.u32()) else {
                return Err(DecodeReason::FieldCut);
            };
            if field != FIELD_CONTENT_TYPE {
                return Err(DecodeReason::FieldUnknown);
            }
            // No sum is formed with the peer's length, so 0xffff_fff8 has nothing to wrap.
            let octets = reader.take(index(len)).ok_or(DecodeReason::FieldOverrun)?;
            if octets.len() > CONTENT_TYPE_LEN_MAX {
                return Err(DecodeReason::ContentTypeTooLong);
            }
            if kind
                .content_types_max()
                .is_some_and(|max| content_types.len() >= max)
            {
                return Err(DecodeReason::TooManyContentTypes);
            }
            content_types.push(ContentType(Bytes::copy_from_slice(octets)));
        }
        Ok(Self {
            kind,
            content_types,
        })
    }

    /// Appends the whole frame, escape and length word included, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let fields: usize = self
            .content_types
            .iter()
            .map(|t| 8 + t.as_bytes().len())
            .sum();
        let fields = match self.kind {
            ControlKind::Mark(mark) => mark.fields_len(),
            _ => fields,
        };
        out.reserve(12 + fields);
        out.extend_from_slice(&0u32.to_be_bytes());
        out.extend_from_slice(&wire_len(4 + fields).to_be_bytes());
        out.extend_from_slice(&self.kind.code().to_be_bytes());
        if let ControlKind::Mark(mark) = self.kind {
            mark.encode_fields(out);
            return;
        }
        for content_type in &self.content_types {
            out.extend_from_slice(&FIELD_CONTENT_TYPE.to_be_bytes());
            out.extend_from_slice(&wire_len(content_type.as_bytes().len()).to_be_bytes());
            out.extend_from_slice(content_type.as_bytes());
        }
    }

    /// The whole frame as bytes of its own: control frames are rare, so the allocation does not matter.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.encode(&mut out);
        Bytes::from(out)
    }
}

/// A content type has at most 256 octets, and sixteen million of them do not fit into memory by accident.
fn wire_len(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A body of the given words, each as four octets, with `tail` after it.
    fn body(words: &[u32], tail: &[u8]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|w| w.to_be_bytes())
            .chain(tail.iter().copied())
            .collect()
    }

    #[test]
    fn malformed_bodies_are_refused_with_their_reason() {
        use DecodeReason::*;
        let too_long = [b'x'; 257];
        let rows: &[(&str, Vec<u8>, DecodeReason)] = &[
            ("nothing", vec![], ControlTooShort),
            ("half a type", vec![0, 0, 0], ControlTooShort),
            ("one octet of a field", body(&[2], &[0]), FieldCut),
            ("a field type alone", body(&[2, 1], &[]), FieldCut),
            (
                "seven octets of a field",
                body(&[2, 1], &[0, 0, 0]),
                FieldCut,
            ),
            (
                "a value that is cut",
                body(&[2, 1, 11], b"0123456789"),
                FieldOverrun,
            ),
            (
                "a length that would wrap",
                body(&[2, 1, 0xffff_fff8], &[]),
                FieldOverrun,
            ),
            (
                "the largest length",
                body(&[2, 1, 0xffff_ffff], b"abc"),
                FieldOverrun,
            ),
            ("a trailing octet", body(&[2, 1, 3], b"abcd"), FieldCut),
            ("another field type", body(&[2, 2, 3], b"abc"), FieldUnknown),
            ("field type 0", body(&[4, 0, 3], b"abc"), FieldUnknown),
            (
                "a type of 257 octets",
                body(&[4, 1, 257], &too_long),
                ContentTypeTooLong,
            ),
            (
                "two types in START",
                body(&[2, 1, 0, 1, 0], &[]),
                TooManyContentTypes,
            ),
            (
                "a type in FINISH",
                body(&[5, 1, 0], &[]),
                TooManyContentTypes,
            ),
        ];
        for (name, bytes, want) in rows {
            assert_eq!(Control::parse(bytes), Err(*want), "{name}");
        }
    }

    #[test]
    fn the_limits_themselves_are_taken() {
        let longest = body(&[2, 1, 256], &[b'x'; 256]);
        assert_eq!(
            Control::parse(&longest).unwrap().content_types[0].as_bytes(),
            [b'x'; 256]
        );
        let empty = Control::parse(&body(&[1, 1, 0], &[])).unwrap();
        assert_eq!(
            empty.content_types[0].as_bytes(),
            b"",
            "an empty content type is a content type"
        );
        let stop = [body(&[3, 1, 1], b"a"), body(&[1, 1], b"b")].concat();
        assert_eq!(
            Control::parse(&stop).unwrap().content_types.len(),
            2,
            "STOP with types is tolerated"
        );
        assert_eq!(
            ContentType::new(vec![0; 257]),
            Err(ContentTypeTooLong { len: 257 })
        );
    }

    #[test]
    fn the_fields_of_an_unknown_type_are_not_looked_at() {
        let control = Control::parse(&body(&[0xabad_1dea], b"anything")).unwrap();
        assert_eq!(control, Control::plain(ControlKind::Unknown(0xabad_1dea)));
    }

    #[test]
    fn a_content_type_cannot_write_into_a_log() {
        let hostile = ContentType::new(&b"a\x1b[31m\n\xff"[..]).unwrap();
        assert_eq!(hostile.to_string(), r"a\x1b[31m\n\xff");
        assert_eq!(format!("{hostile:?}"), r#""a\x1b[31m\n\xff""#);
    }

    proptest! {
        #[test]
        fn what_is_encoded_parses_to_the_same(
            code in 1u32..=5,
            types in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..=256), 0..5),
        ) {
            let kind = ControlKind::from(code);
            let max = kind.content_types_max().unwrap_or(usize::MAX);
            let content_types =
                types.into_iter().take(max).map(|t| ContentType::new(t).unwrap()).collect();
            let control = Control { kind, content_types };
            let bytes = control.to_bytes();
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.u32(), Some(0));
            prop_assert_eq!(reader.u32().map(index), Some(bytes.len() - 8));
            prop_assert_eq!(Control::parse(reader.rest()), Ok(control));
        }
    }
}
