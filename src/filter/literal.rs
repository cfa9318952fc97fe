//! [`Literal`]: a value that an expression names, read as its field's kind asks.

use std::fmt;
use std::time::Duration;

use crate::dns::NameBuf;
use crate::dns::name::decimal_digits;
use crate::dnstap::Timestamp;
use crate::fields::{Kind, Value, Vocabulary};
use crate::units::{Net, Span};

/// A value that an expression names.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A number.
    Number(u64),
    /// A time.
    Time(Timestamp),
    /// A span of time.
    Span(Duration),
    /// Octets.
    Octets(Vec<u8>),
    /// Octets that are written in base 16.
    Hex(Vec<u8>),
    /// A domain name.
    Name(NameBuf),
    /// An address, or a network.
    Net(Net),
    /// A number of a vocabulary.
    Word(Vocabulary, i32),
    /// Yes or no.
    Flag(bool),
}

impl Literal {
    /// Reads what was written for a field of that kind; `quoted`: it stood between quotation marks.
    ///
    /// # Errors
    /// Why it is no such value.
    pub(super) fn parse(kind: Kind, text: &str, quoted: bool) -> Result<Self, String> {
        match kind {
            Kind::Number | Kind::Numbers => number(text).map(Self::Number),
            Kind::Time => time(text).map(Self::Time),
            Kind::Span => span(text).map(Self::Span),
            Kind::Octets | Kind::Text => unescaped(text).map(Self::Octets),
            Kind::Hex => hex(text).map(Self::Hex),
            Kind::Name => NameBuf::parse(text)
                .map(Self::Name)
                .map_err(|error| format!("\"{text}\" is no domain name: {error}")),
            Kind::Address | Kind::Net => net(text).map(Self::Net),
            Kind::Word(words) => words
                .number(text)
                .map(|number| Self::Word(words, number))
                .map_err(|error| error.to_string()),
            Kind::Flag => flag(text, quoted).map(Self::Flag),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ if digits => Err(format!("\"{text}\" is more than {}", u64::MAX)),
        _ => Err(format!("\"{text}\" is no number: write it in decimal")),
    }
}

/// RFC 3339 with any offset, or a date alone: its first moment in UTC.
fn time(text: &str) -> Result<Timestamp, String> {
    let date = |text: &str| {
        let date: jiff::civil::Date = text.parse().ok().filter(|_| text.len() == 10)?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let time = date(text).or_else(|| text.parse().ok()).ok_or_else(|| {
        format!(
            "\"{text}\" is no time: write it as 2026-01-31T12:00:00Z, with +01:00 in place of Z where that is meant, or a \
             date alone"
        )
    })?;
    let since = Duration::try_from(time.as_duration());
    let since = since.map_err(|_| format!("\"{text}\" is before 1970"))?;
    Ok(Timestamp {
        seconds: since.as_secs(),
        nanos: since.subsec_nanos(),
    })
}

fn span(text: &str) -> Result<Duration, String> {
    let digit = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match text.parse::<Span>() {
        Ok(span) if digit => Ok(span.0),
        Err(error) if digit => Err(error.to_string()),
        _ => Err(format!(
            "\"{text}\" is no span of time: write a number and a unit, such as 50ms or 1.5s"
        )),
    }
}

fn net(text: &str) -> Result<Net, String> {
    let net: Net = text.parse().map_err(|error| format!("{error}"))?;
    if net.has_host_bits() {
        let whole = Net(net.0.trunc());
        let address = net.0.addr();
        return Err(format!(
            "\"{text}\" has bits beyond its prefix: write {whole} for the network or {address} for the address"
        ));
    }
    Ok(net)
}

fn flag(text: &str, quoted: bool) -> Result<bool, String> {
    match text {
        "1" | "true" if !quoted => Ok(true),
        "0" | "false" if !quoted => Ok(false),
        _ => Err(format!(
            "\"{text}\" is neither true (1) nor false (0), and a flag alone is enough: tc, not tc"
        )),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    data_encoding::HEXLOWER_PERMISSIVE
        .decode(text.as_bytes())
        .map_err(|_| format!("\"{text}\" is not in base 16, two digits an octet"))
}

/// Undoes the escapes of octets: `\ddd` in decimal, and `\` before what is neither letter nor digit.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        if octet != b'\\' {
            octets.push(octet);
            continue;
        }
        let value = tail.first_chunk::<3>().and_then(|digits| {
            let value = digits.iter().try_fold(0u16, |sum, digit| {
                let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
                Some(sum * 10 + u16::from(digit))
            });
            u8::try_from(value?).ok()
        });
        match (value, tail) {
            (Some(value), _) => {
                octets.push(value);
                rest = tail.get(3..).unwrap_or_default();
            }
            (None, [octet, tail @ ..]) if !octet.is_ascii_alphanumeric() => {
                octets.push(*octet);
                rest = tail;
            }
            _ => {
                return Err(format!(
                    "\"{text}\" has a \\ that escapes nothing: write \\\\ for a backslash, \\ and three decimal digits \
                     up to 255 for an octet"
                ));
            }
        }
    }
    Ok(octets)
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self {
            Self::Octets(octets) => return quoted(f, octets),
            Self::Name(name) => return write_name(f, name),
            Self::Net(net) => return net.fmt(f),
            Self::Span(Duration::ZERO) => return f.write_str("0s"),
            Self::Span(span) => return Span(*span).fmt(f),
            Self::Hex(octets) if octets.is_empty() => return f.write_str("\"\""),
            Self::Hex(octets) => Value::Hex(octets),
            Self::Number(number) => Value::Number(*number),
            Self::Time(time) => Value::Time(*time),
            Self::Word(words, number) => Value::Word(*words, *number),
            Self::Flag(flag) => Value::Flag(*flag),
        };
        let mut text = Vec::new();
        value.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// Octets between quotation marks, with escapes.
fn quoted(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let mut text = vec![b'"'];
    for &octet in octets {
        match octet {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', octet]),
            b' '..=b'~' => text.push(octet),
            _ => {
                text.push(b'\\');
                text.extend_from_slice(&decimal_digits(octet));
            }
        }
    }
    text.push(b'"');
    f.write_str(&String::from_utf8_lossy(&text))
}

/// A name bare where that reads back, and otherwise between quotation marks; one of its own has a backslash before it.
pub(super) fn write_name(f: &mut fmt::Formatter<'_>, name: &NameBuf) -> fmt::Result {
    let text = name.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match text.chars().all(plain) {
        true => f.write_str(&text),
        false => write!(f, "\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_their_kind_says_or_refused_with_a_reason() {
        let long = "a".repeat(64);
        let rows: &[(Kind, &str, Result<&str, &str>)] = &[
            (Kind::Number, "512", Ok("512")),
            (Kind::Number, "-1", Err("no number")),
            (Kind::Number, "+1", Err("no number")),
            (Kind::Number, "18446744073709551616", Err("more than")),
            (
                Kind::Time,
                "2026-01-31T12:00:00.5+01:00",
                Ok("2026-01-31T11:00:00.500000000Z"),
            ),
            (
                Kind::Time,
                "2026-01-31",
                Ok("2026-01-31T00:00:00.000000000Z"),
            ),
            (Kind::Time, "1969-12-31T23:59:59Z", Err("before 1970")),
            (Kind::Time, "noon", Err("no time")),
            (Kind::Time, "2026-02-30", Err("no time")),
            (Kind::Span, "50ms", Ok("50ms")),
            (Kind::Span, "1.5s", Ok("1500ms")),
            (Kind::Span, "0s", Ok("0s")),
            (Kind::Span, "50", Err("has no unit")),
            (Kind::Span, "off", Err("no span of time")),
            (Kind::Octets, r#"a\"b\\\010\255"#, Ok(r#""a\"b\\\010\255""#)),
            (Kind::Octets, "é", Ok(r#""\195\169""#)),
            (Kind::Octets, r"a\n", Err("escapes nothing")),
            (Kind::Octets, r"a\256", Err("escapes nothing")),
            (Kind::Octets, r"a\", Err("escapes nothing")),
            (Kind::Hex, "00Ff", Ok("00ff")),
            (Kind::Hex, "0", Err("base 16")),
            (Kind::Name, "WWW.example", Ok("WWW.example.")),
            (Kind::Name, r"a\.b\032.x", Ok(r#""a\.b\032.x.""#)),
            (Kind::Name, r#"a\"b"#, Ok(r#""a\"b.""#)),
            (Kind::Name, "a..b", Err("empty label")),
            (Kind::Name, &long, Err("63 octets")),
            (Kind::Address, "192.0.2.0/24", Ok("192.0.2.0/24")),
            (Kind::Net, "2001:db8::1", Ok("2001:db8::1")),
            (Kind::Net, "10.1.2.3/8", Err("10.0.0.0/8 for the network")),
            (Kind::Net, "example", Err("not a network")),
            (Kind::Word(Vocabulary::Rtype), "aaaa", Ok("AAAA")),
            (Kind::Word(Vocabulary::Rtype), "TYPE1", Ok("A")),
            (
                Kind::Word(Vocabulary::Rcode),
                "NXDOMIAN",
                Err("did you mean NXDOMAIN?"),
            ),
            (Kind::Flag, "true", Ok("1")),
            (Kind::Flag, "yes", Err("neither true")),
        ];
        for (kind, text, want) in rows {
            let got = Literal::parse(*kind, text, false);
            match (&got, want) {
                (Ok(got), Ok(want)) => {
                    assert_eq!(got.to_string(), *want, "{text}");
                    let again = want
                        .strip_prefix('"')
                        .map_or(*want, |rest| rest.strip_suffix('"').unwrap());
                    assert_eq!(
                        Literal::parse(*kind, again, true)
                            .as_ref()
                            .ok()
                            .filter(|_| *kind != Kind::Flag),
                        Some(got).filter(|_| *kind != Kind::Flag)
                    );
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                _ => panic!("{text}: {got:?}"),
            }
        }
    }
}
