//! `vector-json`: the events of Vector's `dnstap` source, as its JSON codec writes them, one a line.
//!
//! ```json
//! {"dataType":"Message","dataTypeId":1,"messageSize":54,"messageType":"ResolverQuery","messageTypeId":3,
//!  "queryZone":"com.","requestData":{"fullRcode":0,"header":{"aa":false,"ad":false,"anCount":0,"arCount":1,"cd":false,
//!  "id":37634,"nsCount":0,"opcode":0,"qdCount":1,"qr":0,"ra":false,"rcode":0,"rd":false,"tc":false},
//!  "opt":{"do":true,"ednsVersion":0,"extendedRcode":0,"options":[{"optCode":10,"optName":"Cookie",
//!  "optValue":"7GMIAb3NWDM="}],"udpPayloadSize":512},"question":[{"class":"IN","domainName":"facebook1.com.",
//!  "questionType":"A","questionTypeId":1}],"rcodeName":"NoError"},"responseAddress":"2001:502:7094::30",
//!  "responsePort":53,"serverId":"ns1","serverVersion":"BIND 9.16.3","socketFamily":"INET6","socketProtocol":"UDP",
//!  "sourceAddress":"::","sourcePort":46835,"source_type":"dnstap","time":1593489007920014129,"timePrecision":"ns",
//!  "timestamp":"2020-06-30T03:50:07.920014129Z"}
//! ```
//!
//! Written from the schema, parser and test events that Vector publishes (vectordotdev/vector: `lib/dnstap-parser`,
//! `lib/dnsmsg-parser`), not compared with a running Vector. Keys stand in the order of their octets, as its events do;
//! what is absent has no key. The sender's address or file's name is `host`; a record without a time of its own has that
//! of its arrival as `timestamp`. Messages of the types `UpdateQuery` and `UpdateResponse` have `zone`, `prerequisite` and
//! `update` and an UPDATE's header, all others `question`, `answers` and `authority`. Data of records are text in `rData`
//! for the types that Vector knows, base 64 in `rDataBytes` for all others and for what is not what its type says.
//!
//! Ours differs where Vector loses something:
//!
//! | of | Vector | here |
//! |---|---|---|
//! | a malformed message, time or address | `error`, `rawData`, and nothing that follows | `error` and `rawData` as well, and what could be read |
//! | octets after the last record, a message that TC marks as cut | nothing, or an error | no error |
//! | address, port and protocol without a family | nothing | they are there |
//! | an address of another length than the family's | an error, or another address | by its length |
//! | DoQ, unknown families and protocols | an error | `DOQ`; the number |
//! | identity, version, extra that are not UTF-8 | an empty text | [text of octets](super::json) |
//! | names | octets in base 8 after a backslash; `xn--` labels decoded | BIND's form, as on the wire |
//! | class without a name | `UNKNOWN` | `CLASS4242` |
//! | the time of a response without message | in `requestData` | in `responseData` |
//! | texts of TXT, HINFO and others | other octets replaced or refused | `\ddd` |
//! | DNSKEY and CDNSKEY | flags made anew | flags, protocol and algorithm as they are |
//! | CAA, OPENPGPKEY, option DAU | taken apart, or refused | the value as it is; base 64 |
//! | empty salt of NSEC3 | nothing between two spaces | `-` |
//! | TSIG | an error | `rDataBytes` |

mod message;
mod style;

use data_encoding::BASE64;

use crate::digits;
use crate::dns::{DnsError, Name};
use crate::dnstap::{DecodeReason, DnstapView, Message, Timestamp};
use crate::format::json::text::{
    encoded_key, name_or_number, number_key, octets_key, push_name, quoted,
};
use crate::format::{Entry, Kind, Line, Shape, Source};

/// The format.
pub static KIND: Kind = Kind {
    name: "vector-json",
    aliases: &[],
    about: "the events of Vector's dnstap source as JSON",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Events::default())),
};

#[derive(Default)]
struct Events {
    messages: message::Messages,
}

