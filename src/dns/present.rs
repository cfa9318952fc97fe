//! Record data as text: the presentation format of zone files (RFC 1035, 5.1, and each type's own RFC).
//!
//! One table says what a type's data are made of; a [`Style`] says how each kind of piece is written. [`Plain`] is ours;
//! other programs break base 64 elsewhere, quote differently or know fewer types, and a style of their own, which
//! overrides what differs, writes what they write.
//!
//! Types whose parts depend on each other (WKS, APL, IPSECKEY and the like) are in `rare`. Data that are not what their
//! type says, and types that neither knows, are written as octets:
//! `\# 4 C0000201` (RFC 3597, 5), from which every octet can be had back.

use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE32HEX_NOPAD, BASE64, HEXUPPER};

use crate::digits;
use crate::dns::iana;
use crate::dns::name::{Name, decimal_digits};
use crate::dns::rare;
use crate::dns::rdata::{self, Part, Piece};
use crate::dns::records::Record;

/// How a program writes record data. Every method appends.
pub trait Style {
    /// A domain name.
    fn name(&self, out: &mut Vec<u8>, name: &Name<'_>) {
        name.write_text(out);
    }

    /// One character string, quotes included.
    fn text(&self, out: &mut Vec<u8>, octets: &[u8]) {
        out.push(b'"');
        write_text_escaped(out, octets);
        out.push(b'"');
    }

    /// The tag of CAA.
    fn word(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_text_escaped(out, octets);
    }

    /// Octets in base 64.
    fn base64(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_base64(out, octets);
    }

    /// Octets in base 16.
    fn hex(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_hex(out, octets);
    }

    /// Octets in base 32 with the extended hex alphabet.
    fn base32(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_base32(out, octets);
    }

    /// An IPv4 address.
    fn v4(&self, out: &mut Vec<u8>, address: Ipv4Addr) {
        digits::ip(out, address.into());
    }

    /// An IPv6 address.
    fn v6(&self, out: &mut Vec<u8>, address: Ipv6Addr) {
        digits::ip(out, address.into());
    }

    /// A record type.
    fn rtype(&self, out: &mut Vec<u8>, rtype: u16) {
        iana::write_type(out, rtype);
    }

    /// The types of a bitmap, ascending, each after a space.
    fn bitmap(&self, out: &mut Vec<u8>, types: &mut dyn Iterator<Item = u16>) {
        for rtype in types {
            out.push(b' ');
            self.rtype(out, rtype);
        }
    }

    /// One service parameter, without the space before it.
    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        write_param(out, key, value);
    }

    /// A place (LOC), its 16 octets.
    fn loc(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_loc(out, octets);
    }

    /// Data in the form for unknown types.
    fn generic(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_generic(out, octets);
    }

    /// Writes the whole data of types without a row in the table, where the style has a form for them; `false` for all
    /// others and for data that are not what their type says, and then nothing is appended.
    fn rare(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        let _ = (out, record);
        false
    }

    /// Writes the whole data of types that this style writes like no other; `false` for all others, and then nothing
    /// is appended. Called for well-formed data only.
    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        let _ = (out, record);
        false
    }
}

/// Our own form: names as BIND writes them with the final dot, nothing broken into groups, base 16 in capitals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Style for Plain {
    fn rare(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        rare::write(self, out, record, false)
    }
}

/// Appends the data of `record` as text; see the module for data that are not what their type says. An empty record
/// of an UPDATE has no data and no text. Whether the text is the type's own form, and not octets.
pub fn write_data<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
    if record.is_empty_in_update() {
        return true;
    }
    let Some(parts) = rdata::parts(record.rtype, record.class) else {
        let is_written = style.rare(out, record);
        if !is_written {
            style.generic(out, record.data());
        }
        return is_written;
    };
    if record.is_well_formed()
        && (style.special(out, record) || write_parts(style, out, record, parts))
    {
        return true;
    }
    style.generic(out, record.data());
    false
}

