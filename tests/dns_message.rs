//! DNS messages: every odd one of `testdata/corpus/dns`, the servers' captures, hostile ones, and random ones.

mod dnstap_support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use dnstap_support::{captured, files, payloads};
use proptest::prelude::*;
use tapflow::dns::{DnsView, Malformed, fuzz_message, iana};
use tapflow::dnstap::DnstapView;

/// One file a row: first question (`-` none, `!` unreadable), response code, what is wrong and where.
///
/// `NAME/255` stands for a name of so many octets on the wire that starts so.
const CORPUS: &str = r#"
e01-do                  | www.example. IN A                   | NOERROR   |
e03-opt-in-answer       | www.example. IN A                   | NOERROR   | opt_place 29
e04-opt-owner-not-root  | www.example. IN A                   | NOERROR   | opt_place 29
e05-version-1           | www.example. IN A                   | NOERROR   |
e06-badvers             | www.example. IN A                   | BADVERS   |
e07-ext-rcode-4095      | www.example. IN A                   | 4095      |
e08-option-overrun      | www.example. IN A                   | NOERROR   | edns_option 40
e09-option-cut          | www.example. IN A                   | NOERROR   | edns_option 40
e10-ecs-v4              | www.example. IN A                   | NOERROR   |
e11-ecs-family-0        | www.example. IN A                   | NOERROR   |
e12-ecs-prefix-33       | www.example. IN A                   | NOERROR   | edns_option 40
e14-ecs-2-octets        | www.example. IN A                   | NOERROR   | edns_option 40
e16-ede-1-octet         | www.example. IN A                   | SERVFAIL  | edns_option 40
e17-nsid-binary         | www.example. IN A                   | NOERROR   |
e18-cookie-bad-length   | www.example. IN A                   | NOERROR   | edns_option 40
e19-unknown-options     | www.example. IN A                   | NOERROR   |
e20-padding-468         | www.example. IN A                   | NOERROR   |
e21-size-0              | www.example. IN A                   | NOERROR   |
e22-opt-cut-no-tc       | www.example. IN A                   | NOERROR   | rdata_overrun 40
e23-opt-before-additional | www.example. IN A                 | NOERROR   |
e24-tsig                | www.example. IN A                   | NOERROR   |
e25-ede-not-utf8        | www.example. IN A                   | SERVFAIL  |
h01-all-flags           | www.example. IN A                   | 15        |
h03-opcode-3            | www.example. IN A                   | NOERROR   |
h05-rcode-11            | www.example. IN A                   | DSOTYPENI |
h06-qr-set-in-query     | www.example. IN A                   | NOERROR   |
h07-notify              | example. IN SOA                     | NOERROR   |
h08-update              | example. IN SOA                     | NOERROR   |
n01-self-pointer-qname  | !                                   | NOERROR   | pointer_target 12
n04-pointer-past-end    | !                                   | NOERROR   | pointer_target 12
n05-pointer-cut         | !                                   | NOERROR   | name_cut 17
n06-pointer-into-header | !                                   | NOERROR   | pointer_target 12
n08-name-255            | aaaaaa/255 IN A                     | NOERROR   |
n09-name-256            | !                                   | NOERROR   | name_too_long 267
n11-127-labels          | x.x.x./255 IN A                     | NOERROR   |
n12-label-type-01       | !                                   | NOERROR   | label_type 12
n15-dot-in-label        | a\.b.example. IN A                  | NOERROR   |
n16-special-octets      | sp\032ace.q\"t.b\\s.semi\;.at\@.dol\$.par\(\).example. IN A | NOERROR |
n18-high-octets         | \255\254.caf\233.example. IN A      | NOERROR   |
n19-utf8-label          | b\195\188cher.example. IN A         | NOERROR   |
n20-mixed-case          | wWw.eXaMpLe. IN A                   | NOERROR   |
n21-digits-like-escape  | \\046.example. IN A                 | NOERROR   |
n22-trailing-dot-label  | example\.. IN A                     | NOERROR   |
n23-all-bytes           | \000\001\002/255 IN A               | NOERROR   |
n24-json-html           | </script>.{\"a\":1}.=cmd\(\).example. IN A | NOERROR |
n25-line-sep-utf8       | \226\128\168\226\128\174.example. IN A | NOERROR |
r01-unknown-type        | www.example. IN TYPE65280           | NOERROR   |
r02-unknown-type-empty  | www.example. IN TYPE65281           | NOERROR   |
r04-qtype-any           | www.example. IN ANY                 | NOERROR   |
r06-class-4242          | www.example. CLASS4242 A            | NOERROR   |
r08-txt-odd             | www.example. IN TXT                 | NOERROR   | rdata 348
r10-https               | www.example. IN HTTPS               | NOERROR   |
r11-svcb-bad-param      | www.example. IN SVCB                | NOERROR   | rdata 41
r13-nsec-bad-window     | www.example. IN NSEC                | NOERROR   | rdata 41
r14-soa-compressed      | nope.example. IN A                  | NXDOMAIN  |
r17-ttl-top-bit         | www.example. IN A                   | NOERROR   |
r18-caa-loc             | www.example. IN ANY                 | NOERROR   | rdata 61
r19-rrsig               | www.example. IN A                   | NOERROR   |
r20-null-type           | www.example. IN NULL                | NOERROR   |
t01-empty               |                                     |           | header_cut 0
t02-one-octet           |                                     |           | header_cut 1
t03-eleven-octets       |                                     |           | header_cut 11
t04-header-only-formerr | -                                   | FORMERR   |
t05-qd1-no-question     | !                                   | NOERROR   | question_cut 12
t06-name-no-type        | !                                   | NOERROR   | question_cut 25
t08-ancount-too-big     | www.example. IN A                   | NOERROR   | records_missing 45
t10-tc-clean            | www.example. IN A                   | NOERROR   |
t11-rdlength-over       | www.example. IN A                   | NOERROR   | rdata_overrun 41
t12-a-rdata-3           | www.example. IN A                   | NOERROR   | rdata 41
t13-aaaa-rdata-4        | www.example. IN AAAA                | NOERROR   | rdata 41
t14-trailing-bytes      | www.example. IN A                   | NOERROR   | trailing_octets 29
t15-ancount-65535       | www.example. IN A                   | NOERROR   | records_missing 29
t17-two-questions       | www.example. IN A                   | NOERROR   |
t18-no-question-answer  | -                                   | NOERROR   |
z01-message-65535       | www.example. IN TXT                 | NOERROR   |
"#;

/// A message as a row of [`CORPUS`] describes it.
fn described(message: &[u8]) -> [String; 3] {
    let wrong =
        |error: tapflow::dns::DnsError| format!("{} {}", error.reason.as_str(), error.offset);
    let view = match DnsView::parse(message) {
        Ok(view) => view,
        Err(error) => return [String::new(), String::new(), wrong(error)],
    };
    let mut question = String::new();
    match view.question() {
        Ok(Some(found)) => {
            let name = found.name.to_string();
            match found.name.wire_len() {
                len @ 254.. => write!(
                    question,
                    "{}/{len}",
                    name.get(..if name.starts_with('\\') { 12 } else { 6 })
                        .unwrap()
                )
                .unwrap(),
                _ => question.push_str(&name),
            }
            let mut rest = vec![b' '];
            iana::write_class(&mut rest, found.qclass);
            rest.push(b' ');
            iana::write_type(&mut rest, found.qtype);
            question.push_str(&String::from_utf8(rest).unwrap());
        }
        Ok(None) => question.push('-'),
        Err(_) => question.push('!'),
    }
    let mut rcode = Vec::new();
    iana::write_rcode(&mut rcode, view.rcode());
    [
        question,
        String::from_utf8(rcode).unwrap(),
        view.walk().malformed.map_or_else(String::new, wrong),
    ]
}

#[test]
fn every_odd_message_of_the_corpus_is_read_as_its_row_says() {
    let rows: BTreeMap<&str, Vec<&str>> = CORPUS
        .trim()
        .lines()
        .map(|line| {
            let mut cells = line.split(" |").map(str::trim);
            (cells.next().unwrap(), cells.collect())
        })
        .collect();
    let files = files("corpus/dns", "msg");
    assert_eq!(files.len(), rows.len(), "a row for each file");
    for path in files {
        let id = path.file_stem().unwrap().to_str().unwrap();
        assert_eq!(
            described(&std::fs::read(&path).unwrap()).to_vec(),
            rows[id],
            "{id}"
        );
    }
}

#[test]
fn the_same_messages_in_dnstap_frames_are_read_the_same() {
    for path in files("corpus/dns-fstrm", "fstrm") {
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let [payload] = &payloads(&path)[..] else {
            panic!("{id}: one frame")
        };
        let view = DnstapView::parse(payload).unwrap();
        let (dns, _) = view.classify().unwrap().dns().unwrap();
        assert_eq!(
            dns,
            std::fs::read(dnstap_support::testdata(&format!("corpus/dns/{id}.msg"))).unwrap(),
            "{id}"
        );
    }
}

#[test]
fn real_servers_messages_are_well_formed_but_for_those_cut_on_purpose() {
    let mut odd: BTreeMap<&str, u32> = BTreeMap::new();
    let mut messages = 0;
    for payload in captured() {
        let view = DnstapView::parse(&payload).unwrap();
        let Some((dns, _)) = view.classify().unwrap().dns() else {
            continue;
        };
        messages += 1;
        let error = DnsView::parse(dns).map_or_else(Some, |dns| dns.walk().malformed);
        if let Some(error) = error {
            *odd.entry(error.reason.as_str()).or_default() += 1;
        }
    }
    assert!(messages > 35_000, "{messages}");
    // The load sends a few queries that are only a piece of a message.
    assert_eq!(
        odd,
        BTreeMap::from([("header_cut", 2), ("question_cut", 6)])
    );
}

#[test]
fn counts_and_trailing_octets_are_what_the_message_holds() {
    let read = |id: &str| {
        std::fs::read(dnstap_support::testdata(&format!("corpus/dns/{id}.msg"))).unwrap()
    };
    let rows = [
        ("t17-two-questions", [2, 0, 0, 0], 0),
        ("t08-ancount-too-big", [1, 1, 0, 0], 0),
        ("t14-trailing-bytes", [1, 0, 0, 0], 8),
        ("h08-update", [1, 1, 2, 0], 0),
        ("e24-tsig", [1, 0, 0, 1], 0),
        ("z01-message-65535", [1, 245, 0, 0], 0),
    ];
    for (id, counts, trailing) in rows {
        let message = read(id);
        let walk = DnsView::parse(&message).unwrap().walk();
        assert_eq!(
            [
                walk.questions,
                walk.answers,
                walk.authorities,
                walk.additionals
            ],
            counts,
            "{id}"
        );
        assert_eq!(walk.trailing, trailing, "{id}");
    }
    let message = read("e05-version-1");
    let edns = DnsView::parse(&message).unwrap().edns().unwrap();
    assert_eq!((edns.version, edns.do_bit), (1, false));
}

#[test]
fn a_cut_inside_a_record_is_malformed_whether_or_not_tc_is_set() {
    let mut message =
        std::fs::read(dnstap_support::testdata("corpus/dns/r01-unknown-type.msg")).unwrap();
    for (tc, clean) in [(false, Some(Malformed::RecordsMissing)), (true, None)] {
        message[2] = message[2] & !2 | u8::from(tc) << 1;
        for len in 29..message.len() {
            let error = DnsView::parse(&message[..len])
                .unwrap()
                .walk()
                .malformed
                .map(|error| error.reason);
            let wanted = match len {
                29 => clean,
                30 => Some(Malformed::NameCut),
                31..=40 => Some(Malformed::RecordCut),
                _ => Some(Malformed::RdataOverrun),
            };
            assert_eq!(error, wanted, "TC {tc}, {len} octets");
        }
        assert_eq!(DnsView::parse(&message).unwrap().walk().malformed, None);
    }
}

#[test]
fn every_message_cut_after_any_octet_is_read_without_harm() {
    for path in files("corpus/dns", "msg") {
        let message = std::fs::read(&path).unwrap();
        for len in (0..message.len()).take(400) {
            fuzz_message(&message[..len]);
        }
        fuzz_message(&message);
    }
}

/// Hostile messages of 65,535 octets, each made to cost a naive reader as much as it can.
fn hostile_messages() -> Vec<(&'static str, Vec<u8>)> {
    let header = |questions: u16, answers: u16| {
        let mut message = vec![0, 1, 0x80, 0];
        for count in [questions, answers, 0, 0] {
            message.extend_from_slice(&u16::to_be_bytes(count));
        }
        message
    };
    let fill = |mut message: Vec<u8>, unit: &dyn Fn(usize) -> Vec<u8>| {
        while message.len() < 65_535 {
            message.extend(unit(message.len()));
        }
        message.truncate(65_535);
        message
    };
    let long_name = || {
        (0..127)
            .flat_map(|_| [1, b'x'])
            .chain([0])
            .collect::<Vec<u8>>()
    };
    // Questions and records that all point to one name of 255 octets.
    let mut pointed_at = header(u16::MAX, 0);
    pointed_at.extend(long_name());
    pointed_at.extend([0, 1, 0, 1]);
    let mut records = header(1, u16::MAX);
    records.extend(long_name());
    records.extend([0, 1, 0, 1]);
    // A chain in which each pointer leads to the one before it, and questions that enter it at its end.
    let mut chain = header(u16::MAX, 0);
    chain.extend([1, b'x', 0, 0, 1, 0, 1]);
    while chain.len() < 0x3ffe {
        let before = if chain.len() < 22 {
            12
        } else {
            chain.len() - 2
        };
        chain.extend(u16::to_be_bytes(0xc000 | before as u16));
    }
    // One label and a pointer to the link before, as deep as a name may be.
    let mut ladder = header(u16::MAX, 0);
    ladder.extend([0, 0, 1, 0, 1]);
    let mut links = vec![12u16];
    while links.len() < 127 {
        let at = ladder.len() as u16;
        ladder.extend([1, b'x']);
        ladder.extend(u16::to_be_bytes(0xc000 | links[links.len() - 1]));
        links.push(at);
    }
    let deepest = *links.last().unwrap();
    vec![
        (
            "questions that point to one long name",
            fill(pointed_at, &|_| vec![0xc0, 12, 0, 1, 0, 1]),
        ),
        (
            "records that point to one long name, twice each",
            fill(records, &|_| {
                vec![0xc0, 12, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]
            }),
        ),
        (
            "a chain of pointers",
            fill(chain, &|_| vec![0xff, 0xfc, 0, 1, 0, 1]),
        ),
        ("questions into a ladder of pointers", {
            let mut unit = u16::to_be_bytes(0xc000 | deepest).to_vec();
            unit.extend([0, 1, 0, 1]);
            fill(ladder, &move |_| unit.clone())
        }),
        (
            "nothing but pointers to themselves",
            fill(header(u16::MAX, u16::MAX), &|at| {
                u16::to_be_bytes(0xc000 | (at as u16 & 0x3fff)).to_vec()
            }),
        ),
        (
            "nothing but pointers to the octet before",
            fill(header(1, u16::MAX), &|at| {
                u16::to_be_bytes(0xc000 | (at.saturating_sub(1) as u16 & 0x3fff)).to_vec()
            }),
        ),
        (
            "nothing but zero octets",
            fill(header(u16::MAX, u16::MAX), &|_| vec![0]),
        ),
        (
            "empty records",
            fill(header(0, u16::MAX), &|_| {
                vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            }),
        ),
    ]
}

#[test]
fn hostile_messages_take_less_than_fifty_milliseconds_on_a_small_stack() {
    let run = || {
        for (what, message) in hostile_messages() {
            assert_eq!(message.len(), 65_535);
            // The best of three, so that a busy machine does not fail the test. The limit is for an optimised
            // build; without optimisation each step costs about ten times as much.
            let limit = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });
            let best = (0..3)
                .map(|_| {
                    let start = Instant::now();
                    fuzz_message(&message);
                    for offset in [12, 20, 0x3ffc] {
                        let _ = tapflow::dns::Name::parse(&message, offset);
                    }
                    start.elapsed()
                })
                .min()
                .unwrap();
            assert!(best < limit, "{what}: {best:?}");
        }
    };
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

/// A message that is near to a well-formed one: a header with small counts, then pieces of names and records.
fn near_messages() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (1u8..64, any::<u8>()).prop_map(|(len, octet)| {
            let mut label = vec![len];
            label.resize(usize::from(len) + 1, octet);
            label
        }),
        Just(vec![0]),
        Just(vec![0, 0, 1, 0, 1]),
        (0u8..64).prop_map(|at| vec![0xc0, at]),
        Just(vec![0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]),
        Just(vec![0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 4, 0, 10, 0, 0]),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    (
        any::<[u8; 4]>(),
        any::<[bool; 8]>(),
        proptest::collection::vec(piece, 0..20),
    )
        .prop_map(|(head, counts, pieces)| {
            let mut message = head.to_vec();
            for pair in counts.chunks(2) {
                message.extend([0, u8::from(pair[0]) + 2 * u8::from(pair[1])]);
            }
            message.extend(pieces.concat());
            message
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_are_read_without_harm(message in proptest::collection::vec(any::<u8>(), 0..600)) {
        fuzz_message(&message);
    }

    #[test]
    fn messages_that_are_nearly_right_are_read_without_harm(message in near_messages()) {
        fuzz_message(&message);
    }
}
