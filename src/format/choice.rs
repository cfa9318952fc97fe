//! [`Format`]: which form of a record is wanted, by the name that users write; and what each needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dnstap::DecodeReason;
use crate::format::{Entry, collector, dnstap_read, golang, json, ldns, pcap, quiet, raw, vector};

/// Writes records in one format. One for each place that is written to, so that it may keep buffers.
pub trait Line: Send {
    /// Appends what stands once before the first record of a file or a stream: a line of column names, a pcap header.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Appends one record, whole, its line feed included where the format has lines. Nothing is appended for a record of
    /// which the format has nothing to show (a packet capture, of one without a DNS message).
    ///
    /// # Errors
    /// Why the frame is no record of this format; nothing is appended then.
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason>;
}

/// What can be set about a format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Times in UTC where the format would show them in the machine's time zone.
    pub utc: bool,
}

/// Why a format cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormatError(pub String);

/// How the records of a format stand in a file, so that a torn end can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Frame Streams.
    Fstrm,
    /// Lines of text.
    Lines,
    /// Packets.
    Pcap,
}

/// A format, as its module declares it.
#[derive(Debug)]
pub struct Kind {
    /// The name users write.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// One line about it.
    pub about: &'static str,
    /// The ending of file names, without the dot.
    pub extension: &'static str,
    /// How records stand in a file.
    pub shape: Shape,
    /// Whether [`Settings::utc`] makes a difference.
    pub has_local_times: bool,
    /// Makes the writer.
    pub make: fn(&Settings) -> Result<Box<dyn Line>, FormatError>,
}

/// Every format of records, in the order of the documentation.
static KINDS: &[&Kind] = &[
    &quiet::KIND,
    &golang::yaml::KIND,
    &golang::json::KIND,
    &json::KIND,
    &dnstap_read::line::KIND,
    &dnstap_read::yaml::KIND,
    &ldns::yaml::KIND,
    &ldns::quiet::KIND,
    &collector::flat::KIND,
    &collector::flat::JOINED,
    &collector::line::KIND,
    &vector::KIND,
    &raw::HEX,
    &raw::BASE_64,
    &pcap::KIND,
];

/// Names of all formats, that of the frames themselves first.
static NAMES: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
    std::iter::once("fstrm")
        .chain(KINDS.iter().map(|kind| kind.name))
        .collect()
});

/// What a record, or a run of frames, becomes.
#[derive(Clone, Debug)]
pub enum Format {
    /// Frame Streams: the frames as they came.
    Fstrm,
    /// One of the formats with a name.
    Kind(&'static Kind),
}

impl Format {
    /// golang-dnstap's line.
    pub const TEXT: Self = Self::Kind(&quiet::KIND);
    /// Our JSON.
    pub const JSON: Self = Self::Kind(&json::KIND);

    /// Every format of records.
    pub fn kinds() -> impl Iterator<Item = &'static Kind> {
        KINDS.iter().copied()
    }

    /// Every name but the aliases.
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The name, or the text of a template.
    pub fn name(&self) -> &str {
        match self {
            Self::Fstrm => "fstrm",
            Self::Kind(kind) => kind.name,
        }
    }

    /// The ending of file names, without the dot.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Fstrm => "fstrm",
            Self::Kind(kind) => kind.extension,
        }
    }

    /// How records stand in a file.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Fstrm => Shape::Fstrm,
            Self::Kind(kind) => kind.shape,
        }
    }

    /// How records stand in a file whose name has this ending; `None` when no format has it.
    pub fn shape_of_extension(extension: &str) -> Option<Shape> {
        if extension == "fstrm" {
            return Some(Shape::Fstrm);
        }
        let kind = KINDS.iter().find(|kind| kind.extension == extension)?;
        Some(kind.shape)
    }

    /// Whether [`Settings::utc`] makes a difference.
    pub fn has_local_times(&self) -> bool {
        matches!(self, Self::Kind(kind) if kind.has_local_times)
    }

    /// The writer of records; `None` for the frames themselves.
    ///
    /// # Errors
    /// When the settings ask for what the format cannot do.
    pub fn line(&self, settings: &Settings) -> Result<Option<Box<dyn Line>>, FormatError> {
        match self {
            Self::Fstrm => Ok(None),
            Self::Kind(kind) => (kind.make)(settings).map(Some),
        }
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        if text == "fstrm" {
            return Ok(Self::Fstrm);
        }
        let named = |kind: &&&Kind| kind.name == text || kind.aliases.contains(&text);
        if let Some(kind) = KINDS.iter().find(named) {
            return Ok(Self::Kind(kind));
        }
        let near = Self::names()
            .iter()
            .max_by(|a, b| strsim::jaro(text, a).total_cmp(&strsim::jaro(text, b)))
            .filter(|name| strsim::jaro(text, name) > 0.6);
        let meant = near.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        Err(FormatError(format!(
            "there is no format \"{text}\"{meant} There are {}",
            Self::names().join(", ")
        )))
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The reader of the configuration finds the nearest name in this error.
        text.parse()
            .map_err(|_| serde::de::Error::unknown_variant(&text, Self::names()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_format_has_names_of_its_own_and_reads_back_from_them() {
        let mut seen = HashSet::from(["fstrm"]);
        for kind in Format::kinds() {
            for name in kind.aliases.iter().chain([&kind.name]) {
                assert!(seen.insert(name), "{name} twice");
                assert_eq!(name.parse::<Format>().unwrap().name(), kind.name);
            }
            let format = Format::Kind(kind);
            assert_eq!(
                Format::shape_of_extension(kind.extension),
                Some(kind.shape),
                "one ending, one shape: {}",
                kind.name
            );
            assert!(format.line(&Settings::default()).unwrap().is_some());
        }
        assert!(Format::Fstrm.line(&Settings::default()).unwrap().is_none());
    }

    #[test]
    fn an_unknown_format_gets_the_nearest_and_all_names() {
        let error = "jsom".parse::<Format>().unwrap_err().to_string();
        assert!(
            error.contains("did you mean json?") && error.contains("text"),
            "{error}"
        );
    }
}
