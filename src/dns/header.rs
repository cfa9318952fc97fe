//! The header of a DNS message: RFC 1035, 4.1.1, with the bits of RFC 4035.

/// The twelve octets at the start of every DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The id that pairs a response with its query.
    pub id: u16,
    /// The second word as on the wire: QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode.
    pub flags: u16,
    /// QDCOUNT: questions; in an UPDATE the zone section.
    pub questions: u16,
    /// ANCOUNT: answers; in an UPDATE the prerequisites.
    pub answers: u16,
    /// NSCOUNT: authority records; in an UPDATE the updates.
    pub authorities: u16,
    /// ARCOUNT: additional records.
    pub additionals: u16,
}

impl Header {
    /// Length on the wire, in octets.
    pub const LEN: usize = 12;

    /// Reads the header of `message`; `None` when it is shorter than [`LEN`](Self::LEN).
    #[inline]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
        let &[a, b, c, d, e, f, g, h, i, j, k, l] = message.first_chunk::<{ Self::LEN }>()?;
        Some(Self {
            id: word(a, b),
            flags: word(c, d),
            questions: word(e, f),
            answers: word(g, h),
            authorities: word(i, j),
            additionals: word(k, l),
        })
    }

    /// QR: the message is a response.
    pub const fn is_response(self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// Kind of query, 0..=15; names in [`iana`](crate::dns::iana).
    pub const fn opcode(self) -> u8 {
        (self.flags >> 11 & 0xf) as u8
    }

    /// AA: the answer is authoritative.
    pub const fn is_authoritative(self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// TC: the message was cut to fit.
    pub const fn is_truncated(self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// RD: the sender asks for recursion.
    pub const fn wants_recursion(self) -> bool {
        self.flags & 0x0100 != 0
    }

    /// RA: the server offers recursion.
    pub const fn offers_recursion(self) -> bool {
        self.flags & 0x0080 != 0
    }

    /// Z: the one bit still unassigned.
    pub const fn z(self) -> bool {
        self.flags & 0x0040 != 0
    }

    /// AD: the data are authentic.
    pub const fn is_authentic(self) -> bool {
        self.flags & 0x0020 != 0
    }

    /// CD: checking is disabled.
    pub const fn checking_disabled(self) -> bool {
        self.flags & 0x0010 != 0
    }

    /// The four bits of the response code here; EDNS holds eight more, see
    /// [`DnsView::rcode`](crate::dns::DnsView::rcode).
    pub const fn rcode(self) -> u8 {
        (self.flags & 0xf) as u8
    }

    /// The flags' names with their bits, in wire order.
    pub const FLAGS: [(&'static str, u16); 8] = [
        ("qr", 0x8000),
        ("aa", 0x0400),
        ("tc", 0x0200),
        ("rd", 0x0100),
        ("ra", 0x0080),
        ("z", 0x0040),
        ("ad", 0x0020),
        ("cd", 0x0010),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_bit_from_its_place() {
        let header = Header::parse(&[0x12, 0x34, 0xad, 0xb5, 0, 1, 0, 2, 0, 3, 1, 4, 9]).unwrap();
        assert_eq!((header.id, header.opcode(), header.rcode()), (0x1234, 5, 5));
        assert_eq!(
            (
                header.questions,
                header.answers,
                header.authorities,
                header.additionals
            ),
            (1, 2, 3, 260)
        );
        assert!(
            header.is_response()
                && header.is_authoritative()
                && !header.is_truncated()
                && header.wants_recursion()
        );
        assert!(
            header.offers_recursion()
                && !header.z()
                && header.is_authentic()
                && header.checking_disabled()
        );
        let set: Vec<_> = Header::FLAGS
            .iter()
            .filter(|(_, bit)| header.flags & bit != 0)
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(set, ["qr", "aa", "rd", "ra", "ad", "cd"]);
    }

    #[test]
    fn refuses_anything_shorter_than_twelve_octets() {
        for len in 0..12 {
            assert_eq!(Header::parse(&[0xff; 12][..len]), None);
        }
        assert_eq!(Header::parse(&[0xff; 12]).unwrap().opcode(), 15);
    }
}
