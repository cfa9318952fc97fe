//! Settings of the stages that change frames.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::units::Span;

/// Settings of the lowercase stage: none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LowercaseOptions {}

/// Settings of the drop_answers stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DropAnswersOptions {
    /// The sections to leave out. OPT records stay.
    pub sections: Vec<DnsSection>,
}

impl Default for DropAnswersOptions {
    fn default() -> Self {
        Self {
            sections: vec![
                DnsSection::Answer,
                DnsSection::Authority,
                DnsSection::Additional,
            ],
        }
    }
}

/// A section of records in a DNS message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsSection {
    /// Answers.
    Answer,
    /// Authority records.
    Authority,
    /// Additional records.
    Additional,
}

/// Settings of the anonymise stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnonymiseOptions {
    /// How addresses are made anonymous.
    pub mode: AnonymiseMode,
    /// Whose addresses.
    pub addresses: Vec<AddressField>,
    /// Whether addresses in EDNS client subnets are made anonymous in the same way.
    pub client_subnet: bool,
    /// Bits that `truncate` leaves of an IPv4 address, 0 to 32.
    pub ipv4_prefix: u8,
    /// Bits that `truncate` leaves of an IPv6 address, 0 to 128.
    pub ipv6_prefix: u8,
    /// File with the key of `crypto_pan`: 32 octets, or 64 hexadecimal digits.
    pub key_file: PathBuf,
    /// How long a key made from that of the file is used; off: the file's key itself, always.
    pub rotate: Span,
    /// How often to see whether the key file has changed; off: never.
    pub reload: Span,
}

impl Default for AnonymiseOptions {
    fn default() -> Self {
        Self {
            mode: AnonymiseMode::Truncate,
            addresses: vec![AddressField::QueryAddress],
            client_subnet: true,
            ipv4_prefix: 24,
            ipv6_prefix: 48,
            key_file: PathBuf::new(),
            rotate: Span::OFF,
            reload: Span::secs(30),
        }
    }
}

/// How addresses are made anonymous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnonymiseMode {
    /// The bits after the prefix become zero.
    #[default]
    Truncate,
    /// Crypto-PAn: another address for each, with prefixes preserved.
    CryptoPan,
}

/// An address of a dnstap message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressField {
    /// Of whoever asked.
    QueryAddress,
    /// Of whoever answered.
    ResponseAddress,
}

/// Settings of the fields stage: one of the two lists.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldsOptions {
    /// The dnstap fields to keep, by their names in the schema; the others are left out.
    pub keep: Vec<String>,
    /// The dnstap fields to leave out.
    pub drop: Vec<String>,
}

/// Settings of the tags stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TagsOptions {
    /// Tags to add, each `name=value`.
    pub add: Vec<String>,
}

/// Settings of the registered_domain stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegisteredDomainOptions {
    /// A public suffix list to use in place of the one built in; empty: that one.
    pub list: PathBuf,
}

/// Settings of the geoip stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeoipOptions {
    /// MaxMind DB files, in the order in which they are asked.
    pub files: Vec<PathBuf>,
    /// Which tags to write.
    pub tags: Vec<GeoTag>,
    /// How often to see whether a file has changed; off: never.
    pub reload: Span,
}

impl Default for GeoipOptions {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            tags: vec![GeoTag::Country, GeoTag::Asn, GeoTag::AsOrg],
            reload: Span::secs(30),
        }
    }
}

/// A tag of the geoip stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeoTag {
    /// The country's ISO 3166-1 code.
    Country,
    /// The number of the autonomous system.
    Asn,
    /// Its organisation.
    AsOrg,
}

impl GeoTag {
    /// The tag's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Country => "country",
            Self::Asn => "asn",
            Self::AsOrg => "as_org",
        }
    }
}
