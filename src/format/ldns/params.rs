//! Service parameters as ldns writes them.

use crate::digits;
use crate::dns::present::{self, display, write_base64};
use crate::format::dnstap_read::write_v6;
use crate::format::ldns::style::write_text;

/// One service parameter. A value that is not what its key says is written as that of an unknown key, under the
/// number.
pub(super) fn write_param(out: &mut Vec<u8>, key: u16, value: &[u8]) {
    let start = out.len();
    if write_known_param(out, key, value).is_none() {
        out.truncate(start);
        display(out, format_args!("key{key}="));
        write_value(out, value);
    }
}

fn write_known_param(out: &mut Vec<u8>, key: u16, value: &[u8]) -> Option<()> {
    write_key(out, key);
    if value.is_empty() {
        return Some(());
    }
    out.push(b'=');
    let comma = |out: &mut Vec<u8>, index| {
        if index > 0 {
            out.push(b',');
        }
    };
    match key {
        0 if value.len().is_multiple_of(2) => {
            for (index, key) in value.chunks_exact(2).enumerate() {
                comma(out, index);
                write_key(out, u16::from_be_bytes(key.try_into().ok()?));
            }
        }
        1 => {
            let whole: usize = present::texts(value).map(|id| id.len() + 1).sum();
            if whole != value.len() {
                return None;
            }
            let is_quoted = present::texts(value).flatten().any(is_space);
            if is_quoted {
                out.push(b'"');
            }
            for (index, id) in present::texts(value).enumerate() {
                comma(out, index);
                write_text(out, id, b"\",\\");
            }
            if is_quoted {
                out.push(b'"');
            }
        }
        3 => digits::number(out, u16::from_be_bytes(value.try_into().ok()?).into()),
        4 if value.len().is_multiple_of(4) => {
            for (index, address) in value.chunks_exact(4).enumerate() {
                comma(out, index);
                digits::ip(out, <[u8; 4]>::try_from(address).ok()?.into());
            }
        }
        5 => write_base64(out, value),
        6 if value.len().is_multiple_of(16) => {
            for (index, address) in value.chunks_exact(16).enumerate() {
                comma(out, index);
                write_v6(out, <[u8; 16]>::try_from(address).ok()?.into());
            }
        }
        0 | 2 | 4 | 6 => return None,
        _ => write_value(out, value),
    }
    Some(())
}

/// Text, in quotes where it has white space.
fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    let is_quoted = value.iter().any(is_space);
    if is_quoted {
        out.push(b'"');
    }
    write_text(out, value, b"\"\\");
    if is_quoted {
        out.push(b'"');
    }
}

const fn is_space(octet: &u8) -> bool {
    matches!(*octet, b' ' | 9..=13)
}

fn write_key(out: &mut Vec<u8>, key: u16) {
    match present::param_name(key).filter(|_| key < 8) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => display(out, format_args!("key{key}")),
    }
}
