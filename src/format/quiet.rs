//! golang-dnstap's quiet line, the text format that dnstap users know best.
//!
//! ```text
//! 16:45:28.364170 CQ 127.0.0.1 UDP 42b "vstbrasil.com." IN AAAA
//! HH:MM:SS.uuuuuu XY address protocol octets "name" class type
//! ```
//!
//! `X` is who speaks (A authoritative, R resolver, C client, F forwarder, S stub, T tool, U update), `Y` is Q or
//! R. The address is the client's for A and C and the other side's for the rest; time, octets and name are those
//! of the query or of the response, as the type says. Microseconds are cut, not rounded. `X` in the place of the
//! question means that there is none. Names are written as golang-dnstap writes them: BIND's form, except that
//! space and `'` take a backslash and `$` is bare. They parse back to the same octets all the same
//! ([`NameBuf::parse`](crate::dns::NameBuf::parse)).
//!
//! Where golang-dnstap 0.4.0 loses or misstates something, this differs from it. The whole list:
//!
//! | case | golang-dnstap | here |
//! |---|---|---|
//! | the question is readable, something after it is not (corpus t11-t13, r11, r13, e08-e16, e22) | `X` | the question |
//! | a name without type and class (t06) | `CLASS0 None` | `X` |
//! | a name that points forward or into the header (n03, n06) | the name | `X` |
//! | STUB types (p49) | `[unhandled Message.Type]`, nothing else | a line with `SQ`, `SR` |
//! | unknown types (p52) | the same | a line with `??`, whichever message and time there is, the client's address |
//! | DNSCryptUDP, DNSCryptTCP, DOQ | `5`, `6`, `7` | their names |
//! | an empty address, one of neither 4 nor 16 octets (p08, p09) | `<nil>`, `?` and hex | `MISSING_ADDRESS` |
//! | seconds from the year 10000 on (p23, p24) | wrapped | `??:??:??` |
//! | types 0 and 65535, types IANA has named since | `None`, `Reserved`, `TYPEn` | `TYPE0`, `TYPE65535`, the name |
//! | a frame that is no record | the program ends | nothing, and the reason to the caller |

use std::cell::RefCell;
use std::net::IpAddr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::digits;
use crate::dns::name::{decimal_digits, is_bare};
use crate::dns::{DnsView, Name, iana};
use crate::dnstap::{
    DecodeReason, DnstapView, Message, MessageType, SocketProtocol, Timestamp as Sent,
};
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "text",
    aliases: &["quiet"],
    about: "golang-dnstap's dnstap -q: one short line a record",
    extension: "txt",
    shape: Shape::Lines,
    has_local_times: true,
    has_fields: false,
    make: |settings| Ok(Box::new(Quiet { utc: settings.utc })),
};

struct Quiet {
    utc: bool,
}

impl Line for Quiet {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        write(out, entry.view?, self.utc)
    }
}

/// Appends `view` as one line, line feed included. The time of day is UTC or local.
///
/// # Errors
///
/// Why `view` is no record; nothing is appended then.
#[inline]
pub fn write(out: &mut Vec<u8>, view: &DnstapView<'_>, utc: bool) -> Result<(), DecodeReason> {
    let message = view.classify()?;
    if utc {
        write_line(out, message, 0);
    } else {
        write_line(out, message, local_offset(message));
    }
    Ok(())
}

fn write_line(out: &mut Vec<u8>, message: &Message<'_>, offset: i32) {
    let kind = message.message_type();
    let letters = letters(kind);
    let (seconds, nanos) = match kind.is_response() {
        Some(true) => (message.response_time_sec, message.response_time_nsec),
        Some(false) => (message.query_time_sec, message.query_time_nsec),
        None => {
            let time = message.time();
            (time.map(|time| time.seconds), time.map(|time| time.nanos))
        }
    };
    match seconds {
        Some(seconds) if seconds < Sent::SECONDS_END => {
            let local = i64::try_from(seconds).unwrap_or(0) + i64::from(offset);
            digits::clock(out, local.rem_euclid(86_400) as u32);
        }
        _ => out.extend_from_slice(b"??:??:??"),
    }
    out.push(b'.');
    match nanos {
        Some(nanos) => digits::micros(out, nanos / 1000),
        None => out.extend_from_slice(b"??????"),
    }
    out.extend_from_slice(&[b' ', letters[0], letters[1], b' ']);
    let address = if matches!(letters[0], b'A' | b'C' | b'?') {
        message.query_ip()
    } else {
        message.response_ip()
    };
    match address {
        Some(IpAddr::V6(address)) => digits::ip(out, address.to_canonical()),
        Some(address) => digits::ip(out, address),
        None => out.extend_from_slice(b"MISSING_ADDRESS"),
    }
    out.push(b' ');
    match message.protocol() {
        Some(SocketProtocol::Unknown(number)) => digits::signed(out, number),
        Some(protocol) => out.extend_from_slice(protocol.as_str().as_bytes()),
        None => {}
    }
    out.push(b' ');
    let dns = message.dns().map_or(&[][..], |(dns, _)| dns);
    digits::number(out, dns.len() as u64);
    match DnsView::parse(dns).and_then(|dns| dns.question()) {
        Ok(Some(question)) => {
            out.extend_from_slice(b"b \"");
            write_name(out, &question.name);
            out.extend_from_slice(b"\" ");
            iana::write_class(out, question.qclass);
            out.push(b' ');
            iana::write_type(out, question.qtype);
            out.push(b'\n');
        }
        _ => out.extend_from_slice(b"b X \n"),
    }
}

