//! `dnstap-read FILE`: one line a record.
//!
//! ```text
//! 30-Nov-2026 22:29:23.302 CQ 192.0.2.1:36376 -> 192.0.2.53:53 UDP 37b www.example/IN/A
//! ```
//!
//! The time is local or UTC, milliseconds are cut; the address on the left is always the querier's; the name has no
//! final dot. Absent addresses are `?`, absent times `????-??-?? ??:??:??.???`.

use crate::digits;
use crate::dns::DnsView;
use crate::dnstap::{
    DecodeReason, DnstapView, Message, MessageType, SocketProtocol, Timestamp as Sent,
};
use crate::format::dnstap_read::style::{push_class, push_type, v6};
use crate::format::{Entry, Kind, Line, Shape, quiet};

/// The format.
pub static KIND: Kind = Kind {
    name: "dnstap-read",
    aliases: &[],
    about: "BIND's dnstap-read: one line a record",
    extension: "txt",
    shape: Shape::Lines,
    has_local_times: true,
    has_fields: false,
    make: |settings| Ok(Box::new(Short { utc: settings.utc })),
};

struct Short {
    utc: bool,
}

impl Line for Short {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        write(out, entry.view?, self.utc)
    }
}

/// Appends `view` as one line, line feed included.
///
/// # Errors
///
/// Why `view` is no record; nothing is appended then.
pub fn write(out: &mut Vec<u8>, view: &DnstapView<'_>, utc: bool) -> Result<(), DecodeReason> {
    let message = view.classify()?;
    let offset = if utc { 0 } else { quiet::local_offset(message) };
    write_time(out, message.time(), offset);
    let kind = message.message_type();
    out.extend_from_slice(letters(kind));
    write_side(out, message.query_address, message.query_port);
    out.extend_from_slice(if kind.is_response() == Some(true) {
        b" <- "
    } else {
        b" -> "
    });
    write_side(out, message.response_address, message.response_port);
    out.extend_from_slice(if message.protocol() == Some(SocketProtocol::Tcp) {
        b" TCP "
    } else {
        b" UDP "
    });
    write_question(out, message);
    out.push(b'\n');
    Ok(())
}

fn write_time(out: &mut Vec<u8>, time: Option<Sent>, offset: i32) {
    const MONTHS: [&[u8]; 12] = [
        b"-Jan-", b"-Feb-", b"-Mar-", b"-Apr-", b"-May-", b"-Jun-", b"-Jul-", b"-Aug-", b"-Sep-",
        b"-Oct-", b"-Nov-", b"-Dec-",
    ];
    let known = time
        .filter(|time| time.seconds < Sent::SECONDS_END && (time.seconds, time.nanos) != (0, 0));
    let Some(time) = known else {
        return out.extend_from_slice(b"????-??-?? ??:??:??.??? ");
    };
    let local = i64::try_from(time.seconds).unwrap_or(0) + i64::from(offset);
    // West of Greenwich the first hours of 1970 are in 1969, which `date` does not know.
    let local = u64::try_from(local).unwrap_or(0);
    let start = out.len();
    digits::date(out, (local / 86_400) as u32);
    let mut date = [b'?'; 10];
    if let Some(written) = out.get(start..).and_then(|text| text.first_chunk()) {
        date = *written;
    }
    out.truncate(start);
    let [y, e, a, r, _, m, n, _, d, f] = date;
    let month = usize::from(m.wrapping_sub(b'0')) * 10 + usize::from(n.wrapping_sub(b'0'));
    out.extend_from_slice(&[d, f]);
    out.extend_from_slice(
        MONTHS
            .get(month.wrapping_sub(1))
            .copied()
            .unwrap_or(b"-???-"),
    );
    out.extend_from_slice(&[y, e, a, r, b' ']);
    digits::clock(out, (local % 86_400) as u32);
    if time.nanos >= 1_000_000_000 {
        return out.extend_from_slice(b".??? ");
    }
    let millis = time.nanos / 1_000_000;
    let digit = |power: u32| b'0' + (millis / power % 10) as u8;
    out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b' ']);
}

/// An address and its port; a port that was not sent is 0.
fn write_side(out: &mut Vec<u8>, address: Option<&[u8]>, port: Option<u32>) {
    if write_address(out, address.unwrap_or_default()) {
        out.push(b':');
        digits::number(out, u64::from(port.unwrap_or(0)));
    } else {
        out.push(b'?');
    }
}

/// An address by its length; `false` and nothing written when it is none.
pub(super) fn write_address(out: &mut Vec<u8>, octets: &[u8]) -> bool {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        digits::ip(out, octets.into());
    } else if let Ok(octets) = <[u8; 16]>::try_from(octets) {
        v6(out, octets.into());
    } else {
        return false;
    }
    true
}

fn write_question(out: &mut Vec<u8>, message: &Message<'_>) {
    let dns = message.dns().map_or(&[][..], |(dns, _)| dns);
    digits::number(out, dns.len() as u64);
    out.extend_from_slice(b"b ");
    match DnsView::parse(dns).and_then(|dns| dns.question()) {
        Ok(Some(question)) => {
            question.name.write_text(out);
            if !question.name.is_root() {
                out.pop();
            }
            out.push(b'/');
            push_class(out, question.qclass);
            out.push(b'/');
            push_type(out, question.qtype);
        }
        _ => out.extend_from_slice(b"?/?/?"),
    }
}

/// Who speaks and in which direction, with the space after it.
const fn letters(kind: MessageType) -> &'static [u8; 3] {
    match kind {
        MessageType::AuthQuery => b"AQ ",
        MessageType::AuthResponse => b"AR ",
        MessageType::ResolverQuery => b"RQ ",
        MessageType::ResolverResponse => b"RR ",
        MessageType::ClientQuery => b"CQ ",
        MessageType::ClientResponse => b"CR ",
        MessageType::ForwarderQuery => b"FQ ",
        MessageType::ForwarderResponse => b"FR ",
        MessageType::StubQuery => b"SQ ",
        MessageType::StubResponse => b"SR ",
        MessageType::ToolQuery => b"TQ ",
        MessageType::ToolResponse => b"TR ",
        MessageType::UpdateQuery => b"UQ ",
        MessageType::UpdateResponse => b"UR ",
        MessageType::Unknown(_) => b"?? ",
    }
}
