//! What a record's data are made of: one table, which says whether data have the shape of their type and how they are
//! written as text ([`present`](crate::dns::present)).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::dns::name::Name;
use crate::dns::octets::u16_at;

/// A piece of a record's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A number of one octet.
    U8,
    /// A number of two octets.
    U16,
    /// A number of four octets.
    U32,
    /// Seconds in six octets (TSIG).
    U48,
    /// A record type.
    Type,
    /// Seconds since 1970 in 32 bits, shown as `YYYYMMDDHHmmSS` (RFC 4034, 3.2).
    Time,
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
    /// A name, possibly compressed: real servers compress where they should not.
    Name,
    /// An octet that gives a length, and as many octets of text.
    Text,
    /// The same, one or more times up to the end.
    Texts,
    /// The same without quotes: the tag of CAA (RFC 8659, 4.1.1).
    Word,
    /// Text up to the end (CAA, URI).
    TextRest,
    /// Base 64 up to the end.
    Base64,
    /// Base 16 up to the end.
    Hex,
    /// Base 16 of a length given in one octet, `-` when empty (NSEC3's salt).
    Salt,
    /// Base 32 (RFC 5155, 3.3) of a length given in one octet.
    Hash,
    /// Two octets that give a length, and as many octets (TSIG).
    Long,
    /// Type bitmap (RFC 4034, 4.1.2): windows of 1 to 32 octets in ascending order up to the end.
    Bitmap,
    /// Service parameters (RFC 9460, 2.2): key, length, value up to the end.
    Params,
    /// A place on Earth (RFC 1876): 16 octets.
    Loc,
    /// Eight octets as four groups (RFC 6742, 2.1.2).
    Groups,
    /// Six octets with hyphens (RFC 7043).
    Eui48,
    /// Eight octets with hyphens (RFC 7043).
    Eui64,
}

/// The parts of a type's data. Types without a row may hold anything and are shown as octets (RFC 3597).
#[rustfmt::skip]
pub(crate) fn parts(rtype: u16, class: u16) -> Option<&'static [Part]> {
    use Part::*;
    const IN: u16 = 1;
    const NONE: u16 = 254;
    Some(match rtype {
        // Class CH has its own idea of an address; NONE occurs in updates and deletes an IN record.
        1 if matches!(class, IN | NONE) => &[V4],
        28 if matches!(class, IN | NONE) => &[V6],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | 12 | 39 => &[Name],
        // SOA
        6 => &[Name, Name, U32, U32, U32, U32, U32],
        // HINFO
        13 => &[Text, Text],
        // MINFO, RP, TALINK
        14 | 17 | 58 => &[Name, Name],
        // MX, AFSDB, RT, KX, LP
        15 | 18 | 21 | 36 | 107 => &[U16, Name],
        // TXT, ISDN, NINFO, SPF, AVC, RESINFO, WALLET
        16 | 20 | 56 | 99 | 258 | 261 | 262 => &[Texts],
        // X25
        19 => &[Text],
        // SIG, RRSIG
        24 | 46 => &[Type, U8, U8, U32, Time, Time, U16, Name, Base64],
        // KEY, DNSKEY, RKEY, CDNSKEY
        25 | 48 | 57 | 60 => &[U16, U8, U8, Base64],
        // PX
        26 => &[U16, Name, Name],
        // GPOS
        27 => &[Text, Text, Text],
        // LOC
        29 => &[Loc],
        // SRV
        33 => &[U16, U16, U16, Name],
        // NAPTR
        35 => &[U16, U16, Text, Text, Text, Name],
        // CERT
        37 => &[U16, U16, U8, Base64],
        // DS, CDS, TA, DLV
        43 | 59 | 32768 | 32769 => &[U16, U8, U8, Hex],
        // SSHFP
        44 => &[U8, U8, Hex],
        // NSEC
        47 => &[Name, Bitmap],
        // DHCID, OPENPGPKEY
        49 | 61 => &[Base64],
        // NSEC3
        50 => &[U8, U8, U16, Salt, Hash, Bitmap],
        // NSEC3PARAM
        51 => &[U8, U8, U16, Salt],
        // TLSA, SMIMEA
        52 | 53 => &[U8, U8, U8, Hex],
        // CSYNC
        62 => &[U32, U16, Bitmap],
        // ZONEMD
        63 => &[U32, U8, U8, Hex],
        // SVCB, HTTPS
        64 | 65 => &[U16, Name, Params],
        // NID, L64
        104 | 106 => &[U16, Groups],
        // L32
        105 => &[U16, V4],
        // EUI48, EUI64
        108 => &[Eui48],
        109 => &[Eui64],
        // TSIG
        250 => &[Name, U48, U16, Long, U16, U16, Long],
        // URI
        256 => &[U16, U16, TextRest],
        // CAA
        257 => &[U8, Word, TextRest],
        _ => return None,
    })
}

