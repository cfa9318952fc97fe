//! Our JSON: one object a line, nested, every key as below. The form is stable: keys may be added, none changes
//! its meaning. What a frame does not say has no key; nothing is filled in.
//!
//! ```json
//! {"type":"CLIENT_RESPONSE","identity":"ns1","version":"BIND 9","family":"INET","protocol":"UDP",
//!  "query_address":"192.0.2.1","query_port":5353,"response_address":"192.0.2.53","response_port":53,
//!  "query_time":"2026-01-02T03:04:05.000000001Z","response_time":"2026-01-02T03:04:05.001000001Z",
//!  "latency":0.001000000,"response_size":45,
//!  "dns":{"id":4660,"opcode":"QUERY","rcode":"NOERROR","flags":["qr","rd","ra"],"qname":"www.example.",
//!         "qtype":"A","qclass":"IN","counts":{"qd":1,"an":1,"ns":0,"ar":1},
//!         "edns":{"version":0,"udp_size":1232,"do":true,"options":[10]}},
//!  "source":{"received":"2026-01-02T03:04:05.002000000Z","listener":"unix","peer":"uid 53"}}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `type` | the schema's name of the message type, a number where it has none |
//! | `identity`, `version`, `extra` | text of octets, see below |
//! | `family`, `protocol`, `http_protocol` | the schema's name, a number where it has none |
//! | `query_address`, `response_address` | IPv4 or IPv6 by length; absent when neither |
//! | `query_port`, `response_port` | number |
//! | `query_time`, `response_time` | RFC 3339 in UTC with nanoseconds; a time that no calendar shows is `{"seconds":…,"nanos":…}`, as sent |
//! | `latency` | seconds with nanoseconds, where both times exist and are sane |
//! | `query_zone` | name |
//! | `query_size`, `response_size` | octets of the DNS message, where there is one |
//! | `policy` | `type`, `rule`, `value` (text of octets), `action`, `match` (name or number) |
//! | `dns` | the query of a query type, the response of a response type, see below |
//! | `odd` | list of what looks wrong outside `dns`: the labels of [`Oddity`](crate::dnstap::Oddity) |
//! | `source` | `received` (RFC 3339), `listener`, `peer` |
//!
//! In `dns`: `id`; `opcode` and `rcode` as name or number, `rcode` with its EDNS part; `flags`, those set, in
//! wire order; `qname`, `qtype`, `qclass` of the first question; `counts` as the header states them; `edns` with
//! `version`, `udp_size`, `do` and the `options`' codes in order; `trailing`, octets after the last record;
//! `malformed` with `reason` (the labels of [`Malformed`](crate::dns::Malformed)) and `offset` of the first thing
//! that is wrong. A message too short for a header has `malformed` only.
//!
//! **Names** are in BIND's form with the final dot (space is `\032`), then escaped as JSON strings are. Once a
//! JSON reader has undone the latter, [`NameBuf::parse`](crate::dns::NameBuf::parse) gives back the octets.
//! **Text of octets** is ASCII 32 to 126 as it is but for `\`, which is `\\`, and every other octet as `\ddd` in
//! decimal; then JSON. So every line is ASCII, and every octet can be had back.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::digits;
use crate::dns::name::{decimal_digits, is_bare};
use crate::dns::{DnsError, DnsView, Edns, Header, Name, iana};
use crate::dnstap::{
    DecodeReason, DnstapView, Message, Oddities, Policy, PolicyAction, PolicyMatch, Timestamp,
};
use crate::format::{Entry, Kind, Line, Shape, Source};

/// The format.
pub static KIND: Kind = Kind {
    name: "json",
    aliases: &[],
    about: "one JSON object a line, all that the frame holds",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    make: |_| Ok(Box::new(Json)),
};

struct Json;

impl Line for Json {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        write(out, entry.view?, &entry.source)
    }
}

/// Appends `view` as one line of JSON, line feed included.
///
/// # Errors
///
/// Why `view` is no record; nothing is appended then.
pub fn write(
    out: &mut Vec<u8>,
    view: &DnstapView<'_>,
    source: &Source<'_>,
) -> Result<(), DecodeReason> {
    let message = view.classify()?;
    out.extend_from_slice(b"{\"type\":");
    let kind = message.message_type();
    name_or_number(out, kind.name(), kind.number());
    octets_key(out, b",\"identity\":", view.identity);
    octets_key(out, b",\"version\":", view.version);
    octets_key(out, b",\"extra\":", view.extra);
    write_transport(out, message);
    write_times(out, message);
    if let Some(zone) = message.zone().and_then(Name::from_wire) {
        name_key(out, b",\"query_zone\":", &zone);
    }
    number_key(
        out,
        b",\"query_size\":",
        message.query_message.map(|octets| octets.len() as u64),
    );
    number_key(
        out,
        b",\"response_size\":",
        message.response_message.map(|octets| octets.len() as u64),
    );
    if let Some(policy) = &message.policy {
        write_policy(out, policy);
    }
    if let Some((octets, _)) = message.dns() {
        write_dns(out, octets);
    }
    write_odd(out, message.oddities());
    write_source(out, source);
    out.extend_from_slice(b"}\n");
    Ok(())
}

