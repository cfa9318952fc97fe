//! `flat-json` and `flat-json-joined`: DNS-collector's flat JSON, one object a line whose keys have dots in them.
//!
//! It has two ways of writing what there is several of. Up to version 2 each record has keys of its own,
//! `dns.resource-records.an.0.name`, and an empty section is `"dns.resource-records.an":"-"`: that is `flat-json`.
//! From version 3 on a section has one key a column, `dns.resource-records.an.names`, with the records' values in one
//! text and `|` between them: that is `flat-json-joined`. EDNS options likewise.
//!
//! Keys come in its order, which is that of the alphabet (from version 3 on the flags first), but for records: those from
//! the eleventh on come after the tenth. `dns.rcode` is that of the header, of responses only; `edns.rcode` the bits that
//! EDNS adds, in their place: 16 of BADVERS. The OPT record is in the `edns` keys only. The data of records is written as
//! it writes them: names without the final dot, a TXT of one string bare.
//!
//! What it leaves out or makes up is written as it was sent, so that these values differ from its own: record data of any
//! type (where it has `-` for all but some ten types); `TYPE65280` for `UNKNOWN`; all strings of a TXT; `-` for a policy
//! or transport that is absent (`NXDOMAIN`, `QNAME`, `UDP`); port 0; the root as `.` and octets of names in BIND's escapes
//! (nothing, and the octets raw or replaced); the type of the dnstap message also of an UPDATE; latency where both times
//! are known; what can be read of a message that is malformed.

use std::time::Duration;

use crate::digits;
use crate::dns::Name;
use crate::dns::{DnsView, Edns, EdnsOption, Header, Record, Section, iana};
use crate::dnstap::{DecodeReason, DnstapView, Message, PolicyAction, PolicyMatch};
use crate::format::collector::{
    family, push_rcode, push_short_data, push_short_name, push_short_time,
};
use crate::format::json::text::{bool_key, escape_from, number_key, push_octets, quoted};
use crate::format::{Entry, Kind, Line, Shape, Source};

/// Keys of its own for each record.
pub static KIND: Kind = Kind {
    name: "flat-json",
    aliases: &[],
    about: "DNS-collector's flat JSON up to version 2: keys of its own for each record",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Flat::new(false))),
};

/// One key a column.
pub static JOINED: Kind = Kind {
    name: "flat-json-joined",
    aliases: &[],
    about: "DNS-collector's flat JSON from version 3 on: one key a column, records joined",
    extension: "jsonl",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Flat::new(true))),
};

/// The columns of a record, in the order of [`Flat::columns`].
const COLUMNS: [&str; 5] = ["class", "name", "rdata", "rdatatype", "ttl"];
/// The sections in the order of messages.
const SECTIONS: [(Section, &str); 3] = [
    (Section::Answer, "an"),
    (Section::Authority, "ns"),
    (Section::Additional, "ar"),
];

/// The flags in the order of their keys.
const FLAGS: [(&str, u16); 7] = [
    ("aa", 1 << 10),
    ("ad", 1 << 5),
    ("cd", 1 << 4),
    ("qr", 1 << 15),
    ("ra", 1 << 7),
    ("rd", 1 << 8),
    ("tc", 1 << 9),
];
/// The name of an option that it does not know.
const UNKNOWN: &str = "UNKNOWN";

struct Flat {
    joined: bool,
    /// Columns that are being joined, kept for their room.
    columns: [Vec<u8>; 5],
    /// The authority section, which is written after the additional one.
    later: Vec<u8>,
}

impl Line for Flat {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        let octets = message.dns().map_or(&[][..], |(octets, _)| octets);
        let dns = DnsView::parse(octets).ok();
        let edns = dns.and_then(|dns| dns.edns());
        // A record without a message is not malformed, one with too short a message is.
        let malformed = match &dns {
            Some(dns) => dns.walk().malformed.is_some(),
            None => message.dns().is_some(),
        };
        out.push(b'{');
        self.write_header(out, dns.as_ref(), octets.len(), malformed);
        match &dns {
            Some(dns) => self.write_records(out, dns, edns.as_ref()),
            None => self.write_no_records(out),
        }
        self.write_dnstap(out, view, message, &entry.source);
        self.write_edns(out, edns.as_ref());
        write_network(out, message);
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

impl Flat {
    fn new(joined: bool) -> Self {
        Self {
            joined,
            columns: Default::default(),
            later: Vec::new(),
        }
    }

