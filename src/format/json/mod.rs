//! Our JSON: one object a line, nested, every key as below. The form is stable: keys may be added, none changes
//! its meaning. What a frame does not say has no key; nothing is filled in. `proto/tapflow-record.schema.json` is the
//! same as a JSON Schema (draft 2020-12), which every line validates against.
//!
//! ```json
//! {"type":"CLIENT_RESPONSE","identity":"ns1","version":"BIND 9","family":"INET","protocol":"UDP",
//!  "query_address":"192.0.2.1","query_port":5353,"response_address":"192.0.2.53","response_port":53,
//!  "query_time":"2026-01-02T03:04:05.000000001Z","response_time":"2026-01-02T03:04:05.001000001Z",
//!  "latency":0.001000000,"response_size":73,
//!  "dns":{"id":4660,"opcode":"QUERY","rcode":"NOERROR","flags":["qr","rd","ra"],"qname":"www.example.",
//!         "qtype":"A","qclass":"IN","counts":{"qd":1,"an":1,"ns":0,"ar":1},
//!         "edns":{"version":0,"udp_size":1232,"do":true,"options":[10],
//!                 "option_values":[{"code":10,"name":"COOKIE","client":"0011223344556677"}]},
//!         "answers":[{"name":"www.example.","type":"A","class":"IN","ttl":300,"rdata":"192.0.2.80"}]},
//!  "source":{"received":"2026-01-02T03:04:05.002000000Z","listener":"unix","peer":"uid 53"}}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `type` | the schema's name of the message type, a number where it has none |
//! | `identity`, `version`, `extra` | text of octets, see below |
//! | `family`, `protocol`, `http_protocol` | the schema's name, a number where it has none |
//! | `query_address`, `response_address` | IPv4 or IPv6 by length; absent when neither |
//! | `query_address_octets`, `response_address_octets` | base 16 of what is neither |
//! | `query_port`, `response_port` | number |
//! | `query_time`, `response_time` | RFC 3339 in UTC with nanoseconds; a time that no calendar shows is `{"seconds":…,"nanos":…}`, as sent, without `seconds` where those were not sent |
//! | `latency` | seconds with nanoseconds, where both times exist and are sane |
//! | `query_zone` | name; `query_zone_octets` in base 16 where it is none |
//! | `query_size`, `response_size` | octets of the DNS message, where there is one |
//! | `policy` | `type`, `rule`, `value` (text of octets), `action`, `match` (name or number) |
//! | `dns` | the query of a query type, the response of a response type, see below |
//! | `query_dns`, `response_dns` | the other message, where a frame holds both |
//! | `odd` | list of what looks wrong outside `dns`: the labels of [`Oddity`](crate::dnstap::Oddity) |
//! | `source` | `received` (RFC 3339), `listener`, `peer` |
//!
//! In `dns`:
//!
//! | key | value |
//! |---|---|
//! | `id`, `opcode`, `rcode` | `opcode` and `rcode` as name or number, `rcode` with its EDNS part |
//! | `flags` | those set, in wire order |
//! | `qname`, `qtype`, `qclass` | the first question; in an UPDATE, the zone |
//! | `questions` | all of them, each `name`, `type`, `class`, where there are more than one |
//! | `counts` | `qd`, `an`, `ns`, `ar` as the header states them |
//! | `edns` | the OPT record: `version`, `udp_size`, `do`, `z` (its other flags, where any is set), `options` (codes in order), `option_values` (the same decoded), `rest` (base 16 of what is no whole option) |
//! | `answers`, `authorities`, `additionals` | records, each `name`, `type`, `class`, `ttl`, `rdata`; absent when empty |
//! | `zone`, `prerequisites`, `updates`, `additionals` | the same four sections in an UPDATE (RFC 2136, 2) |
//! | `trailing` | octets after the last record |
//! | `rest` | base 16 of all that follows the last record that could be read |
//! | `malformed` | `reason` (the labels of [`Malformed`](crate::dns::Malformed)) and `offset` of the first thing that is wrong |
//!
//! `rdata` is the presentation form of zone files; what is not what its type says, and types unknown to us, are
//! `\# 4 C0000201` (RFC 3597). A record or option that is malformed has a `malformed` of its own; the others stand as
//! they are. A message too short for a header has `rest` and `malformed` only.
//!
//! Each of `option_values` has `code`, `name` where IANA has one, and: NSID `id` (text of octets); ECS `family`,
//! `source_prefix`, `scope_prefix`, `address`; EXPIRE `seconds`; COOKIE `client`, `server` (base 16); KEEPALIVE
//! `timeout_ms`; PADDING `length`, and `octets` unless they are zeros; EDE `info_code`, `purpose`, `text` (text of
//! octets). Every other one has `octets` in base 16.
//!
//! **Names** are in BIND's form with the final dot (space is `\032`), then escaped as JSON strings are. Once a
//! JSON reader has undone the latter, [`NameBuf::parse`](crate::dns::NameBuf::parse) gives back the octets.
//! **Text of octets** is ASCII 32 to 126 as it is but for `\`, which is `\\`, and every other octet as `\ddd` in
//! decimal; then JSON. So every line is ASCII, and every octet can be had back.

mod edns;
mod envelope;
mod message;
pub(in crate::format) mod text;

use crate::dnstap::{DecodeReason, DnstapView};
use crate::format::{Entry, Kind, Line, Shape, Source};

/// The format.
pub static KIND: Kind = Kind {
    name: "json",
    aliases: &[],
    about: "one JSON object a line, all that the frame holds",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
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
    envelope::write_head(out, view, message);
    if let Some((octets, _)) = message.dns() {
        message::write_dns(out, b",\"dns\":", octets);
    }
    let subject = message.dns().map(|(_, is_response)| is_response);
    let has_direction = message.message_type().is_response();
    if let Some(octets) = message.query_message
        && has_direction.or(subject) == Some(true)
    {
        message::write_dns(out, b",\"query_dns\":", octets);
    }
    if let Some(octets) = message.response_message
        && has_direction.or(subject) == Some(false)
    {
        message::write_dns(out, b",\"response_dns\":", octets);
    }
    envelope::write_odd(out, message.oddities());
    envelope::write_source(out, source);
    out.extend_from_slice(b"}\n");
    Ok(())
}
