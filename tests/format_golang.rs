//! The formats of golang-dnstap against its program `dnstap` itself, where it is installed, and against what it printed.

mod dnstap_support;
mod format_support;

use std::path::Path;
use std::process::Command;

use dnstap_support::files;
use format_support::{captures, difference, message, name, ours, record, split, written_query};

const JSON: &str = "golang-json";
const YAML: &str = "golang-yaml";

/// Files of the made corpus whose records differ, with where and why. The module's documentation has the list.
#[rustfmt::skip]
const MEANT: &[(&str, &[&str], &str)] = &[
    ("e07-ext-rcode-4095", &[JSON, YAML], "a response code without a name"),
    ("e08-option-overrun", &[JSON, YAML], "not decoded by the program"),
    ("e09-option-cut", &[JSON, YAML], "not decoded by the program"),
    ("e12-ecs-prefix-33", &[JSON, YAML], "not decoded by the program"),
    ("e14-ecs-2-octets", &[JSON, YAML], "not decoded by the program"),
    ("e16-ede-1-octet", &[JSON, YAML], "not decoded by the program"),
    ("e17-nsid-binary", &[JSON, YAML], "control octets in NSID"),
    ("e22-opt-cut-no-tc", &[JSON, YAML], "not decoded by the program"),
    ("e25-ede-not-utf8", &[JSON, YAML], "control octets in text"),
    ("h01-all-flags", &[JSON, YAML], "codes without names"),
    ("h03-opcode-3", &[JSON, YAML], "an opcode without a name"),
    ("h05-rcode-11", &[JSON, YAML], "a response code without a name"),
    ("n01-self-pointer-qname", &[JSON, YAML], "no question that can be read; the header"),
    ("n04-pointer-past-end", &[JSON, YAML], "no question that can be read; the header"),
    ("n05-pointer-cut", &[JSON, YAML], "no question that can be read; the header"),
    ("n06-pointer-into-header", &[JSON, YAML], "a name that points into the header"),
    ("n09-name-256", &[JSON, YAML], "no question that can be read; the header"),
    ("n12-label-type-01", &[JSON, YAML], "no question that can be read; the header"),
    ("r08-txt-odd", &[JSON, YAML], "a record without data"),
    ("r11-svcb-bad-param", &[JSON, YAML], "not decoded by the program"),
    ("r13-nsec-bad-window", &[JSON, YAML], "not decoded by the program"),
    ("r18-caa-loc", &[JSON, YAML], "data that end early"),
    ("r20-null-type", &[JSON, YAML], "data of NULL as they are"),
    ("t05-qd1-no-question", &[JSON, YAML], "counts that promise more"),
    ("t06-name-no-type", &[JSON, YAML], "a question without type and class"),
    ("t08-ancount-too-big", &[JSON, YAML], "counts that promise more"),
    ("t11-rdlength-over", &[JSON, YAML], "not decoded by the program"),
    ("t12-a-rdata-3", &[JSON, YAML], "not decoded by the program"),
    ("t13-aaaa-rdata-4", &[JSON, YAML], "not decoded by the program"),
    ("t15-ancount-65535", &[JSON, YAML], "counts that promise more"),
    ("p02-missing-message-type", &[JSON, YAML], "a frame on which the program ends"),
    ("p03-dnstap-type-2", &[JSON, YAML], "another kind of frame"),
    ("p04-dnstap-type-missing", &[JSON, YAML], "a frame on which the program ends"),
    ("p05-no-message", &[JSON, YAML], "a frame on which the program ends"),
    ("p08-address-empty", &[YAML], "an empty address"),
    ("p09-address-len-17", &[JSON], "an address of 17 octets, on which the program ends"),
    ("p11-no-family", &[JSON], "no family"),
    ("p17-protocol-5", &[JSON, YAML], "a protocol named since"),
    ("p18-protocol-6", &[JSON, YAML], "a protocol named since"),
    ("p19-protocol-7", &[JSON, YAML], "a protocol named since"),
    ("p23-sec-max", &[JSON, YAML], "seconds past the year 9999"),
    ("p24-sec-i64max", &[JSON, YAML], "seconds past the year 9999"),
    ("p27-sec-only", &[JSON, YAML], "seconds without nanoseconds"),
    ("p30-identity-binary", &[JSON], "an identity that is not UTF-8"),
    ("p39-truncated-payload", &[JSON, YAML], "a frame on which the program ends"),
    ("p41-length-overrun", &[JSON, YAML], "a frame on which the program ends"),
    ("p42-field-0", &[JSON, YAML], "a frame on which the program ends"),
    ("p43-random", &[JSON, YAML], "a frame on which the program ends"),
];