/// Who speaks and in which direction.
pub(super) const fn letters(kind: MessageType) -> [u8; 2] {
    match kind {
        MessageType::AuthQuery => *b"AQ",
        MessageType::AuthResponse => *b"AR",
        MessageType::ResolverQuery => *b"RQ",
        MessageType::ResolverResponse => *b"RR",
        MessageType::ClientQuery => *b"CQ",
        MessageType::ClientResponse => *b"CR",
        MessageType::ForwarderQuery => *b"FQ",
        MessageType::ForwarderResponse => *b"FR",
        MessageType::StubQuery => *b"SQ",
        MessageType::StubResponse => *b"SR",
        MessageType::ToolQuery => *b"TQ",
        MessageType::ToolResponse => *b"TR",
        MessageType::UpdateQuery => *b"UQ",
        MessageType::UpdateResponse => *b"UR",
        MessageType::Unknown(_) => *b"??",
    }
}

/// A name as golang-dnstap writes it.
pub(super) fn write_name(out: &mut Vec<u8>, name: &Name<'_>) {
    if name.is_root() {
        out.push(b'.');
        return;
    }
    for label in name.labels() {
        // `'` is bare in BIND's form and the only such octet that is escaped here.
        if label.iter().all(|&octet| is_bare(octet) && octet != b'\'') {
            out.extend_from_slice(label);
        } else {
            for &octet in label {
                match octet {
                    b' ' | b'\'' | b'.' | b'@' | b';' | b'(' | b')' | b'"' | b'\\' => {
                        out.extend_from_slice(&[b'\\', octet]);
                    }
                    b'!'..=b'~' => out.push(octet),
                    _ => {
                        out.push(b'\\');
                        out.extend_from_slice(&decimal_digits(octet));
                    }
                }
            }
        }
        out.push(b'.');
    }
}

/// Seconds to add to UTC at the time of `message`.
pub(super) fn local_offset(message: &Message<'_>) -> i32 {
    let Some(time) = message
        .time()
        .filter(|time| time.seconds < Sent::SECONDS_END)
    else {
        return 0;
    };
    LOCAL.with_borrow_mut(|zone| zone.offset(i64::try_from(time.seconds).unwrap_or(0)))
}

thread_local! {
    static LOCAL: RefCell<Zone> = RefCell::new(Zone::new(TimeZone::system()));
}

/// A time zone with the offset last used and the span in which it holds, so that looking up the zone's rules is
/// rare.
struct Zone {
    rules: TimeZone,
    /// Seconds since 1970 in which `offset` holds, from inclusive, until exclusive.
    holds: std::ops::Range<i64>,
    offset: i32,
}

impl Zone {
    fn new(rules: TimeZone) -> Self {
        Self {
            rules,
            holds: 0..0,
            offset: 0,
        }
    }

    #[inline]
    fn offset(&mut self, second: i64) -> i32 {
        if !self.holds.contains(&second) {
            self.look_up(second);
        }
        self.offset
    }

    #[cold]
    fn look_up(&mut self, second: i64) {
        // A day before the year 10000 the zone rules' range ends; the offset then stays what it was.
        let Ok(now) = Timestamp::from_second(second) else {
            return;
        };
        self.offset = self.rules.to_offset(now).seconds();
        let until = self
            .rules
            .following(now)
            .next()
            .map_or(i64::MAX, |next| next.timestamp().as_second());
        // From the time asked about on: enough for events that come in order, and a later question about an
        // earlier time just looks again.
        self.holds = second..until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_follows_every_change_of_the_offset() {
        let rules = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let mut zone = Zone::new(rules.clone());
        // 2024-03-31 01:00 UTC and 2024-10-27 01:00 UTC, each from a second before on, then back again.
        for second in [
            1_711_846_799,
            1_711_846_800,
            1_729_990_799,
            1_729_990_800,
            1_711_846_799,
            0,
            253_402_200_000,
        ] {
            let wanted = rules
                .to_offset(Timestamp::from_second(second).unwrap())
                .seconds();
            assert_eq!(zone.offset(second), wanted, "at {second}");
            assert!(zone.holds.contains(&second));
        }
    }

    #[test]
    fn a_zone_without_changes_is_looked_up_once() {
        let mut zone = Zone::new(TimeZone::UTC);
        assert_eq!(zone.offset(5), 0);
        assert_eq!(zone.holds, 5..i64::MAX);
    }
}
