//! What can be wrong with a DNS message.

use std::fmt;

/// Why a DNS message, or a part of it, is malformed. A closed set, fit for metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Fewer than the 12 octets of a header.
    HeaderCut,
    /// The message ends within a name, also after the first octet of a pointer.
    NameCut,
    /// A name of more than 255 octets.
    NameTooLong,
    /// A label that begins with the bits 01 or 10.
    LabelType,
    /// A pointer that does not go back, or goes into the header.
    PointerTarget,
    /// More pointers in one name than it can have labels.
    PointerChain,
    /// The message ends within a question, or before the questions that QDCOUNT promises.
    QuestionCut,
    /// The message ends within a record before its data.
    RecordCut,
    /// The message ends at the end of a record, with fewer than the counts promise and TC clear.
    RecordsMissing,
    /// A record's data runs past the end of the message.
    RdataOverrun,
    /// A record's data is not what its type says.
    Rdata,
    /// An OPT record elsewhere than among the additional records, or not owned by the root.
    OptPlace,
    /// A second OPT record.
    OptRepeated,
    /// An EDNS option that runs past the record, or whose length its code does not allow.
    EdnsOption,
    /// Octets after the last record.
    TrailingOctets,
}

impl Malformed {
    /// Every member, in the order of its declaration.
    pub const ALL: [Self; 15] = [
        Self::HeaderCut,
        Self::NameCut,
        Self::NameTooLong,
        Self::LabelType,
        Self::PointerTarget,
        Self::PointerChain,
        Self::QuestionCut,
        Self::RecordCut,
        Self::RecordsMissing,
        Self::RdataOverrun,
        Self::Rdata,
        Self::OptPlace,
        Self::OptRepeated,
        Self::EdnsOption,
        Self::TrailingOctets,
    ];

    /// The metric label, also the `reason` in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeaderCut => "header_cut",
            Self::NameCut => "name_cut",
            Self::NameTooLong => "name_too_long",
            Self::LabelType => "label_type",
            Self::PointerTarget => "pointer_target",
            Self::PointerChain => "pointer_chain",
            Self::QuestionCut => "question_cut",
            Self::RecordCut => "record_cut",
            Self::RecordsMissing => "records_missing",
            Self::RdataOverrun => "rdata_overrun",
            Self::Rdata => "rdata",
            Self::OptPlace => "opt_place",
            Self::OptRepeated => "opt_repeated",
            Self::EdnsOption => "edns_option",
            Self::TrailingOctets => "trailing_octets",
        }
    }
}

/// A malformed message: why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DnsError {
    /// Why.
    pub reason: Malformed,
    /// Offset in the message, in octets, of the item that shows it.
    pub offset: usize,
}

impl DnsError {
    pub(crate) const fn new(reason: Malformed, offset: usize) -> Self {
        Self { reason, offset }
    }
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "malformed DNS message: {} at octet {}",
            self.reason.as_str(),
            self.offset
        )
    }
}

impl std::error::Error for DnsError {}