/// A part that was found, with what it holds. Offsets are those of the message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'a> {
    /// `U8`, `U16`, `U32`, `U48`, `Type`, `Time`.
    Number(u64),
    /// `V4`.
    V4(Ipv4Addr),
    /// `V6`.
    V6(Ipv6Addr),
    /// `Name`.
    Name(Name<'a>),
    /// Everything else: its octets, without the length that goes before some.
    Octets(&'a [u8]),
}

/// Reads `part` at `at` of `data`, a message cut at the end of the record, and says where it ends. `None` when what
/// is there is not that part.
#[inline]
pub(crate) fn take(data: &[u8], at: usize, part: Part) -> Option<(Piece<'_>, usize)> {
    let fixed = |len: usize| {
        let end = at.checked_add(len)?;
        Some((data.get(at..end)?, end))
    };
    let number = |len: usize| {
        let (octets, end) = fixed(len)?;
        let sum = octets
            .iter()
            .fold(0, |sum, octet| sum << 8 | u64::from(*octet));
        Some((Piece::Number(sum), end))
    };
    let octets =
        |found: Option<(_, usize)>| found.map(|(octets, end)| (Piece::Octets(octets), end));
    let counted = |words: usize| {
        let len = match words {
            1 => usize::from(*data.get(at)?),
            _ => usize::from(u16_at(data, at)?),
        };
        let (start, end) = (at + words, at + words + len);
        Some((data.get(start..end)?, end))
    };
    let rest = |is_whole: fn(&[u8]) -> bool| {
        let octets = data.get(at..)?;
        is_whole(octets).then_some((Piece::Octets(octets), data.len()))
    };
    match part {
        Part::U8 => number(1),
        Part::U16 | Part::Type => number(2),
        Part::U32 | Part::Time => number(4),
        Part::U48 => number(6),
        Part::V4 => {
            let (octets, end) = fixed(4)?;
            let octets: [u8; 4] = octets.try_into().ok()?;
            Some((Piece::V4(octets.into()), end))
        }
        Part::V6 => {
            let (octets, end) = fixed(16)?;
            let octets: [u8; 16] = octets.try_into().ok()?;
            Some((Piece::V6(octets.into()), end))
        }
        Part::Name => {
            let (name, end) = Name::parse(data, at).ok()?;
            Some((Piece::Name(name), end))
        }
        Part::Text | Part::Word | Part::Salt | Part::Hash => octets(counted(1)),
        Part::Long => octets(counted(2)),
        Part::Texts => rest(are_texts),
        Part::TextRest | Part::Base64 | Part::Hex => rest(|_| true),
        Part::Bitmap => rest(is_bitmap),
        Part::Params => rest(are_params),
        Part::Loc => octets(fixed(16)),
        Part::Groups | Part::Eui64 => octets(fixed(8)),
        Part::Eui48 => octets(fixed(6)),
    }
}

/// One or more texts and nothing after them.
fn are_texts(octets: &[u8]) -> bool {
    let mut rest = octets;
    while let Some((&len, tail)) = rest.split_first() {
        let Some(tail) = tail.get(usize::from(len)..) else {
            return false;
        };
        rest = tail;
    }
    !octets.is_empty()
}

fn is_bitmap(mut rest: &[u8]) -> bool {
    let mut above = None;
    while let [window, len, tail @ ..] = rest {
        if !(1..=32).contains(len) || above.is_some_and(|above| window <= above) {
            return false;
        }
        let Some(tail) = tail.get(usize::from(*len)..) else {
            return false;
        };
        (above, rest) = (Some(window), tail);
    }
    rest.is_empty()
}

fn are_params(mut rest: &[u8]) -> bool {
    while let [_, _, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(tail) = tail.get(len..) else {
            return false;
        };
        rest = tail;
    }
    rest.is_empty()
}

/// Whether the data that start at `start` of `message`, which is cut where the record ends, are what a record of
/// `rtype` in `class` may hold. Names in the data may point back into the message.
#[inline]
pub(crate) fn fits(message: &[u8], start: usize, rtype: u16, class: u16) -> bool {
    let Some(parts) = parts(rtype, class) else {
        return true;
    };
    let mut at = start;
    for part in parts {
        match take(message, at, *part) {
            Some((_, next)) => at = next,
            None => return false,
        }
    }
    at == message.len()
}
