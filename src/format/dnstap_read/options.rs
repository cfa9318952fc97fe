//! The options of an OPT record, each on its line.

use crate::digits;
use crate::dns::present::display;
use crate::dns::{Edns, EdnsOption};
use crate::format::dnstap_read::message::Form;
use crate::format::dnstap_read::style::v6;
use crate::format::dnstap_read::yaml::{breaks, single_quote};

/// Appends every option. Those whose shape is not their code's are written as octets.
pub(super) fn write_options(out: &mut Vec<u8>, edns: &Edns<'_>, form: Form) {
    for (code, data) in edns.options() {
        out.extend_from_slice(match form {
            Form::Data => b"        ",
            Form::Text => b"    ; ",
        });
        let name = match code {
            1 => "LLQ",
            3 => "NSID",
            8 => "CLIENT-SUBNET",
            9 => "EXPIRE",
            10 => "COOKIE",
            11 if form == Form::Text => "TCP KEEPALIVE",
            11 => "TCP-KEEPALIVE",
            12 => "PAD",
            14 => "KEY-TAG",
            15 => "EDE",
            16 => "CLIENT-TAG",
            17 => "SERVER-TAG",
            _ => {
                display(out, format_args!("OPT={code}"));
                ""
            }
        };
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        let value = out.len();
        if let (15, [high, low, text @ ..]) = (code, data) {
            write_error(out, u16::from_be_bytes([*high, *low]), text, form);
        } else {
            if !write_value(out, code, data, form) {
                write_octets(out, code, data);
            }
            if form == Form::Data && breaks(out, value) {
                single_quote(out, value + 1);
            }
        }
        out.push(b'\n');
    }
}

/// Appends the value of an option that has a form of its own; `false` when it has none.
fn write_value(out: &mut Vec<u8>, code: u16, data: &[u8], form: Form) -> bool {
    match (EdnsOption::parse(code, data), code, data) {
        (EdnsOption::ClientSubnet(subnet), ..) => {
            // Octets past the prefix are not looked at.
            let mut address = [0; 16];
            for (slot, octet) in address.iter_mut().zip(subnet.address) {
                *slot = *octet;
            }
            let [a, b, c, d, ..] = address;
            let most = match subnet.family {
                0 => 0,
                1 => 32,
                2 => 128,
                _ => return false,
            };
            if subnet.source_prefix > most || subnet.scope_prefix > most {
                return false;
            }
            out.push(b' ');
            match subnet.family {
                0 => out.push(b'0'),
                1 => digits::ip(out, [a, b, c, d].into()),
                _ => v6(out, address.into()),
            }
            for prefix in [subnet.source_prefix, subnet.scope_prefix] {
                out.push(b'/');
                digits::number(out, prefix.into());
            }
        }
        (EdnsOption::Expire(Some(seconds)), ..) => {
            out.push(b' ');
            digits::number(out, seconds.into());
            out.extend_from_slice(b" (");
            write_span(out, seconds);
            out.push(b')');
        }
        (EdnsOption::Keepalive(Some(tenths)), ..) => {
            display(out, format_args!(" {}.{} secs", tenths / 10, tenths % 10));
        }
        (_, 12, _) if form == Form::Text => {
            if !data.is_empty() {
                display(out, format_args!(" ({} bytes)", data.len()));
            }
        }
        (_, 1, [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r]) => display(
            out,
            format_args!(
                " Version: {}, Opcode: {}, Error: {}, Identifier: {}, Lifetime: {}",
                u16::from_be_bytes([*a, *b]),
                u16::from_be_bytes([*c, *d]),
                u16::from_be_bytes([*e, *f]),
                u64::from_be_bytes([*g, *h, *i, *j, *k, *l, *m, *n]),
                u32::from_be_bytes([*o, *p, *q, *r]),
            ),
        ),
        (_, 14, _) if !data.is_empty() && data.len().is_multiple_of(2) => {
            for (index, tag) in data.chunks(2).enumerate() {
                out.extend_from_slice(if index > 0 { b", " } else { b" " });
                digits::number(
                    out,
                    tag.iter()
                        .fold(0, |sum, octet| sum << 8 | u64::from(*octet)),
                );
            }
        }
        (_, 16 | 17, [high, low]) => {
            out.push(b' ');
            digits::number(out, u16::from_be_bytes([*high, *low]).into());
        }
        _ => return false,
    }
    true
}

