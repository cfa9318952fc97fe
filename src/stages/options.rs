//! Settings of the stages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::stages::transform_options::{
    AnonymiseOptions, DropAnswersOptions, FieldsOptions, GeoipOptions, LowercaseOptions,
    RegisteredDomainOptions, TagsOptions,
};
use crate::units::Net;

/// One `[[stage]]`, named by its `type`. Stages run in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StageOptions {
    /// Decodes each frame, once, for the stages after it. Without it frames are relayed undecoded.
    Decode(DecodeOptions),
    /// Keeps the frames that match and drops the others, counted as filtered.
    Filter(FilterOptions),
    /// Keeps one in so many frames, and counts the others as filtered.
    Sample(SampleOptions),
    /// Counts what was decoded for `/metrics`.
    Metrics(MetricsOptions),
    /// Makes the letters of names small.
    Lowercase(LowercaseOptions),
    /// Makes addresses anonymous.
    Anonymise(AnonymiseOptions),
    /// Leaves records out of DNS messages.
    DropAnswers(DropAnswersOptions),
    /// Keeps or leaves out dnstap fields.
    Fields(FieldsOptions),
    /// Adds tags to dnstap's `extra`.
    Tags(TagsOptions),
    /// Tags frames with the registered domain of the query name.
    RegisteredDomain(RegisteredDomainOptions),
    /// Tags frames with the client's country and autonomous system.
    Geoip(GeoipOptions),
}

impl StageOptions {
    /// The values of `type`.
    pub const TYPES: &'static [&'static str] = &[
        "decode",
        "filter",
        "sample",
        "metrics",
        "lowercase",
        "anonymise",
        "drop_answers",
        "fields",
        "tags",
        "registered_domain",
        "geoip",
    ];

    /// The value of `type`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Decode(_) => "decode",
            Self::Filter(_) => "filter",
            Self::Sample(_) => "sample",
            Self::Metrics(_) => "metrics",
            Self::Lowercase(_) => "lowercase",
            Self::Anonymise(_) => "anonymise",
            Self::DropAnswers(_) => "drop_answers",
            Self::Fields(_) => "fields",
            Self::Tags(_) => "tags",
            Self::RegisteredDomain(_) => "registered_domain",
            Self::Geoip(_) => "geoip",
        }
    }

    /// The files that the stage reads; empty paths stand for none.
    pub fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Anonymise(options) => vec![&mut options.key_file],
            Self::RegisteredDomain(options) => vec![&mut options.list],
            Self::Geoip(options) => options.files.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the stage looks into decoded records, so that a decode stage has to come before it.
    pub const fn needs_decode(&self) -> bool {
        match self {
            Self::Decode(_) => false,
            Self::Filter(_) | Self::Metrics(_) => true,
            Self::Lowercase(_)
            | Self::Anonymise(_)
            | Self::DropAnswers(_)
            | Self::Fields(_)
            | Self::Tags(_)
            | Self::RegisteredDomain(_)
            | Self::Geoip(_) => true,
            Self::Sample(sample) => !matches!(sample.by, SampleBy::Random),
        }
    }
}

/// Settings of the decode stage: none yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeOptions {}

/// Settings of the filter stage. A frame matches when it matches the expression and every list that is not empty; it
/// matches a list when it matches one of its entries. A frame that lacks what a list asks about (a message without a name, say) does not
/// match that list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterOptions {
    /// dnstap message types, such as `CLIENT_QUERY`.
    pub message_types: Vec<String>,
    /// Ends of the query name, at a dot: `example.com` matches itself and every name below it.
    pub qname_suffixes: Vec<String>,
    /// Query types, such as `AAAA` or `TYPE65280`.
    pub qtypes: Vec<String>,
    /// Response codes, such as `NXDOMAIN` or `RCODE16`. Queries have none and do not match.
    pub rcodes: Vec<String>,
    /// Networks of the client (dnstap's query address).
    pub networks: Vec<Net>,
    /// A filter expression, such as `qname within example.com and latency > 50ms`; see [`filter`](crate::filter). Empty: none.
    pub expression: String,
    /// Keep what does not match instead, of the lists and the expression together.
    pub invert: bool,
}

/// Settings of the sample stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleOptions {
    /// Keep one frame (or one key) in this many; 1 keeps all. At least 1. Must be given in a file;
    /// the default here stands in until it is.
    pub one_in: u32,
    /// What decides which are kept.
    pub by: SampleBy,
    /// Changes which frames or keys are kept; collectors with the same seed keep the same keys.
    pub seed: u64,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self {
            one_in: 10,
            by: SampleBy::Random,
            seed: 0,
        }
    }
}

impl SampleOptions {
    /// Keys that a file must give, since no default can be right.
    pub const REQUIRED: &'static [&'static str] = &["one_in"];
}

/// What decides which frames a sample keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleBy {
    /// Chance, frame by frame.
    #[default]
    Random,
    /// The query name: all frames of a kept name are kept.
    Qname,
    /// The client's address: all frames of a kept client are kept.
    Client,
    /// The dnstap identity: all frames of a kept server are kept.
    Identity,
}

/// Settings of the metrics stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsOptions {
    /// Identities with a time series of their own; later ones share the label `other`.
    pub identities_max: u32,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            identities_max: 1000,
        }
    }
}
