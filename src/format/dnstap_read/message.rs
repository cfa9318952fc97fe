//! The DNS message inside the YAML: once as data, once as text.

use crate::digits;
use crate::dns::present::{display, write_data, write_hex};
use crate::dns::{DnsView, Edns, Header, Name, Record, Section, iana};
use crate::format::dnstap_read::options::write_options;
use crate::format::dnstap_read::style::{Bind, push_class, push_rcode, push_type};
use crate::format::dnstap_read::yaml::double_quotes;

/// Writes messages, and keeps the list of records from one to the next.
#[derive(Default)]
pub(super) struct Messages {
    entries: Vec<Entry<'static>>,
}

/// A record and its place in BIND's order.
struct Entry<'a> {
    /// Place of the section's first record with this owner.
    owner: usize,
    /// Place of the first with this owner, type, class and covered type.
    set: usize,
    /// Its own place.
    index: usize,
    hash: u32,
    record: Record<'a>,
}

/// An empty list with the room of `entries`.
#[allow(
    clippy::unnecessary_filter_map,
    reason = "a filter cannot change the lifetime"
)]
fn emptied<'a>(entries: Vec<Entry<'_>>) -> Vec<Entry<'a>> {
    // Collecting in place keeps the allocation; the lifetime is all that changes.
    entries.into_iter().filter_map(|_| None).collect()
}

/// A message, read.
struct Parsed<'a> {
    view: DnsView<'a>,
    rcode: u16,
    edns: Option<Edns<'a>>,
    tsig: Option<Record<'a>>,
    sig0: Option<Record<'a>>,
    entries: Vec<Entry<'a>>,
}

/// How a message is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Keys and lists.
    Data,
    /// The text that dig prints.
    Text,
}

const SECTIONS: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];

impl Messages {
    /// Appends the message under its two keys; nothing when it is too short for a header.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, octets: &[u8], is_response: bool) {
        let Ok(view) = DnsView::parse(octets) else {
            return;
        };
        let parsed = Parsed::new(view, emptied(std::mem::take(&mut self.entries)));
        let key: &[u8] = if is_response {
            b"  response_message"
        } else {
            b"  query_message"
        };
        out.extend_from_slice(key);
        out.extend_from_slice(b"_data:\n");
        parsed.write(out, Form::Data);
        out.extend_from_slice(key);
        out.extend_from_slice(b": |\n");
        parsed.write(out, Form::Text);
        self.entries = emptied(parsed.entries);
    }
}

impl<'a> Parsed<'a> {
    fn new(view: DnsView<'a>, entries: Vec<Entry<'a>>) -> Self {
        let header = view.header();
        let mut parsed = Self {
            view,
            rcode: header.rcode().into(),
            edns: None,
            tsig: None,
            sig0: None,
            entries,
        };
        let mut left = usize::from(header.additionals);
        for record in view.records() {
            if record.section == Section::Additional {
                left = left.saturating_sub(1);
                let is_last = left == 0;
                if parsed.edns.is_none() && record.owner.is_root() && record.rtype == Edns::RTYPE {
                    parsed.edns = record.edns();
                    continue;
                }
                if is_last && record.rtype == 250 && record.class == 255 {
                    parsed.tsig = Some(record);
                    continue;
                }
                if is_last
                    && record.rtype == 24
                    && record.owner.is_root()
                    && record.data().starts_with(&[0, 0])
                {
                    parsed.sig0 = Some(record);
                    continue;
                }
            }
            let index = parsed.entries.len();
            parsed.entries.push(Entry {
                owner: index,
                set: index,
                index,
                hash: hash(&record.owner),
                record,
            });
        }
        parsed.rcode |= u16::from(parsed.edns.map_or(0, |edns| edns.ext_rcode)) << 4;
        if header.opcode() != 5 {
            parsed.sort();
        }
        parsed
    }

