//! Entry for fuzzing and property tests: every writer on one payload.

use crate::dns::{DnsView, NameBuf};
use crate::dnstap::{DecodeReason, DnstapView};
use crate::fields::specs;
use crate::format::{
    Entry, Format, Kind, Settings, Shape, Source, dnstap_read, golang, json, ldns, quiet, table,
    vector,
};
use crate::pcap::{DnsPacket, ExtractOptions, Extractor, Reader};

/// Writes `payload` in every format and panics when a line is not one line of printable ASCII, does not parse,
/// or does not give back the octets of its names. For fuzz targets and tests.
#[doc(hidden)]
pub fn fuzz_payload(payload: &[u8]) {
    every_kind(payload);
    every_field(payload);
    let Ok(view) = DnstapView::parse(payload) else {
        return;
    };
    let source = Source {
        listener: "a\"\\b",
        peer: "c\n",
        ..Source::default()
    };
    let entry = Entry {
        payload,
        view: Ok(&view),
        source,
    };
    let (mut line, mut object) = (Vec::new(), Vec::new());
    let verdict = view.classify().map(|_| ());
    assert_eq!(quiet::write(&mut line, &view, true), verdict);
    assert_eq!(json::write(&mut object, &view, &source), verdict);
    let (mut short, mut document) = (Vec::new(), Vec::new());
    assert_eq!(dnstap_read::line::write(&mut short, &view, true), verdict);
    let made = (dnstap_read::yaml::KIND.make)(&Settings::default());
    let mut documents = made.expect("it has no settings");
    assert_eq!(documents.write(&mut document, entry), verdict);
    let texts = TEXTS.map(|kind| text_of(kind, entry, verdict));
    let Ok(message) = view.classify() else {
        assert!(texts.iter().all(String::is_empty));
        return assert!(
            line.is_empty() && object.is_empty() && short.is_empty() && document.is_empty()
        );
    };
    let document = std::str::from_utf8(&document).expect("text");
    assert!(
        !document.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')),
        "no control characters"
    );
    assert!(document.starts_with("---\n") && document.matches("---\n").count() == 1);
    let [golang_json, golang_yaml, ldns, ldns_quiet, event] = &texts;
    assert!(ldns_quiet.lines().count() == 1, "one line");
    let value: serde_json::Value = serde_json::from_str(golang_json).expect("JSON");
    assert!(value.pointer("/message/type").is_some() && golang_json.lines().count() == 1);
    for document in [golang_yaml, ldns] {
        assert!(document.starts_with("type: MESSAGE\n") && document.ends_with("\n---\n"));
        assert_eq!(document.matches("\n---\n").count(), 1, "one document");
        let (_, text) = document.split_once("\nmessage:\n").expect("a message");
        let is_indented = |line: &str| line.is_empty() || line.starts_with("  ");
        assert!(text.trim_end_matches("---\n").lines().all(is_indented));
    }
    for text in [&line, &object, &short] {
        let (last, body) = text.split_last().expect("a line has an end");
        assert!(
            *last == b'\n' && body.iter().all(|octet| (32..127).contains(octet)),
            "one line of printable ASCII"
        );
    }
    let object: serde_json::Value = serde_json::from_slice(&object).expect("JSON");
    for (key, octets) in [
        ("identity", view.identity),
        ("version", view.version),
        ("extra", view.extra),
    ] {
        assert_eq!(
            object
                .get(key)
                .and_then(|text| text.as_str())
                .map(octets_of),
            octets.map(<[u8]>::to_vec),
            "{key}"
        );
    }
    let question = message
        .dns()
        .and_then(|(dns, _)| DnsView::parse(dns).ok()?.question().ok()?);
    let wire = question.map(|question| question.name.to_buf());
    let qname = object
        .pointer("/dns/qname")
        .map(|name| name.as_str().expect("a name is text"));
    assert_eq!(
        qname.map(|name| NameBuf::parse(name).expect("a name")),
        wire,
        "names give back their octets"
    );
    let quiet_name = quoted(&line).map(|name| NameBuf::parse_octets(name).expect("a name"));
    assert_eq!(quiet_name, wire, "also in the quiet line");
    let ldns_name =
        quoted(ldns_quiet.as_bytes()).map(|name| NameBuf::parse_octets(name).expect("a name"));
    assert_eq!(ldns_name, wire, "also in dnstap-ldns's");
    let event: serde_json::Value = serde_json::from_str(event).expect("JSON");
    let server = event.get("serverId").and_then(|text| text.as_str());
    assert_eq!(
        server.map(octets_of),
        view.identity.map(<[u8]>::to_vec),
        "also in Vector's event"
    );
    let data = message.dns().and_then(|(_, is_response)| {
        event.get(if is_response {
            "responseData"
        } else {
            "requestData"
        })
    });
    let name = data.and_then(|data| {
        let question = data.pointer("/question/0/domainName");
        question.or_else(|| data.pointer("/zone/zName"))?.as_str()
    });
    let name = name.map(|name| NameBuf::parse(name).expect("a name"));
    assert_eq!(name, wire, "also in Vector's event");
}