/// Appends `parts` separated by spaces. `false`, and nothing appended, when they are not there.
fn write_parts<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    record: &Record<'_>,
    parts: &[Part],
) -> bool {
    let (message, mut at) = record.in_message();
    let start = out.len();
    for (index, part) in parts.iter().enumerate() {
        let Some((piece, end)) = rdata::take(message, at, *part) else {
            out.truncate(start);
            return false;
        };
        at = end;
        // These write a space before each of their members, of which there may be none.
        if index > 0 && !matches!(part, Part::Bitmap | Part::Params) {
            out.push(b' ');
        }
        write_piece(style, out, *part, piece);
    }
    true
}

fn write_piece<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, part: Part, piece: Piece<'_>) {
    match piece {
        Piece::Number(number) => match part {
            Part::Type => style.rtype(out, number as u16),
            Part::Time => digits::stamp(out, number as u32),
            _ => digits::number(out, number),
        },
        Piece::V4(address) => style.v4(out, address),
        Piece::V6(address) => style.v6(out, address),
        Piece::Name(name) => style.name(out, &name),
        Piece::Octets(octets) => match part {
            Part::Text | Part::TextRest => style.text(out, octets),
            Part::Texts => {
                for (index, text) in texts(octets).enumerate() {
                    if index > 0 {
                        out.push(b' ');
                    }
                    style.text(out, text);
                }
            }
            Part::Word => style.word(out, octets),
            Part::Base64 => style.base64(out, octets),
            Part::Long => {
                digits::number(out, octets.len() as u64);
                if !octets.is_empty() {
                    out.push(b' ');
                    style.base64(out, octets);
                }
            }
            Part::Hex => style.hex(out, octets),
            Part::Salt if octets.is_empty() => out.push(b'-'),
            Part::Salt => style.hex(out, octets),
            Part::Hash => style.base32(out, octets),
            Part::Bitmap => style.bitmap(out, &mut bitmap_types(octets)),
            Part::Params => {
                for (key, value) in params(octets) {
                    out.push(b' ');
                    style.param(out, key, value);
                }
            }
            Part::Loc => style.loc(out, octets),
            Part::Groups => {
                for (index, group) in octets.chunks(2).enumerate() {
                    if index > 0 {
                        out.push(b':');
                    }
                    push_hex_lower(out, group);
                }
            }
            // Eui48, Eui64; the rest are not octets.
            _ => {
                for (index, octet) in octets.iter().enumerate() {
                    if index > 0 {
                        out.push(b'-');
                    }
                    push_hex_lower(out, &[*octet]);
                }
            }
        },
    }
}

/// The character strings in the data of TXT and its like.
pub fn texts(octets: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let (&len, tail) = rest.split_first()?;
        let (text, tail) = tail.split_at_checked(usize::from(len))?;
        rest = tail;
        Some(text)
    })
}

/// The types that a bitmap (RFC 4034, 4.1.2) names, ascending.
pub fn bitmap_types(octets: &[u8]) -> impl Iterator<Item = u16> {
    let mut rest = octets;
    let windows = std::iter::from_fn(move || {
        let [window, len, tail @ ..] = rest else {
            return None;
        };
        let (bits, tail) = tail.split_at_checked(usize::from(*len))?;
        rest = tail;
        Some((u16::from(*window) << 8, bits))
    });
    windows.flat_map(|(base, bits)| {
        (0u16..).zip(bits).flat_map(move |(index, octet)| {
            (0u16..8)
                .filter(move |bit| octet & (0x80 >> bit) != 0)
                .map(move |bit| base + ((index * 8 + bit) & 0xff))
        })
    })
}

/// The numbers of the bits that are set, counted from the first octet's highest.
pub(crate) fn bitmap_octets(octets: &[u8]) -> impl Iterator<Item = usize> {
    octets.iter().enumerate().flat_map(|(index, octet)| {
        (0..8usize)
            .filter(move |bit| octet & (0x80 >> bit) != 0)
            .map(move |bit| index * 8 + bit)
    })
}