/// Octets in base 16, and but for cookies and subnets as text after that.
fn write_octets(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    out.push(b' ');
    write_hex(out, data, if code == 10 { b"" } else { b" " });
    if !matches!(code, 8 | 10) {
        out.extend_from_slice(b"(\"");
        write_printable(out, data);
        out.extend_from_slice(b"\")");
    }
}

fn write_hex(out: &mut Vec<u8>, data: &[u8], after: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for octet in data {
        for nibble in [octet >> 4, octet & 15] {
            out.push(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?'));
        }
        out.extend_from_slice(after);
    }
}

fn write_printable(out: &mut Vec<u8>, data: &[u8]) {
    out.extend(data.iter().map(|octet| match octet {
        b' '..=b'~' => *octet,
        _ => b'.',
    }));
}

/// An extended error (RFC 8914).
fn write_error(out: &mut Vec<u8>, code: u16, text: &[u8], form: Form) {
    out.extend_from_slice(match form {
        Form::Data => b"\n          INFO-CODE: ",
        Form::Text => b" ",
    });
    digits::number(out, code.into());
    if let Some(name) = error_name(code) {
        out.extend_from_slice(b" (");
        out.extend_from_slice(name.as_bytes());
        out.push(b')');
    }
    if text.is_empty() {
        // An empty line ends the code's own there.
        if form == Form::Data {
            out.push(b'\n');
        }
        return;
    }
    // Text that a terminal or a YAML reader would trip over is shown as octets.
    let utf8 = std::str::from_utf8(text).ok().filter(|text| {
        !text.chars().any(|c| {
            matches!(
                c,
                '\u{80}'
                    ..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            )
        })
    });
    out.extend_from_slice(match form {
        Form::Data => b"\n          EXTRA-TEXT: ",
        Form::Text => b": ",
    });
    let value = out.len();
    if utf8.is_none() {
        write_hex(out, text, b" ");
    }
    out.push(if form == Form::Data { b'"' } else { b'(' });
    for &octet in text {
        match octet {
            b'"' | b'\\' if form == Form::Data && utf8.is_some() => {
                out.extend_from_slice(&[b'\\', octet]);
            }
            b' '..=b'~' => out.push(octet),
            0x80.. if utf8.is_some() => out.push(octet),
            _ => out.push(b'.'),
        }
    }
    out.push(if form == Form::Data { b'"' } else { b')' });
    if form == Form::Data && utf8.is_none() && breaks(out, value) {
        single_quote(out, value);
    }
}

/// The names that BIND 9.18 has for extended errors, the first 25.
fn error_name(code: u16) -> Option<&'static str> {
    match code {
        0 => Some("Other"),
        19 => Some("Stale NXDOMAIN Answer"),
        1..25 => crate::dns::iana::extended_error_name(code),
        _ => None,
    }
}

/// A span of time in words: `1 week 2 days`.
fn write_span(out: &mut Vec<u8>, seconds: u32) {
    let start = out.len();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    for (count, unit) in [
        (hours / 168, "week"),
        (hours / 24 % 7, "day"),
        (hours % 24, "hour"),
        (minutes % 60, "minute"),
        (seconds % 60, "second"),
    ] {
        if count != 0 || (unit == "second" && out.len() == start) {
            let space = if out.len() > start { " " } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            display(out, format_args!("{space}{count} {unit}{plural}"));
        }
    }
}
