//! What `dnstap-ldns` 0.2.1 prints: its YAML ([`yaml`]) and its quiet line ([`quiet`](mod@quiet)), byte for byte, the DNS
//! messages in it as ldns 1.8.3 writes them. Both messages of a record are written, where both were sent.
//!
//! Where the program loses or misstates something, this differs from it and keeps the shape. The whole list:
//!
//! | case | `dnstap-ldns` 0.2.1 | here |
//! |---|---|---|
//! | UPDATE types, an unknown type (corpus p50, p52) | `[unhandled Dnstap.Message.Type]`; YAML ends the program | `UQ`, `UR`, `??`; the name or the number |
//! | transports but UDP and TCP (p14, p16 to p20) | `?`; YAML ends the program | the name or the number |
//! | seconds without nanoseconds (p27) | no time | the time |
//! | nanoseconds of a second and more (p21) | seven digits | a second later |
//! | seconds from the year 10000 on (p23, p24) | wrapped, or nothing | `??:??:??.??????`; in YAML `"@"`, seconds, `.` and nanoseconds |
//! | an empty address (p08) | nothing | `MISSING_ADDRESS`; no key in YAML |
//! | an address of neither 4 nor 16 octets (p09) | nothing | `MISSING_ADDRESS`; in YAML `?` and base 16 |
//! | a zone that is no name (p45) | octets as if they were | `# query_zone: parse failed` |
//! | a backslash in identity, version or zone | as it is, which YAML takes for an escape | doubled; a quotation mark in the zone escaped |
//! | a message that it does not decode: cut records, bad data, counts that promise more | `? ? ?`; `parse failed` | the question; all up to where the message breaks; if it breaks between records, `;; parse failed: REASON at octet N` at the end |
//! | a name that points forward or into the header (n06) | the name, or not decoded | that line |
//! | data of which only the text is bad (r11, r18) | no text at all | the form for unknown types |
//! | data that are not what their type says, otherwise (r13) | what can be read, and the next record from there | the form for unknown types |
//! | a bitmap without a type | a space | nothing |
//! | a second question, the line of TSIG (t17, e24) | outside of the text's indentation, so no YAML | indented |
//! | several OPT or TSIG records | the last | each |
//! | signature times half the range of 32 bits from now on | another century | RFC 4034's, 1970 to 2106 |
//! | data of WKS, NSAP-PTR, NXT, A6, SINK, APL, IPSECKEY, HIP, TKEY | their own form | the form for unknown types |
//! | a frame that is no record | `[unhandled Dnstap.Type]`, or the program ends | nothing, and the reason to the caller |
//!
//! `policy`, `http_protocol` and `extra` have no place in either, nor has the flag Z.

mod message;
mod params;
pub mod quiet;
mod style;
pub mod yaml;

use crate::digits;
use crate::dnstap::Timestamp as Sent;
use crate::format::dnstap_read::write_v6;

/// Appends date and time of day in UTC with microseconds. `false`, and nothing appended, where that is no date of a
/// calendar.
fn write_time(out: &mut Vec<u8>, time: Sent) -> bool {
    // The fraction may be a second and more.
    let seconds = time
        .seconds
        .saturating_add(u64::from(time.nanos / 1_000_000_000));
    if seconds >= Sent::SECONDS_END {
        return false;
    }
    digits::date(out, (seconds / 86_400) as u32);
    out.push(b' ');
    digits::clock(out, (seconds % 86_400) as u32);
    out.push(b'.');
    digits::micros(out, time.nanos % 1_000_000_000 / 1000);
    true
}

/// Appends an address by its length; `false`, and nothing appended, for octets that are none.
fn write_address(out: &mut Vec<u8>, octets: &[u8]) -> bool {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        digits::ip(out, octets.into());
    } else if let Ok(octets) = <[u8; 16]>::try_from(octets) {
        write_v6(out, octets.into());
    } else {
        return false;
    }
    true
}
