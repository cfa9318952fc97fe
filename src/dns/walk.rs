//! One walk over a whole DNS message: what is in it, and the first thing that is wrong with it.

use crate::dns::edns::Edns;
use crate::dns::error::{DnsError, Malformed};
use crate::dns::header::Header;
use crate::dns::octets::u16_at;
use crate::dns::question::type_and_class;
use crate::dns::records::{Fixed, Questions, Record, Records, Section};

/// What [`DnsView::walk`](crate::dns::DnsView::walk) found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk<'a> {
    /// Questions found whole. The header's QDCOUNT may promise more.
    pub questions: u16,
    /// Answers found whole.
    pub answers: u16,
    /// Authority records found whole.
    pub authorities: u16,
    /// Additional records found whole, OPT included.
    pub additionals: u16,
    /// The OPT record, where it is in its place.
    pub edns: Option<Edns<'a>>,
    /// Octets after the last record.
    pub trailing: usize,
    /// Offset after the last question or record found whole: what follows was not read.
    pub end: usize,
    /// The first thing that is wrong, in the order of the octets. A message that TC marks as cut and that ends
    /// between two records is well formed, whatever its counts promise.
    pub malformed: Option<DnsError>,
}

/// Checks the whole of `message`, and shows each record with what is wrong with it. Bounded: each octet is passed once,
/// and each name follows a bounded number of pointers.
pub(crate) fn walk<'a>(
    message: &'a [u8],
    header: Header,
    see: impl FnMut(&Record<'a>, Option<DnsError>),
) -> Walk<'a> {
    let mut walk = Walk::default();
    match walk.sections(message, header, see) {
        Ok(end) => {
            walk.trailing = message.len().saturating_sub(end);
            if walk.trailing > 0 {
                walk.note(Malformed::TrailingOctets, end);
            }
        }
        Err(error) => {
            walk.note(error.reason, error.offset);
        }
    }
    walk
}

impl<'a> Walk<'a> {
    /// Keeps the first thing that is wrong.
    fn note(&mut self, reason: Malformed, offset: usize) -> Option<DnsError> {
        let error = DnsError::new(reason, offset);
        self.malformed = self.malformed.or(Some(error));
        Some(error)
    }

    /// Walks every section. The offset of the end, or what stops the walk.
    fn sections(
        &mut self,
        message: &'a [u8],
        header: Header,
        mut see: impl FnMut(&Record<'a>, Option<DnsError>),
    ) -> Result<usize, DnsError> {
        let mut questions = Questions::new(message, header);
        self.questions = questions.by_ref().map(|_| 1).sum();
        self.end = questions.offset();
        if let Some(error) = questions.stop() {
            return Err(error);
        }
        let mut records = Records::new(message, header, questions.offset());
        for record in records.by_ref() {
            let wrong = self.record(&record);
            see(&record, wrong);
        }
        self.end = records.offset();
        match records.stop() {
            // Nothing follows, so there is nothing to measure either.
            Some(error) if error.reason == Malformed::RecordsMissing => {
                self.note(error.reason, error.offset);
                Ok(records.offset())
            }
            Some(error) => Err(error),
            None => Ok(records.offset()),
        }
    }

    /// Counts a record and checks what is in it.
    #[inline]
    fn record(&mut self, record: &Record<'a>) -> Option<DnsError> {
        match record.section {
            Section::Answer => self.answers += 1,
            Section::Authority => self.authorities += 1,
            Section::Additional => self.additionals += 1,
        }
        let Some(edns) = record.edns() else {
            if record.is_well_formed() {
                return None;
            }
            return self.note(Malformed::Rdata, record.data_offset());
        };
        if !record.is_opt_in_place() {
            return self.note(Malformed::OptPlace, record.offset());
        }
        if self.edns.is_some() {
            return self.note(Malformed::OptRepeated, record.offset());
        }
        self.edns = Some(edns);
        let offset = edns.malformed_option()?;
        self.note(Malformed::EdnsOption, record.data_offset() + offset)
    }
}

/// The first OPT record of the additional section that the root owns. Steps over names without following their
/// pointers, so its cost is one pass over the message at most.
pub(crate) fn find_edns<'a>(message: &'a [u8], header: Header) -> Option<Edns<'a>> {
    let mut at = Header::LEN;
    for _ in 0..header.questions {
        at = skip_name(message, at)? + 4;
    }
    let before = u32::from(header.answers) + u32::from(header.authorities);
    for _ in 0..before {
        at = skip_record(message, at)?;
    }
    for _ in 0..header.additionals {
        if message.get(at) == Some(&0) && type_and_class(message, at + 1)?.0 == Edns::RTYPE {
            let record = Fixed::parse(message, at + 1)?;
            let options = message.get(record.start..record.end)?;
            return Some(Edns::from_record(record.class, record.ttl, options));
        }
        at = skip_record(message, at)?;
    }
    None
}

/// Where the record at `at` ends.
#[inline]
fn skip_record(message: &[u8], at: usize) -> Option<usize> {
    let end = skip_name(message, at)?;
    Some(end + 10 + usize::from(u16_at(message, end + 8)?))
}

/// Where the name at `at` ends.
#[inline]
pub(crate) fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len @ 1..0x40 => at += 1 + usize::from(len),
            0x40..0xc0 => return None,
            0xc0.. => return Some(at + 2),
        }
    }
}
