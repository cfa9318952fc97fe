//! What golang-dnstap's `dnstap` prints besides its quiet line: JSON ([`json`]) and YAML ([`yaml`]).

pub mod json;
mod message;
mod options;
mod style;
mod text;
pub mod yaml;

use std::net::Ipv6Addr;

use crate::digits;
use crate::dns::present::display;
use crate::dnstap::Timestamp as Sent;
use crate::format::golang::style::{write_go_ip, write_lower_hex};

/// Appends a name, or a number where there is none.
fn write_number_or_name(out: &mut Vec<u8>, name: Option<&str>, number: i32) {
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => digits::signed(out, number),
    }
}

/// Appends date and time of day in UTC, `between` between them, the fraction without zeroes at its end. `false` where
/// that is no date of a calendar; then it is `@` and seconds since 1970.
fn write_time(out: &mut Vec<u8>, time: Sent, between: u8) -> bool {
    // The fraction may be a second and more.
    let seconds = time
        .seconds
        .saturating_add(u64::from(time.nanos / 1_000_000_000));
    let nanos = time.nanos % 1_000_000_000;
    if seconds >= Sent::SECONDS_END {
        display(out, format_args!("@{}.{:09}", time.seconds, time.nanos));
        return false;
    }
    digits::date(out, (seconds / 86_400) as u32);
    out.push(between);
    digits::clock(out, (seconds % 86_400) as u32);
    if nanos > 0 {
        out.push(b'.');
        digits::nanos(out, nanos);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    true
}

/// Appends an address by its length, `?` and base 16 for octets that are none; nothing for none.
fn write_address(out: &mut Vec<u8>, octets: &[u8]) {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        digits::ip(out, octets.into());
    } else if let Ok(octets) = <[u8; 16]>::try_from(octets) {
        write_go_ip(out, Ipv6Addr::from(octets));
    } else if !octets.is_empty() {
        out.push(b'?');
        write_lower_hex(out, octets);
    }
}
