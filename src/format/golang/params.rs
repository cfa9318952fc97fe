//! Service parameters as miekg/dns writes them.

use crate::digits;
use crate::dns::name::decimal_digits;
use crate::dns::present::{self, display, write_base64};

/// One service parameter, its value always in quotes. A value that is not what its key says is written as that of an
/// unknown key, under the number.
pub(super) fn write_param(out: &mut Vec<u8>, key: u16, value: &[u8]) {
    let start = out.len();
    if write_known_param(out, key, value).is_none() {
        out.truncate(start);
        display(out, format_args!("key{key}=\""));
        write_param_text(out, value);
    }
    out.push(b'"');
}

/// Appends a parameter but for the quotation mark at its end.
fn write_known_param(out: &mut Vec<u8>, key: u16, value: &[u8]) -> Option<()> {
    let name = present::param_name(key).filter(|_| key < 8)?;
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    let is_list = |len| !value.is_empty() && value.len().is_multiple_of(len);
    let comma = |out: &mut Vec<u8>, index| {
        if index > 0 {
            out.push(b',');
        }
    };
    match key {
        0 if value.len().is_multiple_of(2) => {
            for (index, key) in value.chunks_exact(2).enumerate() {
                comma(out, index);
                let key = u16::from_be_bytes(key.try_into().ok()?);
                match present::param_name(key).filter(|_| key < 8) {
                    Some(name) => out.extend_from_slice(name.as_bytes()),
                    None => display(out, format_args!("key{key}")),
                }
            }
        }
        1 => {
            let whole: usize = present::texts(value).map(|id| id.len() + 1).sum();
            if whole != value.len() {
                return None;
            }
            for (index, id) in present::texts(value).enumerate() {
                comma(out, index);
                for &octet in id {
                    match octet {
                        b',' => out.extend_from_slice(b"\\\\\\044"),
                        b'\\' => out.extend_from_slice(b"\\\\\\092"),
                        _ => write_param_text(out, &[octet]),
                    }
                }
            }
        }
        2 if value.is_empty() => {}
        3 => digits::number(out, u16::from_be_bytes(value.try_into().ok()?).into()),
        4 if is_list(4) => {
            for (index, address) in value.chunks_exact(4).enumerate() {
                comma(out, index);
                digits::ip(out, <[u8; 4]>::try_from(address).ok()?.into());
            }
        }
        5 => write_base64(out, value),
        6 if is_list(16) => {
            for (index, address) in value.chunks_exact(16).enumerate() {
                comma(out, index);
                digits::ip(out, <[u8; 16]>::try_from(address).ok()?.into());
            }
        }
        7 => write_param_text(out, value),
        _ => return None,
    }
    Some(())
}

fn write_param_text(out: &mut Vec<u8>, octets: &[u8]) {
    for &octet in octets {
        match octet {
            b'"' | b';' | b' ' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
            b'!'..=b'~' => out.push(octet),
            _ => {
                out.push(b'\\');
                out.extend_from_slice(&decimal_digits(octet));
            }
        }
    }
}
