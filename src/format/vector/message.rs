//! A DNS message: `requestData` and `responseData`.

use data_encoding::BASE64;

use crate::dns::present::{display, write_base64, write_data};
use crate::dns::{
    DnsError, DnsView, Edns, EdnsOption, Header, Malformed, Question, Record, Section, iana,
};
use crate::format::json::text::{
    bool_key, close_without_first_comma, encoded_key, escape_from, number_key, octets_key,
    push_name, quoted,
};
use crate::format::vector::style::{Hickory, is_text};
use crate::format::vector::write_time;

/// Writes messages, and keeps the buffer that putting sections in order needs.
#[derive(Default)]
pub(super) struct Messages {
    /// Answers and authority records, which come before the additional ones in the message and after them here.
    sections: Vec<u8>,
    /// The updates of an UPDATE, which stand apart from its prerequisites here.
    updates: Vec<u8>,
}

impl Messages {
    /// Appends the message under `key`, which ends in a brace; of one that is not there the time alone. What is wrong
    /// with it, where Vector would see it too.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        key: &[u8],
        octets: Option<&[u8]>,
        nanos: Option<u64>,
        is_update: bool,
    ) -> Option<DnsError> {
        let Some(octets) = octets else {
            if let Some(nanos) = nanos {
                out.extend_from_slice(key);
                write_time(out, b"\"time\":", nanos);
                out.push(b'}');
            }
            return None;
        };
        out.extend_from_slice(key);
        let start = out.len();
        let wrong = match DnsView::parse(octets) {
            Ok(view) => self.write_view(out, &view, octets, is_update),
            Err(error) => {
                encoded_key(out, b",\"rawData\":", octets, &BASE64);
                Some(error)
            }
        };
        close_without_first_comma(out, start, b'}');
        wrong
    }

    /// Everything, each key with a comma before it.
    fn write_view(
        &mut self,
        out: &mut Vec<u8>,
        view: &DnsView<'_>,
        octets: &[u8],
        is_update: bool,
    ) -> Option<DnsError> {
        let (header, edns) = (view.header(), view.edns());
        let wrong = self.write_additional(out, view, edns.as_ref(), is_update);
        if !is_update {
            out.append(&mut self.sections);
        }
        let high = edns.map_or(0, |edns| u16::from(edns.ext_rcode));
        let rcode = high << 4 | u16::from(header.rcode());
        number_key(out, b",\"fullRcode\":", rcode.into());
        write_header(out, header, rcode, is_update);
        if let Some(edns) = edns.filter(|_| !is_update) {
            write_edns(out, &edns);
        }
        if is_update {
            out.append(&mut self.sections);
        } else {
            write_questions(out, view);
        }
        if wrong.is_some() {
            encoded_key(out, b",\"rawData\":", octets, &BASE64);
        }
        if let Some(name) = rcode_name(rcode) {
            out.extend_from_slice(b",\"rcodeName\":");
            quoted(out, name.as_bytes());
        }
        if is_update {
            out.append(&mut self.updates);
            if let Ok(Some(zone)) = view.question() {
                write_zone(out, &zone);
            }
        }
        wrong
    }

    /// The additional records, and what stands before them into the buffers.
    fn write_additional(
        &mut self,
        out: &mut Vec<u8>,
        view: &DnsView<'_>,
        edns: Option<&Edns<'_>>,
        is_update: bool,
    ) -> Option<DnsError> {
        let is_edns = |record: &Record<'_>| {
            record.rtype == Edns::RTYPE
                && record.section == Section::Additional
                && edns.is_some_and(|edns| std::ptr::eq(edns.options, record.data()))
        };
        let (sections, updates) = (&mut self.sections, &mut self.updates);
        sections.clear();
        updates.clear();
        let mut last = None;
        let walk = view.walk_records(|record, _| {
            if is_edns(record) {
                return;
            }
            let (out, key) = match (record.section, is_update) {
                (Section::Answer, false) => (&mut *sections, &b",\"answers\":["[..]),
                (Section::Answer, true) => (&mut *sections, &b",\"prerequisite\":["[..]),
                (Section::Authority, false) => (&mut *sections, &b",\"authority\":["[..]),
                (Section::Authority, true) => (&mut *updates, &b",\"update\":["[..]),
                (Section::Additional, _) => (&mut *out, &b",\"additional\":["[..]),
            };
            if last == Some(record.section) {
                // Instead of the bracket that closes the list.
                out.pop();
                out.push(b',');
            } else {
                out.extend_from_slice(key);
            }
            last = Some(record.section);
            write_record(out, record);
            out.push(b']');
        });
        walk.malformed
            .filter(|error| error.reason != Malformed::TrailingOctets)
    }
}

