//! The quiet line against golang-dnstap itself, where it is installed, and against rows it is known to print.

mod dnstap_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use dnstap_support::{captured, files, payloads};
use tapflow::dnstap::{DecodeReason, DnstapView};
use tapflow::format::{fuzz_payload, quiet};

fn line(payload: &[u8]) -> Result<String, DecodeReason> {
    let mut out = b"kept ".to_vec();
    let verdict = quiet::write(&mut out, &DnstapView::parse(payload)?, true);
    let text = String::from_utf8(out).expect("ASCII");
    let written = text.strip_prefix("kept ").expect("what was there is kept");
    assert_eq!(written.is_empty(), verdict.is_err(), "all or nothing");
    verdict.map(|()| written.to_owned())
}

/// What `dnstap -q` prints for a file, or `None` where it is not installed.
fn golang(file: &Path) -> Option<Vec<String>> {
    let output = Command::new("dnstap")
        .args(["-q", "-r"])
        .arg(file)
        .env("TZ", "UTC")
        .output();
    match output {
        Ok(output) => Some(
            String::from_utf8(output.stdout)
                .expect("text")
                .lines()
                .map(|line| format!("{line}\n"))
                .collect(),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "skipped: the comparison with golang-dnstap (Debian package golang-github-dnstap-golang-dnstap-cli)"
            );
            None
        }
        Err(error) => panic!("dnstap: {error}"),
    }
}

#[test]
fn equals_golang_dnstap_on_every_capture() {
    for file in files("captures", "fstrm") {
        let Some(theirs) = golang(&file) else { return };
        let ours: Vec<_> = payloads(&file)
            .iter()
            .map(|payload| line(payload).expect("a record"))
            .collect();
        assert_eq!(ours.len(), theirs.len(), "{}", file.display());
        let pairs = ours.iter().zip(&theirs);
        let differences: Vec<_> = pairs
            .filter(|(ours, theirs)| ours != theirs && !is_known(ours, theirs))
            .collect();
        assert!(
            differences.is_empty(),
            "{}: {} differences, first {:?}",
            file.display(),
            differences.len(),
            differences[0]
        );
    }
}

/// The one kind of difference on the captures: a question that ends after its name, for which golang-dnstap
/// makes up a class and a type (corpus t06).
fn is_known(ours: &str, theirs: &str) -> bool {
    let theirs = theirs
        .strip_suffix("CLASS0 None\n")
        .and_then(|theirs| theirs.split_once(" \""))
        .map(|(head, _)| head);
    theirs.is_some() && theirs == ours.strip_suffix(" X \n")
}

/// The odd frames where the line is not golang-dnstap's, each explained by the table in the module's text.
/// The left side is ours, the right side theirs; `-` is no line at all. A frame that is no record ends
/// golang-dnstap; the good frame after it has a line only here.
const DIFFERENCES: &str = r#"
e08-option-overrun | 22:13:20.123456 CQ 192.0.2.1 UDP 52b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 UDP 52b X
e09-option-cut | 22:13:20.123456 CQ 192.0.2.1 UDP 43b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 UDP 43b X
e12-ecs-prefix-33 | 22:13:20.123456 CQ 192.0.2.1 UDP 52b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 UDP 52b X
e14-ecs-2-octets | 22:13:20.123456 CQ 192.0.2.1 UDP 46b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 UDP 46b X
e16-ede-1-octet | 22:13:21.223456 CR 192.0.2.1 UDP 45b "www.example." IN A | 22:13:21.223456 CR 192.0.2.1 UDP 45b X
e22-opt-cut-no-tc | 22:13:21.223456 CR 192.0.2.1 UDP 45b "www.example." IN A | 22:13:21.223456 CR 192.0.2.1 UDP 45b X
n06-pointer-into-header | 22:13:20.123456 CQ 192.0.2.1 UDP 18b X | 22:13:20.123456 CQ 192.0.2.1 UDP 18b "a.\000." IN A
r11-svcb-bad-param | 22:13:21.223456 CR 192.0.2.1 UDP 51b "www.example." IN SVCB | 22:13:21.223456 CR 192.0.2.1 UDP 51b X
r13-nsec-bad-window | 22:13:21.223456 CR 192.0.2.1 UDP 87b "www.example." IN NSEC | 22:13:21.223456 CR 192.0.2.1 UDP 87b X
t06-name-no-type | 22:13:20.123456 CQ 192.0.2.1 UDP 25b X | 22:13:20.123456 CQ 192.0.2.1 UDP 25b "www.example." CLASS0 None
t11-rdlength-over | 22:13:21.223456 CR 192.0.2.1 UDP 45b "www.example." IN A | 22:13:21.223456 CR 192.0.2.1 UDP 45b X
t12-a-rdata-3 | 22:13:21.223456 CR 192.0.2.1 UDP 44b "www.example." IN A | 22:13:21.223456 CR 192.0.2.1 UDP 44b X
t13-aaaa-rdata-4 | 22:13:21.223456 CR 192.0.2.1 UDP 45b "www.example." IN AAAA | 22:13:21.223456 CR 192.0.2.1 UDP 45b X
p02-missing-message-type | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p03-dnstap-type-2 | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p04-dnstap-type-missing | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p05-no-message | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p08-address-empty | 22:13:20.123456 CQ MISSING_ADDRESS UDP 29b "www.example." IN A | 22:13:20.123456 CQ <nil> UDP 29b "www.example." IN A
p09-address-len-17 | 22:13:20.123456 CQ MISSING_ADDRESS UDP 29b "www.example." IN A | 22:13:20.123456 CQ ?20010db800000000000000000000000101 UDP 29b "www.example." IN A
p17-protocol-5 | 22:13:20.123456 CQ 192.0.2.1 DNSCryptUDP 29b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 5 29b "www.example." IN A
p18-protocol-6 | 22:13:20.123456 CQ 192.0.2.1 DNSCryptTCP 29b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 6 29b "www.example." IN A
p19-protocol-7 | 22:13:20.123456 CQ 192.0.2.1 DOQ 29b "www.example." IN A | 22:13:20.123456 CQ 192.0.2.1 7 29b "www.example." IN A
p23-sec-max | ??:??:??.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | 23:59:59.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A
p24-sec-i64max | ??:??:??.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | 15:30:07.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A
p39-truncated-payload | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p41-length-overrun | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p42-field-0 | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p43-random | 22:13:20.123456 CQ 192.0.2.1 UDP 29b "www.example." IN A | -
p49-stub-query | 22:13:20.123456 SQ 198.51.100.53 UDP 29b "www.example." IN A | [unhandled Message.Type]
p52-negative-enum | 22:13:20.123456 ?? 192.0.2.1 UDP 29b "www.example." IN A | [unhandled Message.Type]
"#;

