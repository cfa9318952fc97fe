//! The DNS message as text, as dnstap-ldns prints it: every line but the empty ones behind four spaces.

use crate::digits;
use crate::dns::present::display;
use crate::dns::{DnsView, Edns, Header, Section, iana};
use crate::format::golang::write_lower_hex;
use crate::format::ldns::style::{push_class, push_type, write_name, write_record};

/// Type of a transaction's signature, which has a place of its own.
const TSIG: u16 = 250;

/// Appends the message. `false` and nothing appended when it is too short for a header.
pub(super) fn write_message(out: &mut Vec<u8>, octets: &[u8]) -> bool {
    let Ok(view) = DnsView::parse(octets) else {
        return false;
    };
    let mut counts = [0u16; 3];
    let mut records = view.records();
    for record in records.by_ref() {
        let [answers, authorities, additionals] = &mut counts;
        match record.section {
            Section::Answer => *answers += 1,
            Section::Authority => *authorities += 1,
            Section::Additional if is_apart(record.rtype) => {}
            Section::Additional => *additionals += 1,
        }
    }
    let mut questions = view.questions();
    let question_count = questions.by_ref().map(|_| 1).sum();
    let stop = questions.stop().or_else(|| records.stop());
    write_header(out, view.header(), question_count, counts);
    out.extend_from_slice(b"\n\n    ;; QUESTION SECTION:\n    ;");
    for (index, question) in view.questions().enumerate() {
        if index > 0 {
            out.extend_from_slice(b"    ;");
        }
        write_name(out, &question.name);
        out.push(b'\t');
        push_class(out, question.qclass);
        out.push(b'\t');
        push_type(out, question.qtype);
        out.push(b'\n');
    }
    out.push(b'\n');
    let mut records = view.records().peekable();
    for (section, title) in [
        (Section::Answer, b"    ;; ANSWER SECTION:\n".as_slice()),
        (Section::Authority, b"    ;; AUTHORITY SECTION:\n"),
        (Section::Additional, b"    ;; ADDITIONAL SECTION:\n"),
    ] {
        out.extend_from_slice(title);
        while let Some(record) = records.next_if(|record| record.section == section) {
            if section != Section::Additional || !is_apart(record.rtype) {
                out.extend_from_slice(b"    ");
                write_record(out, &record);
                out.push(b'\n');
            }
        }
        out.push(b'\n');
    }
    let apart = |record: &crate::dns::Record<'_>| record.section == Section::Additional;
    let rcode = view.header().rcode();
    for edns in view
        .records()
        .filter(apart)
        .filter_map(|record| record.edns())
    {
        write_edns(out, &edns, rcode);
    }
    let is_tsig = |record: &crate::dns::Record<'_>| apart(record) && record.rtype == TSIG;
    for record in view.records().filter(is_tsig) {
        out.extend_from_slice(b"    ;; TSIG:\n    ;; ");
        write_record(out, &record);
        out.extend_from_slice(b"\n\n");
    }
    if let Some(stop) = stop {
        display(
            out,
            format_args!(
                "    ;; parse failed: {} at octet {}\n",
                stop.reason.as_str(),
                stop.offset
            ),
        );
    }
    true
}

/// Whether an additional record of this type is not shown among the others.
const fn is_apart(rtype: u16) -> bool {
    matches!(rtype, Edns::RTYPE | TSIG)
}

fn write_header(out: &mut Vec<u8>, header: Header, questions: u16, counts: [u16; 3]) {
    out.extend_from_slice(b"    ;; ->>HEADER<<- opcode: ");
    match iana::opcode_name(header.opcode()) {
        Some(name) if header.opcode() < 6 => out.extend_from_slice(name.as_bytes()),
        _ => display(out, format_args!("?? ({})", header.opcode())),
    }
    out.extend_from_slice(b", rcode: ");
    match header.rcode() {
        4 => out.extend_from_slice(b"NOTIMPL"),
        rcode @ ..11 => iana::write_rcode(out, rcode.into()),
        rcode => display(out, format_args!("?? ({rcode})")),
    }
    out.extend_from_slice(b", id: ");
    digits::number(out, header.id.into());
    out.extend_from_slice(b"\n    ;; flags: ");
    for (name, bit) in [
        (b"qr ", 0x8000),
        (b"aa ", 0x0400),
        (b"tc ", 0x0200),
        (b"rd ", 0x0100),
        (b"cd ", 0x0010),
        (b"ra ", 0x0080),
        (b"ad ", 0x0020),
    ] {
        if header.flags & bit != 0 {
            out.extend_from_slice(name);
        }
    }
    let [answers, authorities, additionals] = counts;
    display(
        out,
        format_args!(
            "; QUERY: {questions}, ANSWER: {answers}, AUTHORITY: {authorities}, ADDITIONAL: {additionals} "
        ),
    );
}

fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>, rcode: u8) {
    out.extend_from_slice(b"    ;; EDNS: version ");
    digits::number(out, edns.version.into());
    out.extend_from_slice(b"; flags:");
    if edns.do_bit {
        out.extend_from_slice(b" do");
    }
    if edns.ext_rcode != 0 {
        out.extend_from_slice(b" ; ext-rcode: ");
        let rcode = u16::from(edns.ext_rcode) << 4 | u16::from(rcode);
        digits::number(out, rcode.into());
    }
    out.extend_from_slice(b" ; udp: ");
    digits::number(out, edns.udp_size.into());
    out.push(b'\n');
    if !edns.options.is_empty() {
        out.extend_from_slice(b"    ;; Data: \\# ");
        digits::number(out, edns.options.len() as u64);
        out.push(b' ');
        write_lower_hex(out, edns.options);
        out.push(b'\n');
    }
}
