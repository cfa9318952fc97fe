//! `flat-json` and `flat-json-joined`: DNS-collector's flat JSON, one object a line whose keys have dots in them.
//!
//! It has two ways of writing what there is several of. Up to version 2 each record has keys of its own,
//! `dns.resource-records.an.0.name`, and an empty section is `"dns.resource-records.an":"-"`: that is `flat-json`.
//! From version 3 on a section has one key a column, `dns.resource-records.an.names`, with the records' values in one
//! text and `|` between them: that is `flat-json-joined`. EDNS options likewise.
//!
//! `dns.rcode` is the header's four bits and `edns.rcode` the eight of EDNS. The OPT record is in the `edns` keys only.

use crate::digits;
use crate::dns::Name;
use crate::dns::{DnsView, Edns, EdnsOption, Header, Record, Section, iana};
use crate::dnstap::{DecodeReason, DnstapView, Message, PolicyAction, PolicyMatch};
use crate::format::collector::{family, push_rcode, push_short_name, push_short_time};
use crate::format::json::text::{
    bool_key, escape_from, number_key, push_data, push_octets, quoted,
};
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
const COLUMNS: [&str; 5] = ["name", "rdata", "rdatatype", "ttl", "class"];
const SECTIONS: [(Section, &str); 3] = [
    (Section::Answer, "an"),
    (Section::Authority, "ns"),
    (Section::Additional, "ar"),
];

struct Flat {
    joined: bool,
    /// Columns that are being joined, kept for their room.
    columns: [Vec<u8>; 5],
}

