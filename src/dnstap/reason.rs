//! What can be wrong with a payload: what costs the frame ([`DecodeReason`], [`ViewError`]) and what does not
//! ([`Oddity`]). All are closed sets, so that they can be metric labels.

use std::fmt;

/// Why bytes are not a protobuf message of the dnstap schema. A closed set, fit for metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewError {
    /// The payload ends within a varint.
    Truncated,
    /// A varint of more than 64 bits or 10 octets.
    BadVarint,
    /// A field key with number 0, a wire type that does not exist, or more than 32 bits.
    BadKey,
    /// A known field with another wire type than the schema's.
    WireType,
    /// A field longer than what is left of the payload or of the message around it.
    Overrun,
    /// A group that ends without having begun, or under another number.
    BadGroup,
    /// More than 100 levels of nesting.
    TooDeep,
}

impl ViewError {
    /// Every member, in the order of its declaration.
    pub const ALL: [Self; 7] = [
        Self::Truncated,
        Self::BadVarint,
        Self::BadKey,
        Self::WireType,
        Self::Overrun,
        Self::BadGroup,
        Self::TooDeep,
    ];

    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "protobuf_truncated",
            Self::BadVarint => "protobuf_varint",
            Self::BadKey => "protobuf_key",
            Self::WireType => "protobuf_wire_type",
            Self::Overrun => "protobuf_overrun",
            Self::BadGroup => "protobuf_group",
            Self::TooDeep => "protobuf_depth",
        }
    }
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the payload ends within a number",
            Self::BadVarint => "a number of more than 64 bits",
            Self::BadKey => "a field key that no schema can have",
            Self::WireType => "a known field with a foreign wire type",
            Self::Overrun => "a field that is longer than what is left of its message",
            Self::BadGroup => "a group that ends without its beginning",
            Self::TooDeep => "more than 100 levels of nesting",
        })
    }
}

impl std::error::Error for ViewError {}

/// Why a frame counts as a decode error and not as a record. A closed set: [`ALL`](Self::ALL) are the values of
/// the metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeReason {
    /// The payload is not protobuf of this schema.
    Protobuf(ViewError),
    /// `Dnstap.type` is missing.
    MissingDnstapType,
    /// `Dnstap.type` is not MESSAGE.
    UnknownDnstapType,
    /// `Dnstap.type` is MESSAGE, and there is no message.
    MissingMessage,
    /// `Message.type` is missing.
    MissingMessageType,
}

impl DecodeReason {
    /// Every member.
    pub const ALL: [Self; 11] = [
        Self::Protobuf(ViewError::Truncated),
        Self::Protobuf(ViewError::BadVarint),
        Self::Protobuf(ViewError::BadKey),
        Self::Protobuf(ViewError::WireType),
        Self::Protobuf(ViewError::Overrun),
        Self::Protobuf(ViewError::BadGroup),
        Self::Protobuf(ViewError::TooDeep),
        Self::MissingDnstapType,
        Self::UnknownDnstapType,
        Self::MissingMessage,
        Self::MissingMessageType,
    ];

    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protobuf(error) => error.as_str(),
            Self::MissingDnstapType => "dnstap_type_missing",
            Self::UnknownDnstapType => "dnstap_type_unknown",
            Self::MissingMessage => "message_missing",
            Self::MissingMessageType => "message_type_missing",
        }
    }

    /// Place in [`ALL`](Self::ALL), for counters.
    pub const fn index(self) -> usize {
        match self {
            Self::Protobuf(error) => error as usize,
            Self::MissingDnstapType => 7,
            Self::UnknownDnstapType => 8,
            Self::MissingMessage => 9,
            Self::MissingMessageType => 10,
        }
    }
}

impl From<ViewError> for DecodeReason {
    fn from(error: ViewError) -> Self {
        Self::Protobuf(error)
    }
}

impl fmt::Display for DecodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protobuf(error) => error.fmt(f),
            Self::MissingDnstapType => f.write_str("no Dnstap.type"),
            Self::UnknownDnstapType => f.write_str("a Dnstap.type that is not MESSAGE"),
            Self::MissingMessage => f.write_str("no message"),
            Self::MissingMessageType => f.write_str("no Message.type"),
        }
    }
}

impl std::error::Error for DecodeReason {}

/// Something in a record that looks wrong and costs at most the field it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Oddity {
    /// An address of neither 0, 4 nor 16 octets; it counts as absent (corpus p09).
    AddressLength,
    /// An address whose length does not go with the stated family; the length decides (corpus p06, p10).
    AddressFamily,
    /// A query zone that is not a name; it counts as absent (corpus p45).
    QueryZone,
    /// A time that no calendar shows; kept as sent (corpus p21, p23).
    Time,
    /// A port above 65,535; kept as sent.
    Port,
}

impl Oddity {
    /// Every member, in the order of its declaration.
    pub const ALL: [Self; 5] = [
        Self::AddressLength,
        Self::AddressFamily,
        Self::QueryZone,
        Self::Time,
        Self::Port,
    ];

    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AddressLength => "address_length",
            Self::AddressFamily => "address_family",
            Self::QueryZone => "query_zone",
            Self::Time => "time",
            Self::Port => "port",
        }
    }
}

/// A set of [`Oddity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities(u8);

impl Oddities {
    pub(crate) fn set(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u8;
    }

    /// Whether nothing looks wrong.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `oddity` is in the set.
    pub const fn contains(self, oddity: Oddity) -> bool {
        self.0 & 1 << oddity as u8 != 0
    }

    /// The members, in the order of their declaration.
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL
            .into_iter()
            .filter(move |oddity| self.contains(*oddity))
    }
}