    /// All sections.
    fn write_records(&mut self, out: &mut Vec<u8>, dns: &DnsView<'_>, edns: Option<&Edns<'_>>) {
        let is_edns = |record: &Record<'_>| {
            record.rtype == Edns::RTYPE
                && edns.is_some_and(|edns| std::ptr::eq(edns.options, record.data()))
        };
        let mut records = dns.records().filter(|record| !is_edns(record)).peekable();
        let mut later = std::mem::take(&mut self.later);
        later.clear();
        for (section, key) in SECTIONS {
            let out = if section == Section::Authority {
                &mut later
            } else {
                &mut *out
            };
            let mut index = 0;
            while let Some(record) = records.next_if(|record| record.section == section) {
                if self.joined {
                    self.join(&record, index > 0);
                } else {
                    write_record(out, &record, key, index);
                }
                index += 1;
            }
            if self.joined {
                for (name, column) in COLUMNS.iter().zip(&mut self.columns) {
                    push_key(out, &["dns.resource-records.", key, ".", plural(name)]);
                    quoted(out, if index == 0 { b"-" } else { column });
                    column.clear();
                }
            } else if index == 0 {
                push_key(out, &["dns.resource-records.", key]);
                quoted(out, b"-");
            }
        }
        out.extend_from_slice(&later);
        self.later = later;
    }

    /// All sections of a message that is not there.
    fn write_no_records(&self, out: &mut Vec<u8>) {
        for key in ["an", "ar", "ns"] {
            if self.joined {
                for name in COLUMNS {
                    push_key(out, &["dns.resource-records.", key, ".", plural(name)]);
                    quoted(out, b"-");
                }
            } else {
                push_key(out, &["dns.resource-records.", key]);
                quoted(out, b"-");
            }
        }
    }

    /// Adds a record to the columns, escaped for JSON and without quotes.
    fn join(&mut self, record: &Record<'_>, is_next: bool) {
        let [class, name, rdata, rtype, ttl] = &mut self.columns;
        if is_next {
            for column in [&mut *name, rdata, rtype, ttl, class] {
                column.push(b'|');
            }
        }
        unquoted(name, |name| push_short_name(name, &record.owner));
        unquoted(rdata, |rdata| push_short_data(rdata, record));
        iana::write_type(rtype, record.rtype);
        digits::number(ttl, record.ttl.into());
        iana::write_class(class, record.class);
    }

    /// The keys of header and question.
    fn write_header(
        &self,
        out: &mut Vec<u8>,
        dns: Option<&DnsView<'_>>,
        len: usize,
        malformed: bool,
    ) {
        let header = dns.map(DnsView::header);
        let number = |field: fn(Header) -> u16| header.map_or(0, field).into();
        let flags = |out: &mut Vec<u8>| {
            for (name, bit) in FLAGS {
                push_key_start(out, &["dns.flags.", name]);
                bool_key(
                    out,
                    b"\":",
                    header.is_some_and(|header| header.flags & bit != 0),
                );
            }
        };
        let start = out.len();
        if self.joined {
            flags(out);
        }
        number_key(out, b",\"dns.ancount\":", number(|header| header.answers));
        number_key(
            out,
            b",\"dns.arcount\":",
            number(|header| header.additionals),
        );
        if !self.joined {
            flags(out);
        }
        // The first key has no comma before it.
        out.remove(start);
        number_key(out, b",\"dns.id\":", number(|header| header.id));
        number_key(out, b",\"dns.length\":", len as u64);
        bool_key(out, b",\"dns.malformed-packet\":", malformed);
        number_key(
            out,
            b",\"dns.nscount\":",
            number(|header| header.authorities),
        );
        number_key(
            out,
            b",\"dns.opcode\":",
            number(|header| header.opcode().into()),
        );
        let question = dns.and_then(|dns| dns.question().ok()?);
        out.extend_from_slice(b",\"dns.qclass\":\"");
        match &question {
            Some(question) => iana::write_class(out, question.qclass),
            None => out.push(b'-'),
        }
        number_key(
            out,
            b"\",\"dns.qdcount\":",
            number(|header| header.questions),
        );
        out.extend_from_slice(b",\"dns.qname\":");
        match &question {
            Some(question) => push_short_name(out, &question.name),
            None => quoted(out, b"-"),
        }
        out.extend_from_slice(b",\"dns.qtype\":\"");
        match &question {
            Some(question) => iana::write_type(out, question.qtype),
            None => out.push(b'-'),
        }
        out.extend_from_slice(b"\",\"dns.rcode\":\"");
        push_rcode(out, header);
        out.push(b'"');
    }