/// The service parameters (RFC 9460, 2.2): key and value.
pub fn params(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let [a, b, c, d, tail @ ..] = rest else {
            return None;
        };
        let len = usize::from(u16::from_be_bytes([*c, *d]));
        let (value, tail) = tail.split_at_checked(len)?;
        rest = tail;
        Some((u16::from_be_bytes([*a, *b]), value))
    })
}

/// Appends text with `"` and `\` after a backslash, octets below 32 and above 126 as `\ddd`.
pub fn write_text_escaped(out: &mut Vec<u8>, octets: &[u8]) {
    for &octet in octets {
        match octet {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
            b' '..=b'~' => out.push(octet),
            _ => {
                out.push(b'\\');
                out.extend_from_slice(&decimal_digits(octet));
            }
        }
    }
}

/// Appends base 64 (RFC 4648, 4) with padding, in one piece.
pub fn write_base64(out: &mut Vec<u8>, octets: &[u8]) {
    encode(&BASE64, out, octets);
}

/// Appends base 16 in capitals, in one piece.
pub fn write_hex(out: &mut Vec<u8>, octets: &[u8]) {
    encode(&HEXUPPER, out, octets);
}

/// Appends base 32 with the extended hex alphabet in capitals, without padding (RFC 5155, 3.3).
pub fn write_base32(out: &mut Vec<u8>, octets: &[u8]) {
    encode(&BASE32HEX_NOPAD, out, octets);
}

fn encode(encoding: &data_encoding::Encoding, out: &mut Vec<u8>, octets: &[u8]) {
    let start = out.len();
    out.resize(start + encoding.encode_len(octets.len()), 0);
    if let Some(room) = out.get_mut(start..) {
        encoding.encode_mut(octets, room);
    }
}

fn push_hex_lower(out: &mut Vec<u8>, octets: &[u8]) {
    encode(&data_encoding::HEXLOWER, out, octets);
}

/// Appends data as an unknown type's: `\# 3 ABCDEF`, `\# 0` when there are none.
pub fn write_generic(out: &mut Vec<u8>, octets: &[u8]) {
    out.extend_from_slice(b"\\# ");
    digits::number(out, octets.len() as u64);
    if !octets.is_empty() {
        out.push(b' ');
        write_hex(out, octets);
    }
}

/// Appends one service parameter as BIND does: `alpn="h2,h3"`, `port=443`, `key667="text"`. A value that is not what
/// its key says is written as that of an unknown key, under the number.
pub fn write_param(out: &mut Vec<u8>, key: u16, value: &[u8]) {
    let start = out.len();
    if write_known_param(out, key, value).is_none() {
        out.truncate(start);
        out.extend_from_slice(b"key");
        digits::number(out, u64::from(key));
        if !value.is_empty() {
            out.extend_from_slice(b"=\"");
            write_text_escaped(out, value);
            out.push(b'"');
        }
    }
}

/// The name of a service parameter's key (IANA, Service Parameter Keys).
pub const fn param_name(key: u16) -> Option<&'static str> {
    Some(match key {
        0 => "mandatory",
        1 => "alpn",
        2 => "no-default-alpn",
        3 => "port",
        4 => "ipv4hint",
        5 => "ech",
        6 => "ipv6hint",
        7 => "dohpath",
        8 => "ohttp",
        _ => return None,
    })
}

