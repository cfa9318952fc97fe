//! [`Format`]: which form of a record is wanted, by the name that users write; and what each needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dnstap::DecodeReason;
use crate::fields::nearest;
use crate::format::{
    Entry, Template, TemplateError, collector, dnstap_read, golang, json, ldns, pcap, quiet, raw,
    table, vector,
};

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
    /// Names of the fields that are wanted, in order, in a format that takes some of them. Empty: the format's own choice.
    pub fields: Vec<String>,
}

/// Why a text names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFormat {
    /// There is none of that name.
    #[error("{}", unknown(.0))]
    Unknown(String),
    /// It is meant as a template, and is none.
    #[error(transparent)]
    Template(TemplateError),
}

fn unknown(name: &str) -> String {
    let near = nearest(name, Format::names().iter().copied());
    let meant = near.map_or_else(String::new, |name| format!("; did you mean {name}?"));
    format!(
        "there is no format \"{name}\"{meant} There are {}, and templates such as '{{qname}} {{qtype}}'",
        Format::names().join(", ")
    )
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
    /// Whether [`Settings::fields`] applies.
    pub has_fields: bool,
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
    &table::csv::KIND,
    &table::tsv::KIND,
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
    /// A line of the user's own making.
    Template(Template),
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
            Self::Template(template) => template.as_str(),
        }
    }

    /// The ending of file names, without the dot.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Fstrm => "fstrm",
            Self::Kind(kind) => kind.extension,
            Self::Template(_) => quiet::KIND.extension,
        }
    }

    /// How records stand in a file.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Fstrm => Shape::Fstrm,
            Self::Kind(kind) => kind.shape,
            Self::Template(_) => Shape::Lines,
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

    /// Whether [`Settings::fields`] applies.
    pub fn has_fields(&self) -> bool {
        matches!(self, Self::Kind(kind) if kind.has_fields)
    }

    /// The names of the formats to which [`Settings::fields`] applies.
    pub fn names_with_fields() -> String {
        let kinds = Self::kinds().filter(|kind| kind.has_fields);
        kinds.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }

    /// The writer of records; `None` for the frames themselves.
    ///
    /// # Errors
    /// When the settings ask for what the format cannot do.
    pub fn line(&self, settings: &Settings) -> Result<Option<Box<dyn Line>>, FormatError> {
        if !settings.fields.is_empty() && !self.has_fields() {
            let why = match self {
                Self::Template(_) => "a template names its fields itself".to_owned(),
                _ => format!("{self} takes no choice of fields"),
            };
            let takes = Self::names_with_fields();
            return Err(FormatError(format!("{why}; these formats do: {takes}")));
        }
        match self {
            Self::Fstrm => Ok(None),
            Self::Kind(kind) => (kind.make)(settings).map(Some),
            Self::Template(template) => Ok(Some(template.line())),
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
    type Err = NoFormat;

    fn from_str(text: &str) -> Result<Self, NoFormat> {
        if text == "fstrm" {
            return Ok(Self::Fstrm);
        }
        if Template::is_meant(text) {
            let template = Template::parse(text).map_err(NoFormat::Template)?;
            return Ok(Self::Template(template));
        }
        let named = |kind: &&&Kind| kind.name == text || kind.aliases.contains(&text);
        match KINDS.iter().find(named) {
            Some(kind) => Ok(Self::Kind(kind)),
            None => Err(NoFormat::Unknown(text.to_owned())),
        }
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
        text.parse().map_err(|error| match error {
            // The reader of the configuration finds the nearest name in this error.
            NoFormat::Unknown(_) => serde::de::Error::unknown_variant(&text, Self::names()),
            NoFormat::Template(error) => serde::de::Error::custom(error),
        })
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

    #[test]
    fn a_text_with_braces_is_a_template_and_its_error_is_shown_as_it_is() {
        let format: Format = "{qname} {qtype}".parse().unwrap();
        assert_eq!(format.to_string(), "{qname} {qtype}");
        assert_eq!(
            (format.shape(), format.extension(), format.has_local_times()),
            (Shape::Lines, "txt", false)
        );
        assert_ne!(format, "{qname}".parse().unwrap());
        let read = |text: &str| toml::Value::from(text).try_into::<Format>();
        assert_eq!(read("{qname} {qtype}").unwrap(), format);
        let error = read("{qnam}").unwrap_err();
        assert_eq!(
            error.message(),
            "there is no field \"qnam\"; did you mean qname?, at column 2 of the template"
        );
        let error = read("jsno").unwrap_err();
        assert!(error.message().starts_with("unknown variant"), "{error}");
    }

    #[test]
    fn fields_are_for_the_formats_that_take_a_choice() {
        let chosen = |fields: &[&str]| Settings {
            fields: fields.iter().map(|name| (*name).to_owned()).collect(),
            ..Settings::default()
        };
        let error = |format: &str, fields: &[&str]| {
            let format: Format = format.parse().unwrap();
            let line = format.line(&chosen(fields));
            line.err().map(|error| error.to_string())
        };
        for (format, wanted) in [
            (
                "json",
                "json takes no choice of fields; these formats do: csv, tsv",
            ),
            (
                "fstrm",
                "fstrm takes no choice of fields; these formats do: csv, tsv",
            ),
            (
                "{id}",
                "a template names its fields itself; these formats do: csv, tsv",
            ),
        ] {
            assert_eq!(error(format, &["qname"]).as_deref(), Some(wanted));
            assert_eq!(error(format, &[]), None);
        }
        for format in ["csv", "tsv"] {
            assert_eq!(error(format, &["qname", "tag.x"]), None);
            assert_eq!(
                error(format, &["qname", "qtipe"]).as_deref(),
                Some("there is no field \"qtipe\"; did you mean qtype?")
            );
        }
    }
}
