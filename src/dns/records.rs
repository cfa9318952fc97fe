//! The records of a message, one after the other, borrowed.

use crate::dns::edns::Edns;
use crate::dns::error::{DnsError, Malformed};
use crate::dns::header::Header;
use crate::dns::name::Name;
use crate::dns::octets::u16_at;
use crate::dns::question::Question;
use crate::dns::rdata;

/// Opcode of a dynamic update (RFC 2136), in which records without data are well formed.
const OPCODE_UPDATE: u8 = 5;

/// Where a record stands (RFC 1035, 4.1). In an UPDATE the same three are prerequisites, updates and additional data
/// (RFC 2136, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Answers; the prerequisites of an UPDATE.
    Answer,
    /// Authority; the updates of an UPDATE.
    Authority,
    /// Additional data.
    Additional,
}

/// A resource record, borrowed. Its data lie within the message; whether they are what the type says is
/// [`is_well_formed`](Self::is_well_formed).
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The section it stands in.
    pub section: Section,
    /// Whose record it is, in the letter case of the message.
    pub owner: Name<'a>,
    /// Its type; names in [`iana`](crate::dns::iana).
    pub rtype: u16,
    /// Its class. Of an OPT record the UDP payload size.
    pub class: u16,
    /// Its time to live in seconds as sent, all 32 bits: RFC 2181, 8, takes a set top bit for zero, we show it.
    pub ttl: u32,
    message: &'a [u8],
    /// Offset of the owner.
    at: usize,
    start: usize,
    end: usize,
    update: bool,
}

impl<'a> Record<'a> {
    /// The data as they are in the message: names inside may be compressed.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.message.get(self.start..self.end).unwrap_or_default()
    }

    /// The message up to the end of the data, and the offset at which they start: what is needed to follow the
    /// names inside.
    #[inline]
    pub(crate) fn in_message(&self) -> (&'a [u8], usize) {
        (self.message.get(..self.end).unwrap_or_default(), self.start)
    }

    /// Offset of the record in the message, in octets.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Offset of its data in the message, in octets.
    pub const fn data_offset(&self) -> usize {
        self.start
    }

    /// Whether the data have the shape that the type says. No data at all are well formed in an UPDATE (RFC 2136,
    /// 2.4), and types that we do not know may hold anything.
    #[inline]
    pub fn is_well_formed(&self) -> bool {
        let (message, start) = self.in_message();
        (self.update && self.start == self.end)
            || self.rtype == Edns::RTYPE
            || rdata::fits(message, start, self.rtype, self.class)
    }

    /// Whether it has no data and stands in an UPDATE, where that is a statement of its own.
    pub const fn is_empty_in_update(&self) -> bool {
        self.update && self.start == self.end
    }

    /// The OPT record as what it means, wherever it stands.
    pub fn edns(&self) -> Option<Edns<'a>> {
        (self.rtype == Edns::RTYPE).then(|| Edns::from_record(self.class, self.ttl, self.data()))
    }

    /// Whether it is an OPT record in its place: additional section, owned by the root in one octet (RFC 6891, 6.1.2).
    pub(crate) fn is_opt_in_place(&self) -> bool {
        self.section == Section::Additional
            && self.owner.is_root()
            && self.owner.as_wire().is_some()
    }
}

/// The questions of a message; ends after those that QDCOUNT promises, or before the first that cannot be read.
#[derive(Clone, Debug)]
pub struct Questions<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
    stop: Option<DnsError>,
}

impl<'a> Questions<'a> {
    pub(crate) const fn new(message: &'a [u8], header: Header) -> Self {
        Self {
            message,
            at: Header::LEN,
            left: header.questions,
            stop: None,
        }
    }

    /// Why the last call of `next` found no question although QDCOUNT promises one.
    pub const fn stop(&self) -> Option<DnsError> {
        self.stop
    }

    /// Offset after the last question read.
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Questions<'a> {
    type Item = Question<'a>;

    fn next(&mut self) -> Option<Question<'a>> {
        if self.left == 0 {
            return None;
        }
        match Question::parse(self.message, self.at) {
            Ok((question, end)) => {
                self.at = end;
                self.left -= 1;
                Some(question)
            }
            Err(error) => {
                self.stop = Some(error);
                self.left = 0;
                None
            }
        }
    }
}

/// The records of a message in the order of its octets; ends after those that the header's counts promise, or before
/// the first that cannot be read. Bounded: each octet is passed once, each name follows a bounded number of pointers.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: [u16; 3],
    update: bool,
    truncated: bool,
    stop: Option<DnsError>,
}

impl<'a> Records<'a> {
    /// From `at` on, the offset after the questions.
    pub(crate) fn new(message: &'a [u8], header: Header, at: usize) -> Self {
        Self {
            message,
            at,
            left: [header.answers, header.authorities, header.additionals],
            update: header.opcode() == OPCODE_UPDATE,
            truncated: header.is_truncated(),
            stop: None,
        }
    }

    /// No record, for a message whose questions cannot be read.
    pub(crate) const fn none(message: &'a [u8], stop: DnsError) -> Self {
        Self {
            message,
            at: message.len(),
            left: [0; 3],
            update: false,
            truncated: false,
            stop: Some(stop),
        }
    }

    /// Why the last call of `next` found no record although the counts promise one. `None` also when TC marks the
    /// message as cut and it ends between two records.
    pub const fn stop(&self) -> Option<DnsError> {
        self.stop
    }

    /// Offset after the last record read.
    pub const fn offset(&self) -> usize {
        self.at
    }

    fn parse(&self, section: Section) -> Result<Record<'a>, DnsError> {
        let (owner, end) = Name::parse(self.message, self.at)?;
        let cut = DnsError::new(Malformed::RecordCut, end);
        let record = Fixed::parse(self.message, end).ok_or(cut)?;
        if record.end > self.message.len() {
            return Err(DnsError::new(Malformed::RdataOverrun, record.start));
        }
        Ok(Record {
            section,
            owner,
            rtype: record.rtype,
            class: record.class,
            ttl: record.ttl,
            message: self.message,
            at: self.at,
            start: record.start,
            end: record.end,
            update: self.update,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        const SECTIONS: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];
        let (section, left) = SECTIONS
            .into_iter()
            .zip(&mut self.left)
            .find(|(_, left)| **left > 0)?;
        *left -= 1;
        let result = if self.at < self.message.len() {
            self.parse(section).map_err(Some)
        } else {
            let missing = DnsError::new(Malformed::RecordsMissing, self.at);
            Err((!self.truncated).then_some(missing))
        };
        match result {
            Ok(record) => {
                self.at = record.end;
                Some(record)
            }
            Err(stop) => {
                (self.stop, self.left) = (stop, [0; 3]);
                None
            }
        }
    }
}

/// What follows a record's owner: type, class, TTL and where its data are.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) rtype: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Fixed {
    #[inline]
    pub(crate) fn parse(message: &[u8], at: usize) -> Option<Self> {
        let (_, rest) = message.split_at_checked(at)?;
        let &[a, b, c, d, e, f, g, h, ..] = rest.first_chunk::<10>()?;
        let start = at + 10;
        Some(Self {
            rtype: u16::from_be_bytes([a, b]),
            class: u16::from_be_bytes([c, d]),
            ttl: u32::from_be_bytes([e, f, g, h]),
            start,
            end: start + usize::from(u16_at(message, at + 8)?),
        })
    }
}
