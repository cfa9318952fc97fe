//! Comma-separated values (RFC 4180).

use super::{columns, subject, write_name};
use crate::dnstap::DecodeReason;
use crate::fields::Field;
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "csv",
    aliases: &[],
    about: "chosen fields separated by commas, their names in the first line",
    extension: "csv",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: true,
    make: |settings| Ok(Box::new(Csv(columns(settings)?))),
};

struct Csv(Vec<Field>);

impl Line for Csv {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let start = out.len();
            write_name(out, field);
            quote_from(out, start);
        }
        out.push(b'\n');
    }

    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let mut subject = subject(&entry)?;
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let start = out.len();
            match field.of(&mut subject) {
                Some(value) => {
                    value.write(out);
                    quote_from(out, start);
                }
                None if self.0.len() == 1 => out.extend_from_slice(b"\"\""),
                None => {}
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Puts what was written from `start` on into quotation marks, where it is empty or has a comma or a quotation mark.
#[inline]
fn quote_from(out: &mut Vec<u8>, start: usize) {
    let text = out.get(start..).unwrap_or_default();
    if text.is_empty() || memchr::memchr2(b',', b'"', text).is_some() {
        quote_odd_from(out, start);
    }
}

#[inline(never)]
fn quote_odd_from(out: &mut Vec<u8>, start: usize) {
    let text = out.get(start..).unwrap_or_default();
    let count = text.iter().filter(|octet| **octet == b'"').count();
    // Back to front, so that each octet moves once.
    let (mut from, mut to) = (out.len(), out.len() + count + 2);
    out.resize(to, b'"');
    to -= 1;
    while from > start {
        (from, to) = (from - 1, to - 1);
        let octet = out.get(from).copied().unwrap_or(b'?');
        set(out, to, octet);
        if octet == b'"' {
            to -= 1;
            set(out, to, b'"');
        }
    }
    set(out, start, b'"');
}

#[inline]
fn set(out: &mut [u8], at: usize, octet: u8) {
    if let Some(slot) = out.get_mut(at) {
        *slot = octet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_was_appended_is_quoted_where_it_stands() {
        for (text, wanted) in [
            ("", "\"\""),
            ("plain text", "plain text"),
            (",", "\",\""),
            ("a,b", "\"a,b\""),
            ("\"", "\"\"\"\""),
            ("a\"b\"", "\"a\"\"b\"\"\""),
            ("\"\",x", "\"\"\"\"\",x\""),
        ] {
            let mut out = b"before,\"".to_vec();
            let start = out.len();
            out.extend_from_slice(text.as_bytes());
            quote_from(&mut out, start);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("before,\"{wanted}")
            );
        }
    }
}
