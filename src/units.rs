//! The units that settings are written in: sizes, spans of time, places, networks, file modes.
//!
//! A setting is written as a person would say it (`"64KiB"`, `"5s"`, `"tcp:[::1]:6000"`), and a value that cannot be
//! read is answered with what was wrong and how to write it. Each type prints the shortest text that reads back as the
//! same value, so a configuration can be printed and read again without a change.
//!
//! Nothing here knows a setting by name, reads a file or opens a socket.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod place;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use place::ENDPOINT_EXAMPLE;
pub use place::{Endpoint, Net, UNIX_PATH_MAX};

/// Why a text is not the unit it should be: a sentence for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

impl UnitError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A number of bytes. Written `"64KiB"`, `"1.5GiB"` (powers of 1024), `"1MB"` (powers of 1000), or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// Units of [`ByteSize`], largest first; the first that divides a size is the one it is printed in.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// `n` times 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// `n` times 1024 times 1024 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; the largest length there is where it would not fit.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Whether the size is zero, which many settings read as *off* or *as the system has it*.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The size rounded to three digits in binary units, for people: `1.25 GiB`. Does not read back exactly.
    pub fn rounded(self) -> String {
        let unit = SIZE_UNITS
            .iter()
            .take(4)
            .find(|(_, scale)| self.0 >= *scale);
        match unit {
            None => format!("{} B", self.0),
            Some((name, scale)) => {
                let value = self.0 as f64 / *scale as f64;
                let digits = if value < 9.995 {
                    2
                } else {
                    usize::from(value < 99.95)
                };
                format!("{value:.digits$} {}", name)
            }
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0");
        }
        // The unit that leaves the smallest number: 4096000 is "4000KiB" and "4096kB", and the first is shorter to read.
        let unit = SIZE_UNITS
            .iter()
            .filter(|(_, scale)| self.0.is_multiple_of(*scale))
            .max_by_key(|(_, scale)| *scale);
        let (name, scale) = unit.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0.checked_div(scale).unwrap_or(self.0))
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text);
        let example = "write a number and a unit, such as \"64KiB\" or \"1MiB\"";
        if number.is_empty() {
            return Err(UnitError::new(format!(
                "\"{text}\" is not a size: {example}"
            )));
        }
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" => 1,
            letter @ ("k" | "m" | "g" | "t") => {
                let letter = letter.to_ascii_uppercase();
                return Err(UnitError::new(format!(
                    "\"{text}\" can be read in two ways: write \"{number}{letter}iB\" (powers of 1024) or \"{number}{letter}B\" (powers of 1000)"
                )));
            }
            other => match SIZE_UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(other))
            {
                Some((_, scale)) => *scale,
                None => {
                    return Err(UnitError::new(format!(
                        "\"{unit}\" is not a unit of size: {example}"
                    )));
                }
            },
        };
        scaled(number, scale).map(Self).ok_or_else(|| {
            UnitError::new(format!(
                "\"{text}\" is not a whole number of bytes up to {}: {example}",
                u64::MAX
            ))
        })
    }
}

/// A span of time; zero means *off*. Written `"5s"`, `"250ms"`, `"1.5h"`, `"off"`; units are ms, s, m, h and d.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

/// Units of [`Span`] in nanoseconds, largest first.
const SPAN_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Span {
    /// No time at all, which settings read as *off*.
    pub const OFF: Self = Self(Duration::ZERO);

    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// Whether the setting is off.
    pub const fn is_off(self) -> bool {
        self.0.is_zero()
    }

    /// The duration, or `None` when the setting is off.
    pub const fn get(self) -> Option<Duration> {
        if self.is_off() { None } else { Some(self.0) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("off");
        }
        let unit = SPAN_UNITS
            .iter()
            .find(|(_, scale)| nanos.is_multiple_of(u128::from(*scale)));
        let (name, scale) = unit.copied().unwrap_or(("ns", 1));
        write!(
            f,
            "{}{name}",
            nanos.checked_div(u128::from(scale)).unwrap_or(nanos)
        )
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let example =
            "write a number and a unit, such as \"5s\", \"250ms\", \"10m\" or \"1h\", or \"off\"";
        if text.eq_ignore_ascii_case("off") {
            return Ok(Self::OFF);
        }
        let (number, unit) = split_number(text);
        if number.is_empty() {
            return Err(UnitError::new(format!(
                "\"{text}\" is not a span of time: {example}"
            )));
        }
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" if scaled(number, 1) == Some(0) => 1,
            "" => {
                return Err(UnitError::new(format!(
                    "\"{text}\" has no unit: write \"{number}s\" for seconds or \"{number}ms\" for milliseconds"
                )));
            }
            "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "hour" | "hours" => 3_600_000_000_000,
            "day" | "days" => 86_400_000_000_000,
            other => match SPAN_UNITS.iter().find(|(name, _)| *name == other) {
                Some((_, scale)) => *scale,
                None => {
                    return Err(UnitError::new(format!(
                        "\"{unit}\" is not a unit of time: {example}"
                    )));
                }
            },
        };
        scaled(number, scale)
            .map(|nanos| Self(Duration::from_nanos(nanos)))
            .ok_or_else(|| {
                UnitError::new(format!(
                    "\"{text}\" is too long or too finely divided a time: {example}"
                ))
            })
    }
}

