//! What golang-dnstap 0.4.0's `dnstap` prints besides its quiet line: JSON ([`json`]) and YAML ([`yaml`]), byte for byte,
//! the DNS messages in it as miekg/dns 1.1.50 writes them. Both messages of a record are written, where both were sent.
//!
//! Where the program loses or misstates something, this differs from it and keeps the shape. The whole list:
//!
//! | case | `dnstap` 0.4.0 | here |
//! |---|---|---|
//! | `socket_family` or `socket_protocol` not sent | `"<nil>"` in JSON | no key |
//! | DNSCryptUDP, DNSCryptTCP, DOQ | `5`, `6`, `7` | their names |
//! | a port of zero | left out of JSON | `0` |
//! | seconds without nanoseconds (corpus p27) | no time | the time |
//! | seconds from the year 10000 on (p23, p24) | wrapped, or a year of many digits | `"@"`, seconds, `.` and nanoseconds |
//! | an empty address (p08) | `<nil>` in YAML | no key |
//! | an IPv6 address that ends in `:`, in YAML | as it is, which breaks the document | in double quotes |
//! | an address of neither 4 nor 16 octets (p09) | `?` and base 16 in YAML, JSON ends the program | `?` and base 16 |
//! | an identity or a version that is not UTF-8 (p30) | U+FFFD in JSON | `\ddd` for each odd octet |
//! | a message that it does not decode: cut records, bad data | `parse failed`, and the reason | all up to where the message breaks; if it breaks between records, `;; parse failed: REASON at octet N` at the end |
//! | a message that ends before the counts in its header say (t05, t08, t15) | the rest, no word about it | the same line |
//! | a question without type and class (t06) | type `None`, class `CLASS0` | that line |
//! | a name that points forward or into the header (n06) | the name | that line |
//! | data that are not what their type says, also of no octets or ending early (r08, r18) | zeroes for what is missing | the form for unknown types |
//! | opcodes and response codes without a name in the library | nothing | the name or the number |
//! | times of TSIG from 2106 on | a date, its year of many digits in the end | seconds since 1970 |
//! | NULL, APL, HIP, TKEY | octets as they are; their own forms | the form for unknown types |
//! | an option whose octets are not what its code says (e08 to e18) | the message is not decoded | as an option without a form: `; LOCAL OPT: 8:0x0001`; octets after the last whole option as `; MALFORMED: 0x0003` |
//! | option EXPIRE | left out | `; EXPIRE: 3600` |
//! | option keepalive of 6553.6 seconds or more | wrapped at 65,536 ms | the timeout in ms; `0ms` if that was sent |
//! | a client subnet with more octets than its family has | cut | as an option without a form |
//! | several OPT records (e03 has one among the answers) | the last | each |
//! | a backslash in the value of CAA or URI | read as an escape | escaped |
//! | control octets, or no UTF-8, in text of options (e17, e25) | as they are | `\ddd` |
//! | DEL and U+0080 to U+009F in JSON | as they are | `\u007f` and so on, the same to a reader |
//! | characters beyond ASCII in the identity, in YAML | Go's table says which are escaped | Rust's |
//! | a frame that is no record | the program ends, or prints zeroes | nothing, and the reason to the caller |
//!
//! `policy`, `http_protocol` and `extra` have no place in either.

pub mod json;
mod message;
mod options;
mod params;
mod style;
mod text;
pub mod yaml;

use std::net::Ipv6Addr;

use crate::digits;
use crate::dns::present::display;
use crate::dnstap::Timestamp as Sent;
use crate::format::golang::style::write_go_ip;

pub(super) use style::{write_loc, write_lower_hex};

/// Appends a name, or a number where there is none.
pub(super) fn write_number_or_name(out: &mut Vec<u8>, name: Option<&str>, number: i32) {
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