    /// The keys of the dnstap message.
    fn write_dnstap(
        &self,
        out: &mut Vec<u8>,
        view: &DnstapView<'_>,
        message: &Message<'_>,
        source: &Source<'_>,
    ) {
        let policy = message.policy.unwrap_or_default();
        push_text(out, b",\"dnstap.extra\":", view.extra);
        push_text(out, b",\"dnstap.identity\":", view.identity);
        let latency = message.latency().unwrap_or_default();
        out.extend_from_slice(b",\"dnstap.latency\":");
        push_seconds(out, latency);
        if self.joined {
            number_key(out, b",\"dnstap.latency_ms\":", latency.as_millis() as u64);
        }
        let kind = message.message_type();
        out.extend_from_slice(b",\"dnstap.operation\":\"");
        match kind.name() {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => digits::signed(out, kind.number()),
        }
        push_text(
            out,
            b"\",\"dnstap.peer-name\":",
            Some(source.peer.as_bytes()),
        );
        let action = policy.action.map(PolicyAction::from_number);
        push_named(
            out,
            b",\"dnstap.policy-action\":\"",
            action.map(|action| (action.name(), action.number())),
        );
        let matched = policy.matched.map(PolicyMatch::from_number);
        push_named(
            out,
            b",\"dnstap.policy-match\":\"",
            matched.map(|matched| (matched.name(), matched.number())),
        );
        push_text(out, b",\"dnstap.policy-rule\":", policy.rule);
        push_text(out, b",\"dnstap.policy-type\":", policy.kind);
        push_text(out, b",\"dnstap.policy-value\":", policy.value);
        out.extend_from_slice(b",\"dnstap.query-zone\":");
        match message.zone().and_then(Name::from_wire) {
            Some(zone) => push_short_name(out, &zone),
            None => quoted(out, b"-"),
        }
        out.extend_from_slice(b",\"dnstap.timestamp-rfc3339ns\":\"");
        push_short_time(out, message.time());
        push_text(out, b"\",\"dnstap.version\":", view.version);
    }

    fn write_edns(&mut self, out: &mut Vec<u8>, edns: Option<&Edns<'_>>) {
        let options = || edns.into_iter().flat_map(Edns::options);
        number_key(
            out,
            b",\"edns.dnssec-ok\":",
            edns.is_some_and(|edns| edns.do_bit).into(),
        );
        let [codes, datas, names, ..] = &mut self.columns;
        let mut count = 0;
        for (code, data) in options() {
            if self.joined {
                if count > 0 {
                    for column in [&mut *codes, datas, names] {
                        column.push(b'|');
                    }
                }
                digits::number(codes, code.into());
                push_option_data(datas, code, data);
                names.extend_from_slice(option_name(code).as_bytes());
            } else {
                push_option_key(out, count, "code");
                digits::number(out, code.into());
                push_option_key(out, count, "data");
                out.push(b'"');
                push_option_data(out, code, data);
                out.push(b'"');
                push_option_key(out, count, "name");
                quoted(out, option_name(code).as_bytes());
            }
            count += 1;
        }
        if self.joined {
            for (key, column) in [("codes", codes), ("datas", datas), ("names", names)] {
                push_key(out, &["edns.options.", key]);
                quoted(out, if count == 0 { b"-" } else { column });
                column.clear();
            }
            number_key(out, b",\"edns.optionscount\":", count);
        } else if count == 0 {
            out.extend_from_slice(b",\"edns.options\":\"-\"");
        }
        let number = |value: Option<u16>| u64::from(value.unwrap_or(0));
        number_key(
            out,
            b",\"edns.rcode\":",
            number(edns.map(|edns| u16::from(edns.ext_rcode) << 4)),
        );
        number_key(
            out,
            b",\"edns.udp-size\":",
            number(edns.map(|edns| edns.udp_size)),
        );
        number_key(
            out,
            b",\"edns.version\":",
            number(edns.map(|edns| edns.version.into())),
        );
    }
}

fn write_record(out: &mut Vec<u8>, record: &Record<'_>, section: &str, index: u64) {
    for column in COLUMNS {
        push_key_start(out, &["dns.resource-records.", section, "."]);
        digits::number(out, index);
        out.push(b'.');
        out.extend_from_slice(column.as_bytes());
        out.extend_from_slice(b"\":");
        match column {
            "name" => push_short_name(out, &record.owner),
            "rdata" => push_short_data(out, record),
            "ttl" => digits::number(out, record.ttl.into()),
            _ => {
                out.push(b'"');
                if column == "class" {
                    iana::write_class(out, record.class);
                } else {
                    iana::write_type(out, record.rtype);
                }
                out.push(b'"');
            }
        }
    }
}

