//! Records as ldns 1.8.3 writes them.

use std::net::Ipv6Addr;

use crate::digits;
use crate::dns::name::decimal_digits;
use crate::dns::present::{self, Style, display, write_base64, write_data};
use crate::dns::{Name, Record, iana};
use crate::format::dnstap_read::{cert_name, write_v6};
use crate::format::golang::{write_loc, write_lower_hex};
use crate::format::ldns::params;

/// The library's style.
#[derive(Clone, Copy, Debug)]
struct Ldns;

impl Style for Ldns {
    fn name(&self, out: &mut Vec<u8>, name: &Name<'_>) {
        write_name(out, name);
    }

    fn text(&self, out: &mut Vec<u8>, octets: &[u8]) {
        out.push(b'"');
        write_text(out, octets, b"\"\\");
        out.push(b'"');
    }

    fn hex(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_lower_hex(out, octets);
    }

    fn v6(&self, out: &mut Vec<u8>, address: Ipv6Addr) {
        write_v6(out, address);
    }

    fn rtype(&self, out: &mut Vec<u8>, rtype: u16) {
        push_data_type(out, rtype);
    }

    fn bitmap(&self, out: &mut Vec<u8>, types: &mut dyn Iterator<Item = u16>) {
        for (index, rtype) in types.enumerate() {
            if index == 0 {
                out.push(b' ');
            }
            push_data_type(out, rtype);
            out.push(b' ');
        }
    }

    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        params::write_param(out, key, value);
    }

    fn loc(&self, out: &mut Vec<u8>, octets: &[u8]) {
        if octets.first() != Some(&0) || write_loc(out, octets).is_none() {
            write_lower_hex(out, octets);
        }
    }

    fn generic(&self, out: &mut Vec<u8>, octets: &[u8]) {
        out.extend_from_slice(b"\\# ");
        digits::number(out, octets.len() as u64);
        if !octets.is_empty() {
            out.push(b' ');
            write_lower_hex(out, octets);
        }
    }

    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        match (record.rtype, record.data()) {
            // Types without a form in the library: NINFO, RKEY, AVC, RESINFO, WALLET, TA.
            (56 | 57 | 258 | 261 | 262 | 32768, data) => self.generic(out, data),
            // CERT.
            (37, &[a, b, c, d, algorithm, ref key @ ..]) => {
                let kind = u16::from_be_bytes([a, b]);
                match cert_name(kind) {
                    Some(name) => out.extend_from_slice(name.as_bytes()),
                    None => digits::number(out, kind.into()),
                }
                let tag = u16::from_be_bytes([c, d]);
                display(out, format_args!(" {tag} {algorithm} "));
                write_base64(out, key);
            }
            // NSEC3, NSEC3PARAM: salt and types have a space after them.
            (50 | 51, &[hash, flags, a, b, len, ref rest @ ..]) => {
                let Some((salt, rest)) = rest.split_at_checked(len.into()) else {
                    return false;
                };
                let iterations = u16::from_be_bytes([a, b]);
                display(out, format_args!("{hash} {flags} {iterations} "));
                if salt.is_empty() {
                    out.push(b'-');
                }
                write_lower_hex(out, salt);
                out.push(b' ');
                let Some((len, rest)) = rest.split_first() else {
                    return true;
                };
                let Some((next, types)) = rest.split_at_checked(usize::from(*len)) else {
                    return true;
                };
                out.push(b' ');
                let start = out.len();
                present::write_base32(out, next);
                if let Some(text) = out.get_mut(start..) {
                    text.make_ascii_lowercase();
                }
                self.bitmap(out, &mut present::bitmap_types(types));
            }
            _ => return false,
        }
        true
    }
}

/// Appends one record, without the line feed.
pub(super) fn write_record(out: &mut Vec<u8>, record: &Record<'_>) {
    write_name(out, &record.owner);
    out.push(b'\t');
    digits::number(out, record.ttl.into());
    out.push(b'\t');
    push_class(out, record.class);
    out.push(b'\t');
    push_type(out, record.rtype);
    out.push(b'\t');
    let data = record.data();
    match record.rtype {
        _ if data.is_empty() => return out.extend_from_slice(b"\\# 0"),
        // Addresses are the same in every class.
        1 if data.len() == 4 => {
            if let &[a, b, c, d] = data {
                digits::ip(out, [a, b, c, d].into());
            }
            return;
        }
        28 if data.len() == 16 => {
            if let Ok(octets) = <[u8; 16]>::try_from(data) {
                write_v6(out, octets.into());
            }
            return;
        }
        22 => {
            out.extend_from_slice(b"0x");
            return write_lower_hex(out, data);
        }
        // EID, NIMLOC, ATMA.
        31 | 32 | 34 => return write_lower_hex(out, data),
        250 if record.is_well_formed() => {
            let _ = write_tsig(out, record);
            return;
        }
        _ => {}
    }
    let start = out.len();
    if !write_data(&Ldns, out, record) {
        return;
    }
    match record.rtype {
        // Types, or a salt, that have a space after them.
        47 | 50 | 51 | 62 => {}
        // URI, CAA: a value of no octets is not written.
        256 | 257 if out.ends_with(b" \"\"") => out.truncate(out.len() - 3),
        256 | 257 => {}
        // Nor is data in base 16 or 64.
        _ if out.len() > start && out.ends_with(b" ") => out.truncate(out.len() - 1),
        _ => {}
    }
    if let (48, &[high, low, _, algorithm, ref key @ ..]) = (record.rtype, data) {
        display(out, format_args!(" ;{{id = {}", key_tag(data)));
        let flags = u16::from_be_bytes([high, low]);
        out.extend_from_slice(match flags & 0x101 {
            0x101 => b" (ksk), ",
            0x100 => b" (zsk), ",
            _ => b", ",
        });
        display(out, format_args!("size = {}b}}", key_size(algorithm, key)));
    }
}

