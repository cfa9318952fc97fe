//! [`Value`]: what a field holds, borrowed, and as text.

use std::net::IpAddr;
use std::time::Duration;

use super::Vocabulary;
use crate::digits;
use crate::dns::name::decimal_digits;
use crate::dns::present::{self, Plain};
use crate::dns::{DnsView, Edns, EdnsOption, Header, Name, Section};
use crate::dnstap::Timestamp;

/// What values of a field are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number without sign.
    Number,
    /// Numbers without sign, a comma between two.
    Numbers,
    /// A time: RFC 3339 in UTC with nanoseconds. One that no calendar shows is `253402300800s+0ns`: its seconds since 1970
    /// and its nanoseconds as sent, which reads as nothing else.
    Time,
    /// A span of time in seconds, with nine digits after the point.
    Span,
    /// Any octets, shown as text.
    Octets,
    /// Octets in base 16, small letters.
    Hex,
    /// A domain name.
    Name,
    /// An IP address.
    Address,
    /// A network: an IP address, `/` and the bits of its prefix.
    Net,
    /// A number that has a name.
    Word(Vocabulary),
    /// Yes or no: `1` or `0`.
    Flag,
    /// What is made of several parts of a message and has no form but its text.
    Text,
}

impl Kind {
    /// What it is, in a few words for a table of fields.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Numbers => "numbers",
            Self::Time => "time",
            Self::Span => "seconds",
            Self::Octets => "octets",
            Self::Hex => "base 16",
            Self::Name => "name",
            Self::Address => "address",
            Self::Net => "network",
            Self::Word(_) => "word",
            Self::Flag => "flag",
            Self::Text => "text",
        }
    }
}

/// What a field of a record holds, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// Numbers.
    Numbers(Numbers<'a>),
    /// A time.
    Time(Timestamp),
    /// A span of time.
    Span(Duration),
    /// Octets.
    Octets(&'a [u8]),
    /// Octets that are shown in base 16.
    Hex(&'a [u8]),
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
    /// What has no form but its text.
    Text(Text<'a>),
}

/// Several numbers, read from the message as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers<'a> {
    /// The codes of the EDNS options.
    Options(Edns<'a>),
    /// The codes of the extended DNS errors.
    ExtendedErrors(Edns<'a>),
}

impl<'a> Numbers<'a> {
    /// Each of them, in the order of the message.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        let (edns, whole) = match self {
            Self::Options(edns) => (edns, true),
            Self::ExtendedErrors(edns) => (edns, false),
        };
        edns.options().filter_map(move |(code, data)| {
            match (whole, EdnsOption::parse(code, data)) {
                (true, _) => Some(u64::from(code)),
                (false, EdnsOption::ExtendedError { code, .. }) => Some(u64::from(code)),
                (false, _) => None,
            }
        })
    }
}

/// What is made of several parts of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Text<'a> {
    /// The flags of a header that are set, in wire order, a space between two.
    Flags(u16),
    /// The data of the answers in the presentation form of zone files, a comma between two.
    Answers(DnsView<'a>),
}

impl Text<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Self::Flags(flags) => {
                for (name, bit) in Header::FLAGS {
                    if flags & bit != 0 {
                        if out.len() > start {
                            out.push(b' ');
                        }
                        out.extend_from_slice(name.as_bytes());
                    }
                }
            }
            Self::Answers(dns) => {
                for record in dns.records() {
                    if record.section != Section::Answer {
                        break;
                    }
                    if out.len() > start {
                        out.push(b',');
                    }
                    present::write_data(&Plain, out, &record);
                }
            }
        }
    }
}

impl Value<'_> {
    /// Appends the value as printable ASCII in one line: names in BIND's form, other octets bare from 32 to 126 but for
    /// `\`, which is `\\`, and the rest as `\ddd` in decimal.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Number(number) => digits::number(out, number),
            Self::Numbers(numbers) => {
                for (index, number) in numbers.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    digits::number(out, number);
                }
            }
            Self::Time(time) => write_time(out, time),
            Self::Span(span) => {
                digits::number(out, span.as_secs());
                out.push(b'.');
                digits::nanos(out, span.subsec_nanos());
            }
            Self::Octets(octets) => escaped_all(out, octets),
            Self::Hex(octets) => hex(out, octets),
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
            Self::Text(text) => text.write(out),
        }
    }
}

/// Most octets need no escape.
fn escaped_all(out: &mut Vec<u8>, octets: &[u8]) {
    if octets
        .iter()
        .all(|octet| matches!(octet, b' '..=b'~') && *octet != b'\\')
    {
        return out.extend_from_slice(octets);
    }
    octets.iter().for_each(|octet| escaped(out, *octet));
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

fn hex(out: &mut Vec<u8>, octets: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * octets.len(), 0);
    if let Some(room) = out.get_mut(start..) {
        data_encoding::HEXLOWER.encode_mut(octets, room);
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

/// RFC 3339; a time that no calendar shows as [`Kind::Time`] says.
fn write_time(out: &mut Vec<u8>, time: Timestamp) {
    if !time.is_sane() {
        digits::number(out, time.seconds);
        out.extend_from_slice(b"s+");
        digits::number(out, time.nanos.into());
        return out.extend_from_slice(b"ns");
    }
    // Sane, so below 2,932,897 days.
    digits::date(out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(out, (time.seconds % 86_400) as u32);
    out.push(b'.');
    digits::nanos(out, time.nanos);
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_read_as_documented() {
        let time = |seconds, nanos| Value::Time(Timestamp { seconds, nanos });
        for (value, wanted) in [
            (time(0, 1), "1970-01-01T00:00:00.000000001Z"),
            (time(253_402_300_799, 0), "9999-12-31T23:59:59.000000000Z"),
            (time(253_402_300_800, 5), "253402300800s+5ns"),
            (time(0, 1_000_000_000), "0s+1000000000ns"),
            (Value::Span(Duration::from_micros(1500)), "0.001500000"),
            (Value::Octets(b"a\\b\x00\xff \"~"), "a\\\\b\\000\\255 \"~"),
            (Value::Encoded(b"a%20%zz%0a%2"), "a %zz\\010%2"),
            (Value::Hex(&[0, 0xab]), "00ab"),
            (Value::Net([192, 0, 2, 0].into(), 24), "192.0.2.0/24"),
            (Value::Word(Vocabulary::Rcode, 3), "NXDOMAIN"),
            (Value::Text(Text::Flags(0x8580)), "qr aa rd ra"),
            (Value::Text(Text::Flags(0x0040)), "z"),
            (Value::Flag(true), "1"),
        ] {
            assert_eq!(text(value), wanted);
        }
    }
}