#[test]
fn differs_from_golang_dnstap_only_where_the_table_says() {
    let mut found = Vec::new();
    let files: Vec<PathBuf> = [
        files("corpus/dns-fstrm", "fstrm"),
        files("corpus/payload-fstrm", "fstrm"),
    ]
    .concat();
    for file in files {
        let Some(theirs) = golang(&file) else { return };
        let id = file.file_stem().unwrap().to_str().unwrap();
        let mut theirs = theirs.into_iter();
        for payload in payloads(&file) {
            let ours = line(&payload).unwrap_or_else(|_| "-\n".to_owned());
            let theirs = theirs.next().unwrap_or_else(|| "-\n".to_owned());
            if ours != theirs {
                found.push(format!(
                    "{id} | {} | {}",
                    ours.trim_end(),
                    theirs.trim_end()
                ));
            }
        }
    }
    let wanted: Vec<_> = DIFFERENCES.trim().lines().collect();
    assert!(found == wanted, "\n{}", found.join("\n"));
}

#[test]
fn the_line_has_golang_dnstaps_layout() {
    // The same frame as the good one of the corpus, and what golang-dnstap 0.4.0 prints for it in UTC.
    let file = dnstap_support::testdata("corpus/payload-fstrm/p27-sec-only.fstrm");
    let lines: Vec<_> = payloads(&file)
        .iter()
        .map(|payload| line(payload).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "22:13:20.123456 CQ 192.0.2.1 UDP 29b \"www.example.\" IN A\n",
            "22:13:20.?????? CQ 192.0.2.1 UDP 29b \"www.example.\" IN A\n",
            "22:13:20.123456 CQ 192.0.2.1 UDP 29b \"www.example.\" IN A\n",
        ]
    );
}

#[test]
fn what_is_no_record_gives_no_line_and_its_reason() {
    for (id, reason) in [
        ("p05-no-message", "message_missing"),
        ("p39-truncated-payload", "protobuf_overrun"),
    ] {
        let file = dnstap_support::testdata(&format!("corpus/payload-fstrm/{id}.fstrm"));
        assert_eq!(
            line(&payloads(&file)[1]).map_err(DecodeReason::as_str),
            Err(reason),
            "{id}"
        );
    }
}

#[test]
fn every_frame_of_testdata_is_one_line_that_gives_back_its_octets() {
    for payload in captured().iter().step_by(7) {
        fuzz_payload(payload);
    }
    for file in [
        files("corpus/dns-fstrm", "fstrm"),
        files("corpus/payload-fstrm", "fstrm"),
    ]
    .concat()
    {
        payloads(&file)
            .iter()
            .for_each(|payload| fuzz_payload(payload));
    }
}
