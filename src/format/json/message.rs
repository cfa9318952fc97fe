//! The DNS message: header, questions, EDNS and every record.

use crate::dns::{DnsError, DnsView, Edns, Header, Question, Record, Section, iana};
use crate::format::json::edns::write_edns;
use crate::format::json::text::{
    hex_key, name_or_number, number_key, push_data, push_name, quoted,
};

/// Opcode of a dynamic update, whose sections have names of their own (RFC 2136, 2).
const UPDATE: u8 = 5;

/// The message as one object. Two walks over it at most, and each record is written as it is passed.
pub(super) fn write_dns(out: &mut Vec<u8>, key: &[u8], octets: &[u8]) {
    out.extend_from_slice(key);
    let view = match DnsView::parse(octets) {
        Ok(view) => view,
        Err(error) => {
            out.push(b'{');
            if !octets.is_empty() {
                hex_key(out, b"\"rest\":", octets);
                out.push(b',');
            }
            malformed_key(out, b"\"malformed\":", error);
            out.push(b'}');
            return;
        }
    };
    let (header, edns) = (view.header(), view.edns());
    let is_update = header.opcode() == UPDATE;
    number_key(out, b"{\"id\":", header.id.into());
    out.extend_from_slice(b",\"opcode\":");
    name_or_number(
        out,
        iana::opcode_name(header.opcode()),
        header.opcode().into(),
    );
    let rcode = u16::from(header.rcode()) | u16::from(edns.map_or(0, |edns| edns.ext_rcode)) << 4;
    out.extend_from_slice(b",\"rcode\":");
    name_or_number(out, iana::rcode_name(rcode), rcode.into());
    write_flags(out, header);
    if let Ok(Some(question)) = view.question() {
        write_question(
            out,
            &question,
            [b",\"qname\":", b",\"qtype\":\"", b",\"qclass\":\""],
        );
    }
    if header.questions > 1 || is_update {
        write_questions(out, &view, is_update);
    }
    number_key(out, b",\"counts\":{\"qd\":", header.questions.into());
    number_key(out, b",\"an\":", header.answers.into());
    number_key(out, b",\"ns\":", header.authorities.into());
    number_key(out, b",\"ar\":", header.additionals.into());
    out.push(b'}');
    if let Some(edns) = &edns {
        write_edns(out, edns, octets);
    }
    let mut records = Records {
        is_update,
        section: None,
        edns: edns.as_ref(),
    };
    let walk = view.walk_records(|record, wrong| records.write(out, record, wrong));
    if records.section.is_some() {
        out.push(b']');
    }
    if walk.trailing > 0 {
        number_key(out, b",\"trailing\":", walk.trailing as u64);
    }
    if let Some(rest) = octets.get(walk.end..).filter(|rest| !rest.is_empty()) {
        hex_key(out, b",\"rest\":", rest);
    }
    if let Some(error) = walk.malformed {
        malformed_key(out, b",\"malformed\":", error);
    }
    out.push(b'}');
}

fn write_flags(out: &mut Vec<u8>, header: Header) {
    out.extend_from_slice(b",\"flags\":[");
    let mut is_first = true;
    for (name, bit) in Header::FLAGS {
        if header.flags & bit != 0 {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            quoted(out, name.as_bytes());
        }
    }
    out.push(b']');
}

fn write_question(out: &mut Vec<u8>, question: &Question<'_>, keys: [&[u8]; 3]) {
    let [name, qtype, qclass] = keys;
    out.extend_from_slice(name);
    push_name(out, &question.name);
    out.extend_from_slice(qtype);
    iana::write_type(out, question.qtype);
    out.push(b'"');
    out.extend_from_slice(qclass);
    iana::write_class(out, question.qclass);
    out.push(b'"');
}

/// The questions as a list, where there may be several; in an UPDATE, the zone section.
fn write_questions(out: &mut Vec<u8>, view: &DnsView<'_>, is_update: bool) {
    let mut before: &[u8] = if is_update {
        b",\"zone\":["
    } else {
        b",\"questions\":["
    };
    for question in view.questions() {
        out.extend_from_slice(before);
        write_question(
            out,
            &question,
            [b"{\"name\":", b",\"type\":\"", b",\"class\":\""],
        );
        out.push(b'}');
        before = b",";
    }
    if before == b"," {
        out.push(b']');
    }
}

/// Writes records, each section as a list under its key.
struct Records<'e, 'a> {
    is_update: bool,
    /// That of the last record.
    section: Option<Section>,
    /// The OPT record that was written apart.
    edns: Option<&'e Edns<'a>>,
}

impl<'a> Records<'_, 'a> {
    #[inline]
    fn write(&mut self, out: &mut Vec<u8>, record: &Record<'a>, wrong: Option<DnsError>) {
        if self.is_edns(record) {
            return;
        }
        if self.section == Some(record.section) {
            out.push(b',');
        } else {
            if self.section.is_some() {
                out.push(b']');
            }
            self.section = Some(record.section);
            out.extend_from_slice(match (record.section, self.is_update) {
                (Section::Answer, false) => b",\"answers\":[",
                (Section::Answer, true) => b",\"prerequisites\":[",
                (Section::Authority, false) => b",\"authorities\":[",
                (Section::Authority, true) => b",\"updates\":[",
                (Section::Additional, _) => b",\"additionals\":[",
            });
        }
        out.extend_from_slice(b"{\"name\":");
        push_name(out, &record.owner);
        out.extend_from_slice(b",\"type\":\"");
        iana::write_type(out, record.rtype);
        out.extend_from_slice(b"\",\"class\":\"");
        iana::write_class(out, record.class);
        number_key(out, b"\",\"ttl\":", record.ttl.into());
        if !record.is_empty_in_update() {
            out.extend_from_slice(b",\"rdata\":");
            push_data(out, record);
        }
        if let Some(error) = wrong {
            malformed_key(out, b",\"malformed\":", error);
        }
        out.push(b'}');
    }

    /// Whether it is the OPT record that was written apart: the same octets, not just equal ones.
    fn is_edns(&self, record: &Record<'a>) -> bool {
        record.rtype == Edns::RTYPE
            && record.section == Section::Additional
            && record.owner.is_root()
            && self
                .edns
                .is_some_and(|edns| std::ptr::eq(edns.options, record.data()))
    }
}

pub(super) fn malformed_key(out: &mut Vec<u8>, key: &[u8], error: DnsError) {
    out.extend_from_slice(key);
    out.extend_from_slice(b"{\"reason\":");
    quoted(out, error.reason.as_str().as_bytes());
    number_key(out, b",\"offset\":", error.offset as u64);
    out.push(b'}');
}