/// The formats whose records are checked as text.
const TEXTS: [&Kind; 5] = [
    &golang::json::KIND,
    &golang::yaml::KIND,
    &ldns::yaml::KIND,
    &ldns::quiet::KIND,
    &vector::KIND,
];

/// What a format writes, which is UTF-8 and has no control characters but line feeds and tabs.
fn text_of(kind: &'static Kind, entry: Entry<'_>, verdict: Result<(), DecodeReason>) -> String {
    let made = Format::Kind(kind).line(&Settings::default());
    let mut line = made.expect("it has no settings").expect("it has lines");
    let mut out = Vec::new();
    line.begin(&mut out);
    assert_eq!(line.write(&mut out, entry), verdict, "{}", kind.name);
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(
        !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')),
        "no control characters: {text:?}"
    );
    text
}

/// What holds for every format: all or nothing, text without control characters, one line a record where records are
/// lines, JSON that parses, raw forms that give back the payload, packets that give back the messages.
fn every_kind(payload: &[u8]) {
    let view = DnstapView::parse(payload).map_err(DecodeReason::from);
    let entry = Entry {
        payload,
        view: view.as_ref().map_err(|reason| *reason),
        source: Source::default(),
    };
    for kind in Format::kinds() {
        let mut line = (kind.make)(&Settings::default()).expect("defaults do");
        let mut out = b"before".to_vec();
        let verdict = line.write(&mut out, entry);
        let written = out.strip_prefix(b"before").expect("what was there stays");
        assert!(
            verdict.is_ok() || written.is_empty(),
            "{}: all or nothing",
            kind.name
        );
        let is_raw = matches!(kind.name, "hex" | "base64");
        let is_record = view.as_ref().is_ok_and(|view| view.classify().is_ok());
        assert_eq!(verdict.is_ok(), is_record || is_raw, "{}", kind.name);
        match kind.shape {
            Shape::Lines if verdict.is_ok() => text_of_kind(kind, written, payload),
            Shape::Pcap => {
                let mut file = Vec::new();
                line.begin(&mut file);
                file.extend_from_slice(written);
                if let Ok(view) = &view {
                    packets(&file, view);
                }
            }
            _ => {}
        }
    }
}

/// What holds for a record of lines.
fn text_of_kind(kind: &Kind, written: &[u8], payload: &[u8]) {
    let name = kind.name;
    let text = std::str::from_utf8(written).expect("UTF-8");
    assert!(text.ends_with('\n'), "{name}");
    assert!(
        !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')),
        "{name}: no control characters: {text:?}"
    );
    if kind.extension != "yaml" {
        assert_eq!(text.matches('\n').count(), 1, "{name}: one line");
    }
    if kind.extension == "jsonl" {
        let object: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert!(object.is_object(), "{name}");
        if let Some(raw) = object.get("rawData").and_then(|raw| raw.as_str()) {
            let raw = data_encoding::BASE64.decode(raw.as_bytes());
            assert_eq!(raw.expect("base 64"), payload, "{name}");
        }
    }
    let back = match name {
        "hex" => data_encoding::HEXLOWER.decode(text.trim_end().as_bytes()),
        "base64" => data_encoding::BASE64.decode(text.trim_end().as_bytes()),
        _ => return,
    };
    assert_eq!(back.expect("an encoding"), payload, "{name}");
}