/// What makes an event one with an `error`.
#[derive(Clone, Copy)]
enum Fault {
    Dns(DnsError),
    Time,
    Address(&'static str),
    Zone,
    MessageType(i32),
}

impl Line for Events {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        out.extend_from_slice(b"{\"dataType\":\"Message\",\"dataTypeId\":1");
        let error_at = out.len();
        octets_key(out, b",\"extraInfo\":", view.extra);
        let host = Some(entry.source.peer.as_bytes()).filter(|host| !host.is_empty());
        octets_key(out, b",\"host\":", host);
        let size = message.response_message.or(message.query_message);
        if let Some(octets) = size {
            number_key(out, b",\"messageSize\":", octets.len() as u64);
        }
        write_type(out, message);
        let fault = envelope_fault(message);
        if let Some(zone) = message.zone().and_then(Name::from_wire) {
            out.extend_from_slice(b",\"queryZone\":");
            push_name(out, &zone);
        }
        let raw_at = out.len();
        let dns = self.write_data(out, message);
        let fault = fault.or_else(|| dns.map(Fault::Dns));
        write_rest(out, view, message, &entry.source);
        if let Some(fault) = fault {
            // Late, since it is rare: both keys stand before what was written already.
            let end = out.len();
            encoded_key(out, b",\"rawData\":", entry.payload, &BASE64);
            move_back(out, raw_at, end);
            let end = out.len();
            write_fault(out, fault);
            move_back(out, error_at, end);
        }
        Ok(())
    }
}

impl Events {
    /// The two messages with what stands between them in order; what is wrong with the first that is malformed.
    fn write_data(&mut self, out: &mut Vec<u8>, message: &Message<'_>) -> Option<DnsError> {
        let is_update = matches!(message.message_type().number(), 13 | 14);
        let request = self.messages.write(
            out,
            b",\"requestData\":{",
            message.query_message,
            message.query_time().and_then(nanos),
            is_update,
        );
        if let Some(address) = message.response_ip() {
            out.extend_from_slice(b",\"responseAddress\":\"");
            digits::ip(out, address);
            out.push(b'"');
        }
        let response = self.messages.write(
            out,
            b",\"responseData\":{",
            message.response_message,
            message.response_time().and_then(nanos),
            is_update,
        );
        request.or(response)
    }
}

/// Everything after `responseData`, the line feed included.
fn write_rest(
    out: &mut Vec<u8>,
    view: &DnstapView<'_>,
    message: &Message<'_>,
    source: &Source<'_>,
) {
    if let Some(port) = message.response_port {
        number_key(out, b",\"responsePort\":", port.into());
    }
    octets_key(out, b",\"serverId\":", view.identity);
    octets_key(out, b",\"serverVersion\":", view.version);
    if let Some(family) = message.family() {
        out.extend_from_slice(b",\"socketFamily\":");
        name_or_number(out, family.name(), family.number());
    }
    if let Some(protocol) = message.protocol() {
        out.extend_from_slice(b",\"socketProtocol\":");
        name_or_number(out, protocol.name(), protocol.number());
    }
    if let Some(address) = message.query_ip() {
        out.extend_from_slice(b",\"sourceAddress\":\"");
        digits::ip(out, address);
        out.push(b'"');
    }
    if let Some(port) = message.query_port {
        number_key(out, b",\"sourcePort\":", port.into());
    }
    out.extend_from_slice(b",\"source_type\":\"dnstap\"");
    let time = message.time();
    if let Some(nanos) = time.and_then(nanos) {
        write_time(out, b",\"time\":", nanos);
    }
    let received = || {
        let since = source
            .received?
            .duration_since(std::time::UNIX_EPOCH)
            .ok()?;
        Some(Timestamp {
            seconds: since.as_secs(),
            nanos: since.subsec_nanos(),
        })
    };
    let shown = time
        .filter(|time| nanos(*time).is_some())
        .or_else(received)
        .filter(|time| time.is_sane());
    if let Some(time) = shown {
        out.extend_from_slice(b",\"timestamp\":\"");
        write_timestamp(out, time);
        out.push(b'"');
    }
    out.extend_from_slice(b"}\n");
}

/// `time` and `timePrecision`. The key comes with what stands before it.
fn write_time(out: &mut Vec<u8>, key: &[u8], nanos: u64) {
    number_key(out, key, nanos);
    out.extend_from_slice(b",\"timePrecision\":\"ns\"");
}

