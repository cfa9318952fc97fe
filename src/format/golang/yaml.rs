//! `dnstap -y`: one YAML document a record, the DNS messages in it as text.
//!
//! Documents end in `---`. Times are in UTC. Keys whose field was not sent are absent.

use crate::digits;
use crate::dnstap::{DecodeReason, Message};
use crate::format::golang::message::{write_message, write_zone};
use crate::format::golang::style::write_lower_hex;
use crate::format::golang::{write_address, write_number_or_name, write_time};
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "golang-yaml",
    aliases: &[],
    about: "golang-dnstap's dnstap -y: one YAML document a record, the whole message as text in it",
    extension: "yaml",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Documents::default())),
};

/// The writer, with room for the text of a message.
#[derive(Default)]
struct Documents {
    text: Vec<u8>,
}

impl Line for Documents {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        out.extend_from_slice(b"type: MESSAGE\n");
        for (key, octets) in [
            (b"identity: ".as_slice(), view.identity),
            (b"version: ", view.version),
        ] {
            if let Some(octets) = octets {
                out.extend_from_slice(key);
                write_quoted(out, octets);
                out.push(b'\n');
            }
        }
        write_envelope(out, message);
        if let Some(octets) = message.query_zone {
            self.text.clear();
            match write_zone(&mut self.text, octets) {
                Ok(()) => {
                    out.extend_from_slice(b"  query_zone: ");
                    write_quoted(out, &self.text);
                    out.push(b'\n');
                }
                Err(reason) => write_failure(out, b"query_zone: ", reason),
            }
        }
        for (key, octets) in [
            (b"query_message: ".as_slice(), message.query_message),
            (b"response_message: ", message.response_message),
        ] {
            let Some(octets) = octets else { continue };
            self.text.clear();
            match write_message(&mut self.text, octets) {
                Ok(()) => {
                    out.extend_from_slice(b"  ");
                    out.extend_from_slice(key);
                    out.extend_from_slice(b"|\n");
                    for line in self.text.trim_ascii().split(|octet| *octet == b'\n') {
                        out.extend_from_slice(b"    ");
                        out.extend_from_slice(line);
                        out.push(b'\n');
                    }
                }
                Err(reason) => write_failure(out, key, reason),
            }
        }
        out.extend_from_slice(b"---\n");
        Ok(())
    }
}

/// A comment in the place of what cannot be read.
fn write_failure(out: &mut Vec<u8>, key: &[u8], reason: &str) {
    out.extend_from_slice(b"  # ");
    out.extend_from_slice(key);
    out.extend_from_slice(reason.as_bytes());
    out.push(b'\n');
}

fn write_envelope(out: &mut Vec<u8>, message: &Message<'_>) {
    out.extend_from_slice(b"message:\n  type: ");
    let kind = message.message_type();
    write_number_or_name(out, kind.name(), kind.number());
    for (key, time) in [
        (b"\n  query_time: ".as_slice(), message.query_time()),
        (b"\n  response_time: ", message.response_time()),
    ] {
        let Some(time) = time else { continue };
        out.extend_from_slice(key);
        let start = out.len();
        out.extend_from_slice(b"!!timestamp ");
        let value = out.len();
        if !write_time(out, time, b' ') {
            // What begins with @ takes quotes.
            out.drain(start..value);
            out.insert(start, b'"');
            out.push(b'"');
        }
    }
    out.push(b'\n');
    if let Some(family) = message.family() {
        out.extend_from_slice(b"  socket_family: ");
        write_number_or_name(out, family.name(), family.number());
        out.push(b'\n');
    }
    if let Some(protocol) = message.protocol() {
        out.extend_from_slice(b"  socket_protocol: ");
        write_number_or_name(out, protocol.name(), protocol.number());
        out.push(b'\n');
    }
    for (key, address) in [
        (b"  query_address: ".as_slice(), message.query_address),
        (b"  response_address: ", message.response_address),
    ] {
        if let Some(address) = address.filter(|address| !address.is_empty()) {
            out.extend_from_slice(key);
            let start = out.len();
            write_address(out, address);
            // Plain text cannot end so.
            if out.ends_with(b":") {
                out.insert(start, b'"');
                out.push(b'"');
            }
            out.push(b'\n');
        }
    }
    for (key, port) in [
        (b"  query_port: ".as_slice(), message.query_port),
        (b"  response_port: ", message.response_port),
    ] {
        if let Some(port) = port {
            out.extend_from_slice(key);
            digits::number(out, port.into());
            out.push(b'\n');
        }
    }
}

/// Octets in double quotes as Go quotes them, which YAML reads as well.
fn write_quoted(out: &mut Vec<u8>, octets: &[u8]) {
    out.push(b'"');
    for chunk in octets.utf8_chunks() {
        for c in chunk.valid().chars() {
            write_char(out, c);
        }
        for octet in chunk.invalid() {
            out.extend_from_slice(b"\\x");
            write_lower_hex(out, &[*octet]);
        }
    }
    out.push(b'"');
}

fn write_char(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b'"',
        '\\' => b'\\',
        '\u{7}' => b'a',
        '\u{8}' => b'b',
        '\u{b}' => b'v',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        _ if is_printed(c) => {
            return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        '\0'..=' ' | '\u{7f}' => {
            out.extend_from_slice(b"\\x");
            return write_lower_hex(out, &[c as u8]);
        }
        '\u{80}'..='\u{ffff}' => {
            out.extend_from_slice(b"\\u");
            return write_lower_hex(out, &(c as u16).to_be_bytes());
        }
        _ => {
            out.extend_from_slice(b"\\U");
            return write_lower_hex(out, &(c as u32).to_be_bytes());
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols and the space.
fn is_printed(c: char) -> bool {
    matches!(c, ' '..='~') || (!c.is_ascii() && c.escape_debug().len() == 1)
}
