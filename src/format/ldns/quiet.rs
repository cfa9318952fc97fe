//! `dnstap-ldns -q`: one line a record.
//!
//! ```text
//! 2026-11-30 22:29:23.302101 CQ 192.0.2.1 UDP 37b "host195.rig.example." IN A
//! ```
//!
//! The layout is that of golang-dnstap's line, [`quiet`](crate::format::quiet), with the date, in UTC, and `?` for what
//! is missing. A quotation mark in a name has no backslash: the name ends at the last one of the line.

use crate::digits;
use crate::dns::DnsView;
use crate::dnstap::{DecodeReason, Message, SocketProtocol};
use crate::format::ldns::style::{push_class, push_type, write_name};
use crate::format::ldns::{write_address, write_time};
use crate::format::quiet::letters;
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "ldns-quiet",
    aliases: &[],
    about: "dnstap-ldns -q: one line a record",
    extension: "txt",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Quiet)),
};

struct Quiet;

impl Line for Quiet {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        write_line(out, view.classify()?);
        Ok(())
    }
}

fn write_line(out: &mut Vec<u8>, message: &Message<'_>) {
    if !message.time().is_some_and(|time| write_time(out, time)) {
        out.extend_from_slice(b"??:??:??.??????");
    }
    let letters = letters(message.message_type());
    out.push(b' ');
    out.extend_from_slice(&letters);
    out.push(b' ');
    let address = if matches!(letters, [b'A' | b'C' | b'?', _]) {
        message.query_address
    } else {
        message.response_address
    };
    if !write_address(out, address.unwrap_or_default()) {
        out.extend_from_slice(b"MISSING_ADDRESS");
    }
    out.push(b' ');
    match message.protocol() {
        Some(SocketProtocol::Unknown(number)) => digits::signed(out, number),
        Some(protocol) => out.extend_from_slice(protocol.as_str().as_bytes()),
        None => out.push(b'?'),
    }
    out.push(b' ');
    let dns = message.dns().map_or(&[][..], |(dns, _)| dns);
    digits::number(out, dns.len() as u64);
    out.extend_from_slice(b"b ");
    match DnsView::parse(dns).and_then(|dns| dns.question()) {
        Ok(Some(question)) => {
            out.push(b'"');
            write_name(out, &question.name);
            out.extend_from_slice(b"\" ");
            push_class(out, question.qclass);
            out.push(b' ');
            push_type(out, question.qtype);
        }
        _ => out.extend_from_slice(b"? ? ?"),
    }
    out.push(b'\n');
}
