//! The OPT record and its options, each on its line.

use crate::digits;
use crate::dns::Edns;
use crate::dns::iana::extended_error_name;
use crate::dns::present::{display, write_hex};
use crate::format::golang::style::{algorithm_name, write_go_ip, write_lower_hex};
use crate::format::golang::text::{write_latin, write_safe};

/// Appends the pseudosection, an empty line before it, no line feed after it.
pub(super) fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>) {
    out.extend_from_slice(b"\n;; OPT PSEUDOSECTION:\n; EDNS: version ");
    digits::number(out, edns.version.into());
    out.extend_from_slice(if edns.do_bit {
        b"; flags: do; udp: "
    } else {
        b"; flags: ; udp: "
    });
    digits::number(out, edns.udp_size.into());
    let mut read = 0;
    for (code, data) in edns.options() {
        read += 4 + data.len();
        out.extend_from_slice(b"\n; ");
        let start = out.len();
        if write_option(out, code, data).is_none() {
            out.truncate(start);
            out.extend_from_slice(b"LOCAL OPT: ");
            digits::number(out, code.into());
            out.extend_from_slice(b":0x");
            write_lower_hex(out, data);
        }
    }
    if let Some(rest) = edns.options.get(read..).filter(|rest| !rest.is_empty()) {
        out.extend_from_slice(b"\n; MALFORMED: 0x");
        write_lower_hex(out, rest);
    }
}

/// Appends an option that has a form of its own. `None` when it has none, or its octets are not what its code says.
fn write_option(out: &mut Vec<u8>, code: u16, data: &[u8]) -> Option<()> {
    match (code, data) {
        (1, &[a, b, c, d, e, f, ref rest @ ..]) => {
            let (id, rest) = rest.split_first_chunk::<8>()?;
            let lease: [u8; 4] = rest.try_into().ok()?;
            display(
                out,
                format_args!(
                    "LONG LIVED QUERIES: {} {} {} {} {}",
                    u16::from_be_bytes([a, b]),
                    u16::from_be_bytes([c, d]),
                    u16::from_be_bytes([e, f]),
                    u64::from_be_bytes(*id),
                    u32::from_be_bytes(lease),
                ),
            );
        }
        (2, &[a, b, c, d, ref rest @ ..]) => {
            let key_lease = match *rest {
                [] => 0,
                [e, f, g, h] => u32::from_be_bytes([e, f, g, h]),
                _ => return None,
            };
            let lease = u32::from_be_bytes([a, b, c, d]);
            display(out, format_args!("UPDATE LEASE: {lease} {key_lease}"));
        }
        (3, _) => {
            out.extend_from_slice(b"NSID: ");
            write_lower_hex(out, data);
            out.extend_from_slice(b"  ");
            for octet in data {
                out.push(b'(');
                write_latin(out, *octet);
                out.push(b')');
            }
        }
        (4, _) => {
            out.extend_from_slice(b"ESU: ");
            write_safe(out, data);
        }
        (5..=7, _) => {
            out.extend_from_slice(match code {
                5 => b"DNSSEC ALGORITHM UNDERSTOOD: ".as_slice(),
                6 => b"DS HASH UNDERSTOOD: ",
                _ => b"NSEC3 HASH UNDERSTOOD: ",
            });
            for number in data {
                out.push(b' ');
                let name = match code {
                    5 => algorithm_name(*number),
                    _ => hash_name(*number),
                };
                match name {
                    Some(name) => out.extend_from_slice(name.as_bytes()),
                    None => digits::number(out, (*number).into()),
                }
            }
        }
        (8, &[high, low, source, scope, ref address @ ..]) => {
            write_subnet(
                out,
                u16::from_be_bytes([high, low]),
                [source, scope],
                address,
            )?;
        }
        (9, []) => out.extend_from_slice(b"EXPIRE: "),
        (9, &[a, b, c, d]) => {
            out.extend_from_slice(b"EXPIRE: ");
            digits::number(out, u32::from_be_bytes([a, b, c, d]).into());
        }
        (10, _) => {
            out.extend_from_slice(b"COOKIE: ");
            write_lower_hex(out, data);
        }
        (11, []) => out.extend_from_slice(b"KEEPALIVE: use tcp keep-alive, timeout omitted"),
        (11, &[high, low]) => {
            let millis = u64::from(u16::from_be_bytes([high, low])) * 100;
            out.extend_from_slice(b"KEEPALIVE: use tcp keep-alive, timeout ");
            digits::number(out, millis);
            out.extend_from_slice(b"ms");
        }
        (12, _) => {
            out.extend_from_slice(b"PADDING: ");
            write_hex(out, data);
        }
        (15, &[high, low, ref text @ ..]) => {
            let code = u16::from_be_bytes([high, low]);
            out.extend_from_slice(b"EDE: ");
            digits::number(out, code.into());
            if let Some(name) = error_name(code) {
                display(out, format_args!(" ({name})"));
            }
            out.extend_from_slice(b": (");
            write_safe(out, text);
            out.push(b')');
        }
        _ => return None,
    }
    Some(())
}

/// A client subnet (RFC 7871). Octets past the prefix are shown as they were sent.
fn write_subnet(out: &mut Vec<u8>, family: u16, prefixes: [u8; 2], address: &[u8]) -> Option<()> {
    let [source, _] = prefixes;
    let most = match family {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return None,
    };
    let is_within = prefixes.iter().all(|prefix| *prefix <= most);
    if address.len() > usize::from(most) / 8 || !(is_within || (family == 0 && source == 0)) {
        return None;
    }
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    let [a, b, c, d, ..] = octets;
    out.extend_from_slice(b"SUBNET: ");
    if family == 2 {
        let is_mapped = octets.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        if !is_mapped {
            out.push(b'[');
        }
        write_go_ip(out, octets.into());
        if !is_mapped {
            out.push(b']');
        }
    } else {
        digits::ip(out, [a, b, c, d].into());
    }
    for prefix in prefixes {
        out.push(b'/');
        digits::number(out, prefix.into());
    }
    Some(())
}

/// The library's name of a digest.
const fn hash_name(hash: u8) -> Option<&'static str> {
    Some(match hash {
        1 => "SHA1",
        2 => "SHA256",
        3 => "GOST94",
        4 => "SHA384",
        5 => "SHA512",
        _ => return None,
    })
}

/// The library's name of an extended error, the first 25.
const fn error_name(code: u16) -> Option<&'static str> {
    match code {
        0 => Some("Other"),
        19 => Some("Stale NXDOMAIN Answer"),
        1..25 => extended_error_name(code),
        _ => None,
    }
}