    /// Brings records of one owner, and within them those of one set, together, in the order of the first of each.
    fn sort(&mut self) {
        let mut rest = &mut self.entries[..];
        let mut is_sorted = true;
        while let Some(first) = rest.first() {
            let section = first.record.section;
            let len = rest
                .iter()
                .take_while(|entry| entry.record.section == section)
                .count();
            let Some((entries, tail)) = rest.split_at_mut_checked(len) else {
                break;
            };
            rest = tail;
            is_sorted &= find_sets(entries);
        }
        if !is_sorted {
            self.entries
                .sort_unstable_by_key(|entry| (entry.owner, entry.set, entry.index));
        }
    }

    fn write(&self, out: &mut Vec<u8>, form: Form) {
        self.write_header(out, form);
        if let Some(edns) = &self.edns {
            write_edns(out, edns, form);
        }
        self.write_questions(out, form);
        let is_update = self.view.header().opcode() == 5;
        for section in SECTIONS {
            let title = match (section, is_update) {
                (Section::Answer, false) => "ANSWER",
                (Section::Answer, true) => "PREREQUISITE",
                (Section::Authority, false) => "AUTHORITY",
                (Section::Authority, true) => "UPDATE",
                (Section::Additional, _) => "ADDITIONAL",
            };
            self.write_section(out, form, section, title);
        }
        for (title, record) in [("TSIG", &self.tsig), ("SIG0", &self.sig0)] {
            let Some(record) = record else { continue };
            match form {
                Form::Data => display(out, format_args!("    {title}_PSEUDOSECTION:\n    ")),
                Form::Text => display(out, format_args!("    ;; {title} PSEUDOSECTION:\n    ")),
            }
            write_record(out, form, &record.owner, record);
            out.push(b'\n');
        }
    }

    fn write_header(&self, out: &mut Vec<u8>, form: Form) {
        let header = self.view.header();
        let opcode = |out: &mut Vec<u8>| match iana::opcode_name(header.opcode()) {
            Some(name) if header.opcode() < 6 => out.extend_from_slice(name.as_bytes()),
            _ => {
                out.extend_from_slice(b"RESERVED");
                digits::number(out, header.opcode().into());
            }
        };
        let flags = |out: &mut Vec<u8>| {
            for (name, bit) in Header::FLAGS {
                // The bit that must be zero has a place of its own.
                if bit != 0x40 && header.flags & bit != 0 {
                    out.push(b' ');
                    out.extend_from_slice(name.as_bytes());
                }
            }
        };
        let titles = if header.opcode() == 5 {
            ["ZONE", "PREREQ", "UPDATE", "ADDITIONAL"]
        } else {
            ["QUESTION", "ANSWER", "AUTHORITY", "ADDITIONAL"]
        };
        let counts = [
            header.questions,
            header.answers,
            header.authorities,
            header.additionals,
        ];
        if form == Form::Data {
            out.extend_from_slice(b"    opcode: ");
            opcode(out);
            out.extend_from_slice(b"\n    status: ");
            push_rcode(out, self.rcode);
            out.extend_from_slice(b"\n    id: ");
            digits::number(out, header.id.into());
            out.extend_from_slice(b"\n    flags:");
            flags(out);
            out.push(b'\n');
            if header.z() {
                out.extend_from_slice(b"    MBZ: 0x4\n");
            }
            for (title, count) in titles.iter().zip(counts) {
                out.extend_from_slice(b"    ");
                out.extend_from_slice(title.as_bytes());
                out.extend_from_slice(b": ");
                digits::number(out, count.into());
                out.push(b'\n');
            }
            return;
        }
        out.extend_from_slice(b"    ;; ->>HEADER<<- opcode: ");
        opcode(out);
        out.extend_from_slice(b", status: ");
        push_rcode(out, self.rcode);
        out.extend_from_slice(b", id: ");
        for edge in [100_000, 10_000, 1000, 100, 10] {
            if u32::from(header.id) < edge {
                out.push(b' ');
            }
        }
        digits::number(out, header.id.into());
        out.extend_from_slice(b"\n    ;; flags:");
        flags(out);
        if header.z() {
            out.extend_from_slice(b"    ; MBZ: 0x4");
        }
        let mut before: &[u8] = b"    ; ";
        for (title, count) in titles.iter().zip(counts) {
            out.extend_from_slice(before);
            out.extend_from_slice(title.as_bytes());
            out.extend_from_slice(b": ");
            digits::number(out, count.into());
            before = b", ";
        }
        out.push(b'\n');
    }

