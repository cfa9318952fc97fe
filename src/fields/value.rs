//! [`Value`]: what a field holds, borrowed, and as text.

use std::net::IpAddr;
use std::time::Duration;

use crate::digits;
use crate::dns::name::decimal_digits;
use crate::dns::{Name, iana};
use crate::dnstap::{
    HttpProtocol, MessageType, PolicyAction, PolicyMatch, SocketFamily, SocketProtocol, Timestamp,
};

/// What values of a field are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number without sign.
    Number,
    /// A time: RFC 3339 in UTC with nanoseconds.
    Time,
    /// A span of time in seconds.
    Span,
    /// Any octets, shown as text.
    Octets,
    /// A domain name.
    Name,
    /// An IP address.
    Address,
    /// A number that has a name.
    Word(Vocabulary),
    /// Yes or no: `1` or `0`.
    Flag,
}

/// Where the numbers of a field have their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// dnstap message types.
    MessageType,
    /// Address families.
    Family,
    /// Transports.
    Protocol,
    /// HTTP versions.
    Http,
    /// What a policy did.
    PolicyAction,
    /// What a policy matched.
    PolicyMatch,
    /// Record types.
    Rtype,
    /// Classes.
    Class,
    /// Response codes.
    Rcode,
    /// Opcodes.
    Opcode,
}

impl Vocabulary {
    /// The number of a name, in any letter case, or of its decimal digits.
    pub fn number(self, text: &str) -> Option<i32> {
        match self {
            Self::MessageType => MessageType::from_name(text).map(MessageType::number),
            Self::Family => SocketFamily::from_name(text).map(SocketFamily::number),
            Self::Protocol => SocketProtocol::from_name(text).map(SocketProtocol::number),
            Self::Http => HttpProtocol::from_name(text).map(HttpProtocol::number),
            Self::PolicyAction => PolicyAction::from_name(text).map(PolicyAction::number),
            Self::PolicyMatch => PolicyMatch::from_name(text).map(PolicyMatch::number),
            Self::Rtype => iana::type_number(text).map(i32::from),
            Self::Class => iana::class_number(text).map(i32::from),
            Self::Rcode => iana::rcode_number(text).map(i32::from),
            Self::Opcode => iana::opcode_number(text).map(i32::from),
        }
        .or_else(|| text.parse().ok())
    }

    /// Appends the name of a number, or what stands for it where it has none.
    pub fn write(self, out: &mut Vec<u8>, number: i32) {
        let name = match self {
            Self::MessageType => MessageType::from_number(number).name(),
            Self::Family => SocketFamily::from_number(number).name(),
            Self::Protocol => SocketProtocol::from_number(number).name(),
            Self::Http => HttpProtocol::from_number(number).name(),
            Self::PolicyAction => PolicyAction::from_number(number).name(),
            Self::PolicyMatch => PolicyMatch::from_number(number).name(),
            Self::Rtype => return iana::write_type(out, number as u16),
            Self::Class => return iana::write_class(out, number as u16),
            Self::Rcode => return iana::write_rcode(out, number as u16),
            Self::Opcode => return iana::write_opcode(out, number as u8),
        };
        match name {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => digits::signed(out, number),
        }
    }
}

/// What a field of a record holds, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A time.
    Time(Timestamp),
    /// A span of time.
    Span(Duration),
    /// Octets.
    Octets(&'a [u8]),
    /// Octets in which `%` and two hexadecimal digits stand for one.
    Encoded(&'a [u8]),
    /// A domain name.
    Name(Name<'a>),
    /// An address.
    Address(IpAddr),
    /// A number of a vocabulary.
    Word(Vocabulary, i32),
    /// A network: the address and the bits of its prefix.
    Net(IpAddr, u8),
    /// Yes or no.
    Flag(bool),
}

impl Value<'_> {
    /// Appends the value as printable ASCII in one line: names in BIND's form, other octets bare from 32 to 126 but for
    /// `\`, which is `\\`, and the rest as `\ddd` in decimal.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Number(number) => digits::number(out, number),
            Self::Time(time) => write_time(out, time),
            Self::Span(span) => {
                digits::number(out, span.as_secs());
                out.push(b'.');
                digits::nanos(out, span.subsec_nanos());
            }
            Self::Octets(octets) => octets.iter().for_each(|octet| escaped(out, *octet)),
            Self::Encoded(octets) => decoded(octets).for_each(|octet| escaped(out, octet)),
            Self::Name(name) => name.write_text(out),
            Self::Address(address) => digits::ip(out, address),
            Self::Word(words, number) => words.write(out, number),
            Self::Net(address, prefix) => {
                digits::ip(out, address);
                out.push(b'/');
                digits::number(out, prefix.into());
            }
            Self::Flag(flag) => out.push(if flag { b'1' } else { b'0' }),
        }
    }
}

fn escaped(out: &mut Vec<u8>, octet: u8) {
    match octet {
        b'\\' => out.extend_from_slice(b"\\\\"),
        b' '..=b'~' => out.push(octet),
        _ => {
            out.push(b'\\');
            out.extend_from_slice(&decimal_digits(octet));
        }
    }
}

/// The octets with each `%xx` undone; a `%` before anything else is itself.
pub fn decoded(octets: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let (first, tail) = rest.split_first()?;
        rest = tail;
        if let (b'%', [high, low, after @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (nibble(*high), nibble(*low))
        {
            rest = after;
            return Some(high << 4 | low);
        }
        Some(*first)
    })
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// RFC 3339; a time that no calendar shows is its seconds and nanoseconds, as sent.
fn write_time(out: &mut Vec<u8>, time: Timestamp) {
    if !time.is_sane() {
        digits::number(out, time.seconds);
        out.push(b'.');
        if time.nanos < 1_000_000_000 {
            return digits::nanos(out, time.nanos);
        }
        return digits::number(out, time.nanos.into());
    }
    // Sane, so below 2,932,897 days.
    digits::date(out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(out, (time.seconds % 86_400) as u32);
    out.push(b'.');
    digits::nanos(out, time.nanos);
    out.push(b'Z');
}
