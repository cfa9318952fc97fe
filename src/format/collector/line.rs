//! `collector-text`: DNS-collector's default line.
//!
//! ```text
//! 2023-04-08T18:27:29.268465Z unbound CLIENT_RESPONSE NOERROR 127.0.0.1 39028 IPv4 UDP 50b google.fr A 0.000412000
//! time identity operation rcode query-address query-port family protocol octets name type latency
//! ```
//!
//! An identity with a space in it stands in double quotes, `"` and `\` in it after a backslash. A query has `-` for its
//! response code. The latency is in seconds with nanoseconds (before version 1 it had six digits), and zero when it is not
//! known.

use crate::digits;
use crate::dns::present::write_text_escaped;
use crate::dns::{DnsView, iana};
use crate::dnstap::DecodeReason;
use crate::format::collector::{family, push_rcode, push_short_time};
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "collector-text",
    aliases: &[],
    about: "DNS-collector's text: its default line",
    extension: "txt",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Text)),
};

struct Text;

impl Line for Text {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        let octets = message.dns().map_or(&[][..], |(octets, _)| octets);
        let dns = DnsView::parse(octets).ok();
        push_short_time(out, message.time());
        out.push(b' ');
        match view.identity.unwrap_or_default() {
            [] => out.push(b'-'),
            identity if identity.iter().any(|octet| matches!(octet, b' ' | b'"')) => {
                out.push(b'"');
                write_text_escaped(out, identity);
                out.push(b'"');
            }
            identity => write_text_escaped(out, identity),
        }
        out.push(b' ');
        let kind = message.message_type();
        match kind.name() {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => digits::signed(out, kind.number()),
        }
        out.push(b' ');
        push_rcode(out, dns.map(|dns| dns.header()));
        out.push(b' ');
        match message.query_ip() {
            Some(address) => digits::ip(out, address),
            None => out.push(b'-'),
        }
        out.push(b' ');
        match message.query_port {
            Some(port) => digits::number(out, port.into()),
            None => out.push(b'-'),
        }
        out.push(b' ');
        out.extend_from_slice(family(message).as_bytes());
        out.push(b' ');
        let protocol = message.protocol().and_then(|protocol| protocol.name());
        out.extend_from_slice(protocol.unwrap_or("-").as_bytes());
        out.push(b' ');
        digits::number(out, octets.len() as u64);
        out.extend_from_slice(b"b ");
        match dns.and_then(|dns| dns.question().ok()?) {
            Some(question) => {
                question.name.write_text(out);
                if !question.name.is_root() {
                    out.pop();
                }
                out.push(b' ');
                iana::write_type(out, question.qtype);
            }
            None => out.extend_from_slice(b"- -"),
        }
        out.push(b' ');
        let latency = message.latency().unwrap_or_default();
        digits::number(out, latency.as_secs());
        out.push(b'.');
        digits::nanos(out, latency.subsec_nanos());
        out.push(b'\n');
        Ok(())
    }
}