/// What the program prints, a record each; `None` where it is not installed. It stops at some frames.
fn theirs(path: &Path, format: &str) -> Option<Vec<String>> {
    let mut command = Command::new("dnstap");
    command.arg(if format == JSON { "-j" } else { "-y" });
    match command.arg("-r").arg(path).output() {
        Ok(output) => Some(split(&String::from_utf8_lossy(&output.stdout))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "skipped: the comparison with golang-dnstap (Debian package golang-github-dnstap-golang-dnstap-cli)"
            );
            None
        }
        Err(error) => panic!("dnstap: {error}"),
    }
}

/// Which row of the module's list explains a difference; `None` when none does.
fn row(ours: &str, theirs: &str) -> Option<&'static str> {
    let ours = &*with_bare_addresses(ours);
    if ours == theirs {
        return Some("an address that ends in a colon");
    }
    let absent = ",\"socket_protocol\":\"\\u003cnil\\u003e\"";
    if theirs.replace(absent, "") == ours {
        return Some("no socket_protocol");
    }
    if ours
        .replace(",\"query_port\":0,", ",")
        .replace(",\"response_port\":0,", ",")
        == theirs
    {
        return Some("a port of zero");
    }
    if theirs.contains("\tIN\tNULL\tabc") || theirs.contains("\\tIN\\tNULL\\tabc") {
        return Some("data of NULL as they are");
    }
    if ours.contains(";; parse failed: ") {
        return Some("a message that ends before it should");
    }
    (without_codes(ours) == without_codes(theirs)).then_some("codes and options without a name")
}

/// A record with addresses as the program has them, also where that breaks the document.
fn with_bare_addresses(record: &str) -> String {
    let bare = |line: &str| match line.split_once("_address: \"") {
        Some((key, rest)) => format!("{key}_address: {}", rest.replacen('"', "", 1)),
        None => line.to_owned(),
    };
    record.split_inclusive('\n').map(bare).collect()
}

/// A record without opcode and status, for which the library has names or nothing, and without EXPIRE, which it leaves
/// out.
fn without_codes(record: &str) -> String {
    let mut text = record.replace("\\n", "\n");
    if let Some((before, after)) = text.split_once(";; opcode: ") {
        let after = after.split_once(", id: ").map_or(after, |(_, after)| after);
        text = format!("{before}{after}");
    }
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.trim().starts_with("; EXPIRE:"))
        .collect()
}

#[test]
fn the_first_records_of_every_capture_are_what_the_program_printed() {
    for path in files("captures", "fstrm") {
        for (format, extension) in [(JSON, "expected.jsonl"), (YAML, "expected.yaml")] {
            let name = path.with_extension(extension);
            let expected =
                dnstap_support::testdata("golang-dnstap").join(name.file_name().unwrap());
            let expected = split(&std::fs::read_to_string(expected).unwrap());
            assert_eq!(expected.len(), 20);
            for (ours, theirs) in ours(&path, format).iter().zip(&expected) {
                assert!(
                    with_bare_addresses(ours) == *theirs,
                    "{} as {format}: {}",
                    path.display(),
                    difference(ours, theirs)
                );
            }
        }
    }
}

#[test]
fn whole_captures_are_what_the_program_prints() {
    let (mut problems, mut equal) = (Vec::new(), 0);
    let mut rows = std::collections::BTreeMap::new();
    for path in captures() {
        for format in [JSON, YAML] {
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let ours = ours(&path, format);
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                if with_bare_addresses(ours) == *theirs {
                    equal += 1;
                    continue;
                }
                if let Some(row) = row(ours, theirs) {
                    *rows.entry(row).or_insert(0) += 1;
                    continue;
                }
                problems.push(format!(
                    "{} as {format}: {}",
                    path.display(),
                    difference(ours, theirs)
                ));
            }
        }
    }
    println!("{equal} records equal; {rows:?}");
    problems.truncate(40);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(equal > 80_000 && rows.values().sum::<usize>() < equal / 500);
}

#[test]
fn options_data_and_codes_are_written_as_the_program_writes_them() {
    let (mut problems, mut equal) = (Vec::new(), 0);
    for path in files("dnstap-read", "fstrm") {
        for format in [JSON, YAML] {
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let ours = ours(&path, format);
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
            for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                if ours == theirs {
                    equal += 1;
                } else if row(ours, theirs).is_none() {
                    problems.push(format!("{index} as {format}: {}", difference(ours, theirs)));
                }
            }
        }
    }
    println!("{equal} records equal");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(equal > 490);
}

