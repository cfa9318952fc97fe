//! Record data as BIND writes them: base 64 and base 16 in words of 56, its own names of types.

use std::net::Ipv6Addr;

use crate::digits;
use crate::dns::present::{self, Style};
use crate::dns::{Name, Record, iana, rare};

/// BIND's style.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bind {
    /// Within YAML, where an IPv6 address that would end in a colon takes a zero.
    pub(super) yaml: bool,
}

/// Longest word of base 64 or base 16, in characters.
const WORD: usize = 56;

/// Writes `octets` in words that `octets_a_word` of them fill, spaces between.
fn words(out: &mut Vec<u8>, octets: &[u8], octets_a_word: usize, write: fn(&mut Vec<u8>, &[u8])) {
    for (index, word) in octets.chunks(octets_a_word).enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        write(out, word);
    }
}

impl Style for Bind {
    fn rtype(&self, out: &mut Vec<u8>, rtype: u16) {
        push_type(out, rtype);
    }

    fn word(&self, out: &mut Vec<u8>, octets: &[u8]) {
        for &octet in octets {
            match octet {
                b' ' => out.extend_from_slice(b"\\032"),
                b'@' | b';' => out.extend_from_slice(&[b'\\', octet]),
                _ => present::write_text_escaped(out, &[octet]),
            }
        }
    }

    fn base64(&self, out: &mut Vec<u8>, octets: &[u8]) {
        words(out, octets, WORD / 4 * 3, present::write_base64);
    }

    fn hex(&self, out: &mut Vec<u8>, octets: &[u8]) {
        words(out, octets, WORD / 2, present::write_hex);
    }

    fn v6(&self, out: &mut Vec<u8>, address: Ipv6Addr) {
        v6(out, address);
        if self.yaml && out.last() == Some(&b':') {
            out.push(b'0');
        }
    }

    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        write_param(out, key, value);
    }

    fn loc(&self, out: &mut Vec<u8>, octets: &[u8]) {
        write_loc(self, out, octets);
    }

    fn generic(&self, out: &mut Vec<u8>, octets: &[u8]) {
        out.extend_from_slice(b"\\# ");
        digits::number(out, octets.len() as u64);
        if !octets.is_empty() {
            out.push(b' ');
            self.hex(out, octets);
        }
    }

    fn rare(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        rare::write(self, out, record, true)
    }

    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        let data = record.data();
        match (record.rtype, data) {
            // Types that BIND knows in class IN only: A (and in two more), AAAA, PX, SRV, KX, DHCID, SVCB, HTTPS.
            (1 | 26 | 28 | 33 | 36 | 49 | 64 | 65, _) if record.class != 1 => {
                self.generic(out, data);
                true
            }
            // SIG: a covered type without a name is a bare number.
            (24, [high, low, rest @ ..]) => write_sig(self, out, record, [*high, *low], rest),
            // KEY without a key.
            (25, [high, low, protocol, algorithm, ..]) if high & 0xc0 == 0xc0 => {
                numbers(out, &[u16::from_be_bytes([*high, *low]).into()]);
                numbers(out, &[(*protocol).into(), (*algorithm).into()]);
                out.pop();
                true
            }
            // CERT.
            (37, [a, b, c, d, algorithm, key @ ..]) => {
                let kind = u16::from_be_bytes([*a, *b]);
                named(out, cert_name(kind), kind);
                numbers(out, &[u16::from_be_bytes([*c, *d]).into()]);
                named(out, algorithm_name(*algorithm), (*algorithm).into());
                self.base64(out, key);
                true
            }
            // SSHFP without a fingerprint.
            (44, [algorithm, digest]) => {
                numbers(out, &[(*algorithm).into(), (*digest).into()]);
                out.pop();
                true
            }
            // NID, L64: groups without leading zeroes.
            (104 | 106, [a, b, groups @ ..]) => {
                numbers(out, &[u16::from_be_bytes([*a, *b]).into()]);
                for (index, group) in groups.chunks(2).enumerate() {
                    if index > 0 {
                        out.push(b':');
                    }
                    let group = group
                        .iter()
                        .fold(0u16, |sum, octet| sum << 8 | u16::from(*octet));
                    present::display(out, format_args!("{group:x}"));
                }
                true
            }
            (250, _) => write_tsig(self, out, record).is_some(),
            _ => false,
        }
    }
}