fn write_known_param(out: &mut Vec<u8>, key: u16, value: &[u8]) -> Option<()> {
    let name = param_name(key)?;
    out.extend_from_slice(name.as_bytes());
    match key {
        0 => list(out, b'=', value.chunks(2), |out, pair| {
            let key = u16::from_be_bytes(pair.try_into().ok()?);
            match param_name(key) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => display(out, format_args!("key{key}")),
            }
            Some(())
        })?,
        1 => {
            out.extend_from_slice(b"=\"");
            let mut rest = value;
            while let Some((&len, tail)) = rest.split_first() {
                let (id, tail) = tail.split_at_checked(usize::from(len))?;
                // A comma or backslash within an identifier is escaped, and the backslash again as text (RFC 9460, A.1).
                for &octet in id {
                    match octet {
                        b',' => out.extend_from_slice(b"\\\\,"),
                        b'\\' => out.extend_from_slice(b"\\\\\\\\"),
                        _ => write_text_escaped(out, &[octet]),
                    }
                }
                if !tail.is_empty() {
                    out.push(b',');
                }
                rest = tail;
            }
            out.push(b'"');
        }
        2 | 8 => value.is_empty().then_some(())?,
        3 => display(
            out,
            format_args!("={}", u16::from_be_bytes(value.try_into().ok()?)),
        ),
        4 => list(out, b'=', value.chunks(4), |out, address| {
            let octets: [u8; 4] = address.try_into().ok()?;
            digits::ip(out, Ipv4Addr::from(octets).into());
            Some(())
        })?,
        5 => {
            out.push(b'=');
            write_base64(out, value);
        }
        6 => list(out, b'=', value.chunks(16), |out, address| {
            let octets: [u8; 16] = address.try_into().ok()?;
            digits::ip(out, Ipv6Addr::from(octets).into());
            Some(())
        })?,
        _ => {
            out.extend_from_slice(b"=\"");
            write_text_escaped(out, value);
            out.push(b'"');
        }
    }
    Some(())
}

/// Appends `first` and the items with commas between them; `None` when there is none or one is not what it should be.
fn list<'a>(
    out: &mut Vec<u8>,
    first: u8,
    items: impl Iterator<Item = &'a [u8]>,
    write: impl Fn(&mut Vec<u8>, &'a [u8]) -> Option<()>,
) -> Option<()> {
    let mut separator = first;
    for item in items {
        out.push(separator);
        write(out, item)?;
        separator = b',';
    }
    (separator != first).then_some(())
}

/// Appends a place as RFC 1876, 3, shows it: `52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000.00m 10.00m`. Data of
/// another version, or out of range, are written as octets.
pub fn write_loc(out: &mut Vec<u8>, octets: &[u8]) {
    let start = out.len();
    if write_known_loc(out, octets).is_none() {
        out.truncate(start);
        write_generic(out, octets);
    }
}

fn write_known_loc(out: &mut Vec<u8>, octets: &[u8]) -> Option<()> {
    const EQUATOR: i64 = 1 << 31;
    let [version, size, horizontal, vertical, rest @ ..] = octets else {
        return None;
    };
    let word = |at: usize| {
        let word = rest.get(at..)?.first_chunk::<4>()?;
        Some(i64::from(u32::from_be_bytes(*word)))
    };
    let (latitude, longitude, altitude) = (word(0)?, word(4)?, word(8)?);
    if *version != 0 {
        return None;
    }
    for (angle, most, letters) in [
        (latitude - EQUATOR, 90, ['S', 'N']),
        (longitude - EQUATOR, 180, ['W', 'E']),
    ] {
        let thousandths = angle.unsigned_abs();
        if thousandths > most * 3_600_000 {
            return None;
        }
        let letter = if angle < 0 { letters[0] } else { letters[1] };
        let (degrees, left) = (thousandths / 3_600_000, thousandths % 3_600_000);
        display(
            out,
            format_args!(
                "{degrees} {} {}.{:03} {letter} ",
                left / 60_000,
                left % 60_000 / 1000,
                left % 1000
            ),
        );
    }
    let altitude = altitude - 10_000_000;
    let sign = if altitude < 0 { "-" } else { "" };
    let altitude = altitude.unsigned_abs();
    display(
        out,
        format_args!("{sign}{}.{:02}m", altitude / 100, altitude % 100),
    );
    for precision in [*size, *horizontal, *vertical] {
        let (base, exponent) = (precision >> 4, precision & 15);
        if base > 9 || exponent > 9 {
            return None;
        }
        let centimetres = u64::from(base) * 10u64.pow(u32::from(exponent));
        display(
            out,
            format_args!(" {}.{:02}m", centimetres / 100, centimetres % 100),
        );
    }
    Some(())
}

/// Appends formatted text; for what is rare or not worth a writer of its own.
pub(crate) fn display(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // A Vec takes everything.
    let _ = out.write_fmt(text);
}
