//! Names of record types, classes, response codes and opcodes, after IANA's registry of DNS parameters.
//!
//! Numbers without a name are written `TYPE65280`, `CLASS4242` (RFC 3597), and as bare decimals for response
//! codes and opcodes; reading takes both.

/// Record types, ascending.
const TYPES: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAP-PTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (31, "EID"),
    (32, "NIMLOC"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (40, "SINK"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (49, "DHCID"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (53, "SMIMEA"),
    (55, "HIP"),
    (56, "NINFO"),
    (57, "RKEY"),
    (58, "TALINK"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (61, "OPENPGPKEY"),
    (62, "CSYNC"),
    (63, "ZONEMD"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (66, "DSYNC"),
    (67, "HHIT"),
    (68, "BRID"),
    (99, "SPF"),
    (100, "UINFO"),
    (101, "UID"),
    (102, "GID"),
    (103, "UNSPEC"),
    (104, "NID"),
    (105, "L32"),
    (106, "L64"),
    (107, "LP"),
    (108, "EUI48"),
    (109, "EUI64"),
    (128, "NXNAME"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "ANY"),
    (256, "URI"),
    (257, "CAA"),
    (258, "AVC"),
    (259, "DOA"),
    (260, "AMTRELAY"),
    (261, "RESINFO"),
    (262, "WALLET"),
    (263, "CLA"),
    (264, "IPN"),
    (32768, "TA"),
    (32769, "DLV"),
];

/// Classes, ascending.
const CLASSES: &[(u16, &str)] = &[
    (1, "IN"),
    (2, "CS"),
    (3, "CH"),
    (4, "HS"),
    (254, "NONE"),
    (255, "ANY"),
];

/// Response codes, ascending. 16 is BADVERS as in an OPT record, not BADSIG as in a TSIG record.
const RCODES: &[(u16, &str)] = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSET"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (11, "DSOTYPENI"),
    (16, "BADVERS"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
    (23, "BADCOOKIE"),
];

/// Opcodes, ascending.
const OPCODES: &[(u16, &str)] = &[
    (0, "QUERY"),
    (1, "IQUERY"),
    (2, "STATUS"),
    (4, "NOTIFY"),
    (5, "UPDATE"),
    (6, "DSO"),
];

/// Numbers below this are found by index.
const LOW_END: usize = 272;

/// The names of `table`'s numbers below [`LOW_END`], by number; empty where there is none.
#[allow(
    clippy::indexing_slicing,
    reason = "runs at compile time, where a panic is a build error"
)]
const fn low(table: &[(u16, &'static str)]) -> [&'static str; LOW_END] {
    let mut names = [""; LOW_END];
    let mut index = 0;
    while index < table.len() {
        let (number, name) = table[index];
        if (number as usize) < LOW_END {
            names[number as usize] = name;
        }
        index += 1;
    }
    names
}

static TYPES_LOW: [&str; LOW_END] = low(TYPES);
static CLASSES_LOW: [&str; LOW_END] = low(CLASSES);
static RCODES_LOW: [&str; LOW_END] = low(RCODES);

#[inline]
fn name_of(
    low: &'static [&'static str],
    table: &'static [(u16, &'static str)],
    number: u16,
) -> Option<&'static str> {
    match low.get(usize::from(number)) {
        Some(name) => Some(*name).filter(|name| !name.is_empty()),
        None => {
            let index = table.binary_search_by_key(&number, |row| row.0).ok()?;
            table.get(index).map(|row| row.1)
        }
    }
}