/// Numbers, a space after each.
fn numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        digits::number(out, *number);
        out.push(b' ');
    }
}

/// A name or else a number, a space after it.
fn named(out: &mut Vec<u8>, name: Option<&str>, number: u16) {
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => digits::number(out, number.into()),
    }
    out.push(b' ');
}

fn write_sig(
    style: &Bind,
    out: &mut Vec<u8>,
    record: &Record<'_>,
    covered: [u8; 2],
    rest: &[u8],
) -> bool {
    let covered = u16::from_be_bytes(covered);
    let [
        algorithm,
        labels,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        k,
        l,
        m,
        n,
        ..,
    ] = *rest
    else {
        return false;
    };
    let (message, start) = record.in_message();
    let Ok((signer, end)) = Name::parse(message, start + 18) else {
        return false;
    };
    named(out, bind_type(covered), covered);
    numbers(out, &[algorithm.into(), labels.into()]);
    numbers(out, &[u32::from_be_bytes([a, b, c, d]).into()]);
    for stamp in [[e, f, g, h], [i, j, k, l]] {
        digits::stamp(out, u32::from_be_bytes(stamp));
        out.push(b' ');
    }
    numbers(out, &[u16::from_be_bytes([m, n]).into()]);
    signer.write_text(out);
    out.push(b' ');
    style.base64(out, message.get(end..).unwrap_or_default());
    true
}

fn write_tsig(style: &Bind, out: &mut Vec<u8>, record: &Record<'_>) -> Option<()> {
    let (message, start) = record.in_message();
    let (algorithm, end) = Name::parse(message, start).ok()?;
    let ([a, b, c, d, e, f, g, h, i, j], rest) = message.get(end..)?.split_first_chunk::<10>()?;
    let size = u16::from_be_bytes([*i, *j]);
    let (mac, rest) = rest.split_at_checked(size.into())?;
    let ([k, l, m, n, o, p], other) = rest.split_first_chunk::<6>()?;
    algorithm.write_text(out);
    out.push(b' ');
    numbers(out, &[u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f])]);
    numbers(out, &[u16::from_be_bytes([*g, *h]).into(), size.into()]);
    if !mac.is_empty() {
        style.base64(out, mac);
        out.push(b' ');
    }
    numbers(out, &[u16::from_be_bytes([*k, *l]).into()]);
    let error = u16::from_be_bytes([*m, *n]);
    match error {
        16 => out.extend_from_slice(b"BADSIG"),
        23 => out.extend_from_slice(b"23"),
        17..=22 => out.extend_from_slice(iana::rcode_name(error).unwrap_or_default().as_bytes()),
        _ => push_rcode(out, error),
    }
    out.push(b' ');
    numbers(out, &[u16::from_be_bytes([*o, *p]).into()]);
    style.base64(out, other);
    Some(())
}

fn write_param(out: &mut Vec<u8>, key: u16, value: &[u8]) {
    let fits = match key {
        0 => !value.is_empty() && value.len().is_multiple_of(2),
        1 => {
            let whole: usize = present::texts(value).map(|id| id.len() + 1).sum();
            !value.is_empty() && whole == value.len()
        }
        2 => value.is_empty(),
        3 => value.len() == 2,
        4 => !value.is_empty() && value.len().is_multiple_of(4),
        6 => !value.is_empty() && value.len().is_multiple_of(16),
        _ => true,
    };
    if matches!(key, 2..=4) && fits {
        return present::write_param(out, key, value);
    }
    write_key(out, key, !fits);
    if value.is_empty() {
        return;
    }
    out.push(b'=');
    match key {
        0 if fits => comma(out, value.chunks(2), |out, key| {
            write_key(
                out,
                key.iter()
                    .fold(0, |sum, octet| sum << 8 | u16::from(*octet)),
                false,
            );
        }),
        1 if fits => {
            out.push(b'"');
            comma(out, present::texts(value), |out, id| {
                for &octet in id {
                    match octet {
                        b' ' => out.extend_from_slice(b"\\032"),
                        b',' => out.extend_from_slice(b"\\\\,"),
                        b'\\' => out.extend_from_slice(b"\\\\\\\\"),
                        _ => present::write_text_escaped(out, &[octet]),
                    }
                }
            });
            out.push(b'"');
        }
        5 => present::write_base64(out, value),
        6 if fits => comma(out, value.chunks(16), |out, address| {
            if let Ok(octets) = <[u8; 16]>::try_from(address) {
                v6(out, octets.into());
            }
        }),
        _ => {
            out.push(b'"');
            present::write_text_escaped(out, value);
            out.push(b'"');
        }
    }
}

