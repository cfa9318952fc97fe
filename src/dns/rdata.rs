//! Whether a record's data has the shape its type says. Shapes only: no value is looked at.

use crate::dns::name::Name;
use crate::dns::octets::u16_at;

/// A piece of a record's data.
#[derive(Clone, Copy)]
enum Part {
    /// So many octets.
    Octets(usize),
    /// A name, possibly compressed: real servers compress where they should not.
    Name,
    /// An octet that gives a length, and as many octets.
    Text,
    /// The same, one or more times up to the end.
    Texts,
    /// Two octets that give a length, and as many octets.
    Long,
    /// Everything up to the end, at least so many octets.
    Rest(usize),
    /// Type bitmap (RFC 4034, 4.1.2): windows of 1 to 32 octets in ascending order up to the end.
    Bitmap,
    /// Service parameters (RFC 9460, 2.2): key, length, value up to the end.
    Params,
}

/// The parts of a type's data. Types without a row may hold anything.
fn parts(rtype: u16, class: u16) -> Option<&'static [Part]> {
    use Part::{Bitmap, Long, Name, Octets, Params, Rest, Text, Texts};
    const IN: u16 = 1;
    const NONE: u16 = 254;
    Some(match rtype {
        // Class CH has its own idea of an address; NONE occurs in updates and deletes an IN record.
        1 if matches!(class, IN | NONE) => &[Octets(4)],
        28 if matches!(class, IN | NONE) => &[Octets(16)],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | 12 | 39 => &[Name],
        // SOA
        6 => &[Name, Name, Octets(20)],
        // HINFO
        13 => &[Text, Text],
        // MINFO, RP
        14 | 17 => &[Name, Name],
        // MX, AFSDB, RT, KX, LP
        15 | 18 | 21 | 36 | 107 => &[Octets(2), Name],
        // TXT, ISDN, SPF, AVC, RESINFO
        16 | 20 | 99 | 258 | 261 => &[Texts],
        // X25
        19 => &[Text],
        // SIG, RRSIG
        24 | 46 => &[Octets(18), Name, Rest(0)],
        // KEY, DNSKEY, CDNSKEY
        25 | 48 | 60 => &[Rest(4)],
        // PX
        26 => &[Octets(2), Name, Name],
        // LOC
        29 => &[Octets(16)],
        // SRV
        33 => &[Octets(6), Name],
        // NAPTR
        35 => &[Octets(4), Text, Text, Text, Name],
        // DS, CDS, TA, DLV
        43 | 59 | 32768 | 32769 => &[Rest(4)],
        // SSHFP
        44 => &[Rest(2)],
        // NSEC
        47 => &[Name, Bitmap],
        // NSEC3
        50 => &[Octets(4), Text, Text, Bitmap],
        // NSEC3PARAM
        51 => &[Octets(4), Text],
        // TLSA, SMIMEA
        52 | 53 => &[Rest(3)],
        // CSYNC
        62 => &[Octets(6), Bitmap],
        // ZONEMD
        63 => &[Rest(6)],
        // SVCB, HTTPS
        64 | 65 => &[Octets(2), Name, Params],
        // NID, L64
        104 | 106 => &[Octets(10)],
        // L32, EUI48
        105 | 108 => &[Octets(6)],
        // EUI64
        109 => &[Octets(8)],
        // TSIG
        250 => &[Name, Octets(8), Long, Octets(4), Long],
        // URI
        256 => &[Rest(5)],
        // CAA
        257 => &[Octets(1), Text, Rest(0)],
        _ => return None,
    })
}

/// Whether `message[start..end]` is what a record of `rtype` in `class` may hold. `message` ends where the
/// record does or later; names in the data may point back into it.
pub(crate) fn fits(message: &[u8], start: usize, end: usize, rtype: u16, class: u16) -> bool {
    let Some(parts) = parts(rtype, class) else {
        return true;
    };
    let Some(message) = message.get(..end) else {
        return false;
    };
    let mut at = start;
    for part in parts {
        match take(message, at, *part) {
            Some(next) => at = next,
            None => return false,
        }
    }
    at == end
}

/// Where `part` ends when it begins at `at`; `None` when it does not fit into what is left of `data`.
fn take(data: &[u8], at: usize, part: Part) -> Option<usize> {
    let fixed = |len: usize| at.checked_add(len).filter(|next| *next <= data.len());
    match part {
        Part::Octets(len) => fixed(len),
        Part::Name => Name::parse(data, at).ok().map(|(_, next)| next),
        Part::Text => fixed(1 + usize::from(*data.get(at)?)),
        Part::Texts => {
            let mut at = take(data, at, Part::Text)?;
            while at < data.len() {
                at = take(data, at, Part::Text)?;
            }
            Some(at)
        }
        Part::Long => fixed(2 + usize::from(u16_at(data, at)?)),
        Part::Rest(least) => fixed(least).map(|_| data.len()),
        Part::Bitmap => {
            let (mut at, mut above) = (at, None);
            while at < data.len() {
                let (window, len) = (*data.get(at)?, usize::from(*data.get(at + 1)?));
                if !(1..=32).contains(&len) || above.is_some_and(|above| window <= above) {
                    return None;
                }
                above = Some(window);
                at = at.checked_add(2 + len).filter(|next| *next <= data.len())?;
            }
            Some(at)
        }
        Part::Params => {
            let mut at = at;
            while at < data.len() {
                at = take(data, at + 2, Part::Long)?;
            }
            Some(at)
        }
    }
}