fn write_tsig(out: &mut Vec<u8>, record: &Record<'_>) -> Option<()> {
    let (message, start) = record.in_message();
    let (algorithm, end) = Name::parse(message, start).ok()?;
    let (&[a, b, c, d, e, f, g, h, i, j], rest) = message.get(end..)?.split_first_chunk::<10>()?;
    let size = u16::from_be_bytes([i, j]);
    let (mac, rest) = rest.split_at_checked(size.into())?;
    let (&[k, l, m, n, o, p], other) = rest.split_first_chunk::<6>()?;
    write_name(out, &algorithm);
    let signed = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    display(
        out,
        format_args!(" {signed}  {} {size} ", u16::from_be_bytes([g, h])),
    );
    write_base64(out, mac);
    let [id, error, len] = [[k, l], [m, n], [o, p]].map(u16::from_be_bytes);
    display(out, format_args!(" {id} {error} {len} "));
    write_base64(out, other);
    Some(())
}

/// The tag of a key (RFC 4034, B).
fn key_tag(data: &[u8]) -> u16 {
    if let [_, _, _, 1, key @ ..] = data {
        // RSA/MD5.
        return match key {
            [.., high, low, _] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        };
    }
    let sum: u32 = data
        .chunks(2)
        .map(|pair| {
            let low = pair.get(1).copied().unwrap_or(0);
            u32::from(pair.first().copied().unwrap_or(0)) << 8 | u32::from(low)
        })
        .sum();
    (sum + (sum >> 16)) as u16
}

/// The bits of a key, 0 where the library does not know.
fn key_size(algorithm: u8, key: &[u8]) -> i64 {
    match (algorithm, key) {
        // DSA.
        (3 | 6, &[size, ..]) => (64 + i64::from(size) * 8) * 8,
        // RSA: the octets after the exponent.
        (1 | 5 | 7 | 8 | 10, &[0, a, b, _, ..]) => {
            (key.len() as i64 - i64::from(u16::from_be_bytes([a, b])) - 3) * 8
        }
        (1 | 5 | 7 | 8 | 10, &[exponent, ..]) => (key.len() as i64 - i64::from(exponent) - 1) * 8,
        (12, _) => 512,
        (13 | 15, _) => 256,
        (14, _) => 384,
        (16, _) => 456,
        (157, _) => key.len() as i64,
        _ => 0,
    }
}

/// Appends a name: `\` before any of `. ; ( ) \`, `\ddd` for what is not graphic ASCII.
pub(super) fn write_name(out: &mut Vec<u8>, name: &Name<'_>) {
    if name.is_root() {
        return out.push(b'.');
    }
    for label in name.labels() {
        for &octet in label {
            match octet {
                b'.' | b';' | b'(' | b')' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
                b'!'..=b'~' => out.push(octet),
                _ => {
                    out.push(b'\\');
                    out.extend_from_slice(&decimal_digits(octet));
                }
            }
        }
        out.push(b'.');
    }
}

/// Appends text, a backslash before any of `escaped`. A tab stays one.
pub(super) fn write_text(out: &mut Vec<u8>, octets: &[u8], escaped: &[u8]) {
    for &octet in octets {
        match octet {
            _ if escaped.contains(&octet) => out.extend_from_slice(&[b'\\', octet]),
            b' '..=b'~' | b'\t' => out.push(octet),
            _ => {
                out.push(b'\\');
                out.extend_from_slice(&decimal_digits(octet));
            }
        }
    }
}

/// The library's name of a type.
fn type_name(rtype: u16) -> Option<&'static str> {
    match rtype {
        // Named by IANA since, or left out.
        0 | 56 | 57 | 66..=68 | 100..=103 | 128 | 258..=264 | 32768 => None,
        _ => iana::type_name(rtype),
    }
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

/// Appends a type within record data, where those of questions have no names.
fn push_data_type(out: &mut Vec<u8>, rtype: u16) {
    match rtype {
        251..=255 => display(out, format_args!("TYPE{rtype}")),
        _ => push_type(out, rtype),
    }
}

/// Appends a class under the library's name.
pub(super) fn push_class(out: &mut Vec<u8>, class: u16) {
    match class {
        2 => out.extend_from_slice(b"CLASS2"),
        _ => iana::write_class(out, class),
    }
}
