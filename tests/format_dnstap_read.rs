//! The formats of dnstap-read against dnstap-read itself, where it is installed, and against what it printed.

mod dnstap_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use dnstap_support::{files, payloads};
use tapflow::dnstap::DnstapView;
use tapflow::format::{Entry, Format, Settings, Source};

const LINE: &str = "dnstap-read";
const YAML: &str = "dnstap-read-yaml";

/// Files of the made corpus whose records differ, with where and why. The module's documentation has the list.
#[rustfmt::skip]
const MEANT: &[(&str, &[&str], &str)] = &[
    ("e03-opt-in-answer", &[LINE, YAML], "not decoded by the program"),
    ("e04-opt-owner-not-root", &[LINE, YAML], "not decoded by the program"),
    ("e08-option-overrun", &[LINE, YAML], "not decoded by the program"),
    ("e09-option-cut", &[LINE, YAML], "not decoded by the program"),
    ("e12-ecs-prefix-33", &[LINE, YAML], "not decoded by the program"),
    ("e14-ecs-2-octets", &[LINE, YAML], "not decoded by the program"),
    ("e16-ede-1-octet", &[LINE, YAML], "not decoded by the program"),
    ("e18-cookie-bad-length", &[LINE, YAML], "not decoded by the program"),
    ("e22-opt-cut-no-tc", &[LINE, YAML], "not decoded by the program"),
    ("e25-ede-not-utf8", &[LINE, YAML], "not decoded by the program"),
    ("n01-self-pointer-qname", &[YAML], "no question that can be read; the header in the YAML"),
    ("n04-pointer-past-end", &[YAML], "no question that can be read; the header in the YAML"),
    ("n05-pointer-cut", &[YAML], "no question that can be read; the header in the YAML"),
    ("n06-pointer-into-header", &[LINE, YAML], "a name that points into the header"),
    ("n09-name-256", &[YAML], "no question that can be read; the header in the YAML"),
    ("n12-label-type-01", &[YAML], "no question that can be read; the header in the YAML"),
    ("p05-no-message", &[LINE, YAML], "a frame without message, on which the program ends"),
    ("p08-address-empty", &[YAML], "an empty address, on which the program ends"),
    ("p09-address-len-17", &[LINE, YAML], "an address of 17 octets"),
    ("p21-nsec-1e9", &[LINE, YAML], "nanoseconds, on which the program aborts"),
    ("p23-sec-max", &[LINE, YAML], "seconds over 2^32"),
    ("p24-sec-i64max", &[LINE, YAML], "seconds over 2^32"),
    ("p27-sec-only", &[LINE, YAML], "seconds without nanoseconds"),
    ("p30-identity-binary", &[YAML], "an identity that plain YAML cannot hold"),
    ("p52-negative-enum", &[LINE, YAML], "an unknown message type"),
    ("r08-txt-odd", &[LINE, YAML], "not decoded by the program"),
    ("r11-svcb-bad-param", &[LINE, YAML], "not decoded by the program"),
    ("r13-nsec-bad-window", &[LINE, YAML], "not decoded by the program"),
    ("r17-ttl-top-bit", &[YAML], "times to live of their own"),
    ("r18-caa-loc", &[LINE, YAML], "not decoded by the program"),
    ("t04-header-only-formerr", &[LINE, YAML], "no question"),
    ("t05-qd1-no-question", &[YAML], "no question that can be read; the header in the YAML"),
    ("t06-name-no-type", &[YAML], "no question that can be read; the header in the YAML"),
    ("t08-ancount-too-big", &[LINE, YAML], "not decoded by the program"),
    ("t11-rdlength-over", &[LINE, YAML], "not decoded by the program"),
    ("t12-a-rdata-3", &[LINE, YAML], "not decoded by the program"),
    ("t13-aaaa-rdata-4", &[LINE, YAML], "not decoded by the program"),
    ("t15-ancount-65535", &[LINE, YAML], "not decoded by the program"),
    ("t17-two-questions", &[LINE, YAML], "not decoded by the program"),
    ("t18-no-question-answer", &[LINE, YAML], "no question"),
];

