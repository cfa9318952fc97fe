//! [`DnsView`]: a DNS message with header and first question read, the rest on demand.

use crate::dns::edns::Edns;
use crate::dns::error::{DnsError, Malformed};
use crate::dns::header::Header;
use crate::dns::name::Name;
use crate::dns::octets::u16_at;
use crate::dns::records::{Questions, Record, Records};
use crate::dns::walk::{self, Walk};

/// A question: what is asked about which name. In an UPDATE, the zone (RFC 2136, 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name asked about, in the letter case of the message.
    pub name: Name<'a>,
    /// The type asked for; names in [`iana`](crate::dns::iana).
    pub qtype: u16,
    /// The class asked for.
    pub qclass: u16,
}

impl<'a> Question<'a> {
    /// Reads the question at `offset` and says where it ends.
    #[inline]
    pub(crate) fn parse(message: &'a [u8], offset: usize) -> Result<(Self, usize), DnsError> {
        if offset >= message.len() {
            return Err(DnsError::new(Malformed::QuestionCut, offset));
        }
        let (name, end) = Name::parse(message, offset)?;
        let cut = DnsError::new(Malformed::QuestionCut, end);
        let rest = message.get(end..).ok_or(cut)?;
        let [a, b, c, d] = *rest.first_chunk::<4>().ok_or(cut)?;
        let question = Self {
            name,
            qtype: u16::from_be_bytes([a, b]),
            qclass: u16::from_be_bytes([c, d]),
        };
        Ok((question, end + 4))
    }
}

/// A DNS message, borrowed. Made by one look at its header and first question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsView<'a> {
    message: &'a [u8],
    header: Header,
    question: Result<Option<Question<'a>>, DnsError>,
}

impl<'a> DnsView<'a> {
    /// Reads header and first question. A question that cannot be read does not cost the header.
    ///
    /// # Errors
    ///
    /// [`Malformed::HeaderCut`] when there are fewer than 12 octets.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, DnsError> {
        let cut = DnsError::new(Malformed::HeaderCut, message.len());
        let header = Header::parse(message).ok_or(cut)?;
        let question = match header.questions {
            0 => Ok(None),
            _ => Question::parse(message, Header::LEN).map(|(question, _)| Some(question)),
        };
        Ok(Self {
            message,
            header,
            question,
        })
    }

    /// The octets this view is of.
    pub const fn message(&self) -> &'a [u8] {
        self.message
    }

    /// The header.
    #[inline]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The first question: `Ok(None)` when QDCOUNT is 0, which is well formed.
    ///
    /// # Errors
    ///
    /// Why the question cannot be read, although QDCOUNT promises one.
    #[inline]
    pub const fn question(&self) -> Result<Option<Question<'a>>, DnsError> {
        self.question
    }

    /// EDNS of the message: the first OPT record of the additional section that the root owns (RFC 6891). Walks
    /// the records' headers up to there, each time it is called; `None` also when the walk does not get there.
    pub fn edns(&self) -> Option<Edns<'a>> {
        if self.header.additionals == 0 {
            return None;
        }
        walk::find_edns(self.message, self.header)
    }

    /// The response code in full: four bits of the header, and above them eight of EDNS where there is any.
    /// Costs a call of [`edns`](Self::edns) when there are additional records.
    pub fn rcode(&self) -> u16 {
        let high = self.edns().map_or(0, |edns| edns.ext_rcode);
        u16::from(high) << 4 | u16::from(self.header.rcode())
    }

    /// Every question, one after the other.
    pub fn questions(&self) -> Questions<'a> {
        Questions::new(self.message, self.header)
    }

    /// Every record of every section, one after the other.
    pub fn records(&self) -> Records<'a> {
        let mut questions = self.questions();
        questions.by_ref().for_each(drop);
        match questions.stop() {
            Some(error) => Records::none(self.message, error),
            None => Records::new(self.message, self.header, questions.offset()),
        }
    }

    /// Checks the whole message: every question, record, name and EDNS option.
    pub fn walk(&self) -> Walk<'a> {
        self.walk_records(|_, _| ())
    }

    /// As [`walk`](Self::walk), and shows each record on the way with what is wrong with it.
    pub fn walk_records(&self, see: impl FnMut(&Record<'a>, Option<DnsError>)) -> Walk<'a> {
        walk::walk(self.message, self.header, see)
    }
}

/// Type and class of the question or record at `offset`.
#[inline]
pub(crate) fn type_and_class(message: &[u8], offset: usize) -> Option<(u16, u16)> {
    Some((u16_at(message, offset)?, u16_at(message, offset + 2)?))
}