/// The name of a service parameter, those up to 7 only.
fn write_key(out: &mut Vec<u8>, key: u16, as_number: bool) {
    match present::param_name(key).filter(|_| key < 8 && !as_number) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(b"key");
            digits::number(out, key.into());
        }
    }
}

fn comma<'a>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = &'a [u8]>,
    write: impl Fn(&mut Vec<u8>, &'a [u8]),
) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

/// As [`present::write_loc`], but precisions are whole metres from one metre on.
fn write_loc(style: &Bind, out: &mut Vec<u8>, octets: &[u8]) {
    let start = out.len();
    present::write_loc(out, octets);
    if out
        .get(start..)
        .is_some_and(|text| text.starts_with(b"\\#"))
    {
        out.truncate(start);
        return style.generic(out, octets);
    }
    let altitude_end = out
        .get(start..)
        .and_then(|text| text.iter().position(|octet| *octet == b'm'));
    out.truncate(start + altitude_end.map_or(0, |end| end + 1));
    for precision in octets.iter().skip(1).take(3) {
        let (base, exponent) = (u64::from(precision >> 4), u32::from(precision & 15));
        let centimetres = base * 10u64.pow(exponent.min(9));
        if exponent > 1 {
            present::display(out, format_args!(" {}m", centimetres / 100));
        } else {
            present::display(out, format_args!(" 0.{centimetres:02}m"));
        }
    }
}

/// An IPv6 address as the C library has it: RFC 5952 but for IPv4-compatible addresses, which end in dots.
pub(in crate::format) fn v6(out: &mut Vec<u8>, address: Ipv6Addr) {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            out.extend_from_slice(b"::");
            digits::ip(out, [a, b, c, d].into());
        }
        _ => digits::ip(out, address.into()),
    }
}

/// BIND's name of a type.
fn bind_type(rtype: u16) -> Option<&'static str> {
    match rtype {
        // Named by IANA since.
        128 | 263 | 264 => None,
        _ => iana::type_name(rtype),
    }
}

/// Appends a type under BIND's name.
pub(super) fn push_type(out: &mut Vec<u8>, rtype: u16) {
    match bind_type(rtype) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(b"TYPE");
            digits::number(out, rtype.into());
        }
    }
}

/// Appends a class under BIND's name.
pub(super) fn push_class(out: &mut Vec<u8>, class: u16) {
    match class {
        0 => out.extend_from_slice(b"RESERVED0"),
        2 => out.extend_from_slice(b"CLASS2"),
        _ => iana::write_class(out, class),
    }
}

/// Appends a response code, 0..=4095, under BIND's name.
pub(super) fn push_rcode(out: &mut Vec<u8>, rcode: u16) {
    match rcode {
        11..=15 => {
            out.extend_from_slice(b"RESERVED");
            digits::number(out, rcode.into());
        }
        17..=22 => digits::number(out, rcode.into()),
        _ => match iana::rcode_name(rcode) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => digits::number(out, rcode.into()),
        },
    }
}

/// RFC 4398, 2.1.
pub(in crate::format) const fn cert_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        1 => "PKIX",
        2 => "SPKI",
        3 => "PGP",
        4 => "IPKIX",
        5 => "ISPKI",
        6 => "IPGP",
        7 => "ACPKIX",
        8 => "IACPKIX",
        253 => "URI",
        254 => "OID",
        _ => return None,
    })
}

/// Algorithms of DNSSEC (IANA).
const fn algorithm_name(algorithm: u8) -> Option<&'static str> {
    Some(match algorithm {
        1 => "RSAMD5",
        2 => "DH",
        3 => "DSA",
        5 => "RSASHA1",
        6 => "NSEC3DSA",
        7 => "NSEC3RSASHA1",
        8 => "RSASHA256",
        10 => "RSASHA512",
        12 => "ECCGOST",
        13 => "ECDSAP256SHA256",
        14 => "ECDSAP384SHA384",
        15 => "ED25519",
        16 => "ED448",
        252 => "INDIRECT",
        253 => "PRIVATEDNS",
        254 => "PRIVATEOID",
        _ => return None,
    })
}