/// What we write for each record of `path`.
fn ours(path: &Path, format: &str) -> Vec<String> {
    let format: Format = format.parse().unwrap();
    let settings = Settings {
        utc: true,
        ..Settings::default()
    };
    let mut line = format.line(&settings).unwrap().unwrap();
    let mut out = Vec::new();
    line.begin(&mut out);
    let mut records = Vec::new();
    for payload in payloads(path) {
        let Ok(view) = DnstapView::parse(&payload) else {
            continue;
        };
        let is_record = view.classify().is_ok();
        assert_eq!(
            line.write(
                &mut out,
                Entry {
                    payload: &payload,
                    view: Ok(&view),
                    source: Source::default()
                }
            )
            .is_ok(),
            is_record
        );
        if is_record {
            records.push(String::from_utf8(std::mem::take(&mut out)).expect("text"));
        }
        assert!(out.is_empty(), "all or nothing");
    }
    records
}

/// What dnstap-read prints; `None` where it is not installed. It aborts on some files.
fn theirs(path: &Path, yaml: bool) -> Option<String> {
    let mut command = Command::new("dnstap-read");
    if yaml {
        command.arg("-y");
    }
    match command.arg(path).env("TZ", "UTC").output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: the comparison with dnstap-read (Debian package bind9-utils)");
            None
        }
        Err(error) => panic!("dnstap-read: {error}"),
    }
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Where two texts first differ, for people.
fn difference(ours: &str, theirs: &str) -> String {
    let mut at = 0;
    for (mine, other) in ours.lines().zip(theirs.lines()) {
        at += 1;
        if mine != other {
            return format!("line {at}:\n  ours   {mine}\n  theirs {other}");
        }
    }
    format!(
        "one ends: {} and {} lines",
        ours.lines().count(),
        theirs.lines().count()
    )
}

/// Captures in the repository, and those of the shared corpus where it is (`TAPFLOW_CORPUS`).
fn captures() -> Vec<PathBuf> {
    let mut paths = files("captures", "fstrm");
    let corpus = std::env::var_os("TAPFLOW_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"),
        PathBuf::from,
    );
    let folder = corpus.join("captured");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no captures at {}", folder.display());
        return paths;
    };
    paths.extend(
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "fstrm")),
    );
    paths
}

#[test]
fn the_first_records_of_every_capture_are_what_dnstap_read_printed() {
    for path in files("captures", "fstrm") {
        for (format, extension) in [(LINE, "expected.txt"), (YAML, "expected.yaml")] {
            let name = path.with_extension(extension);
            let expected = dnstap_support::testdata("dnstap-read").join(name.file_name().unwrap());
            let expected = std::fs::read_to_string(expected).unwrap();
            let records = ours(&path, format);
            let mut written = String::new();
            for record in &records {
                if written.len() >= expected.len() {
                    break;
                }
                written += record;
            }
            assert!(
                written == expected,
                "{} as {format}: {}",
                path.display(),
                difference(&written, &expected)
            );
        }
    }
}

#[test]
fn options_data_and_codes_are_written_as_dnstap_read_writes_them() {
    for path in files("dnstap-read", "fstrm") {
        for (format, yaml) in [(LINE, false), (YAML, true)] {
            let Some(theirs) = theirs(&path, yaml) else {
                return;
            };
            let ours = ours(&path, format);
            assert!(ours.len() > 250, "{}", ours.len());
            // In quotes here, since plain text breaks the document.
            let bare = |line: &str| match line.strip_prefix("        LLQ: '") {
                Some(rest) => format!("        LLQ: {}", rest.replacen('\'', "", 1)),
                None => line.to_owned(),
            };
            let ours = ours.concat();
            let ours: String = ours.split_inclusive('\n').map(bare).collect();
            assert!(
                ours == theirs,
                "{} as {format}: {}",
                path.display(),
                difference(&ours, &theirs)
            );
        }
    }
}

/// The program's records: lines, or documents with the `---` that goes before all but the first.
fn split(text: &str, yaml: bool) -> Vec<String> {
    if !yaml {
        return text.split_inclusive('\n').map(str::to_owned).collect();
    }
    let mut documents: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        if documents.is_empty() || line == "---\n" {
            documents.push(String::new());
        }
        documents.last_mut().unwrap().push_str(line);
    }
    documents
}

