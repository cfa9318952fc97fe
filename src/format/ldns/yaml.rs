//! `dnstap-ldns -y`: one YAML document a record, the DNS messages in it as text.
//!
//! Documents end in `---`. Times are in UTC and cut to microseconds. Keys whose field was not sent are absent.

use crate::digits;
use crate::dns::Name;
use crate::dns::present::display;
use crate::dnstap::{DecodeReason, Message};
use crate::format::golang::write_lower_hex;
use crate::format::golang::write_number_or_name;
use crate::format::ldns::message::write_message;
use crate::format::ldns::style::write_name;
use crate::format::ldns::{write_address, write_time};
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "ldns",
    aliases: &[],
    about: "dnstap-ldns -y: one YAML document a record, the whole message as text in it",
    extension: "yaml",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Documents)),
};

struct Documents;

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
        for (key, octets) in [
            (b"query_message: ".as_slice(), message.query_message),
            (b"response_message: ", message.response_message),
        ] {
            let Some(octets) = octets else { continue };
            let start = out.len();
            out.extend_from_slice(b"  ");
            out.extend_from_slice(key);
            out.extend_from_slice(b"|\n");
            if !write_message(out, octets) {
                out.truncate(start);
                write_failure(out, key);
            }
        }
        out.extend_from_slice(b"---\n");
        Ok(())
    }
}

/// A comment in the place of what cannot be read.
fn write_failure(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"  # ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"parse failed\n");
}

fn write_envelope(out: &mut Vec<u8>, message: &Message<'_>) {
    out.extend_from_slice(b"message:\n  type: ");
    let kind = message.message_type();
    write_number_or_name(out, kind.name(), kind.number());
    out.push(b'\n');
    for (key, time) in [
        (b"  query_time: ".as_slice(), message.query_time()),
        (b"  response_time: ", message.response_time()),
    ] {
        let Some(time) = time else { continue };
        out.extend_from_slice(key);
        let start = out.len();
        out.extend_from_slice(b"!!timestamp ");
        if !write_time(out, time) {
            out.truncate(start);
            display(out, format_args!("\"@{}.{:09}\"", time.seconds, time.nanos));
        }
        out.push(b'\n');
    }
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
        (b"  query_address: \"".as_slice(), message.query_address),
        (b"  response_address: \"", message.response_address),
    ] {
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            continue;
        };
        out.extend_from_slice(key);
        if !write_address(out, address) {
            out.push(b'?');
            write_lower_hex(out, address);
        }
        out.extend_from_slice(b"\"\n");
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
    let Some(zone) = message.query_zone.filter(|zone| !zone.is_empty()) else {
        return;
    };
    let Some(name) = Name::from_wire(zone) else {
        return write_failure(out, b"query_zone: ");
    };
    out.extend_from_slice(b"  query_zone: \"");
    let start = out.len();
    write_name(out, &name);
    escape(out, start);
    out.extend_from_slice(b"\"\n");
}

/// Puts a backslash before every quotation mark and backslash from `start` on.
fn escape(out: &mut Vec<u8>, start: usize) {
    let mut at = start;
    while let Some(octet) = out.get(at) {
        if matches!(octet, b'"' | b'\\') {
            out.insert(at, b'\\');
            at += 1;
        }
        at += 1;
    }
}

/// Octets in double quotes: printable ASCII as it is, the rest as `\xHH`.
fn write_quoted(out: &mut Vec<u8>, octets: &[u8]) {
    out.push(b'"');
    for &octet in octets {
        match octet {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
            b' '..=b'~' => out.push(octet),
            _ => {
                out.extend_from_slice(b"\\x");
                write_lower_hex(out, &[octet]);
            }
        }
    }
    out.push(b'"');
}