impl Line for Flat {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        let octets = message.dns().map_or(&[][..], |(octets, _)| octets);
        let dns = DnsView::parse(octets).ok();
        let edns = dns.and_then(|dns| dns.edns());
        out.push(b'{');
        write_header(out, dns.as_ref(), octets.len());
        let malformed = match &dns {
            Some(dns) => self.write_records(out, dns),
            // A record without a message is not malformed, one with too short a message is.
            None => {
                self.write_no_records(out);
                message.dns().is_some()
            }
        };
        bool_key(out, b",\"dns.malformed-packet\":", malformed);
        write_dnstap(out, view, message, &entry.source);
        if self.joined {
            let latency = message.latency().unwrap_or_default();
            number_key(out, b",\"dnstap.latency_ms\":", latency.as_millis() as u64);
        }
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
        }
    }

    /// All sections. Whether the message is malformed.
    fn write_records(&mut self, out: &mut Vec<u8>, dns: &DnsView<'_>) -> bool {
        let edns = dns.edns();
        let is_edns = |record: &Record<'_>| {
            record.rtype == Edns::RTYPE
                && edns.is_some_and(|edns| std::ptr::eq(edns.options, record.data()))
        };
        let mut records = dns.records().filter(|record| !is_edns(record)).peekable();
        for (section, key) in SECTIONS {
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
        dns.walk().malformed.is_some()
    }

    /// All sections of a message that is not there.
    fn write_no_records(&self, out: &mut Vec<u8>) {
        for (_, key) in SECTIONS {
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
        let [name, rdata, rtype, ttl, class] = &mut self.columns;
        if is_next {
            for column in [&mut *name, rdata, rtype, ttl, class] {
                column.push(b'|');
            }
        }
        unquoted(name, |name| push_short_name(name, &record.owner));
        unquoted(rdata, |rdata| push_data(rdata, record));
        iana::write_type(rtype, record.rtype);
        digits::number(ttl, record.ttl.into());
        iana::write_class(class, record.class);
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
            number(edns.map(|edns| edns.ext_rcode.into())),
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

fn write_header(out: &mut Vec<u8>, dns: Option<&DnsView<'_>>, len: usize) {
    let header = dns.map(DnsView::header);
    for (index, (name, bit)) in Header::FLAGS
        .into_iter()
        .filter(|flag| flag.0 != "z")
        .enumerate()
    {
        out.extend_from_slice(if index == 0 {
            b"\"dns.flags."
        } else {
            b",\"dns.flags."
        });
        out.extend_from_slice(name.as_bytes());
        bool_key(
            out,
            b"\":",
            header.is_some_and(|header| header.flags & bit != 0),
        );
    }
    let number = |field: fn(Header) -> u16| header.map_or(0, field).into();
    number_key(out, b",\"dns.id\":", number(|header| header.id));
    number_key(
        out,
        b",\"dns.opcode\":",
        number(|header| header.opcode().into()),
    );
    number_key(out, b",\"dns.qdcount\":", number(|header| header.questions));
    number_key(out, b",\"dns.ancount\":", number(|header| header.answers));
    number_key(
        out,
        b",\"dns.nscount\":",
        number(|header| header.authorities),
    );
    number_key(
        out,
        b",\"dns.arcount\":",
        number(|header| header.additionals),
    );
    number_key(out, b",\"dns.length\":", len as u64);
    out.extend_from_slice(b",\"dns.rcode\":\"");
    match header {
        Some(header) => push_rcode(out, header.rcode()),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b"\",\"dns.qname\":");
    let Some(question) = dns.and_then(|dns| dns.question().ok()?) else {
        return out.extend_from_slice(b"\"-\",\"dns.qtype\":\"-\",\"dns.qclass\":\"-\"");
    };
    push_short_name(out, &question.name);
    out.extend_from_slice(b",\"dns.qtype\":\"");
    iana::write_type(out, question.qtype);
    out.extend_from_slice(b"\",\"dns.qclass\":\"");
    iana::write_class(out, question.qclass);
    out.push(b'"');
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
            "rdata" => push_data(out, record),
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

fn write_dnstap(
    out: &mut Vec<u8>,
    view: &DnstapView<'_>,
    message: &Message<'_>,
    source: &Source<'_>,
) {
    let kind = message.message_type();
    out.extend_from_slice(b",\"dnstap.operation\":\"");
    match kind.name() {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => digits::signed(out, kind.number()),
    }
    out.extend_from_slice(b"\",\"dnstap.timestamp-rfc3339ns\":\"");
    push_short_time(out, message.time());
    out.push(b'"');
    let latency = message.latency().unwrap_or_default();
    number_key(out, b",\"dnstap.latency\":", latency.as_secs());
    out.push(b'.');
    digits::nanos(out, latency.subsec_nanos());
    let policy = message.policy.unwrap_or_default();
    for (key, octets) in [
        (&b",\"dnstap.identity\":"[..], view.identity),
        (b",\"dnstap.version\":", view.version),
        (b",\"dnstap.extra\":", view.extra),
        (b",\"dnstap.peer-name\":", Some(source.peer.as_bytes())),
        (b",\"dnstap.policy-type\":", policy.kind),
        (b",\"dnstap.policy-rule\":", policy.rule),
        (b",\"dnstap.policy-value\":", policy.value),
    ] {
        out.extend_from_slice(key);
        push_octets(
            out,
            octets.filter(|octets| !octets.is_empty()).unwrap_or(b"-"),
        );
    }
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
    out.extend_from_slice(b",\"dnstap.query-zone\":");
    match message.zone().and_then(Name::from_wire) {
        Some(zone) => push_short_name(out, &zone),
        None => quoted(out, b"-"),
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
    out.extend_from_slice(b",\"network.ip-defragmented\":false,\"network.tcp-reassembled\":false");
}

fn push_option_key(out: &mut Vec<u8>, index: u64, field: &str) {
    push_key_start(out, &["edns.options."]);
    digits::number(out, index);
    out.push(b'.');
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b"\":");
}

/// DNS-collector's name of an option.
fn option_name(code: u16) -> &'static str {
    match code {
        8 => "CSUBNET",
        15 => "ERRORS",
        _ => iana::option_name(code).unwrap_or("-"),
    }
}

/// What an option says, escaped for JSON; `-` for those that it does not decode.
fn push_option_data(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    match EdnsOption::parse(code, data) {
        EdnsOption::ClientSubnet(subnet) => match subnet.ip() {
            Some(address) => {
                digits::ip(out, address);
                out.push(b'/');
                digits::number(out, subnet.source_prefix.into());
            }
            None => out.push(b'-'),
        },
        EdnsOption::ExtendedError { code, text } => {
            let start = out.len();
            digits::number(out, code.into());
            out.push(b' ');
            out.extend_from_slice(iana::extended_error_name(code).unwrap_or("-").as_bytes());
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
