//! The formats of dnstap-ldns against the program itself, where it is installed, and against what it printed.

mod dnstap_support;
mod format_support;

use std::path::Path;
use std::process::Command;

use dnstap_support::{files, payloads};
use format_support::{captures, difference, message, name, ours, record, split, written_query};
use prost::Message as _;
use tapflow::dnstap::pb;

const YAML: &str = "ldns";
const QUIET: &str = "ldns-quiet";

/// Files of the made corpus whose records differ, with where and why. The module's documentation has the list.
#[rustfmt::skip]
const MEANT: &[(&str, &[&str], &str)] = &[
    ("e22-opt-cut-no-tc", &[YAML, QUIET], "not decoded by the program"),
    ("e24-tsig", &[YAML], "TSIG outside of the text"),
    ("n01-self-pointer-qname", &[YAML], "no question that can be read; the header"),
    ("n04-pointer-past-end", &[YAML], "no question that can be read; the header"),
    ("n05-pointer-cut", &[YAML], "no question that can be read; the header"),
    ("n06-pointer-into-header", &[YAML], "no question that can be read; the header"),
    ("n09-name-256", &[YAML], "no question that can be read; the header"),
    ("n12-label-type-01", &[YAML], "no question that can be read; the header"),
    ("r11-svcb-bad-param", &[YAML], "a message that the program leaves out"),
    ("r13-nsec-bad-window", &[YAML], "a bitmap that is none"),
    ("r18-caa-loc", &[YAML], "a message that the program leaves out"),
    ("t05-qd1-no-question", &[YAML], "not decoded by the program"),
    ("t06-name-no-type", &[YAML], "not decoded by the program"),
    ("t08-ancount-too-big", &[YAML, QUIET], "not decoded by the program"),
    ("t11-rdlength-over", &[YAML, QUIET], "not decoded by the program"),
    ("t12-a-rdata-3", &[YAML, QUIET], "not decoded by the program"),
    ("t13-aaaa-rdata-4", &[YAML, QUIET], "not decoded by the program"),
    ("t15-ancount-65535", &[YAML, QUIET], "not decoded by the program"),
    ("t17-two-questions", &[YAML], "a second question outside of the text"),
    ("p02-missing-message-type", &[YAML, QUIET], "a frame on which the program ends"),
    ("p03-dnstap-type-2", &[YAML, QUIET], "another kind of frame"),
    ("p04-dnstap-type-missing", &[YAML, QUIET], "a frame on which the program ends"),
    ("p05-no-message", &[YAML, QUIET], "a frame without message"),
    ("p08-address-empty", &[YAML, QUIET], "an empty address"),
    ("p09-address-len-17", &[YAML, QUIET], "an address of 17 octets"),
    ("p14-protocol-0", &[YAML, QUIET], "an unknown protocol, on which the program ends"),
    ("p16-protocol-4", &[YAML, QUIET], "a protocol named since, on which the program ends"),
    ("p17-protocol-5", &[YAML, QUIET], "a protocol named since, on which the program ends"),
    ("p18-protocol-6", &[YAML, QUIET], "a protocol named since, on which the program ends"),
    ("p19-protocol-7", &[YAML, QUIET], "a protocol named since, on which the program ends"),
    ("p20-protocol-99", &[YAML, QUIET], "an unknown protocol, on which the program ends"),
    ("p21-nsec-1e9", &[YAML, QUIET], "nanoseconds of a second"),
    ("p23-sec-max", &[YAML, QUIET], "seconds past the year 9999"),
    ("p24-sec-i64max", &[YAML, QUIET], "seconds past the year 9999"),
    ("p27-sec-only", &[YAML, QUIET], "seconds without nanoseconds"),
    ("p39-truncated-payload", &[YAML, QUIET], "a frame on which the program ends"),
    ("p41-length-overrun", &[YAML, QUIET], "a frame on which the program ends"),
    ("p42-field-0", &[YAML, QUIET], "a frame on which the program ends"),
    ("p43-random", &[YAML, QUIET], "a frame on which the program ends"),
    ("p45-query-zone-unterminated", &[YAML], "a zone that is no name"),
    ("p48-http-protocol", &[YAML, QUIET], "a protocol named since, on which the program ends"),
    ("p50-update-response", &[YAML, QUIET], "a type named since, on which the program ends"),
    ("p52-negative-enum", &[YAML, QUIET], "an unknown type, on which the program ends"),
];

/// What the program prints, a record each; `None` where it is not installed. It stops at some frames.
fn theirs(path: &Path, format: &str) -> Option<Vec<String>> {
    let mut command = Command::new("dnstap-ldns");
    command.arg(if format == QUIET { "-q" } else { "-y" });
    match command.arg("-r").arg(path).output() {
        Ok(output) => Some(records(&String::from_utf8_lossy(&output.stdout), format)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: the comparison with dnstap-ldns (Debian package dnstap-ldns)");
            None
        }
        Err(error) => panic!("dnstap-ldns: {error}"),
    }
}

/// The records in a text of the program's.
fn records(text: &str, format: &str) -> Vec<String> {
    if format == QUIET {
        text.split_inclusive('\n').map(str::to_owned).collect()
    } else {
        split(text)
    }
}

