//! Numbers, addresses and calendar times as text, appended to bytes. `core::fmt` gives the same text at several
//! times the cost (`benches/dnstap.rs`); the tests compare the two.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `00` to `99`.
#[allow(
    clippy::indexing_slicing,
    reason = "runs at compile time, where a panic is a build error"
)]
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The two digits of `number % 100`.
#[inline(always)]
fn pair(number: u32) -> [u8; 2] {
    *PAIRS.get((number % 100) as usize).unwrap_or(&[b'?'; 2])
}

/// Appends a number in decimal.
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + number as u8);
        return;
    }
    let (mut digits, mut left, mut number) = ([0u8; 20], 20, number);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        left -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(left..).unwrap_or_default());
}

/// Appends a signed number in decimal.
pub(crate) fn signed(out: &mut Vec<u8>, value: i32) {
    if value < 0 {
        out.push(b'-');
    }
    number(out, u64::from(value.unsigned_abs()));
}

/// Appends the six digits of microseconds; more digits when the number has more.
#[inline]
pub(crate) fn micros(out: &mut Vec<u8>, micros: u32) {
    if micros >= 1_000_000 {
        return number(out, u64::from(micros));
    }
    let ([a, b], [c, d], [e, f]) = (pair(micros / 10_000), pair(micros / 100), pair(micros));
    out.extend_from_slice(&[a, b, c, d, e, f]);
}

/// Appends the nine digits of nanoseconds below a second.
#[inline]
pub(crate) fn nanos(out: &mut Vec<u8>, nanos: u32) {
    let ([a, b], [c, d], [e, f], [g, h]) = (
        pair(nanos / 10_000_000),
        pair(nanos / 100_000),
        pair(nanos / 1000),
        pair(nanos / 10),
    );
    out.extend_from_slice(&[a, b, c, d, e, f, g, h, b'0' + (nanos % 10) as u8]);
}

/// Appends `HH:MM:SS` of a second of the day, 0..86,400.
#[inline]
pub(crate) fn clock(out: &mut Vec<u8>, second_of_day: u32) {
    let ([a, b], [c, d], [e, f]) = (
        pair(second_of_day / 3600),
        pair(second_of_day / 60 % 60),
        pair(second_of_day % 60),
    );
    out.extend_from_slice(&[a, b, b':', c, d, b':', e, f]);
}

/// Appends `YYYY-MM-DD` of a day counted from 1970-01-01, up to the year 9999.
pub(crate) fn date(out: &mut Vec<u8>, day: u32) {
    let [[a, b], [c, d], [e, f], [g, h]] = date_pairs(day);
    out.extend_from_slice(&[a, b, c, d, b'-', e, f, b'-', g, h]);
}

/// Appends `YYYYMMDDHHmmSS` of seconds since 1970 in UTC (RFC 4034, 3.2): years 1970 to 2106.
pub(crate) fn stamp(out: &mut Vec<u8>, seconds: u32) {
    let second = seconds % 86_400;
    out.extend(date_pairs(seconds / 86_400).as_flattened());
    for part in [second / 3600, second / 60 % 60, second % 60] {
        out.extend_from_slice(&pair(part));
    }
}

/// Century, year of the century, month and day of a day counted from 1970-01-01, each in two digits.
fn date_pairs(day: u32) -> [[u8; 2]; 4] {
    // Days counted from 0000-03-01 fall into 400-year eras of 146,097 days, and within a year that begins in
    // March the leap day comes last.
    let day = day + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    let year = year_of_era + era * 400 + next_year;
    [
        pair(year / 100),
        pair(year),
        pair(month),
        pair(day_of_month),
    ]
}

/// Appends an address: IPv4 in dotted form, IPv6 as RFC 5952 says.
#[inline]
pub(crate) fn ip(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => v4(out, address),
        IpAddr::V6(address) => v6(out, address),
    }
}