#[test]
fn every_odd_file_keeps_its_records_and_differs_only_where_that_is_meant() {
    let mut problems = Vec::new();
    let mut paths = files("corpus/dns-fstrm", "fstrm");
    paths.extend(files("corpus/payload-fstrm", "fstrm"));
    for path in paths {
        for format in [JSON, YAML] {
            let ours = ours(&path, format);
            for record in &ours {
                let is_whole = record.ends_with('\n')
                    && !record
                        .chars()
                        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
                let is_one = format == YAML || record.lines().count() == 1;
                assert!(is_whole && is_one, "{}: {record:?}", path.display());
            }
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let is_meant = MEANT
                .iter()
                .any(|(file, formats, _)| name(&path) == *file && formats.contains(&format));
            match (ours == theirs, is_meant) {
                (true, true) => problems.push(format!(
                    "{} as {format} no longer differs, take it out",
                    name(&path)
                )),
                (false, false) => problems.push(format!(
                    "{} as {format}: {}",
                    name(&path),
                    difference(&ours.concat(), &theirs.concat())
                )),
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn what_the_program_would_misstate_is_written_as_it_was_sent() {
    let opt = |data: &[u8]| message(0, &[], &[&record(41, 1232, data)]);
    for (dns, expected) in [
        (
            opt(&[0, 11, 0, 2, 0xff, 0xff]),
            "; KEEPALIVE: use tcp keep-alive, timeout 6553500ms\n",
        ),
        (
            opt(&[0, 11, 0, 2, 0, 0]),
            "; KEEPALIVE: use tcp keep-alive, timeout 0ms\n",
        ),
        (
            opt(&[0, 8, 0, 9, 0, 1, 24, 0, 1, 2, 3, 4, 5]),
            "; LOCAL OPT: 8:0x000118000102030405\n",
        ),
        (
            opt(&[0, 8, 0, 5, 0, 2, 48, 0, 0xfe]),
            "; SUBNET: [fe00::]/48/0\n",
        ),
        (opt(&[0, 9, 0, 4, 0, 0, 14, 16]), "; EXPIRE: 3600\n"),
        (
            opt(&[0, 4, 0, 3, b'a', b'\n', 0xff]),
            "; ESU: a\\010\\255\n",
        ),
        (
            opt(&[0, 12, 0, 1, 0xab, 0, 10, 0, 9, 1]),
            "; PADDING: AB\n    ; MALFORMED: 0x000a000901\n",
        ),
        (
            message(0, &[], &[&record(41, 512, b""), &record(41, 4096, b"")]),
            "; udp: 512\n    \n    ;; OPT PSEUDOSECTION:\n    ; EDNS: version 0; flags: ; udp: 4096\n",
        ),
        (
            message(0, &[&record(257, 1, b"\0\x05issuea\\.b")], &[]),
            ".\t5\tIN\tCAA\t0 issue \"a\\\\.b\"\n",
        ),
        (
            message(0, &[&record(15, 1, &[0, 5])], &[]),
            ".\t5\tCLASS1\tTYPE15\t\\# 2 0005\n",
        ),
        (
            message(0, &[&record(15, 1, b"")], &[]),
            ".\t5\tCLASS1\tTYPE15\t\\# 0\n",
        ),
        (
            message(5, &[&record(15, 255, b""), &record(1234, 254, b"")], &[]),
            ".\t5\tCLASS255\tMX\t\n    .\t5\tCLASS254\tTYPE1234\t\\# 0\n",
        ),
    ] {
        let written = written_query(YAML, b"", &[0], dns);
        assert!(written.contains(expected), "{expected}\n{written}");
    }
}

#[test]
fn text_from_the_wire_stays_within_its_value() {
    let (identity, zone) = (b"a\"\\\n\xc2\x9b\xff\xe2\x80\xa8<", b"\x03\"\\\n\0");
    let yaml = written_query(YAML, identity, zone, Vec::new());
    assert!(
        yaml.contains("identity: \"a\\\"\\\\\\n\\u009b\\xff\\u2028<\"\n"),
        "{yaml}"
    );
    assert!(
        yaml.contains("  query_zone: \"\\\\\\\"\\\\\\\\\\\\010.\"\n"),
        "{yaml}"
    );
    assert!(
        yaml.contains("  # query_message: parse failed: dns: overflow unpacking uint16\n"),
        "{yaml}"
    );
    let json = written_query(JSON, identity, zone, Vec::new());
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        read.get("identity").and_then(|text| text.as_str()),
        Some("a\"\\\n\u{9b}\\255\u{2028}<")
    );
    assert!(json.is_ascii() && json.contains("\\u009b") && json.contains("\\u003c"));
}