/// The number that `text` names in `table`, letter case aside, or writes as `PREFIXn` or `n`.
fn number_of(table: &[(u16, &str)], prefix: &str, text: &str) -> Option<u16> {
    if let Some(row) = table.iter().find(|row| row.1.eq_ignore_ascii_case(text)) {
        return Some(row.0);
    }
    let digits = match text.split_at_checked(prefix.len()) {
        Some((head, tail)) if head.eq_ignore_ascii_case(prefix) => tail,
        _ => text,
    };
    // `parse` alone would take a sign.
    digits
        .bytes()
        .all(|octet| octet.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// Name of a record type, `None` where IANA has none.
#[inline]
pub fn type_name(rtype: u16) -> Option<&'static str> {
    name_of(&TYPES_LOW, TYPES, rtype)
}

/// Record type from its name, from `TYPEn`, or from a number, in any letter case.
pub fn type_number(text: &str) -> Option<u16> {
    number_of(TYPES, "TYPE", text).or_else(|| (text == "*").then_some(255))
}

/// Every record type's number and name, ascending.
pub fn types() -> impl Iterator<Item = (u16, &'static str)> {
    TYPES.iter().copied()
}

/// Name of a class.
#[inline]
pub fn class_name(class: u16) -> Option<&'static str> {
    name_of(&CLASSES_LOW, CLASSES, class)
}

/// Class from its name, from `CLASSn`, or from a number, in any letter case.
pub fn class_number(text: &str) -> Option<u16> {
    number_of(CLASSES, "CLASS", text)
}

/// Every class's number and name, ascending.
pub fn classes() -> impl Iterator<Item = (u16, &'static str)> {
    CLASSES.iter().copied()
}

/// Name of a response code, the upper eight bits of EDNS included: 0..=4095.
#[inline]
pub fn rcode_name(rcode: u16) -> Option<&'static str> {
    name_of(&RCODES_LOW, RCODES, rcode)
}

/// Response code from its name, from `RCODEn`, or from a number, in any letter case.
pub fn rcode_number(text: &str) -> Option<u16> {
    number_of(RCODES, "RCODE", text).filter(|rcode| *rcode < 1 << 12)
}

/// Every response code's number and name, ascending.
pub fn rcodes() -> impl Iterator<Item = (u16, &'static str)> {
    RCODES.iter().copied()
}

/// Name of an opcode.
#[inline]
pub const fn opcode_name(opcode: u8) -> Option<&'static str> {
    match opcode {
        0 => Some("QUERY"),
        1 => Some("IQUERY"),
        2 => Some("STATUS"),
        4 => Some("NOTIFY"),
        5 => Some("UPDATE"),
        6 => Some("DSO"),
        _ => None,
    }
}

/// Opcode from its name, from `OPCODEn`, or from a number, in any letter case.
pub fn opcode_number(text: &str) -> Option<u8> {
    number_of(OPCODES, "OPCODE", text)
        .and_then(|opcode| u8::try_from(opcode).ok())
        .filter(|opcode| *opcode < 16)
}

/// Every opcode's number and name, ascending.
pub fn opcodes() -> impl Iterator<Item = (u16, &'static str)> {
    OPCODES.iter().copied()
}

/// Appends a record type: its name, or `TYPEn`.
#[inline]
pub fn write_type(out: &mut Vec<u8>, rtype: u16) {
    write_or(out, type_name(rtype), b"TYPE", rtype);
}

/// Appends a class: its name, or `CLASSn`.
#[inline]
pub fn write_class(out: &mut Vec<u8>, class: u16) {
    write_or(out, class_name(class), b"CLASS", class);
}

/// Appends a response code: its name, or its number.
#[inline]
pub fn write_rcode(out: &mut Vec<u8>, rcode: u16) {
    write_or(out, rcode_name(rcode), b"", rcode);
}

/// Appends an opcode: its name, or its number.
#[inline]
pub fn write_opcode(out: &mut Vec<u8>, opcode: u8) {
    write_or(out, opcode_name(opcode), b"", u16::from(opcode));
}

#[inline(always)]
fn write_or(out: &mut Vec<u8>, name: Option<&'static str>, prefix: &[u8], number: u16) {
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(prefix);
            let (mut digits, mut left, mut number) = ([0u8; 5], 5, number);
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
                left -= 1;
                if number == 0 {
                    break;
                }
            }
            out.extend_from_slice(digits.get(left..).unwrap_or_default());
        }
    }
}

