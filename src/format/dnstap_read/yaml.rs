//! `dnstap-read -y FILE`: one YAML document a record, with the DNS message in it twice, as data and as text.
//!
//! Documents are separated by `---`. Times are in UTC and whole seconds. Keys whose field was not sent are absent. An EDNS
//! option that a message has twice is a key that its mapping has twice, as the program has it: YAML readers keep the last,
//! or refuse the document.

use crate::digits;
use crate::dns::Name;
use crate::dnstap::{DecodeReason, Message, SocketProtocol, Timestamp as Sent};
use crate::format::dnstap_read::line::write_address;
use crate::format::dnstap_read::message::Messages;
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "dnstap-read-yaml",
    aliases: &[],
    about: "BIND's dnstap-read -y: one YAML document a record, the whole message in it",
    extension: "yaml",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Documents::default())),
};

/// The writer. Before [`begin`](Line::begin) it takes the stream to hold a document already.
#[derive(Default)]
struct Documents {
    is_first: bool,
    messages: Messages,
}

impl Line for Documents {
    fn begin(&mut self, _out: &mut Vec<u8>) {
        self.is_first = true;
    }

    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        if !std::mem::take(&mut self.is_first) {
            out.extend_from_slice(b"---\n");
        }
        out.extend_from_slice(b"type: MESSAGE\n");
        text_key(out, b"identity: ", view.identity);
        text_key(out, b"version: ", view.version);
        write_envelope(out, message);
        if let Some((octets, is_response)) = message.dns() {
            self.messages.write(out, octets, is_response);
        }
        Ok(())
    }
}

fn write_envelope(out: &mut Vec<u8>, message: &Message<'_>) {
    out.extend_from_slice(b"message:\n  type: ");
    let kind = message.message_type();
    match kind.name() {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => digits::signed(out, kind.number()),
    }
    let is_response = message.dns().map(|(_, is_response)| is_response);
    let time_key = if kind.is_response().or(is_response) == Some(true) {
        b"\n  response_time: !!timestamp ".as_slice()
    } else {
        b"\n  query_time: !!timestamp "
    };
    let shown =
        |time: &Sent| time.seconds < Sent::SECONDS_END && (time.seconds, time.nanos) != (0, 0);
    if let Some(time) = message.time().filter(shown) {
        out.extend_from_slice(time_key);
        digits::date(out, (time.seconds / 86_400) as u32);
        out.push(b'T');
        digits::clock(out, (time.seconds % 86_400) as u32);
        out.push(b'Z');
    }
    out.extend_from_slice(b"\n  message_size: ");
    let size = message.dns().map_or(0, |(octets, _)| octets.len());
    digits::number(out, size as u64);
    out.extend_from_slice(b"b\n");
    if let Some(name) = message.family().and_then(|family| family.name()) {
        out.extend_from_slice(b"  socket_family: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(if message.protocol() == Some(SocketProtocol::Tcp) {
        b"  socket_protocol: TCP\n"
    } else {
        b"  socket_protocol: UDP\n"
    });
    address_key(out, b"  query_address: \"", message.query_address);
    address_key(out, b"  response_address: \"", message.response_address);
    for (key, port) in [
        (&b"  query_port: "[..], message.query_port),
        (b"  response_port: ", message.response_port),
    ] {
        if let Some(port) = port {
            out.extend_from_slice(key);
            digits::number(out, port.into());
            out.push(b'\n');
        }
    }
    if let Some(zone) = message.zone().and_then(Name::from_wire) {
        out.extend_from_slice(b"  query_zone: ");
        let start = out.len();
        zone.write_text(out);
        quote_unless_plain(out, start);
        out.push(b'\n');
    }
}

fn address_key(out: &mut Vec<u8>, key: &[u8], address: Option<&[u8]>) {
    let start = out.len();
    out.extend_from_slice(key);
    if write_address(out, address.unwrap_or_default()) {
        out.extend_from_slice(b"\"\n");
    } else {
        out.truncate(start);
    }
}

/// Text of octets: as it is where plain YAML can hold it, else in double quotes.
fn text_key(out: &mut Vec<u8>, key: &[u8], octets: Option<&[u8]>) {
    let Some(octets) = octets else { return };
    out.extend_from_slice(key);
    if is_plain(octets) {
        out.extend_from_slice(octets);
    } else {
        write_quoted(out, octets);
    }
    out.push(b'\n');
}

/// Whether YAML takes the octets for one plain scalar, or for none when there are none (YAML 1.2, 7.3.3).
fn is_plain(octets: &[u8]) -> bool {
    let Some((first, last)) = octets.first().zip(octets.last()) else {
        return true;
    };
    let opens = matches!(
        first,
        b' ' | b'-'
            | b'?'
            | b':'
            | b','
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'#'
            | b'&'
            | b'*'
            | b'!'
            | b'|'
            | b'>'
            | b'\''
            | b'"'
            | b'%'
            | b'@'
            | b'`'
    );
    !opens
        && !matches!(last, b' ' | b':')
        && octets.iter().all(|octet| matches!(octet, b' '..=b'~'))
        && !has_separator(octets)
}

/// Whether a colon or a hash ends a plain scalar within the octets.
fn has_separator(octets: &[u8]) -> bool {
    octets.windows(2).any(|pair| matches!(pair, b": " | b" #"))
}

/// Puts what was written from `start` on in quotes where it is no plain scalar.
fn quote_unless_plain(out: &mut Vec<u8>, start: usize) {
    let text = out.get(start..).unwrap_or_default();
    if !is_plain(text) {
        single_quote(out, start);
    }
}

/// Puts what was written from `start` on, which has no control octets, in single quotes.
pub(super) fn single_quote(out: &mut Vec<u8>, start: usize) {
    out.insert(start.min(out.len()), b'\'');
    double_quotes(out, start + 1);
    out.push(b'\'');
}

/// Doubles every `'` from `start` on, as YAML wants it in single quotes.
pub(super) fn double_quotes(out: &mut Vec<u8>, start: usize) {
    let count = out
        .iter()
        .skip(start)
        .filter(|octet| **octet == b'\'')
        .count();
    if count == 0 {
        return;
    }
    // Back to front, so that each octet moves once.
    let (mut from, mut to) = (out.len(), out.len() + count);
    out.resize(to, 0);
    while from > start && to > from {
        (from, to) = (from - 1, to - 1);
        let octet = out.get(from).copied().unwrap_or(b'?');
        if let Some(slot) = out.get_mut(to) {
            *slot = octet;
        }
        if octet == b'\'' {
            to -= 1;
            if let Some(slot) = out.get_mut(to) {
                *slot = octet;
            }
        }
    }
}

/// Whether a value that an option's writer put there from `start` on would not be read as one scalar.
pub(super) fn breaks(out: &[u8], start: usize) -> bool {
    let text = out.get(start..).unwrap_or_default();
    has_separator(text) || text.ends_with(b":")
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
                crate::dns::present::write_hex(out, &[octet]);
            }
        }
    }
    out.push(b'"');
}
