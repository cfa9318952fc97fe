//! DNS-collector's formats: its flat JSON in both ways of writing records ([`flat`]) and its default line ([`mod@line`]).
//!
//! Both say what it says: a text that is missing is `-`, a number that is missing 0, ports are texts, names have no final
//! dot, times are RFC 3339 in UTC without zeros at the end of the fraction, queries have no response code. They differ from
//! it where it loses something or makes it up; [`flat`] has the list.

pub mod flat;
pub mod line;

use crate::dns::present::{self, Style, texts, write_text_escaped};
use crate::dns::{Header, Name, Record, iana};
use crate::dnstap::{Message, SocketFamily, Timestamp};
use crate::format::json::text::{escape_from, push_name, push_time};

/// `IPv4`, `IPv6`, or `-`.
fn family(message: &Message<'_>) -> &'static str {
    match message.family() {
        Some(SocketFamily::Inet) => "IPv4",
        Some(SocketFamily::Inet6) => "IPv6",
        _ => "-",
    }
}

/// A time without zeros at the end of the fraction; `-` when there is none or no calendar shows it.
fn push_short_time(out: &mut Vec<u8>, time: Option<Timestamp>) {
    let Some(time) = time.filter(|time| time.is_sane()) else {
        return out.push(b'-');
    };
    push_time(out, time);
    out.pop();
    while out.last() == Some(&b'0') {
        out.pop();
    }
    if out.last() == Some(&b'.') {
        out.pop();
    }
    out.push(b'Z');
}

/// A name in quotes, without the final dot unless it is the root; escaped for JSON.
fn push_short_name(out: &mut Vec<u8>, name: &Name<'_>) {
    push_name(out, name);
    if !name.is_root() {
        out.truncate(out.len() - 2);
        out.push(b'"');
    }
}

/// The name of a response's code, or its number; `-` of a query or nothing.
fn push_rcode(out: &mut Vec<u8>, header: Option<Header>) {
    match header.filter(|header| header.flags & 0x8000 != 0) {
        Some(header) => iana::write_rcode(out, header.rcode().into()),
        None => out.push(b'-'),
    }
}

/// Record data as DNS-collector writes them: names without the final dot, the string of a TXT that has one bare.
struct Short;

impl Style for Short {
    fn name(&self, out: &mut Vec<u8>, name: &Name<'_>) {
        name.write_text(out);
        if !name.is_root() {
            out.pop();
        }
    }

    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        let start = out.len();
        present::write_param(out, key, value);
        let written = out.get(start..).unwrap_or_default();
        let quote = written.iter().position(|octet| *octet == b'"');
        // Quotes are for values with escapes only.
        if let Some(quote) = quote.filter(|_| !written.contains(&b'\\')) {
            out.remove(start + quote);
            out.pop();
        }
    }

    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        let mut strings = texts(record.data());
        match (record.rtype, strings.next(), strings.next()) {
            (16, Some(string), None) => {
                write_text_escaped(out, string);
                true
            }
            _ => false,
        }
    }
}

/// The data of a record in quotes, escaped for JSON.
fn push_short_data(out: &mut Vec<u8>, record: &Record<'_>) {
    out.push(b'"');
    let start = out.len();
    present::write_data(&Short, out, record);
    escape_from(out, start);
    out.push(b'"');
}
