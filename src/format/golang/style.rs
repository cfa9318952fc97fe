//! Record data as miekg/dns 1.1.50 writes them.

use std::net::Ipv6Addr;

use crate::digits;
use crate::dns::present::{self, Style, display, write_base64, write_hex, write_text_escaped};
use crate::dns::{Name, Record, iana};
use crate::format::dnstap_read::cert_name;
use crate::format::golang::message::write_start;
use crate::format::golang::params;
use crate::format::quiet::write_name;

/// The library's style.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miekg;

impl Style for Miekg {
    fn name(&self, out: &mut Vec<u8>, name: &Name<'_>) {
        write_name(out, name);
    }

    fn v6(&self, out: &mut Vec<u8>, address: Ipv6Addr) {
        write_go_ip(out, address);
    }

    fn rtype(&self, out: &mut Vec<u8>, rtype: u16) {
        push_type(out, rtype);
    }

    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        params::write_param(out, key, value);
    }

    fn loc(&self, out: &mut Vec<u8>, octets: &[u8]) {
        // A place has 16 octets always.
        let _ = write_loc(out, octets);
    }

    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        match (record.rtype, record.data()) {
            // X25 and GPOS: without quotes.
            (19 | 27, data) => {
                for (index, text) in present::texts(data).enumerate() {
                    if index > 0 {
                        out.push(b' ');
                    }
                    write_text_escaped(out, text);
                }
            }
            // CERT.
            (37, &[a, b, c, d, algorithm, ref key @ ..]) => {
                let kind = u16::from_be_bytes([a, b]);
                named(out, go_cert_name(kind), kind);
                digits::number(out, u16::from_be_bytes([c, d]).into());
                out.push(b' ');
                named(out, algorithm_name(algorithm), algorithm.into());
                write_base64(out, key);
            }
            // TLSA, SMIMEA: base 16 in small letters, the latter in words.
            (kind @ (52 | 53), &[usage, selector, matching, ref data @ ..]) => {
                display(out, format_args!("{usage} {selector} {matching} "));
                if kind == 52 || data.len() < 512 {
                    write_lower_hex(out, data);
                } else {
                    for word in data.chunks_exact(512) {
                        write_lower_hex(out, word);
                        out.push(b' ');
                    }
                    write_lower_hex(out, data.chunks_exact(512).remainder());
                }
            }
            // ZONEMD.
            (63, &[a, b, c, d, scheme, hash, ref digest @ ..]) => {
                let serial = u32::from_be_bytes([a, b, c, d]);
                display(out, format_args!("{serial} {scheme} {hash} "));
                write_lower_hex(out, digest);
            }
            // L64: base 16 in capitals.
            (106, &[a, b, ref groups @ ..]) => {
                digits::number(out, u16::from_be_bytes([a, b]).into());
                for (index, group) in groups.chunks(2).enumerate() {
                    out.push(if index > 0 { b':' } else { b' ' });
                    write_hex(out, group);
                }
            }
            _ => return false,
        }
        true
    }
}

/// Appends a whole record of those that are not written as all the others; `false` when it is none of them.
pub(super) fn write_own(out: &mut Vec<u8>, record: &Record<'_>) -> bool {
    match (record.rtype, record.data()) {
        // ISDN, RESINFO, WALLET: unknown to the library.
        (20 | 261 | 262, _) => write_unknown(out, record),
        // Addresses are the same in every class.
        (1, &[a, b, c, d]) => {
            write_start(out, record);
            digits::ip(out, [a, b, c, d].into());
        }
        (28, data) => {
            let Ok(octets) = <[u8; 16]>::try_from(data) else {
                return false;
            };
            write_start(out, record);
            write_go_ip(out, octets.into());
        }
        // NSAP-PTR.
        (23, data) => {
            let (message, start) = record.in_message();
            match Name::parse(message, start) {
                Ok((name, end)) if end == start + data.len() => {
                    write_start(out, record);
                    write_name(out, &name);
                }
                _ => return false,
            }
        }
        // EID, NIMLOC.
        (31 | 32, data) if !data.is_empty() => {
            write_start(out, record);
            write_hex(out, data);
        }
        // UINFO.
        (100, &[len, ref text @ ..]) if text.len() == usize::from(len) => {
            write_start(out, record);
            out.push(b'"');
            write_text_escaped(out, text);
            out.push(b'"');
        }
        // UID, GID.
        (101 | 102, &[a, b, c, d]) => {
            write_start(out, record);
            digits::number(out, u32::from_be_bytes([a, b, c, d]).into());
        }
        (250, _) => return write_tsig(out, record).is_some(),
        _ => return false,
    }
    true
}

/// Appends a record in the form for types that the library does not know, its class and type as numbers.
pub(super) fn write_unknown(out: &mut Vec<u8>, record: &Record<'_>) {
    write_name(out, &record.owner);
    display(
        out,
        format_args!(
            "\t{}\tCLASS{}\tTYPE{}\t\\# {} ",
            record.ttl,
            record.class,
            record.rtype,
            record.data().len()
        ),
    );
    write_lower_hex(out, record.data());
}