    fn write_questions(&self, out: &mut Vec<u8>, form: Form) {
        let mut is_first = true;
        for question in self.view.questions() {
            if std::mem::take(&mut is_first) {
                let title = if self.view.header().opcode() == 5 {
                    "ZONE"
                } else {
                    "QUESTION"
                };
                write_title(out, form, title);
            }
            out.extend_from_slice(match form {
                Form::Data => b"      - '",
                Form::Text => b"    ;",
            });
            let start = out.len();
            question.name.write_text(out);
            if form == Form::Data {
                out.push(b' ');
                push_class(out, question.qclass);
                out.push(b' ');
                push_type(out, question.qtype);
                double_quotes(out, start);
                out.extend_from_slice(b"'\n");
                continue;
            }
            let mut column = out.len() - start;
            indent(out, &mut column, 32);
            column += written(out, |out| push_class(out, question.qclass));
            indent(out, &mut column, 40);
            push_type(out, question.qtype);
            out.push(b'\n');
        }
        if !is_first && form == Form::Text {
            out.extend_from_slice(b"    \n");
        }
    }

    fn write_section(&self, out: &mut Vec<u8>, form: Form, section: Section, title: &str) {
        let mut owner: Option<(usize, Name<'_>)> = None;
        let entries = self
            .entries
            .iter()
            .filter(|entry| entry.record.section == section);
        for entry in entries {
            if owner.is_none() {
                write_title(out, form, title);
            }
            // BIND writes the owner of a set in the letter case of the first.
            let name = match owner {
                Some((place, name)) if place == entry.owner => name,
                _ => entry.record.owner,
            };
            owner = Some((entry.owner, name));
            out.extend_from_slice(match form {
                Form::Data => b"      ",
                Form::Text => b"    ",
            });
            write_record(out, form, &name, &entry.record);
        }
        if owner.is_some() && form == Form::Text {
            out.extend_from_slice(b"    \n");
        }
    }
}

fn hash(name: &Name<'_>) -> u32 {
    let mut hash = 0x811c_9dc5u32;
    for label in name.labels() {
        for octet in label {
            hash = (hash ^ u32::from(octet.to_ascii_lowercase())).wrapping_mul(0x0100_0193);
        }
        hash = (hash ^ 0x100).wrapping_mul(0x0100_0193);
    }
    hash
}

/// Finds the first of the same owner and of the same set for each entry of a section. Whether they stand in BIND's
/// order already.
fn find_sets(entries: &mut [Entry<'_>]) -> bool {
    let covers = |record: &Record<'_>| match (record.rtype, record.data()) {
        (24 | 46, [high, low, ..]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    let mut is_sorted = true;
    let mut last = (0, 0);
    for at in 0..entries.len() {
        let Some((before, [entry, ..])) = entries.split_at_mut_checked(at) else {
            break;
        };
        let base = entry.index - at;
        let record = &entry.record;
        let same_owner = |other: &&Entry<'_>| {
            other.hash == entry.hash && other.record.owner.eq_fold(&record.owner)
        };
        let head = before
            .last()
            .filter(same_owner)
            .or_else(|| {
                before
                    .iter()
                    .filter(|other| other.owner == other.index)
                    .find(same_owner)
            })
            .map(|other| other.owner);
        if let Some(owner) = head {
            let set = before.iter().skip(owner - base).find(|other| {
                other.owner == owner
                    && other.record.rtype == record.rtype
                    && other.record.class == record.class
                    && covers(&other.record) == covers(record)
            });
            (entry.set, entry.owner) = (set.map_or(entry.index, |other| other.set), owner);
        }
        is_sorted &= last <= (entry.owner, entry.set);
        last = (entry.owner, entry.set);
    }
    is_sorted
}

fn write_title(out: &mut Vec<u8>, form: Form, title: &str) {
    out.extend_from_slice(match form {
        Form::Data => b"    ",
        Form::Text => b"    ;; ",
    });
    out.extend_from_slice(title.as_bytes());
    out.extend_from_slice(match form {
        Form::Data => b"_SECTION:\n",
        Form::Text => b" SECTION:\n",
    });
}

/// How many octets `write` appends.
fn written(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    write(out);
    out.len() - start
}

/// Tabs and spaces up to a column, one space at least.
fn indent(out: &mut Vec<u8>, column: &mut usize, to: usize) {
    let to = to.max(*column + 1);
    let tabs = to / 8 - *column / 8;
    if tabs > 0 {
        out.resize(out.len() + tabs, b'\t');
        *column = to / 8 * 8;
    }
    out.resize(out.len() + to - *column, b' ');
    *column = to;
}

fn write_record(out: &mut Vec<u8>, form: Form, owner: &Name<'_>, record: &Record<'_>) {
    let style = Bind {
        yaml: form == Form::Data,
    };
    if form == Form::Data {
        out.extend_from_slice(b"- '");
        let start = out.len();
        owner.write_text(out);
        out.push(b' ');
        digits::number(out, record.ttl.into());
        out.push(b' ');
        push_class(out, record.class);
        out.push(b' ');
        push_type(out, record.rtype);
        out.push(b' ');
        write_data(&style, out, record);
        double_quotes(out, start);
        return out.extend_from_slice(b"'\n");
    }
    let mut column = written(out, |out| owner.write_text(out));
    indent(out, &mut column, 24);
    column += written(out, |out| digits::number(out, record.ttl.into()));
    indent(out, &mut column, 32);
    column += written(out, |out| push_class(out, record.class));
    indent(out, &mut column, 40);
    column += written(out, |out| push_type(out, record.rtype));
    indent(out, &mut column, 48);
    write_data(&style, out, record);
    out.push(b'\n');
}

fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>, form: Form) {
    let flags = |out: &mut Vec<u8>| {
        for (name, bit) in [(b" do", 0x8000), (b" co", 0x4000)] {
            if edns.flags & bit != 0 {
                out.extend_from_slice(name);
            }
        }
    };
    let zeroes = edns.flags & 0x3fff;
    let hex = |out: &mut Vec<u8>| {
        let start = out.len();
        write_hex(out, &zeroes.to_be_bytes());
        if let Some(text) = out.get_mut(start..) {
            text.make_ascii_lowercase();
        }
    };
    match form {
        Form::Data => {
            out.extend_from_slice(b"    OPT_PSEUDOSECTION:\n      EDNS:\n        version: ");
            digits::number(out, edns.version.into());
            out.extend_from_slice(b"\n        flags:");
            flags(out);
            if zeroes != 0 {
                out.extend_from_slice(b"\n        MBZ: 0x");
                hex(out);
            }
            out.extend_from_slice(b"\n        udp: ");
        }
        Form::Text => {
            out.extend_from_slice(b"    ;; OPT PSEUDOSECTION:\n    ; EDNS: version: ");
            digits::number(out, edns.version.into());
            out.extend_from_slice(b", flags:");
            flags(out);
            if zeroes != 0 {
                out.extend_from_slice(b"; MBZ: 0x");
                hex(out);
                out.extend_from_slice(b", udp: ");
            } else {
                out.extend_from_slice(b"; udp: ");
            }
        }
    }
    digits::number(out, edns.udp_size.into());
    out.push(b'\n');
    write_options(out, edns, form);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_records_keeps_its_room_from_one_message_to_the_next() {
        // A question and two records of it.
        let mut octets = vec![
            0, 1, 0x80, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1,
        ];
        for last in [1, 2] {
            octets.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
        }
        let (mut messages, mut out) = (Messages::default(), Vec::new());
        messages.write(&mut out, &octets, true);
        let text = String::from_utf8(std::mem::take(&mut out)).unwrap();
        assert!(text.contains("- 'a. 60 IN A 192.0.2.2'\n"), "{text}");
        let room = (messages.entries.capacity(), messages.entries.as_ptr());
        assert!(room.0 >= 2);
        messages.write(&mut out, &octets, true);
        assert_eq!(
            (messages.entries.capacity(), messages.entries.as_ptr()),
            room
        );
    }
}