#[inline]
fn v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let mut text = [0u8; 16];
    let mut len = 0;
    for octet in address.octets() {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
        let digits = [b'0' + hundreds, b'0' + tens, b'0' + ones, b'.'];
        let skipped = if hundreds > 0 {
            0
        } else if tens > 0 {
            1
        } else {
            2
        };
        for digit in digits.iter().skip(skipped) {
            if let Some(slot) = text.get_mut(len) {
                *slot = *digit;
                len += 1;
            }
        }
    }
    out.extend_from_slice(text.get(..len - 1).unwrap_or_default());
}

fn v6(out: &mut Vec<u8>, address: Ipv6Addr) {
    if let Some(mapped) = address.to_ipv4_mapped() {
        out.extend_from_slice(b"::ffff:");
        return v4(out, mapped);
    }
    let groups = address.segments();
    // The first of the longest runs of zero groups, where it is longer than one (RFC 5952, 4.2).
    let (mut best_start, mut best_len, mut run_len) = (0, 1, 0);
    for (index, group) in groups.iter().enumerate() {
        run_len = if *group == 0 { run_len + 1 } else { 0 };
        if run_len > best_len {
            (best_start, best_len) = (index + 1 - run_len, run_len);
        }
    }
    let gap = if best_len > 1 {
        best_start..best_start + best_len
    } else {
        8..8
    };
    for (index, group) in groups.iter().enumerate() {
        if gap.contains(&index) {
            if index == gap.start {
                out.extend_from_slice(b"::");
            }
            continue;
        }
        if index > 0 && index != gap.end {
            out.push(b':');
        }
        hex(out, *group);
    }
}

fn hex(out: &mut Vec<u8>, group: u16) {
    let mut started = false;
    for shift in [12, 8, 4, 0] {
        let nibble = (group >> shift & 0xf) as u8;
        started |= nibble != 0 || shift == 0;
        if started {
            out.push(if nibble < 10 {
                b'0' + nibble
            } else {
                b'a' + nibble - 10
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_the_digits_that_fmt_gives_them() {
        for value in [0, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(text(|out| number(out, value)), value.to_string());
        }
        for value in [0, -1, 7, i32::MIN, i32::MAX] {
            assert_eq!(text(|out| signed(out, value)), value.to_string());
        }
        for value in [0, 1, 999_999, 1_000_000, 4_294_967] {
            assert_eq!(text(|out| micros(out, value)), format!("{value:06}"));
        }
        for value in [0, 1, 10, 999_999_999, 123_456_789] {
            assert_eq!(text(|out| nanos(out, value)), format!("{value:09}"));
        }
    }

    #[test]
    fn every_day_has_its_date_in_the_first_and_the_last_cycle_of_400_years() {
        const CYCLE: u32 = 146_097;
        const LAST: u32 = 2_932_896;
        for (first, days, start) in [
            (0, CYCLE, jiff::civil::date(1970, 1, 1)),
            (
                LAST - CYCLE,
                CYCLE + 1,
                jiff::civil::date(9600, 1, 1).yesterday().unwrap(),
            ),
        ] {
            let mut day = start;
            for number in first..first + days {
                assert_eq!(text(|out| date(out, number)), day.to_string());
                day = day.tomorrow().unwrap_or(day);
            }
        }
    }

    proptest! {
        #[test]
        fn addresses_read_as_the_standard_library_writes_them(v4: [u8; 4], v6: [u8; 16], holes: u16) {
            prop_assert_eq!(text(|out| ip(out, v4.into())), IpAddr::from(v4).to_string());
            let mut sparse = v6;
            for index in 0..16 {
                if holes & 1 << index != 0 {
                    sparse[index] = 0;
                    sparse[index ^ 1] = 0;
                }
            }
            for octets in [v6, sparse] {
                prop_assert_eq!(text(|out| ip(out, octets.into())), IpAddr::from(octets).to_string());
            }
        }
    }

    #[test]
    fn addresses_at_the_edges_read_as_the_standard_library_writes_them() {
        for address in [
            "::",
            "::1",
            "1::",
            "1:0:0:2::",
            "0:0:1::",
            "::ffff:192.0.2.1",
            "::192.0.2.1",
            "1:2:3:4:5:6:7:0",
            "2001:db8:0:1:1:1:1:1",
            "255.255.255.255",
            "0.0.0.0",
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(text(|out| ip(out, address)), address.to_string());
        }
    }
}