/// Name of an EDNS option's code, `None` where IANA has none.
pub const fn option_name(code: u16) -> Option<&'static str> {
    Some(match code {
        1 => "LLQ",
        2 => "UL",
        3 => "NSID",
        5 => "DAU",
        6 => "DHU",
        7 => "N3U",
        8 => "ECS",
        9 => "EXPIRE",
        10 => "COOKIE",
        11 => "KEEPALIVE",
        12 => "PADDING",
        13 => "CHAIN",
        14 => "KEY-TAG",
        15 => "EDE",
        16 => "CLIENT-TAG",
        17 => "SERVER-TAG",
        18 => "REPORT-CHANNEL",
        19 => "ZONEVERSION",
        _ => return None,
    })
}

/// Meaning of an extended DNS error's code (RFC 8914, 4, and IANA's registry), `None` where IANA has none.
pub const fn extended_error_name(code: u16) -> Option<&'static str> {
    Some(match code {
        0 => "Other Error",
        1 => "Unsupported DNSKEY Algorithm",
        2 => "Unsupported DS Digest Type",
        3 => "Stale Answer",
        4 => "Forged Answer",
        5 => "DNSSEC Indeterminate",
        6 => "DNSSEC Bogus",
        7 => "Signature Expired",
        8 => "Signature Not Yet Valid",
        9 => "DNSKEY Missing",
        10 => "RRSIGs Missing",
        11 => "No Zone Key Bit Set",
        12 => "NSEC Missing",
        13 => "Cached Error",
        14 => "Not Ready",
        15 => "Blocked",
        16 => "Censored",
        17 => "Filtered",
        18 => "Prohibited",
        19 => "Stale NXDomain Answer",
        20 => "Not Authoritative",
        21 => "Not Supported",
        22 => "No Reachable Authority",
        23 => "Network Error",
        24 => "Invalid Data",
        25 => "Signature Expired before Valid",
        26 => "Too Early",
        27 => "Unsupported NSEC3 Iterations Value",
        28 => "Unable to conform to policy",
        29 => "Synthesized",
        30 => "Invalid Query Type",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_and_class_reads_back_from_its_text() {
        for number in 0..=u16::MAX {
            let text = written(|out| write_type(out, number));
            assert_eq!(type_number(&text), Some(number), "{text}");
            let text = written(|out| write_class(out, number));
            assert_eq!(class_number(&text.to_lowercase()), Some(number), "{text}");
        }
    }

    #[test]
    fn every_rcode_and_opcode_reads_back_from_its_text() {
        for number in 0..4096 {
            let text = written(|out| write_rcode(out, number));
            assert_eq!(rcode_number(&text), Some(number), "{text}");
        }
        for number in 0..16 {
            let text = written(|out| write_opcode(out, number));
            assert_eq!(opcode_number(&text), Some(number), "{text}");
        }
        for &(number, name) in OPCODES {
            assert_eq!(opcode_name(number as u8), Some(name));
        }
    }

    #[test]
    fn tables_ascend_and_names_are_unique() {
        for table in [TYPES, CLASSES, RCODES, OPCODES] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let names: std::collections::HashSet<_> = table.iter().map(|row| row.1).collect();
            assert_eq!(names.len(), table.len());
        }
    }

    #[test]
    fn numbers_out_of_range_and_other_words_are_refused() {
        for text in [
            "",
            "TYPE",
            "TYPE65536",
            "65536",
            "+1",
            "-1",
            "TYPE-1",
            "AA",
            "TYPE 1",
        ] {
            assert_eq!(type_number(text), None, "{text:?}");
        }
        assert_eq!(rcode_number("4096"), None);
        assert_eq!(opcode_number("16"), None);
        assert_eq!(
            (type_number("type28"), type_number("*")),
            (Some(28), Some(255))
        );
        assert_eq!(
            (rcode_number("badvers"), rcode_number("RCODE16")),
            (Some(16), Some(16))
        );
    }
}