fn write_transport(out: &mut Vec<u8>, message: &Message<'_>) {
    if let Some(family) = message.family() {
        out.extend_from_slice(b",\"family\":");
        name_or_number(out, family.name(), family.number());
    }
    if let Some(protocol) = message.protocol() {
        out.extend_from_slice(b",\"protocol\":");
        name_or_number(out, protocol.name(), protocol.number());
    }
    if let Some(http) = message.http() {
        out.extend_from_slice(b",\"http_protocol\":");
        name_or_number(out, http.name(), http.number());
    }
    let sides = [
        (
            &b",\"query_address\":\""[..],
            message.query_ip(),
            &b",\"query_port\":"[..],
            message.query_port,
        ),
        (
            b",\"response_address\":\"",
            message.response_ip(),
            b",\"response_port\":",
            message.response_port,
        ),
    ];
    for (address_key, address, port_key, port) in sides {
        if let Some(address) = address {
            out.extend_from_slice(address_key);
            digits::ip(out, address);
            out.push(b'"');
        }
        number_key(out, port_key, port.map(u64::from));
    }
}

fn write_times(out: &mut Vec<u8>, message: &Message<'_>) {
    time_key(out, b",\"query_time\":", message.query_time());
    time_key(out, b",\"response_time\":", message.response_time());
    if let Some(latency) = message.latency() {
        out.extend_from_slice(b",\"latency\":");
        digits::number(out, latency.as_secs());
        out.push(b'.');
        digits::nanos(out, latency.subsec_nanos());
    }
}

fn write_policy(out: &mut Vec<u8>, policy: &Policy<'_>) {
    out.extend_from_slice(b",\"policy\":{");
    let start = out.len();
    octets_key(out, b",\"type\":", policy.kind);
    octets_key(out, b",\"rule\":", policy.rule);
    if let Some(action) = policy.action.map(PolicyAction::from_number) {
        out.extend_from_slice(b",\"action\":");
        name_or_number(out, action.name(), action.number());
    }
    if let Some(matched) = policy.matched.map(PolicyMatch::from_number) {
        out.extend_from_slice(b",\"match\":");
        name_or_number(out, matched.name(), matched.number());
    }
    octets_key(out, b",\"value\":", policy.value);
    close_without_first_comma(out, start, b'}');
}

fn write_dns(out: &mut Vec<u8>, octets: &[u8]) {
    out.extend_from_slice(b",\"dns\":{");
    let view = match DnsView::parse(octets) {
        Ok(view) => view,
        Err(error) => {
            write_malformed(out, b"\"malformed\":", error);
            out.push(b'}');
            return;
        }
    };
    let (header, walk) = (view.header(), view.walk());
    // Where the walk stops before the additional records, the OPT record may still be within reach.
    let edns = walk.edns.or_else(|| view.edns());
    out.extend_from_slice(b"\"id\":");
    digits::number(out, u64::from(header.id));
    out.extend_from_slice(b",\"opcode\":");
    name_or_number(
        out,
        iana::opcode_name(header.opcode()),
        i32::from(header.opcode()),
    );
    let rcode = u16::from(header.rcode()) | u16::from(edns.map_or(0, |edns| edns.ext_rcode)) << 4;
    out.extend_from_slice(b",\"rcode\":");
    name_or_number(out, iana::rcode_name(rcode), i32::from(rcode));
    write_flags(out, header);
    if let Ok(Some(question)) = view.question() {
        name_key(out, b",\"qname\":", &question.name);
        out.extend_from_slice(b",\"qtype\":\"");
        iana::write_type(out, question.qtype);
        out.extend_from_slice(b"\",\"qclass\":\"");
        iana::write_class(out, question.qclass);
        out.push(b'"');
    }
    number_key(out, b",\"counts\":{\"qd\":", Some(header.questions.into()));
    number_key(out, b",\"an\":", Some(header.answers.into()));
    number_key(out, b",\"ns\":", Some(header.authorities.into()));
    number_key(out, b",\"ar\":", Some(header.additionals.into()));
    out.push(b'}');
    if let Some(edns) = edns {
        write_edns(out, &edns);
    }
    if walk.trailing > 0 {
        number_key(out, b",\"trailing\":", Some(walk.trailing as u64));
    }
    if let Some(error) = walk.malformed {
        write_malformed(out, b",\"malformed\":", error);
    }
    out.push(b'}');
}