/// Appends a signature of a transaction (RFC 8945) under a title of its own. Nothing and `None` where the data are
/// none.
fn write_tsig(out: &mut Vec<u8>, record: &Record<'_>) -> Option<()> {
    if !record.is_well_formed() {
        return None;
    }
    let (message, start) = record.in_message();
    let (algorithm, end) = Name::parse(message, start).ok()?;
    let (&[a, b, c, d, e, f, g, h, i, j], rest) = message.get(end..)?.split_first_chunk::<10>()?;
    let size = u16::from_be_bytes([i, j]);
    let (mac, rest) = rest.split_at_checked(size.into())?;
    let (&[k, l, m, n, o, p], other) = rest.split_first_chunk::<6>()?;
    out.extend_from_slice(b"\n;; TSIG PSEUDOSECTION:\n; ");
    write_start(out, record);
    out.push(b' ');
    write_name(out, &algorithm);
    out.push(b' ');
    let signed = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    match u32::try_from(signed) {
        Ok(signed) => digits::stamp(out, signed),
        Err(_) => digits::number(out, signed),
    }
    display(out, format_args!(" {} {size} ", u16::from_be_bytes([g, h])));
    write_hex(out, mac);
    let [id, error, len] = [[k, l], [m, n], [o, p]].map(u16::from_be_bytes);
    display(out, format_args!(" {id} {error} {len} "));
    write_lower_hex(out, other);
    Some(())
}

/// A place (RFC 1876), whatever its version and however far out.
pub(in crate::format) fn write_loc(out: &mut Vec<u8>, octets: &[u8]) -> Option<()> {
    const EQUATOR: u32 = 1 << 31;
    let (&[_, size, horizontal, vertical, ref rest @ ..], []) = octets.split_first_chunk::<16>()?
    else {
        return None;
    };
    let &[a, b, c, d, e, f, g, h, i, j, k, l] = rest.first_chunk::<12>()?;
    for (angle, below, above) in [([a, b, c, d], 'S', 'N'), ([e, f, g, h], 'W', 'E')] {
        let angle = u32::from_be_bytes(angle);
        let letter = if angle > EQUATOR { above } else { below };
        let angle = angle.abs_diff(EQUATOR);
        display(
            out,
            format_args!(
                "{:02} {:02} {}.{:03} {letter} ",
                angle / 3_600_000,
                angle / 60_000 % 60,
                angle / 1000 % 60,
                angle % 1000
            ),
        );
    }
    let altitude = i64::from(u32::from_be_bytes([i, j, k, l])) - 10_000_000;
    let sign = if altitude < 0 { "-" } else { "" };
    let (metres, centimetres) = (altitude.unsigned_abs() / 100, altitude.unsigned_abs() % 100);
    display(out, format_args!("{sign}{metres}"));
    if centimetres != 0 {
        display(out, format_args!(".{centimetres:02}"));
    }
    out.push(b'm');
    for precision in [size, horizontal, vertical] {
        let (base, exponent) = (precision >> 4, precision & 15);
        match exponent {
            0 => display(out, format_args!(" 0.{base:02}m")),
            1 => display(out, format_args!(" 0.{:02}m", u32::from(base) * 10)),
            _ => {
                display(out, format_args!(" {base}"));
                out.resize(out.len() + usize::from(exponent) - 2, b'0');
                out.push(b'm');
            }
        }
    }
    Some(())
}

/// A name or else a number, a space after it.
fn named(out: &mut Vec<u8>, name: Option<&str>, number: u16) {
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => digits::number(out, number.into()),
    }
    out.push(b' ');
}

/// Appends base 16 in small letters.
pub(in crate::format) fn write_lower_hex(out: &mut Vec<u8>, octets: &[u8]) {
    let start = out.len();
    write_hex(out, octets);
    if let Some(text) = out.get_mut(start..) {
        text.make_ascii_lowercase();
    }
}

/// An address of 16 octets as Go has it: IPv4-mapped ones as IPv4, the rest as RFC 5952 says.
pub(super) fn write_go_ip(out: &mut Vec<u8>, address: Ipv6Addr) {
    digits::ip(out, address.to_canonical());
}

/// The library's name of a type.
fn type_name(rtype: u16) -> Option<&'static str> {
    match rtype {
        0 => Some("None"),
        65535 => Some("Reserved"),
        // Named by IANA since, or left out.
        11 | 22 | 38 | 40 | 45 | 66..=68 | 128 | 259..=264 => None,
        _ => iana::type_name(rtype),
    }
}

/// Whether the library has records of this type, and not the name alone: ISDN, NXT, ATMA, UNSPEC and the types of
/// questions it has not.
pub(super) fn is_known(rtype: u16) -> bool {
    !matches!(rtype, 0 | 20 | 30 | 34 | 103 | 251..=254 | 65535) && type_name(rtype).is_some()
}

/// Appends a type under the library's name.
pub(super) fn push_type(out: &mut Vec<u8>, rtype: u16) {
    match type_name(rtype) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(b"TYPE");
            digits::number(out, rtype.into());
        }
    }
}

/// Appends a class under the library's name; ANY is that of a type.
pub(super) fn push_class(out: &mut Vec<u8>, class: u16) {
    match class {
        255 => out.extend_from_slice(b"CLASS255"),
        _ => iana::write_class(out, class),
    }
}

/// The library's name of a kind of certificate, for one of which it has a name of its own.
const fn go_cert_name(kind: u16) -> Option<&'static str> {
    match kind {
        4 => Some("IPIX"),
        _ => cert_name(kind),
    }
}

/// Algorithms of DNSSEC under the library's names.
pub(super) const fn algorithm_name(algorithm: u8) -> Option<&'static str> {
    Some(match algorithm {
        1 => "RSAMD5",
        2 => "DH",
        3 => "DSA",
        5 => "RSASHA1",
        6 => "DSA-NSEC3-SHA1",
        7 => "RSASHA1-NSEC3-SHA1",
        8 => "RSASHA256",
        10 => "RSASHA512",
        12 => "ECC-GOST",
        13 => "ECDSAP256SHA256",
        14 => "ECDSAP384SHA384",
        15 => "ED25519",
        16 => "ED448",
        252 => "INDIRECT",
        253 => "PRIVATEDNS",
        254 => "PRIVATEOID",
        _ => return None,
    })
}
