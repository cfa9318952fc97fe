//! `dnstap -j`: one JSON object a record, the DNS messages in it as text.

use crate::digits;
use crate::dns::name::decimal_digits;
use crate::dnstap::{DecodeReason, DnstapView, Message};
use crate::format::golang::message::{write_message, write_zone};
use crate::format::golang::style::write_lower_hex;
use crate::format::golang::{write_address, write_number_or_name, write_time};
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "golang-json",
    aliases: &[],
    about: "golang-dnstap's dnstap -j: one JSON object a record, the whole message as text in it",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Objects::default())),
};

/// The writer, with room for the text of a message.
#[derive(Default)]
struct Objects {
    text: Vec<u8>,
}

impl Line for Objects {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        self.write_object(out, view, message);
        Ok(())
    }
}

impl Objects {
    fn write_object(&mut self, out: &mut Vec<u8>, view: &DnstapView<'_>, message: &Message<'_>) {
        out.extend_from_slice(b"{\"type\":\"MESSAGE\"");
        for (key, octets) in [
            (b",\"identity\":\"".as_slice(), view.identity),
            (b",\"version\":\"", view.version),
        ] {
            if let Some(octets) = octets.filter(|octets| !octets.is_empty()) {
                text_key(out, key, octets);
            }
        }
        out.extend_from_slice(b",\"message\":{\"type\":\"");
        let kind = message.message_type();
        write_number_or_name(out, kind.name(), kind.number());
        out.push(b'"');
        for (key, time) in [
            (b",\"query_time\":\"".as_slice(), message.query_time()),
            (b",\"response_time\":\"", message.response_time()),
        ] {
            if let Some(time) = time {
                out.extend_from_slice(key);
                if write_time(out, time, b'T') {
                    out.push(b'Z');
                }
                out.push(b'"');
            }
        }
        if let Some(family) = message.family() {
            out.extend_from_slice(b",\"socket_family\":\"");
            write_number_or_name(out, family.name(), family.number());
            out.push(b'"');
        }
        if let Some(protocol) = message.protocol() {
            out.extend_from_slice(b",\"socket_protocol\":\"");
            write_number_or_name(out, protocol.name(), protocol.number());
            out.push(b'"');
        }
        for (key, address) in [
            (b",\"query_address\":\"".as_slice(), message.query_address),
            (b",\"response_address\":\"", message.response_address),
        ] {
            if let Some(address) = address {
                out.extend_from_slice(key);
                write_address(out, address);
                out.push(b'"');
            }
        }
        for (key, port) in [
            (b",\"query_port\":".as_slice(), message.query_port),
            (b",\"response_port\":", message.response_port),
        ] {
            if let Some(port) = port {
                out.extend_from_slice(key);
                digits::number(out, port.into());
            }
        }
        for (key, octets, write) in [
            (
                b",\"query_zone\":\"".as_slice(),
                message.query_zone,
                write_zone as fn(&mut Vec<u8>, &[u8]) -> Result<(), &'static str>,
            ),
            (
                b",\"query_message\":\"",
                message.query_message,
                write_message,
            ),
            (
                b",\"response_message\":\"",
                message.response_message,
                write_message,
            ),
        ] {
            let Some(octets) = octets else { continue };
            self.text.clear();
            if let Err(reason) = write(&mut self.text, octets) {
                self.text.extend_from_slice(reason.as_bytes());
            }
            text_key(out, key, &self.text);
        }
        out.extend_from_slice(b"}}\n");
    }
}

/// Appends `key`, which has the first quotation mark, and text with the last one.
fn text_key(out: &mut Vec<u8>, key: &[u8], octets: &[u8]) {
    out.extend_from_slice(key);
    for chunk in octets.utf8_chunks() {
        write_escaped(out, chunk.valid());
        // Go puts U+FFFD there, which says nothing about the octets.
        for octet in chunk.invalid() {
            out.extend_from_slice(b"\\\\");
            out.extend_from_slice(&decimal_digits(*octet));
        }
    }
    out.push(b'"');
}

/// Whether an octet of UTF-8 stands in the JSON as it is. Those that U+0080 to U+009F, U+2028 and U+2029 begin with are
/// looked at apart.
const fn is_plain(octet: u8) -> bool {
    !matches!(
        octet,
        0..0x20 | b'"' | b'\\' | b'<' | b'>' | b'&' | 0x7f | 0xc2 | 0xe2
    )
}

/// Appends text as Go escapes it, fit for HTML as well, and with the escapes that terminals need besides.
fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let len = rest
            .iter()
            .position(|octet| !is_plain(*octet))
            .unwrap_or(rest.len());
        let Some((plain, [octet, tail @ ..])) = rest.split_at_checked(len) else {
            return out.extend_from_slice(rest);
        };
        out.extend_from_slice(plain);
        rest = tail;
        match octet {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *octet]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0xc2 => match tail {
                [control @ 0x80..=0x9f, tail @ ..] => {
                    out.extend_from_slice(b"\\u00");
                    write_lower_hex(out, &[*control]);
                    rest = tail;
                }
                _ => out.push(*octet),
            },
            0xe2 => match tail {
                [0x80, last @ (0xa8 | 0xa9), tail @ ..] => {
                    out.extend_from_slice(b"\\u202");
                    out.push(b'0' + (last - 0xa0));
                    rest = tail;
                }
                _ => out.push(*octet),
            },
            _ => {
                out.extend_from_slice(b"\\u00");
                write_lower_hex(out, &[*octet]);
            }
        }
    }
}