/// Nanoseconds since 1970, as far as 63 bits go: to the year 2262.
fn nanos(time: Timestamp) -> Option<u64> {
    let nanos = time.seconds.checked_mul(1_000_000_000)?;
    let nanos = nanos.checked_add(time.nanos.into())?;
    (nanos <= i64::MAX as u64).then_some(nanos)
}

/// RFC 3339 in UTC with no digits of a fraction, three, six or nine, as many as it needs.
fn write_timestamp(out: &mut Vec<u8>, time: Timestamp) {
    // Sane, so below 2,932,897 days.
    digits::date(out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(out, (time.seconds % 86_400) as u32);
    if time.nanos > 0 {
        out.push(b'.');
        digits::nanos(out, time.nanos);
        while out.ends_with(b"000") {
            out.truncate(out.len() - 3);
        }
    }
    out.push(b'Z');
}

/// `messageType` and `messageTypeId`.
fn write_type(out: &mut Vec<u8>, message: &Message<'_>) {
    const NAMES: [&str; 14] = [
        "AuthQuery",
        "AuthResponse",
        "ResolverQuery",
        "ResolverResponse",
        "ClientQuery",
        "ClientResponse",
        "ForwarderQuery",
        "ForwarderResponse",
        "StubQuery",
        "StubResponse",
        "ToolQuery",
        "ToolResponse",
        "UpdateQuery",
        "UpdateResponse",
    ];
    let kind = message.message_type();
    out.extend_from_slice(b",\"messageType\":");
    match NAMES.get(kind.index()) {
        Some(name) => quoted(out, name.as_bytes()),
        None => {
            out.extend_from_slice(b"\"Unknown dnstap message type: ");
            digits::signed(out, kind.number());
            out.push(b'"');
        }
    }
    out.extend_from_slice(b",\"messageTypeId\":");
    digits::signed(out, kind.number());
}

/// What is wrong outside the DNS messages, the first in Vector's order.
fn envelope_fault(message: &Message<'_>) -> Option<Fault> {
    let kind = message.message_type();
    let is_odd = |octets: Option<&[u8]>, found: bool| {
        octets.is_some_and(|octets| !octets.is_empty()) && !found
    };
    let is_late = |time: Option<Timestamp>| time.is_some_and(|time| nanos(time).is_none());
    if is_odd(message.query_address, message.query_ip().is_some()) {
        Some(Fault::Address("Cannot parse query_address"))
    } else if is_odd(message.response_address, message.response_ip().is_some()) {
        Some(Fault::Address("Cannot parse response_address"))
    } else if is_odd(message.query_zone, message.zone().is_some()) {
        Some(Fault::Zone)
    } else if is_late(message.query_time()) || is_late(message.response_time()) {
        Some(Fault::Time)
    } else if kind.name().is_none() {
        Some(Fault::MessageType(kind.number()))
    } else {
        None
    }
}

fn write_fault(out: &mut Vec<u8>, fault: Fault) {
    out.extend_from_slice(b",\"error\":\"");
    match fault {
        Fault::Dns(error) => {
            out.extend_from_slice(b"malformed DNS message: ");
            out.extend_from_slice(error.reason.as_str().as_bytes());
            out.extend_from_slice(b" at octet ");
            digits::number(out, error.offset as u64);
        }
        Fault::Time => out.extend_from_slice(b"Cannot parse timestamp"),
        Fault::Address(text) => out.extend_from_slice(text.as_bytes()),
        Fault::Zone => out.extend_from_slice(b"Cannot parse query_zone"),
        Fault::MessageType(number) => {
            out.extend_from_slice(b"Unsupported DNSTap message type: ");
            digits::signed(out, number);
        }
    }
    out.push(b'"');
}

/// Moves what was written from `from` on to `to`, before what stands there.
fn move_back(out: &mut [u8], to: usize, from: usize) {
    if let Some(part) = out.get_mut(to..)
        && from >= to
    {
        let len = part.len() - (from - to).min(part.len());
        part.rotate_right(len);
    }
}