fn write_header(out: &mut Vec<u8>, header: Header, rcode: u16, is_update: bool) {
    let count = |out: &mut Vec<u8>, key: &[u8], number: u16| number_key(out, key, number.into());
    let flag = |out: &mut Vec<u8>, key: &[u8], bit: u16| {
        bool_key(out, key, header.flags & bit != 0);
    };
    let qr = header.flags >> 15;
    out.extend_from_slice(b",\"header\":{");
    if is_update {
        count(out, b"\"adCount\":", header.additionals);
        count(out, b",\"id\":", header.id);
        count(out, b",\"opcode\":", header.opcode().into());
        count(out, b",\"prCount\":", header.answers);
        count(out, b",\"qr\":", qr);
        count(out, b",\"rcode\":", rcode);
        count(out, b",\"upCount\":", header.authorities);
        count(out, b",\"zoCount\":", header.questions);
    } else {
        flag(out, b"\"aa\":", 0x0400);
        flag(out, b",\"ad\":", 0x0020);
        count(out, b",\"anCount\":", header.answers);
        count(out, b",\"arCount\":", header.additionals);
        flag(out, b",\"cd\":", 0x0010);
        count(out, b",\"id\":", header.id);
        count(out, b",\"nsCount\":", header.authorities);
        count(out, b",\"opcode\":", header.opcode().into());
        count(out, b",\"qdCount\":", header.questions);
        count(out, b",\"qr\":", qr);
        flag(out, b",\"ra\":", 0x0080);
        count(out, b",\"rcode\":", rcode);
        flag(out, b",\"rd\":", 0x0100);
        flag(out, b",\"tc\":", 0x0200);
    }
    out.push(b'}');
}

fn write_questions(out: &mut Vec<u8>, view: &DnsView<'_>) {
    let mut before = &b",\"question\":["[..];
    for question in view.questions() {
        out.extend_from_slice(before);
        before = b",";
        write_class(out, b"{\"class\":\"", question.qclass);
        out.extend_from_slice(b",\"domainName\":");
        push_name(out, &question.name);
        write_type_name(out, b",\"questionType\":", question.qtype);
        number_key(out, b",\"questionTypeId\":", question.qtype.into());
        out.push(b'}');
    }
    if before == b"," {
        out.push(b']');
    }
}

fn write_zone(out: &mut Vec<u8>, zone: &Question<'_>) {
    write_class(out, b",\"zone\":{\"zClass\":\"", zone.qclass);
    out.extend_from_slice(b",\"zName\":");
    push_name(out, &zone.name);
    write_type_name(out, b",\"zType\":", zone.qtype);
    number_key(out, b",\"zTypeId\":", zone.qtype.into());
    out.push(b'}');
}

fn write_record(out: &mut Vec<u8>, record: &Record<'_>) {
    write_class(out, b"{\"class\":\"", record.class);
    out.extend_from_slice(b",\"domainName\":");
    push_name(out, &record.owner);
    let before_data = out.len();
    out.extend_from_slice(b",\"rData\":\"");
    let start = out.len();
    if record.rtype == 10 {
        // NULL may hold anything.
        write_base64(out, record.data());
        out.push(b'"');
    } else if is_text(record.rtype) && write_data(&Hickory, out, record)
        || record.is_empty_in_update()
    {
        escape_from(out, start);
        out.push(b'"');
    } else {
        out.truncate(before_data);
        encoded_key(out, b",\"rDataBytes\":", record.data(), &BASE64);
    }
    write_type_name(out, b",\"recordType\":", record.rtype);
    number_key(out, b",\"recordTypeId\":", record.rtype.into());
    number_key(out, b",\"ttl\":", record.ttl.into());
    out.push(b'}');
}