/// Octets under a key, `-` when there are none.
fn push_text(out: &mut Vec<u8>, key: &[u8], octets: Option<&[u8]>) {
    out.extend_from_slice(key);
    let octets = octets.filter(|octets| !octets.is_empty());
    push_octets(out, octets.unwrap_or(b"-"));
}

/// Seconds without zeros at the end.
fn push_seconds(out: &mut Vec<u8>, time: Duration) {
    digits::number(out, time.as_secs());
    if time.subsec_nanos() > 0 {
        out.push(b'.');
        digits::nanos(out, time.subsec_nanos());
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

fn push_named(out: &mut Vec<u8>, key: &[u8], value: Option<(Option<&'static str>, i32)>) {
    out.extend_from_slice(key);
    match value {
        None => out.push(b'-'),
        Some((Some(name), _)) => out.extend_from_slice(name.as_bytes()),
        Some((None, number)) => digits::signed(out, number),
    }
    out.push(b'"');
}

fn write_network(out: &mut Vec<u8>, message: &Message<'_>) {
    out.extend_from_slice(b",\"network.family\":");
    quoted(out, family(message).as_bytes());
    out.extend_from_slice(b",\"network.ip-defragmented\":false");
    let protocol = message.protocol();
    push_named(
        out,
        b",\"network.protocol\":\"",
        protocol.map(|protocol| (protocol.name(), protocol.number())),
    );
    for (keys, address, port) in [
        (
            ["query-ip", "query-port"],
            message.query_ip(),
            message.query_port,
        ),
        (
            ["response-ip", "response-port"],
            message.response_ip(),
            message.response_port,
        ),
    ] {
        let [address_key, port_key] = keys;
        push_key(out, &["network.", address_key]);
        out.push(b'"');
        match address {
            Some(address) => digits::ip(out, address),
            None => out.push(b'-'),
        }
        out.push(b'"');
        push_key(out, &["network.", port_key]);
        out.push(b'"');
        match port {
            Some(port) => digits::number(out, port.into()),
            None => out.push(b'-'),
        }
        out.push(b'"');
    }
    out.extend_from_slice(b",\"network.tcp-reassembled\":false");
}

fn push_option_key(out: &mut Vec<u8>, index: u64, field: &str) {
    push_key_start(out, &["edns.options."]);
    digits::number(out, index);
    out.push(b'.');
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b"\":");
}

/// DNS-collector's name of an option: it knows these.
fn option_name(code: u16) -> &'static str {
    match code {
        8 => "CSUBNET",
        15 => "ERRORS",
        3 | 9..=12 => iana::option_name(code).unwrap_or(UNKNOWN),
        _ => UNKNOWN,
    }
}

/// What an option says, escaped for JSON; `-` for those that it does not decode.
fn push_option_data(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    match EdnsOption::parse(code, data) {
        EdnsOption::ClientSubnet(subnet) => match subnet.ip() {
            Some(address) => {
                if address.is_ipv6() {
                    out.push(b'[');
                }
                digits::ip(out, address);
                if address.is_ipv6() {
                    out.push(b']');
                }
                out.push(b'/');
                digits::number(out, subnet.source_prefix.into());
            }
            None => out.push(b'-'),
        },
        EdnsOption::ExtendedError { code, text } => {
            let start = out.len();
            digits::number(out, code.into());
            out.push(b' ');
            let name = match code {
                // Not the registry's "Other Error".
                0 => "Other",
                _ => iana::extended_error_name(code).unwrap_or("-"),
            };
            out.extend_from_slice(name.as_bytes());
            out.push(b' ');
            if text.is_empty() {
                out.push(b'-');
            }
            escape_from(out, start);
            unquoted(out, |out| push_octets(out, text));
        }
        _ => out.push(b'-'),
    }
}

/// What `write` puts in quotes, without them.
fn unquoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    out.pop();
    if out.len() > start {
        out.remove(start);
    }
}

const fn plural(column: &str) -> &str {
    match column.as_bytes() {
        b"name" => "names",
        b"rdata" => "rdatas",
        b"rdatatype" => "rdatatypes",
        b"ttl" => "ttls",
        _ => "classes",
    }
}

fn push_key_start(out: &mut Vec<u8>, parts: &[&str]) {
    out.extend_from_slice(b",\"");
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

fn push_key(out: &mut Vec<u8>, parts: &[&str]) {
    push_key_start(out, parts);
    out.extend_from_slice(b"\":");
}