fn write_flags(out: &mut Vec<u8>, header: Header) {
    out.extend_from_slice(b",\"flags\":[");
    let start = out.len();
    for (name, bit) in Header::FLAGS {
        if header.flags & bit != 0 {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
    }
    close_without_first_comma(out, start, b']');
}

fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>) {
    number_key(out, b",\"edns\":{\"version\":", Some(edns.version.into()));
    number_key(out, b",\"udp_size\":", Some(edns.udp_size.into()));
    out.extend_from_slice(if edns.do_bit {
        b",\"do\":true"
    } else {
        b",\"do\":false"
    });
    out.extend_from_slice(b",\"options\":[");
    let start = out.len();
    for (code, _) in edns.options() {
        number_key(out, b",", Some(code.into()));
    }
    close_without_first_comma(out, start, b']');
    out.push(b'}');
}

fn write_malformed(out: &mut Vec<u8>, key: &[u8], error: DnsError) {
    out.extend_from_slice(key);
    out.extend_from_slice(b"{\"reason\":\"");
    out.extend_from_slice(error.reason.as_str().as_bytes());
    number_key(out, b"\",\"offset\":", Some(error.offset as u64));
    out.push(b'}');
}

fn write_odd(out: &mut Vec<u8>, odd: Oddities) {
    if odd.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"odd\":[");
    let start = out.len();
    for oddity in odd.iter() {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(oddity.as_str().as_bytes());
        out.push(b'"');
    }
    close_without_first_comma(out, start, b']');
}

fn write_source(out: &mut Vec<u8>, source: &Source<'_>) {
    let received = source.received.and_then(since_epoch);
    if received.is_none() && source.listener.is_empty() && source.peer.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"source\":{");
    let start = out.len();
    time_key(out, b",\"received\":", received);
    for (key, text) in [
        (&b",\"listener\":"[..], source.listener),
        (b",\"peer\":", source.peer),
    ] {
        octets_key(
            out,
            key,
            Some(text.as_bytes()).filter(|text| !text.is_empty()),
        );
    }
    close_without_first_comma(out, start, b'}');
}

fn since_epoch(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp {
        seconds: since.as_secs(),
        nanos: since.subsec_nanos(),
    })
}

/// Ends a list or object whose members each begin with a comma, the first included. `start` is where its
/// content begins.
fn close_without_first_comma(out: &mut Vec<u8>, start: usize, bracket: u8) {
    if out.len() > start {
        out.remove(start);
    }
    out.push(bracket);
}

fn number_key(out: &mut Vec<u8>, key: &[u8], value: Option<u64>) {
    if let Some(value) = value {
        out.extend_from_slice(key);
        digits::number(out, value);
    }
}

/// A name in quotes, or a bare number.
fn name_or_number(out: &mut Vec<u8>, name: Option<&'static str>, number: i32) {
    match name {
        Some(name) => {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
        None => digits::signed(out, number),
    }
}

fn time_key(out: &mut Vec<u8>, key: &[u8], time: Option<Timestamp>) {
    let Some(time) = time else { return };
    out.extend_from_slice(key);
    if !time.is_sane() {
        number_key(out, b"{\"seconds\":", Some(time.seconds));
        number_key(out, b",\"nanos\":", Some(time.nanos.into()));
        return out.push(b'}');
    }
    out.push(b'"');
    // Sane, so below 2,932,897 days.
    digits::date(out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(out, (time.seconds % 86_400) as u32);
    out.push(b'.');
    digits::nanos(out, time.nanos);
    out.extend_from_slice(b"Z\"");
}

/// A domain name: BIND's escapes, and every backslash of theirs doubled for JSON.
fn name_key(out: &mut Vec<u8>, key: &[u8], name: &Name<'_>) {
    out.extend_from_slice(key);
    out.push(b'"');
    if name.is_root() {
        out.push(b'.');
    }
    for label in name.labels() {
        if label.iter().all(|&octet| is_bare(octet)) {
            out.extend_from_slice(label);
        } else {
            for &octet in label {
                match octet {
                    _ if is_bare(octet) => out.push(octet),
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', b'\\', b'\\', octet]),
                    b'!'..=b'~' => out.extend_from_slice(&[b'\\', b'\\', octet]),
                    _ => decimal(out, octet),
                }
            }
        }
        out.push(b'.');
    }
    out.push(b'"');
}

/// Any octets as text: printable ASCII bare, a backslash doubled, the rest in decimal; then JSON.
fn octets_key(out: &mut Vec<u8>, key: &[u8], octets: Option<&[u8]>) {
    let Some(octets) = octets else { return };
    out.extend_from_slice(key);
    out.push(b'"');
    if octets
        .iter()
        .all(|octet| matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\'))
    {
        out.extend_from_slice(octets);
    } else {
        for &octet in octets {
            match octet {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\\\\\"),
                b' '..=b'~' => out.push(octet),
                _ => decimal(out, octet),
            }
        }
    }
    out.push(b'"');
}

/// `\ddd` inside a JSON string.
fn decimal(out: &mut Vec<u8>, octet: u8) {
    out.extend_from_slice(b"\\\\");
    out.extend_from_slice(&decimal_digits(octet));
}