/// A document with its records as the program has them: times to live, which it levels within a set, left out, and
/// an SOA that stands twice only once.
fn levelled(document: &str) -> String {
    let mut lines: Vec<_> = document.lines().collect();
    lines.dedup_by(|a, b| a == b && (a.contains(" IN SOA ") || a.contains("\tIN\tSOA\t")));
    lines
        .into_iter()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let ttl = usize::from(line.starts_with("      - '")) + 1;
            let is_record = words.get(ttl + 1).is_some_and(|class| *class == "IN");
            let is_ttl = |word: &&str| word.bytes().all(|octet| octet.is_ascii_digit());
            match words.get(ttl).filter(|word| is_record && is_ttl(word)) {
                Some(word) => line.replacen(*word, "TTL", 1),
                None => line.to_owned(),
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn whole_captures_are_what_dnstap_read_prints() {
    let (mut problems, mut counts) = (Vec::new(), [0; 4]);
    for path in captures() {
        for (format, yaml) in [(LINE, false), (YAML, true)] {
            let Some(theirs) = theirs(&path, yaml) else {
                return;
            };
            let theirs = split(&theirs, yaml);
            let mut theirs = theirs.iter();
            let payloads = payloads(&path);
            let ours = ours(&path, format);
            assert_eq!(ours.len(), payloads.len(), "every frame is a record");
            for (payload, ours) in payloads.iter().zip(&ours) {
                let view = DnstapView::parse(payload).unwrap();
                let dns = view.message.unwrap().dns().map_or(&[][..], |(dns, _)| dns);
                // The program prints nothing for a message without a question.
                if dns.get(4..6) == Some(&[0, 0]) {
                    counts[1] += 1;
                    continue;
                }
                let theirs = theirs.next().map_or("", String::as_str);
                let undecoded = if yaml {
                    !theirs.contains("_message_data:")
                } else {
                    theirs.ends_with("?/?/?\n")
                };
                if ours == theirs {
                    counts[0] += 1;
                } else if undecoded {
                    counts[2] += 1;
                } else if yaml && levelled(ours) == levelled(theirs) {
                    counts[3] += 1;
                } else {
                    problems.push(format!(
                        "{} as {format}: {}",
                        path.display(),
                        difference(ours, theirs)
                    ));
                }
            }
            assert_eq!(theirs.next(), None, "{}", path.display());
        }
    }
    let [equal, no_question, undecoded, levelled] = counts;
    println!(
        "{equal} records equal; {no_question} without question, {undecoded} not decoded by dnstap-read, {levelled} with \
         times to live or an SOA that it leaves out"
    );
    problems.truncate(40);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(equal > 70_000 && undecoded + levelled < equal / 100);
}

#[test]
fn every_odd_file_keeps_its_records_and_differs_only_where_that_is_meant() {
    let mut problems = Vec::new();
    let mut paths = files("corpus/dns-fstrm", "fstrm");
    paths.extend(files("corpus/payload-fstrm", "fstrm"));
    for path in paths {
        for format in [LINE, YAML] {
            let records = ours(&path, format);
            for record in &records {
                let is_whole = record.ends_with('\n')
                    && !record
                        .bytes()
                        .any(|octet| octet < 9 || (11..32).contains(&octet) || octet == 127);
                let is_one = format == YAML || record.lines().count() == 1;
                assert!(is_whole && is_one, "{}: {record:?}", path.display());
            }
            let Some(theirs) = theirs(&path, format == YAML) else {
                return;
            };
            let ours = records.concat();
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
                    difference(&ours, &theirs)
                )),
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Data of rare types, well formed.
#[rustfmt::skip]
const RARE: &[(u16, &[u8])] = &[
    (11, &[192, 0, 2, 1, 6, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0x80]),
    (11, &[192, 0, 2, 1, 17]),
    (22, &[0x47, 0, 5, 0x80, 0xab]),
    (23, b"\x01a\x07example\0"),
    (30, b"\x01a\0\x62\x01\x80\x08"),
    (31, &[1, 2, 0xab]),
    (32, &[0xff; 40]),
    (34, b"\x01358400123"),
    (34, b"\0\x39\xab\xcd"),
    (38, &[0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    (38, b"\x40\0\0\0\0\0\0\0\x01\x01p\0"),
    (38, b"\x42\x3f\0\0\0\0\0\0\x01\x01p\0"),
    (38, b"\x80\x01p\0"),
    (40, &[1, 2, 3, 4, 5, 6]),
    (42, &[0, 1, 24, 3, 192, 0, 2, 0, 2, 32, 0x84, 0x20, 1, 0x0d, 0xb8]),
    (42, &[0, 1, 0, 0]),
    (42, &[]),
    (45, &[10, 0, 2, 1, 2, 3]),
    (45, &[10, 1, 2, 192, 0, 2, 1, 1, 2, 3]),
    (45, &[10, 2, 2, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]),
    (45, b"\x0a\x03\x02\x02gw\0\x01\x02\x03"),
    (55, b"\x04\x02\0\x03\x01\x02\x03\x04\x05\x06\x07"),
    (55, b"\x10\x02\0\x4012345678901234567890123456789012345678901234567890123456789012345678901234567890\x01r\0\x01s\0"),
    (249, b"\x04hmac\0\x5e\x5d\xc0\x80\x5e\x5d\xc0\x81\0\x03\0\x11\0\x03\x01\x02\x03\0\0"),
    (249, b"\x04hmac\0\x5e\x5d\xc0\x80\x5e\x5d\xc0\x81\0\x03\0\0\0\0\0\x02ab"),
    (259, b"\0\0\0\x01\0\0\0\x02\x03\x09text/html\x01\x02"),
    (259, b"\0\0\0\x01\0\0\0\x02\x03\0"),
    (260, &[10, 0]),
    (260, &[10, 0x81, 192, 0, 2, 1]),
    (260, &[10, 2, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (260, b"\x0a\x83\x02gw\0"),
];

#[test]
fn data_of_rare_types_are_written_as_dnstap_read_writes_them() {
    use prost::Message as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rare.fstrm");
    let start = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    let mut file = start.to_vec();
    for (rtype, data) in RARE {
        let mut dns = b"\0\x07\x84\0\0\x01\0\x01\0\0\0\0\x01q\0".to_vec();
        dns.extend(rtype.to_be_bytes());
        dns.extend(b"\0\x01\xc0\x0c");
        dns.extend(rtype.to_be_bytes());
        dns.extend(b"\0\x01\0\0\0\x05");
        dns.extend((data.len() as u16).to_be_bytes());
        dns.extend(*data);
        let payload = tapflow::dnstap::pb::Dnstap {
            r#type: Some(1),
            message: Some(tapflow::dnstap::pb::Message {
                r#type: Some(2),
                socket_family: Some(1),
                socket_protocol: Some(1),
                query_address: Some(vec![192, 0, 2, 1]),
                response_address: Some(vec![192, 0, 2, 53]),
                query_port: Some(5353),
                response_port: Some(53),
                response_time_sec: Some(1_700_000_000),
                response_time_nsec: Some(5),
                response_message: Some(dns),
                ..Default::default()
            }),
            ..Default::default()
        }
        .encode_to_vec();
        file.extend((payload.len() as u32).to_be_bytes());
        file.extend(payload);
    }
    file.extend(b"\0\0\0\0\0\0\0\x04\0\0\0\x03");
    std::fs::write(&path, file).unwrap();
    let ours = ours(&path, YAML);
    for ours in &ours {
        assert!(!ours.contains("\\#"), "{ours}");
    }
    let Some(theirs) = theirs(&path, true) else {
        return;
    };
    let theirs = split(&theirs, true);
    assert_eq!(ours.len(), theirs.len());
    let problems: Vec<_> = ours
        .iter()
        .zip(&theirs)
        .zip(RARE)
        .filter(|((ours, theirs), _)| ours != theirs)
        .map(|((ours, theirs), row)| format!("{row:?}: {}", difference(ours, theirs)))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
