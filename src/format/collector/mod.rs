//! DNS-collector's formats: its flat JSON in both ways of writing records ([`flat`]) and its default line ([`mod@line`]).
//!
//! Both say what its documentation says they say: a text that is missing is `-`, a number that is missing 0, ports are
//! texts, names have no final dot, times are RFC 3339 in UTC without zeros at the end of the fraction. They differ from it
//! where it loses something: names keep BIND's escapes, other texts of octets are those of [`json`](super::json), a message
//! that is malformed shows what could be read of it, and numbers without a name are numbers.

pub mod flat;
pub mod line;

use crate::dns::{Name, iana};
use crate::dnstap::{Message, SocketFamily, Timestamp};
use crate::format::json::text::{push_name, push_time};

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

/// The name of a header's response code, or its number.
fn push_rcode(out: &mut Vec<u8>, rcode: u8) {
    iana::write_rcode(out, rcode.into());
}
