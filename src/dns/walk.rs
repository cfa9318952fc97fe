//! One walk over a whole DNS message: what is in it, and the first thing that is wrong with it.

use crate::dns::edns::Edns;
use crate::dns::error::{DnsError, Malformed};
use crate::dns::header::Header;
use crate::dns::name::Name;
use crate::dns::octets::u16_at;
use crate::dns::question::{Question, type_and_class};
use crate::dns::rdata;

/// Opcode of a dynamic update (RFC 2136), in which records without data are well formed.
const OPCODE_UPDATE: u8 = 5;

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
    /// The first thing that is wrong, in the order of the octets. A message that TC marks as cut and that ends
    /// between two records is well formed, whatever its counts promise.
    pub malformed: Option<DnsError>,
}

/// Checks the whole of `message`. Bounded: each octet is passed once, and each name follows a bounded number of
/// pointers.
pub(crate) fn walk<'a>(message: &'a [u8], header: Header) -> Walk<'a> {
    let mut walk = Walk::default();
    match walk.sections(message, header) {
        Ok(end) => {
            walk.trailing = message.len().saturating_sub(end);
            if walk.trailing > 0 {
                walk.note(Malformed::TrailingOctets, end);
            }
        }
        Err(error) => walk.note(error.reason, error.offset),
    }
    walk
}

impl<'a> Walk<'a> {
    /// Keeps the first thing that is wrong.
    fn note(&mut self, reason: Malformed, offset: usize) {
        let error = DnsError::new(reason, offset);
        self.malformed = self.malformed.or(Some(error));
    }

    /// Walks every section. The offset of the end, or what stops the walk.
    fn sections(&mut self, message: &'a [u8], header: Header) -> Result<usize, DnsError> {
        let mut at = Header::LEN;
        for _ in 0..header.questions {
            at = Question::parse(message, at)?.1;
            self.questions += 1;
        }
        let counts = [header.answers, header.authorities, header.additionals];
        for (section, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                if at >= message.len() {
                    if !header.is_truncated() {
                        self.note(Malformed::RecordsMissing, at);
                    }
                    return Ok(at);
                }
                at = self.record(message, header, section, at)?;
                match section {
                    0 => self.answers += 1,
                    1 => self.authorities += 1,
                    _ => self.additionals += 1,
                }
            }
        }
        Ok(at)
    }

    /// Checks the record at `at` and says where it ends.
    fn record(
        &mut self,
        message: &'a [u8],
        header: Header,
        section: usize,
        at: usize,
    ) -> Result<usize, DnsError> {
        let (owner, end) = Name::parse(message, at)?;
        let cut = DnsError::new(Malformed::RecordCut, end);
        let record = Fixed::parse(message, end).ok_or(cut)?;
        let Some(data) = message.get(record.start..record.end) else {
            return Err(DnsError::new(Malformed::RdataOverrun, record.start));
        };
        if record.rtype == Edns::RTYPE {
            // The root's one octet, not a pointer to one: RFC 6891, 6.1.2.
            if section != 2 || !owner.is_root() || owner.as_wire().is_none() {
                self.note(Malformed::OptPlace, at);
            } else if self.edns.is_some() {
                self.note(Malformed::OptRepeated, at);
            } else {
                let edns = Edns::from_record(record.class, record.ttl, data);
                if let Some(offset) = edns.malformed_option() {
                    self.note(Malformed::EdnsOption, record.start + offset);
                }
                self.edns = Some(edns);
            }
        } else {
            let empty_in_update = data.is_empty() && header.opcode() == OPCODE_UPDATE;
            if !empty_in_update
                && !rdata::fits(
                    message,
                    record.start,
                    record.end,
                    record.rtype,
                    record.class,
                )
            {
                self.note(Malformed::Rdata, record.start);
            }
        }
        Ok(record.end)
    }
}

/// What follows a record's owner: type, class, TTL and where its data are.
#[derive(Clone, Copy)]
struct Fixed {
    rtype: u16,
    class: u16,
    ttl: u32,
    start: usize,
    end: usize,
}

impl Fixed {
    #[inline]
    fn parse(message: &[u8], at: usize) -> Option<Self> {
        let (_, rest) = message.split_at_checked(at)?;
        let &[a, b, c, d, e, f, g, h, i, j] = rest.first_chunk::<10>()?;
        let start = at + 10;
        Some(Self {
            rtype: u16::from_be_bytes([a, b]),
            class: u16::from_be_bytes([c, d]),
            ttl: u32::from_be_bytes([e, f, g, h]),
            start,
            end: start + usize::from(u16::from_be_bytes([i, j])),
        })
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
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len @ 1..0x40 => at += 1 + usize::from(len),
            0x40..0xc0 => return None,
            0xc0.. => return Some(at + 2),
        }
    }
}