/// The packets of a frame hold its DNS messages, as far as a packet can hold them and a reader takes them for DNS.
fn packets(file: &[u8], view: &DnstapView<'_>) {
    let mut reader = Reader::new(file).expect("a capture");
    let mut options = ExtractOptions::default();
    let mut wanted = Vec::new();
    if let Ok(message) = view.classify() {
        options.ports.extend(
            message
                .response_port
                .and_then(|port| u16::try_from(port).ok()),
        );
        wanted.extend([message.query_message, message.response_message]);
    }
    let mut wanted: Vec<&[u8]> = wanted.into_iter().flatten().collect();
    wanted.dedup();
    let holds = |octets: &[u8]| (12..=65_535).contains(&octets.len());
    wanted.retain(|octets| holds(octets));
    let mut extractor = Extractor::new(options);
    let mut found = Vec::new();
    let mut keep = |packet: DnsPacket<'_>| found.push(packet.payload.to_vec());
    while let Some(packet) = reader.next().expect("whole packets") {
        extractor.push(&packet, &mut keep);
    }
    extractor.finish(&mut keep);
    found.retain(|octets| holds(octets));
    assert_eq!(found, wanted, "pcap");
}

/// Every field as text: each one value of printable ASCII, the same in TSV, in CSV once its quotes are undone, and in a
/// template, where `-` stands for what is absent.
fn every_field(payload: &[u8]) {
    let view = DnstapView::parse(payload).map_err(DecodeReason::from);
    let entry = Entry {
        payload,
        view: view.as_ref().map_err(|reason| *reason),
        source: Source {
            listener: "a\"\\b,\t",
            peer: "c\n",
            ..Source::default()
        },
    };
    let mut names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    names.push("tag.a".to_owned());
    let template: Vec<_> = names.iter().map(|name| format!("{{{name}}}")).collect();
    let template = template.join("\\t").parse().expect("a template");
    let settings = Settings {
        fields: names.clone(),
        ..Settings::default()
    };
    let [csv, tsv, filled] = [
        (Format::Kind(&table::csv::KIND), &settings),
        (Format::Kind(&table::tsv::KIND), &settings),
        (template, &Settings::default()),
    ]
    .map(|(format, settings)| {
        let mut line = format.line(settings).expect("fields").expect("lines");
        let mut out = Vec::new();
        let verdict = line.write(&mut out, entry);
        let wanted = entry.view.and_then(|view| view.classify().map(|_| ()));
        assert_eq!(verdict, wanted, "{format}");
        String::from_utf8(out).expect("UTF-8")
    });
    let Some(tsv) = tsv.strip_suffix('\n') else {
        return assert!(csv.is_empty() && tsv.is_empty() && filled.is_empty());
    };
    let is_text = |text: &str| text.bytes().all(|octet| matches!(octet, b' '..=b'~'));
    let columns: Vec<&str> = tsv.split('\t').collect();
    assert!(columns.len() == names.len() && columns.iter().all(|text| is_text(text)));
    let csv = csv.strip_suffix('\n').expect("a line");
    assert!(is_text(csv), "one line");
    assert_eq!(unquoted(csv), columns);
    let filled = filled.strip_suffix('\n').expect("a line");
    let filled: Vec<&str> = filled.split('\t').collect();
    assert_eq!(filled.len(), columns.len());
    for ((filled, column), name) in filled.iter().zip(&columns).zip(&names) {
        let is_absent = column.is_empty() && *filled == "-";
        assert!(filled == column || is_absent, "{name}: {filled}");
    }
}

/// The values of a line of CSV (RFC 4180).
fn unquoted(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let (mut is_quoted, mut characters) = (false, line.chars().peekable());
    while let Some(character) = characters.next() {
        let last = values.last_mut().expect("one at least");
        match (character, is_quoted) {
            ('"', true) if characters.peek() == Some(&'"') => {
                characters.next();
                last.push('"');
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => values.push(String::new()),
            (character, _) => last.push(character),
        }
    }
    assert!(!is_quoted, "quotes are closed");
    values
}

/// Undoes the escapes of text of octets.
fn octets_of(text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        if octet != b'\\' {
            octets.push(octet);
        } else if let Some(tail) = tail.strip_prefix(b"\\") {
            octets.push(b'\\');
            rest = tail;
        } else {
            let (digits, tail) = tail.split_at_checked(3).expect("three digits");
            octets.push(
                std::str::from_utf8(digits)
                    .expect("ASCII")
                    .parse()
                    .expect("an octet"),
            );
            rest = tail;
        }
    }
    octets
}

/// What is between the first and the last quotation mark.
fn quoted(line: &[u8]) -> Option<&[u8]> {
    let first = line.iter().position(|octet| *octet == b'"')?;
    let last = line.iter().rposition(|octet| *octet == b'"')?;
    line.get(first + 1..last)
}