/// Writes the capture at `from` to `to` with types and transports that dnstap-ldns 0.2.1 has names for: it ends at any
/// other.
fn with_known_names(from: &Path, to: &Path) {
    let mut file = Vec::new();
    let mut frame = |octets: &[u8]| {
        file.extend((octets.len() as u32).to_be_bytes());
        file.extend(octets);
    };
    let start = b"\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    frame(b"");
    frame(start);
    for payload in payloads(from) {
        let mut dnstap = pb::Dnstap::decode(&payload[..]).unwrap();
        let message = dnstap.message.as_mut().unwrap();
        message.r#type = message.r#type.map(|kind| kind - i32::from(kind > 12) * 8);
        message.socket_protocol = message.socket_protocol.map(|protocol| protocol.min(2));
        frame(&dnstap.encode_to_vec());
    }
    frame(b"");
    frame(b"\0\0\0\x03");
    std::fs::write(to, file).unwrap();
}

/// Which row of the module's list explains a difference; `None` when none does.
fn row(ours: &str, theirs: &str) -> Option<&'static str> {
    if theirs == "[unhandled Dnstap.Message.Type]\n" {
        return Some("a type named since");
    }
    let without_names = ["DOT", "DOH", "DOQ"]
        .into_iter()
        .fold(ours.to_owned(), |line, name| {
            line.replacen(&format!(" {name} "), " ? ", 1)
        });
    if without_names == theirs {
        return Some("a protocol named since");
    }
    if theirs.ends_with(" ? ? ?\n") || theirs.contains("_message: parse failed\n") {
        return Some("not decoded by the program");
    }
    let flat = |record: &str| -> Vec<_> {
        let lines = record.lines();
        lines
            .map(|line| line.trim_start_matches([' ', ';']).to_owned())
            .collect()
    };
    (flat(ours) == flat(theirs)).then_some("a second question, or TSIG, outside of the text")
}

#[test]
fn the_first_records_of_every_capture_are_what_the_program_printed() {
    for path in files("captures", "fstrm") {
        for (format, extension) in [(YAML, "expected.yaml"), (QUIET, "expected.txt")] {
            let name = path.with_extension(extension);
            let expected = dnstap_support::testdata("dnstap-ldns").join(name.file_name().unwrap());
            let expected = records(&std::fs::read_to_string(expected).unwrap(), format);
            assert_eq!(expected.len(), 20);
            for (ours, theirs) in ours(&path, format).iter().zip(&expected) {
                assert!(
                    ours == theirs,
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
    let folder = tempfile::tempdir().unwrap();
    for path in captures() {
        let known = folder.path().join("known.fstrm");
        with_known_names(&path, &known);
        for (format, file) in [(YAML, &known), (QUIET, &known), (QUIET, &path)] {
            let Some(theirs) = theirs(file, format) else {
                return;
            };
            let ours = ours(file, format);
            if ours.len() != theirs.len() {
                problems.push(format!(
                    "{} as {format}: {} and {} records; {}",
                    path.display(),
                    ours.len(),
                    theirs.len(),
                    ours.get(theirs.len().saturating_sub(1))
                        .map_or("", String::as_str)
                ));
            }
            for (ours, theirs) in ours.iter().zip(&theirs) {
                if ours == theirs {
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
    problems.truncate(60);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(equal > 80_000 && rows.values().sum::<usize>() < equal / 200);
}

#[test]
fn options_data_and_codes_are_written_as_the_program_writes_them() {
    let (mut problems, mut equal) = (Vec::new(), 0);
    for path in files("dnstap-read", "fstrm") {
        for format in [YAML, QUIET] {
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let ours = ours(&path, format);
            for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                if ours == theirs {
                    equal += 1;
                } else if row(ours, theirs).is_none() {
                    problems.push(format!("{index} as {format}: {}", difference(ours, theirs)));
                }
            }
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
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
        for format in [YAML, QUIET] {
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
    let two = [record(41, 512, b""), record(41, 4096, &[0, 3, 0, 0])];
    let written = written_query(
        YAML,
        b"a\"\\\n\xff",
        b"\x03\"\\\n\0",
        message(
            0,
            &[
                &record(15, 1, &[0, 5]),
                &record(257, 1, b"\0\x05issue"),
                &record(48, 1, &[1, 1, 3, 13]),
            ],
            &[&two[0], &two[1]],
        ),
    );
    for expected in [
        "identity: \"a\\\"\\\\\\x0a\\xff\"\n",
        "  query_zone: \"\\\"\\\\\\\\\\\\010.\"\n",
        "    .\t5\tIN\tMX\t\\# 2 0005\n",
        "    .\t5\tIN\tCAA\t0 issue\n",
        "    .\t5\tIN\tDNSKEY\t257 3 13 ;{id = 1038 (ksk), size = 256b}\n",
        "    ;; EDNS: version 0; flags: ; udp: 512\n    ;; EDNS: version 0; flags: ; udp: 4096\n    ;; Data: \\# 4 00030000\n",
        "ADDITIONAL: 0 \n",
    ] {
        assert!(written.contains(expected), "{expected}\n{written}");
    }
}
