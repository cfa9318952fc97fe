//! The DNS message as text, as miekg/dns prints it.

use crate::digits;
use crate::dns::present::{display, write_data};
use crate::dns::{DnsError, DnsView, Edns, Header, Malformed, Name, Record, Section, iana};
use crate::format::golang::options::write_edns;
use crate::format::golang::style::{
    Miekg, is_known, push_class, push_type, write_own, write_unknown,
};
use crate::format::quiet::write_name;

/// What the first pass over a message found.
#[derive(Default)]
struct Survey<'a> {
    questions: u16,
    /// Answers, authority records, additional records.
    counts: [u16; 3],
    /// The last OPT record among the additional ones.
    edns: Option<Edns<'a>>,
    /// Why the rest of the message cannot be read.
    stop: Option<DnsError>,
}

impl<'a> Survey<'a> {
    fn of(view: &DnsView<'a>) -> Self {
        let mut survey = Self::default();
        let mut questions = view.questions();
        survey.questions = questions.by_ref().map(|_| 1).sum();
        let mut records = view.records();
        for record in records.by_ref() {
            let [answers, authorities, additionals] = &mut survey.counts;
            match record.section {
                Section::Answer => *answers += 1,
                Section::Authority => *authorities += 1,
                Section::Additional => {
                    *additionals += 1;
                    survey.edns = record.edns().or(survey.edns);
                }
            }
        }
        survey.stop = questions.stop().or_else(|| records.stop());
        survey
    }
}

/// Appends the message as text of UTF-8 without control characters but line feeds and tabs, the last line feed
/// included.
///
/// # Errors
/// What golang-dnstap says of a message that is too short for a header; nothing is appended then.
pub(super) fn write_message(out: &mut Vec<u8>, octets: &[u8]) -> Result<(), &'static str> {
    let Ok(view) = DnsView::parse(octets) else {
        return Err("parse failed: dns: overflow unpacking uint16");
    };
    let survey = Survey::of(&view);
    write_header(out, view.header(), &survey);
    for record in view.records() {
        if let (Section::Additional, Some(edns)) = (record.section, record.edns()) {
            write_edns(out, &edns);
            out.push(b'\n');
        }
    }
    if survey.questions > 0 {
        out.extend_from_slice(b"\n;; QUESTION SECTION:\n");
    }
    for question in view.questions() {
        out.push(b';');
        write_name(out, &question.name);
        out.push(b'\t');
        push_class(out, question.qclass);
        out.extend_from_slice(b"\t ");
        push_type(out, question.qtype);
        out.push(b'\n');
    }
    let mut section = None;
    for record in view.records() {
        let is_additional = record.section == Section::Additional;
        if is_additional && record.rtype == Edns::RTYPE {
            continue;
        }
        if section.replace(record.section) != Some(record.section) {
            out.extend_from_slice(match record.section {
                Section::Answer => b"\n;; ANSWER SECTION:\n".as_slice(),
                Section::Authority => b"\n;; AUTHORITY SECTION:\n",
                Section::Additional => b"\n;; ADDITIONAL SECTION:\n",
            });
        }
        write_record(out, &record);
        out.push(b'\n');
    }
    if let Some(stop) = survey.stop {
        display(
            out,
            format_args!(
                "\n;; parse failed: {} at octet {}\n",
                stop.reason.as_str(),
                stop.offset
            ),
        );
    }
    Ok(())
}

fn write_header(out: &mut Vec<u8>, header: Header, survey: &Survey<'_>) {
    out.extend_from_slice(b";; opcode: ");
    iana::write_opcode(out, header.opcode());
    out.extend_from_slice(b", status: ");
    let high = survey.edns.map_or(0, |edns| edns.ext_rcode);
    match u16::from(high) << 4 | u16::from(header.rcode()) {
        // Of an OPT record it is BADVERS; the library has one name for both.
        16 => out.extend_from_slice(b"BADSIG"),
        rcode => iana::write_rcode(out, rcode),
    }
    out.extend_from_slice(b", id: ");
    digits::number(out, header.id.into());
    out.extend_from_slice(b"\n;; flags:");
    for (name, bit) in Header::FLAGS {
        if header.flags & bit != 0 {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
        }
    }
    let [answers, authorities, additionals] = survey.counts;
    for (title, count) in [
        (b"; QUERY: ".as_slice(), survey.questions),
        (b", ANSWER: ", answers),
        (b", AUTHORITY: ", authorities),
        (b", ADDITIONAL: ", additionals),
    ] {
        out.extend_from_slice(title);
        digits::number(out, count.into());
    }
    out.push(b'\n');
}

/// Appends one record, without the line feed.
fn write_record(out: &mut Vec<u8>, record: &Record<'_>) {
    if let Some(edns) = record.edns() {
        return write_edns(out, &edns);
    }
    let start = out.len();
    if record.is_empty_in_update() {
        if is_known(record.rtype) {
            return write_start(out, record);
        }
        return write_unknown(out, record);
    }
    if write_own(out, record) {
        return;
    }
    write_start(out, record);
    if !write_data(&Miekg, out, record) {
        out.truncate(start);
        write_unknown(out, record);
    }
}

/// Appends owner, time to live, class and type, a tab after each.
pub(super) fn write_start(out: &mut Vec<u8>, record: &Record<'_>) {
    write_name(out, &record.owner);
    out.push(b'\t');
    digits::number(out, record.ttl.into());
    out.push(b'\t');
    push_class(out, record.class);
    out.push(b'\t');
    push_type(out, record.rtype);
    out.push(b'\t');
}

/// Appends the zone of the query.
///
/// # Errors
/// What golang-dnstap says of octets that are no name; nothing is appended then.
pub(super) fn write_zone(out: &mut Vec<u8>, octets: &[u8]) -> Result<(), &'static str> {
    match Name::parse(octets, 0) {
        Ok((name, _)) => {
            write_name(out, &name);
            Ok(())
        }
        Err(error) => Err(match error.reason {
            Malformed::NameCut => "parse failed: dns: buffer size too small",
            Malformed::NameTooLong => {
                "parse failed: dns: domain name exceeded 255 wire-format octets"
            }
            Malformed::PointerTarget | Malformed::PointerChain => {
                "parse failed: dns: too many compression pointers"
            }
            _ => "parse failed: dns: bad rdata",
        }),
    }
}