/// Splits `"1.5 GiB"` into `"1.5"` and `"GiB"`.
fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    (number, unit.trim_start())
}

/// `number` (decimal digits with at most one point) times `scale`, where that is a whole number that fits.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let product = digits.checked_mul(u128::from(scale))?;
    if !product.is_multiple_of(divisor) {
        return None;
    }
    u64::try_from(product.checked_div(divisor)?).ok()
}

/// Permission bits of a file, written in octal: `"0660"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileMode(pub u32);

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for FileMode {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let octal = !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if octal && mode <= 0o777 => Ok(Self(mode)),
            _ => Err(UnitError::new(format!(
                "\"{text}\" is not a file mode: write three or four octal digits in quotes, such as \"0660\" (owner and group) or \"0666\" (everyone)"
            ))),
        }
    }
}

/// Serialises a unit as its text and reads it back from text, or from a plain number where `$number` allows one.
macro_rules! unit_serde {
    ($type:ty, $expecting:literal, $number:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$type, E> {
                        let from_number: fn(i128) -> Result<$type, UnitError> = $number;
                        from_number(i128::from(number)).map_err(E::custom)
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                        let from_number: fn(i128) -> Result<$type, UnitError> = $number;
                        from_number(i128::from(number)).map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

unit_serde!(
    ByteSize,
    "a size such as \"64KiB\" or a number of bytes",
    |number| {
        u64::try_from(number)
            .map(ByteSize)
            .map_err(|_| UnitError::new(format!("a size cannot be negative, and this is {number}")))
    }
);
unit_serde!(
    Span,
    "a span of time such as \"5s\", or \"off\"",
    |number| number.to_string().parse()
);
unit_serde!(
    Endpoint,
    "a place such as \"unix:/path\" or \"tcp:127.0.0.1:6000\"",
    |number| {
        Err(UnitError::new(format!(
            "{number} is not a place: {ENDPOINT_EXAMPLE}"
        )))
    }
);
unit_serde!(Net, "a network such as \"192.0.2.0/24\"", |number| number
    .to_string()
    .parse());
unit_serde!(
    FileMode,
    "a file mode in quotes such as \"0660\"",
    |number| {
        Err(UnitError::new(format!(
            "a file mode is written in quotes, in octal, such as \"0660\", and this is the number {number}"
        )))
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints_sizes() {
        for (text, bytes, printed) in [
            ("0", 0, "0"),
            ("4064", 4064, "4064B"),
            ("1KiB", 1024, "1KiB"),
            ("1 kib", 1024, "1KiB"),
            ("1.5GiB", 3 << 29, "1536MiB"),
            ("0.5KiB", 512, "512B"),
            ("1MB", 1_000_000, "1MB"),
            ("2kB", 2000, "2kB"),
            ("18446744073709551615", u64::MAX, "18446744073709551615B"),
        ] {
            let size: ByteSize = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (size.bytes(), size.to_string().as_str()),
                (bytes, printed),
                "{text}"
            );
        }
    }

    #[test]
    fn says_why_a_size_is_none() {
        for (text, want) in [
            ("", "is not a size"),
            ("KiB", "is not a size"),
            ("-1", "is not a size"),
            ("64K", "write \"64KiB\""),
            ("1 parsec", "\"parsec\" is not a unit of size"),
            ("0.3B", "not a whole number"),
            ("1.1.1B", "not a whole number"),
            ("18446744073709551616", "not a whole number of bytes up to"),
            (
                "99999999999999999999999999999999999999999TiB",
                "not a whole number",
            ),
            (".B", "not a whole number"),
        ] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn shows_sizes_to_people_in_three_digits() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 << 20, "10.0 MiB"),
            (206 << 30, "206 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(ByteSize(bytes).rounded(), want);
        }
    }

    #[test]
    fn reads_and_prints_spans_of_time() {
        for (text, millis, printed) in [
            ("off", 0, "off"),
            ("0", 0, "off"),
            ("0s", 0, "off"),
            ("250ms", 250, "250ms"),
            ("5s", 5000, "5s"),
            ("90s", 90_000, "90s"),
            ("60 s", 60_000, "1m"),
            ("1.5h", 5_400_000, "90m"),
            ("2 days", 172_800_000, "2d"),
        ] {
            let span: Span = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (span.0, span.to_string().as_str()),
                (Duration::from_millis(millis), printed),
                "{text}"
            );
            assert_eq!(span.get().is_none(), millis == 0);
        }
    }

    #[test]
    fn says_why_a_span_of_time_is_none() {
        for (text, want) in [
            ("5", "write \"5s\""),
            ("s", "is not a span of time"),
            ("", "is not a span of time"),
            ("-5s", "is not a span of time"),
            ("5 fortnights", "\"fortnights\" is not a unit of time"),
            ("9999999999d", "too long"),
            ("0.5ns", "too finely divided"),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn reads_and_prints_places() {
        for (text, want, printed) in [
            (
                "unix:/run/x.sock",
                Endpoint::unix("/run/x.sock"),
                "unix:/run/x.sock",
            ),
            (
                "unix:///run/x.sock",
                Endpoint::unix("/run/x.sock"),
                "unix:/run/x.sock",
            ),
            ("unix:a:b", Endpoint::unix("a:b"), "unix:a:b"),
            (
                "tcp:127.0.0.1:6000",
                Endpoint::tcp("127.0.0.1", 6000),
                "tcp:127.0.0.1:6000",
            ),
            (
                "tcp://localhost:0",
                Endpoint::tcp("localhost", 0),
                "tcp:localhost:0",
            ),
            (
                "tcp:[::1]:6000",
                Endpoint::tcp("::1", 6000),
                "tcp:[::1]:6000",
            ),
            (
                "mux+tcp:[::1]:6001",
                Endpoint::mux(Endpoint::tcp("::1", 6001)),
                "mux+tcp:[::1]:6001",
            ),
            (
                "mux+unix:///run/x.sock",
                Endpoint::mux(Endpoint::unix("/run/x.sock")),
                "mux+unix:/run/x.sock",
            ),
        ] {
            let place: Endpoint = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(place, want, "{text}");
            assert_eq!(place.to_string(), printed);
            assert_eq!(printed.parse(), Ok(place));
        }
    }

    #[test]
    fn says_why_a_place_is_none() {
        for (text, want) in [
            ("", "no place is given"),
            ("/run/x.sock", "write \"unix:/run/x.sock\""),
            ("127.0.0.1:6000", "write \"tcp:127.0.0.1:6000\""),
            ("localhost", "does not say what kind"),
            ("unix:", "names no path"),
            ("unix:/a\0b", "NUL"),
            ("mux+tcp:127.0.0.1", "has no port"),
            ("mux+udp:127.0.0.1:53", "knows unix:, tcp: and tls:"),
            ("udp:127.0.0.1:53", "knows unix:, tcp: and tls:"),
            (
                "quic:127.0.0.1:6000",
                "\"quic:\", which this version does not know",
            ),
            ("tcp:127.0.0.1", "has no port"),
            ("tcp::6000", "names no host"),
            ("tcp:::1:6000", "goes in brackets"),
            ("tcp:[::1:6000", "does not close it"),
            ("tcp:[1.2.3.4]:6000", "not an IPv6 address"),
            ("tcp:[::1]", "has no port"),
            ("tcp:a b:1", "neither an address nor a name"),
            ("tcp:*:6000", "neither an address nor a name"),
            ("tcp:x:65536", "not a number from 0 to 65535"),
            ("tcp:x:+1", "not a number from 0 to 65535"),
            ("tcp:x:", "not a number from 0 to 65535"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn networks_take_addresses_and_v4_mapped_peers() {
        let net: Net = "192.0.2.0/24".parse().unwrap();
        assert!(
            net.contains("192.0.2.7".parse().unwrap())
                && net.contains("::ffff:192.0.2.7".parse().unwrap())
        );
        assert!(
            !net.contains("192.0.3.1".parse().unwrap())
                && !net.contains("2001:db8::1".parse().unwrap())
        );
        let one: Net = "2001:db8::7".parse().unwrap();
        assert!(
            one.contains("2001:db8::7".parse().unwrap())
                && !one.contains("2001:db8::8".parse().unwrap())
        );
        assert_eq!(one.to_string(), "2001:db8::7");
        assert!("10.1.2.3/8".parse::<Net>().unwrap().has_host_bits() && !net.has_host_bits());
        for text in ["", "x", "10.0.0.0/33", "10.0.0/8", "::/129"] {
            assert!(
                text.parse::<Net>()
                    .unwrap_err()
                    .to_string()
                    .contains("is not a network"),
                "{text}"
            );
        }
    }

    #[test]
    fn file_modes_are_octal() {
        for (text, want) in [
            ("0660", Some(0o660)),
            ("660", Some(0o660)),
            ("0o777", Some(0o777)),
            ("0", Some(0)),
            ("0888", None),
            ("1777", None),
            ("", None),
            ("rw", None),
            ("+66", None),
        ] {
            assert_eq!(
                text.parse::<FileMode>().ok().map(|mode| mode.0),
                want,
                "{text}"
            );
        }
        assert_eq!(FileMode(0o66).to_string(), "0066");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_the_same(bytes: u64, nanos: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
            let span = Span(Duration::from_nanos(nanos));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }

        #[test]
        fn no_text_makes_reading_a_unit_panic(text in "\\PC{0,20}|[0-9.]{0,45}[A-Za-z]{0,4}|(tcp|unix):[\\[\\]:/a-z0-9.]{0,20}") {
            let _ = (text.parse::<ByteSize>(), text.parse::<Span>(), text.parse::<Net>(), text.parse::<FileMode>());
            if let Ok(place) = text.parse::<Endpoint>() {
                prop_assert_eq!(place.to_string().parse(), Ok(place));
            }
        }
    }
}