/// The class after a key that ends in a quotation mark, and the other mark.
fn write_class(out: &mut Vec<u8>, key: &[u8], class: u16) {
    out.extend_from_slice(key);
    iana::write_class(out, class);
    out.push(b'"');
}

/// The type, where it has a name.
fn write_type_name(out: &mut Vec<u8>, key: &[u8], rtype: u16) {
    if let Some(name) = iana::type_name(rtype) {
        out.extend_from_slice(key);
        quoted(out, name.as_bytes());
    }
}

fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>) {
    bool_key(out, b",\"opt\":{\"do\":", edns.do_bit);
    let mut before = &b",\"ede\":["[..];
    for (code, data) in edns.options() {
        let EdnsOption::ExtendedError { code, text } = EdnsOption::parse(code, data) else {
            continue;
        };
        out.extend_from_slice(before);
        before = b",";
        out.push(b'{');
        let start = out.len();
        octets_key(
            out,
            b",\"extraText\":",
            Some(text).filter(|text| !text.is_empty()),
        );
        number_key(out, b",\"infoCode\":", code.into());
        if let Some(purpose) = iana::extended_error_name(code) {
            out.extend_from_slice(b",\"purpose\":");
            quoted(out, purpose.as_bytes());
        }
        close_without_first_comma(out, start, b'}');
    }
    if before == b"," {
        out.push(b']');
    }
    number_key(out, b",\"ednsVersion\":", edns.version.into());
    number_key(out, b",\"extendedRcode\":", edns.ext_rcode.into());
    before = b",\"options\":[";
    for (code, data) in edns.options() {
        // Those above.
        if matches!(
            EdnsOption::parse(code, data),
            EdnsOption::ExtendedError { .. }
        ) {
            continue;
        }
        out.extend_from_slice(before);
        before = b",";
        number_key(out, b"{\"optCode\":", code.into());
        out.extend_from_slice(b",\"optName\":\"");
        write_option_name(out, code);
        encoded_key(out, b"\",\"optValue\":", data, &BASE64);
        out.push(b'}');
    }
    if before == b"," {
        out.push(b']');
    }
    number_key(out, b",\"udpPayloadSize\":", edns.udp_size.into());
    out.push(b'}');
}

/// Vector's name of an option, that of its DNS library.
fn write_option_name(out: &mut Vec<u8>, code: u16) {
    let name = match code {
        0 => "Zero",
        1 => "LLQ",
        2 => "UL",
        3 => "NSID",
        5 => "DAU",
        6 => "DHU",
        7 => "N3U",
        8 => "Subnet",
        9 => "Expire",
        10 => "Cookie",
        11 => "Keepalive",
        12 => "Padding",
        13 => "Chain",
        _ => return display(out, format_args!("Unknown({code})")),
    };
    out.extend_from_slice(name.as_bytes());
}

/// Vector's name of a response code.
const fn rcode_name(rcode: u16) -> Option<&'static str> {
    Some(match rcode {
        0 => "NoError",
        1 => "FormErr",
        2 => "ServFail",
        3 => "NXDomain",
        4 => "NotImp",
        5 => "Refused",
        6 => "YXDomain",
        7 => "YXRRSet",
        8 => "NXRRSet",
        9 => "NotAuth",
        10 => "NotZone",
        16 => "BADVERS",
        17 => "BADKEY",
        18 => "BADTIME",
        19 => "BADMODE",
        20 => "BADNAME",
        21 => "BADALG",
        22 => "BADTRUNC",
        23 => "BADCOOKIE",
        _ => return None,
    })
}
