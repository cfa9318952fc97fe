//! Pieces of JSON, appended to bytes: what every format that is JSON writes with. A key is given with all that stands
//! around it, as `,"key":`.

use crate::digits;
use crate::dns::name::{decimal_digits, is_bare};
use crate::dns::present::{self, Plain};
use crate::dns::{Name, Record};
use crate::dnstap::Timestamp;

/// Ends a list or object whose members each begin with a comma, the first included. `start` is where its
/// content begins.
pub(in crate::format) fn close_without_first_comma(out: &mut Vec<u8>, start: usize, bracket: u8) {
    if out.len() > start {
        out.remove(start);
    }
    out.push(bracket);
}

#[inline]
pub(in crate::format) fn number_key(out: &mut Vec<u8>, key: &[u8], value: u64) {
    out.extend_from_slice(key);
    digits::number(out, value);
}

#[inline]
pub(in crate::format) fn bool_key(out: &mut Vec<u8>, key: &[u8], value: bool) {
    out.extend_from_slice(key);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Text that needs no escape, in quotes.
#[inline]
pub(in crate::format) fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// A name in quotes, or a bare number.
#[inline]
pub(in crate::format) fn name_or_number(
    out: &mut Vec<u8>,
    name: Option<&'static str>,
    number: i32,
) {
    match name {
        Some(name) => quoted(out, name.as_bytes()),
        None => digits::signed(out, number),
    }
}

/// RFC 3339 in UTC with nanoseconds, without quotes. The time is one that a calendar shows.
pub(in crate::format) fn push_time(out: &mut Vec<u8>, time: Timestamp) {
    // Sane, so below 2,932,897 days.
    digits::date(out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(out, (time.seconds % 86_400) as u32);
    out.push(b'.');
    digits::nanos(out, time.nanos);
    out.push(b'Z');
}

/// A domain name in quotes: BIND's escapes, and every backslash of theirs doubled for JSON.
#[inline]
pub(in crate::format) fn push_name(out: &mut Vec<u8>, name: &Name<'_>) {
    out.push(b'"');
    if name.is_root() {
        out.push(b'.');
    }
    for label in name.labels() {
        if label.iter().all(|&octet| is_bare(octet)) {
            out.extend_from_slice(label);
        } else {
            push_escaped_label(out, label);
        }
        out.push(b'.');
    }
    out.push(b'"');
}

#[cold]
fn push_escaped_label(out: &mut Vec<u8>, label: &[u8]) {
    for &octet in label {
        match octet {
            _ if is_bare(octet) => out.push(octet),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b'\\', b'\\', octet]),
            b'!'..=b'~' => out.extend_from_slice(&[b'\\', b'\\', octet]),
            _ => decimal(out, octet),
        }
    }
}

/// Any octets as text in quotes: printable ASCII bare, a backslash doubled, the rest in decimal; then JSON.
pub(in crate::format) fn push_octets(out: &mut Vec<u8>, octets: &[u8]) {
    out.push(b'"');
    if octets
        .iter()
        .all(|octet| matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\'))
    {
        out.extend_from_slice(octets);
    } else {
        for &octet in octets {
            match octet {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\\\\\"),
                b' '..=b'~' => out.push(octet),
                _ => decimal(out, octet),
            }
        }
    }
    out.push(b'"');
}

#[inline]
pub(in crate::format) fn octets_key(out: &mut Vec<u8>, key: &[u8], octets: Option<&[u8]>) {
    if let Some(octets) = octets {
        out.extend_from_slice(key);
        push_octets(out, octets);
    }
}

/// Octets in base 16, small letters, in quotes.
pub(in crate::format) fn hex_key(out: &mut Vec<u8>, key: &[u8], octets: &[u8]) {
    encoded_key(out, key, octets, &data_encoding::HEXLOWER);
}

/// Octets in an encoding whose letters need no escape, in quotes.
pub(in crate::format) fn encoded_key(
    out: &mut Vec<u8>,
    key: &[u8],
    octets: &[u8],
    encoding: &data_encoding::Encoding,
) {
    out.extend_from_slice(key);
    out.push(b'"');
    let start = out.len();
    out.resize(start + encoding.encode_len(octets.len()), 0);
    if let Some(room) = out.get_mut(start..) {
        encoding.encode_mut(octets, room);
    }
    out.push(b'"');
}

/// The data of a record in presentation form, in quotes.
#[inline]
pub(in crate::format) fn push_data(out: &mut Vec<u8>, record: &Record<'_>) {
    out.push(b'"');
    let start = out.len();
    present::write_data(&Plain, out, record);
    escape_from(out, start);
    out.push(b'"');
}

/// Escapes for JSON what was written from `start` on, which is printable ASCII.
#[inline]
pub(in crate::format) fn escape_from(out: &mut Vec<u8>, start: usize) {
    let text = out.get(start..).unwrap_or_default();
    if memchr::memchr2(b'"', b'\\', text).is_some() {
        escape_odd_from(out, start);
    }
}

#[inline(never)]
fn escape_odd_from(out: &mut Vec<u8>, start: usize) {
    let is_odd = |octet: u8| matches!(octet, b'"' | b'\\');
    let text = out.get(start..).unwrap_or_default();
    let count = text.iter().filter(|octet| is_odd(**octet)).count();
    // Back to front, so that each octet moves once.
    let (mut from, mut to) = (out.len(), out.len() + count);
    out.resize(to, 0);
    while from > start && to > from {
        (from, to) = (from - 1, to - 1);
        let octet = out.get(from).copied().unwrap_or(b'?');
        if let Some(slot) = out.get_mut(to) {
            *slot = octet;
        }
        if is_odd(octet) {
            to -= 1;
            if let Some(slot) = out.get_mut(to) {
                *slot = b'\\';
            }
        }
    }
}

/// `\ddd` inside a JSON string.
fn decimal(out: &mut Vec<u8>, octet: u8) {
    out.extend_from_slice(b"\\\\");
    out.extend_from_slice(&decimal_digits(octet));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_was_appended_is_escaped_where_it_stands() {
        for text in ["", "plain", "\"", "\\", "a\"b\\\\c\"", "\\\"\\\"x", "x\\"] {
            let mut out = b"\"before\": \"".to_vec();
            let start = out.len();
            out.extend_from_slice(text.as_bytes());
            escape_from(&mut out, start);
            out.push(b'"');
            let written = String::from_utf8(out).unwrap();
            let wanted = format!("\"before\": {}", serde_json::to_string(text).unwrap());
            assert_eq!(written, wanted);
        }
    }
}
