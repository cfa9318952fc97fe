//! What went wrong in dnstap pipelines when payloads and messages were decoded, by public reports, and what is right: a test
//! for each, named after what it shows. The numbers in the comments (B065) are those of the list of reports that the tests of
//! the service use too; reports that are about the service (counters, labels, connections) have theirs in `tests/service`.
//!
//! Where it says every format, it is each in [`Format::kinds`], those added later included.

mod dnstap_support;
mod format_support;

use dnstap_support::{captured, files, payloads, testdata};
use format_support::{message, name, ours, record, written_query};
use prost::Message as _;
use serde_json::{Value, json};
use tapflow::dns::NameBuf;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::format::{Entry, Format, Settings, Shape, Source};

/// The formats that are text, which a record is at least one line of.
fn texts() -> impl Iterator<Item = &'static str> {
    Format::kinds()
        .filter(|kind| kind.shape == Shape::Lines)
        .map(|kind| kind.name)
}

/// A payload as our JSON, from a sender that is known.
fn shown(payload: &[u8]) -> Value {
    let view = DnstapView::parse(payload).expect("a payload");
    let source = Source {
        received: None,
        listener: "tcp",
        peer: "192.0.2.99:4711",
    };
    let mut out = Vec::new();
    tapflow::format::json::write(&mut out, &view, &source).expect("a record");
    serde_json::from_slice(&out).expect("JSON")
}

/// The odd one of a file of three payloads.
fn odd(id: &str) -> Vec<u8> {
    payloads(&testdata(&format!("corpus/payload-fstrm/{id}.fstrm"))).swap_remove(1)
}

/// An odd message in its frame, as our JSON.
fn odd_message(id: &str) -> Value {
    let payload = payloads(&testdata(&format!("corpus/dns-fstrm/{id}.fstrm"))).swap_remove(0);
    shown(&payload)
}

/// A frame of this type with both messages and both times as they are given.
fn frame(kind: i32, set: impl FnOnce(&mut pb::Message)) -> Vec<u8> {
    let mut message = pb::Message {
        r#type: Some(kind),
        ..pb::Message::default()
    };
    set(&mut message);
    pb::Dnstap {
        r#type: Some(1),
        message: Some(message),
        ..pb::Dnstap::default()
    }
    .encode_to_vec()
}

/// What every format makes of a frame; each has to take it.
fn in_every_format(payload: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let view = DnstapView::parse(payload).expect("a payload");
    Format::kinds()
        .map(|kind| {
            let mut line = (kind.make)(&Settings::default()).expect("a format");
            let mut out = Vec::new();
            let entry = Entry {
                payload,
                view: Ok(&view),
                source: Source::default(),
            };
            line.write(&mut out, entry)
                .unwrap_or_else(|reason| panic!("{}: {}", kind.name, reason.as_str()));
            (kind.name, out)
        })
        .collect()
}

/// B065: CoreDNS sends IPv4 addresses in 16 octets.
#[test]
fn a_mapped_address_of_an_ipv4_client_is_its_ipv4_address_and_never_zeros() {
    let found = shown(&odd("p06-v4mapped-family-inet"));
    assert_eq!(found["query_address"], "192.0.2.1");
    for format in [
        "text",
        "dnstap-read",
        "golang-json",
        "golang-yaml",
        "ldns",
        "flat-json",
        "collector-text",
    ] {
        let records = ours(
            &testdata("corpus/payload-fstrm/p06-v4mapped-family-inet.fstrm"),
            format,
        );
        assert!(!records[1].contains("0.0.0.0"), "{format}: {}", records[1]);
    }
}

/// B066, B089: dnstap-read aborts at nanoseconds of a second and wraps seconds.
#[test]
fn times_that_no_calendar_shows_are_kept_as_they_were_sent_and_flagged() {
    for (id, seconds, nanos) in [
        ("p21-nsec-1e9", json!(1_700_000_000), json!(1_000_000_000)),
        ("p23-sec-max", json!(u64::MAX), json!(123_456_789)),
        ("p24-sec-i64max", json!(i64::MAX), json!(123_456_789)),
    ] {
        let found = shown(&odd(id));
        assert_eq!(
            found["query_time"],
            json!({"seconds": seconds, "nanos": nanos}),
            "{id}"
        );
        assert_eq!(found["odd"], json!(["time"]), "{id}");
        in_every_format(&odd(id));
    }
}

/// B067: dnstap-read and golang-dnstap crash.
#[test]
fn a_frame_of_type_message_without_a_message_is_an_error_with_a_reason() {
    let payload = odd("p05-no-message");
    let view = DnstapView::parse(&payload).unwrap();
    assert_eq!(view.classify().unwrap_err().as_str(), "message_missing");
}

/// B068: Knot Resolver with its logging of queries off.
#[test]
fn a_query_event_without_its_message_is_a_record_with_addresses_and_without_a_name() {
    let found = shown(&odd("p37-query-without-message"));
    assert_eq!(
        (&found["type"], &found["query_address"]),
        (&json!("CLIENT_QUERY"), &json!("192.0.2.1"))
    );
    assert!(
        found.get("dns").is_none() && found.get("odd").is_none(),
        "{found}"
    );
    in_every_format(&odd("p37-query-without-message"));
}

/// B069: a reader that refuses what it does not know is blind after an upgrade of the sender.
#[test]
fn unknown_numbers_refuse_no_record_and_known_ones_have_their_names() {
    let rows = [
        (0, json!(0)),
        (1, json!("UDP")),
        (2, json!("TCP")),
        (3, json!("DOT")),
        (4, json!("DOH")),
        (5, json!("DNSCryptUDP")),
        (6, json!("DNSCryptTCP")),
        (7, json!("DOQ")),
        (99, json!(99)),
        (-1, json!(-1)),
    ];
    for (number, wanted) in rows {
        let payload = frame(5, |message| message.socket_protocol = Some(number));
        assert_eq!(shown(&payload)["protocol"], wanted);
        in_every_format(&payload);
    }
    for (number, wanted) in [
        (1, json!("HTTP1")),
        (2, json!("HTTP2")),
        (3, json!("HTTP3")),
        (9, json!(9)),
    ] {
        let payload = frame(5, |message| message.http_protocol = Some(number));
        assert_eq!(shown(&payload)["http_protocol"], wanted);
    }
}

/// B071: nothing but the two types has to be there.
#[test]
fn a_missing_field_is_absent_and_not_zero() {
    let payload = frame(5, |_| {});
    let found = shown(&payload);
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["type", "source"]);
    for (format, out) in in_every_format(&payload) {
        let text = String::from_utf8_lossy(&out);
        assert!(
            !text.contains("0.0.0.0") && !text.contains("1970"),
            "{format}: {text}"
        );
    }
}

/// B072: BIND's client responses have no query time.
#[test]
fn latency_is_absent_when_a_time_is_and_not_zero() {
    let both = |query: Option<u64>, response: Option<u64>| {
        frame(6, |message| {
            message.query_time_sec = query;
            message.response_time_sec = response;
        })
    };
    assert_eq!(shown(&both(Some(10), Some(12)))["latency"], json!(2.0));
    for payload in [
        both(None, Some(12)),
        both(Some(10), None),
        both(Some(12), Some(10)),
    ] {
        assert!(shown(&payload).get("latency").is_none());
    }
}

/// B075: senders that wrote microseconds as nanoseconds.
#[test]
fn the_fraction_of_a_time_is_carried_as_it_was_sent() {
    let payload = frame(5, |message| {
        message.query_time_sec = Some(1_700_000_000);
        message.query_time_nsec = Some(123_456);
    });
    assert_eq!(
        shown(&payload)["query_time"],
        "2023-11-14T22:13:20.000123456Z"
    );
}

/// B076: BIND's clock moves in steps, so that many events have one time.
#[test]
fn records_come_in_the_order_of_arrival_and_not_of_time() {
    let path = testdata("captures/bind9.fstrm");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tapflow"))
        .args(["read", "--format", "hex"])
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let wanted: Vec<String> = payloads(&path)
        .iter()
        .map(|payload| payload.iter().map(|octet| format!("{octet:02x}")).collect())
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
}

/// B078, B088: golang-dnstap shows types named since as unhandled.
#[test]
fn all_fourteen_types_have_their_names() {
    let names = [
        "AUTH_QUERY",
        "AUTH_RESPONSE",
        "RESOLVER_QUERY",
        "RESOLVER_RESPONSE",
        "CLIENT_QUERY",
        "CLIENT_RESPONSE",
        "FORWARDER_QUERY",
        "FORWARDER_RESPONSE",
        "STUB_QUERY",
        "STUB_RESPONSE",
        "TOOL_QUERY",
        "TOOL_RESPONSE",
        "UPDATE_QUERY",
        "UPDATE_RESPONSE",
    ];
    let query = std::fs::read(testdata("corpus/dns/e01-do.msg")).unwrap();
    for (number, name) in (1..).zip(names) {
        let payload = frame(number, |message| {
            message.query_message = Some(query.clone());
            message.response_message = Some(query.clone());
        });
        assert_eq!(shown(&payload)["type"], name);
        for (format, out) in in_every_format(&payload) {
            let text = String::from_utf8_lossy(&out);
            assert!(!text.contains("unhandled"), "{format}: {text}");
        }
    }
}

/// B083: `extra` was lost or not shown.
#[test]
fn extra_is_shown_with_every_octet() {
    let payload = pb::Dnstap {
        extra: Some((0..=255).collect()),
        ..pb::Dnstap::decode(&frame(5, |_| {})[..]).unwrap()
    }
    .encode_to_vec();
    let found = shown(&payload);
    let text = found["extra"].as_str().unwrap();
    let (mut octets, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let (octet, tail) = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => (b'\\', tail),
            (b'\\', [a, b, c, tail @ ..]) => {
                ((a - b'0') * 100 + (b - b'0') * 10 + (c - b'0'), tail)
            }
            _ => (*first, tail),
        };
        octets.push(octet);
        rest = tail;
    }
    assert_eq!(octets, (0..=255).collect::<Vec<u8>>());
}

/// B084: policy, query zone and version were not decoded.
#[test]
fn every_field_of_the_schema_is_in_the_record() {
    let payload = pb::Dnstap {
        identity: Some(b"ns1".to_vec()),
        version: Some(b"v".to_vec()),
        extra: Some(b"x".to_vec()),
        ..pb::Dnstap::decode(
            &frame(6, |message| {
                *message = pb::Message {
                    r#type: Some(6),
                    socket_family: Some(2),
                    socket_protocol: Some(4),
                    query_address: Some(vec![1; 16]),
                    response_address: Some(vec![2; 16]),
                    query_port: Some(1),
                    response_port: Some(2),
                    query_time_sec: Some(1),
                    query_time_nsec: Some(2),
                    query_message: Some(std::fs::read(testdata("corpus/dns/e01-do.msg")).unwrap()),
                    query_zone: Some(b"\x03com\0".to_vec()),
                    response_time_sec: Some(3),
                    response_time_nsec: Some(4),
                    response_message: Some(
                        std::fs::read(testdata("corpus/dns/r19-rrsig.msg")).unwrap(),
                    ),
                    policy: Some(pb::Policy {
                        r#type: Some(b"RPZ".to_vec()),
                        rule: Some(b"r".to_vec()),
                        action: Some(3),
                        r#match: Some(2),
                        value: Some(b"v".to_vec()),
                    }),
                    http_protocol: Some(2),
                };
            })[..],
        )
        .unwrap()
    }
    .encode_to_vec();
    let found = shown(&payload);
    let keys: Vec<&str> = found
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "type",
            "identity",
            "version",
            "extra",
            "family",
            "protocol",
            "http_protocol",
            "query_address",
            "query_port",
            "response_address",
            "response_port",
            "query_time",
            "response_time",
            "latency",
            "query_zone",
            "query_size",
            "response_size",
            "policy",
            "dns",
            "query_dns",
            "source",
        ]
    );
    assert_eq!(
        found["policy"],
        json!({"type": "RPZ", "rule": "r", "action": "PASS", "match": "CLIENT_IP", "value": "v"})
    );
}

/// B085: anycast servers share address and identity.
#[test]
fn the_sender_and_the_listener_are_in_each_record_whatever_the_identity() {
    let found = shown(&frame(5, |_| {}));
    assert_eq!(
        found["source"],
        json!({"listener": "tcp", "peer": "192.0.2.99:4711"})
    );
}

/// B087: golang-dnstap ends at the first bad payload without an error, dnstap-ldns with one.
#[test]
fn a_bad_payload_costs_one_frame_in_every_format() {
    let errors = ["p02", "p03", "p04", "p05", "p39", "p41", "p42", "p43"];
    for path in files("corpus/payload-fstrm", "fstrm") {
        let wanted = if errors.contains(&&name(&path)[..3]) {
            2
        } else {
            3
        };
        // These take any octets, so that nothing is an error.
        for format in texts().filter(|format| !matches!(*format, "hex" | "base64")) {
            assert_eq!(
                ours(&path, format).len(),
                wanted,
                "{} as {format}",
                name(&path)
            );
        }
    }
}

/// B091, B096, B097, B108 and rule 2 of the corpus: what ended other programs costs the message and not the record.
#[test]
fn a_message_that_cannot_be_read_keeps_the_record_and_says_what_is_wrong_and_where() {
    let mut malformed = 0;
    for path in files("corpus/dns-fstrm", "fstrm") {
        let found = odd_message(&name(&path));
        assert_eq!(found["query_address"], "192.0.2.1", "{}", name(&path));
        assert!(found["query_time"].is_string(), "{}", name(&path));
        if let Some(error) = found["dns"].get("malformed") {
            assert!(
                error["reason"].is_string() && error["offset"].is_u64(),
                "{found}"
            );
            malformed += 1;
        }
        for format in texts() {
            assert_eq!(ours(&path, format).len(), 1, "{} as {format}", name(&path));
        }
    }
    assert_eq!(malformed, 30);
}

/// B108: golang-dnstap shows an X for a message whose AAAA has four octets.
#[test]
fn a_bad_record_leaves_name_type_and_code_of_the_message_to_be_read() {
    for (id, qname) in [
        ("t13-aaaa-rdata-4", "www.example."),
        ("r11-svcb-bad-param", "www.example."),
        ("t11-rdlength-over", "www.example."),
    ] {
        let found = odd_message(id);
        assert_eq!(
            (&found["dns"]["qname"], &found["dns"]["rcode"]),
            (&json!(qname), &json!("NOERROR"))
        );
        assert!(found["dns"]["malformed"].is_object(), "{found}");
    }
}

/// B098: dnstap-read prints nothing for a response without question.
#[test]
fn a_response_without_question_is_a_record_in_every_format() {
    for id in ["t04-header-only-formerr", "t18-no-question-answer"] {
        let found = odd_message(id);
        assert!(found["dns"].get("qname").is_none() && found["dns"].get("malformed").is_none());
        for format in texts() {
            let path = testdata(&format!("corpus/dns-fstrm/{id}.fstrm"));
            assert_eq!(ours(&path, format).len(), 1, "{format}");
        }
    }
    assert_eq!(
        odd_message("t04-header-only-formerr")["dns"]["rcode"],
        "FORMERR"
    );
    assert_eq!(
        odd_message("t18-no-question-answer")["dns"]["answers"][0]["name"],
        "www.example."
    );
}

/// The messages of the corpus about names, and what the name is on the wire.
fn names_of_the_corpus() -> Vec<(String, Vec<u8>)> {
    let ids = [
        "n08", "n11", "n15", "n16", "n18", "n19", "n20", "n21", "n22", "n23", "n24", "n25",
    ];
    files("corpus/dns", "msg")
        .into_iter()
        .filter(|path| ids.contains(&&name(path)[..3]))
        .map(|path| {
            let message = std::fs::read(&path).unwrap();
            let mut end = 12;
            while message[end] > 0 {
                end += 1 + usize::from(message[end]);
            }
            (name(&path), message[12..=end].to_vec())
        })
        .collect()
}

/// B099, B100, B124: octets that are no UTF-8 ended a receiver, and were replaced by another.
#[test]
fn a_name_of_any_octets_is_had_back_from_the_text() {
    let names = names_of_the_corpus();
    assert_eq!(names.len(), 12);
    for (id, wire) in &names {
        for (format, key) in [
            ("json", "/dns/qname"),
            ("flat-json", "/dns.qname"),
            ("flat-json-joined", "/dns.qname"),
        ] {
            let line = ours(&testdata(&format!("corpus/dns-fstrm/{id}.fstrm")), format).concat();
            let found: Value = serde_json::from_str(&line).unwrap();
            let text = found.pointer(key).unwrap().as_str().unwrap();
            assert_eq!(
                NameBuf::parse(text).unwrap().as_wire(),
                wire,
                "{id} as {format}: {text}"
            );
        }
    }
}

/// B124: the tools differ in `"`, `@`, `$`, `'` and the space; the one form is that of BIND, with the final dot.
#[test]
fn names_have_one_form_in_our_json() {
    let rows = [
        (&b"\x03a.b\0"[..], r"a\.b."),
        (b"\x03a b\0", r"a\032b."),
        (b"\x03\"@$\0", r#"\"\@\$."#),
        (b"\x01'\0", "'."),
        (b"\x04;()\\\0", r"\;\(\)\\."),
        (b"\x02\x1f\x7f\0", r"\031\127."),
        (b"\x02\xc3\xbc\0", r"\195\188."),
        (b"\x03wWw\0", "wWw."),
        (b"\0", "."),
    ];
    for (zone, wanted) in rows {
        let found: Value =
            serde_json::from_str(&written_query("json", b"", zone, vec![0; 12])).unwrap();
        assert_eq!(found["query_zone"], *wanted);
    }
}

/// B101, B102: a line ended at NUL; a tab broke columns.
#[test]
fn no_raw_control_octet_leaves_in_any_format() {
    for (id, _) in names_of_the_corpus() {
        for format in texts() {
            let text = ours(&testdata(&format!("corpus/dns-fstrm/{id}.fstrm")), format).concat();
            // The YAML of dnstap-ldns has tabs between the fields of records.
            let is_layout = |c: char| c == '\n' || c == '\t' && format != "text";
            assert!(
                !text.chars().any(|c| c.is_control() && !is_layout(c)),
                "{id} as {format}: {text:?}"
            );
            if format == "tsv" {
                let columns = tapflow::format::table::DEFAULT.len();
                let is_whole = |line: &str| line.split('\t').count() == columns;
                assert!(text.lines().all(is_whole), "{id}: {text:?}");
            }
        }
    }
    let question = [&b"\x03a\0b\x03c\td\0"[..], &[0, 1, 0, 1]].concat();
    let mut query = vec![0; 12];
    query[5] = 1;
    query.extend(question);
    for format in [
        "text",
        "json",
        "dnstap-read",
        "dnstap-read-yaml",
        "golang-json",
        "golang-yaml",
        "ldns",
        "ldns-quiet",
        "flat-json",
        "flat-json-joined",
        "collector-text",
    ] {
        let text = written_query(format, b"ns1", b"\0", query.clone());
        assert!(
            text.replace("\\\\", "\\").contains("a\\000b.c\\009d"),
            "{format}: {text:?}"
        );
    }
}

/// B103: backslash or quote in a name made invalid JSON.
#[test]
fn every_line_of_json_parses_whatever_the_names_hold() {
    for (id, _) in names_of_the_corpus() {
        for format in texts().filter(|format| format.contains("json")) {
            for line in ours(&testdata(&format!("corpus/dns-fstrm/{id}.fstrm")), format) {
                serde_json::from_str::<Value>(&line)
                    .unwrap_or_else(|error| panic!("{id} as {format}: {error}"));
            }
        }
    }
}

/// B107: answers that were cut for their size were taken for malformed.
#[test]
fn a_clean_cut_with_tc_is_not_malformed_and_a_cut_inside_a_record_is() {
    let found = odd_message("t10-tc-clean");
    assert_eq!(found["dns"]["flags"], json!(["qr", "tc", "rd", "ra"]));
    assert!(found["dns"].get("malformed").is_none());
    let whole = std::fs::read(testdata("corpus/dns/r01-unknown-type.msg")).unwrap();
    let cut = |len: usize| {
        let mut octets = whole[..len].to_vec();
        octets[2] |= 2;
        shown(&frame(6, |message| message.response_message = Some(octets)))
    };
    assert!(cut(29)["dns"].get("malformed").is_none());
    assert_eq!(cut(35)["dns"]["malformed"]["reason"], "record_cut");
}

/// B109: short options crashed one program, and family 0 was refused by another.
#[test]
fn a_bad_option_is_flagged_and_leaves_the_rest_and_family_zero_is_taken() {
    for id in [
        "e08-option-overrun",
        "e09-option-cut",
        "e12-ecs-prefix-33",
        "e14-ecs-2-octets",
        "e16-ede-1-octet",
    ] {
        let found = odd_message(id);
        assert_eq!(found["dns"]["qname"], "www.example.", "{id}");
        assert_eq!(found["dns"]["malformed"]["reason"], "edns_option", "{id}");
    }
    let found = odd_message("e11-ecs-family-0");
    assert!(found["dns"].get("malformed").is_none());
    let option = &found["dns"]["edns"]["option_values"][0];
    assert_eq!(
        (&option["family"], &option["source_prefix"]),
        (&json!(0), &json!(0))
    );
    // Two OPT records: the second is flagged where it stands.
    let opt = record(41, 512, b"");
    let two = shown(&frame(6, |sent| {
        sent.response_message = Some(message(0, &[], &[&opt, &opt]))
    }));
    assert_eq!(two["dns"]["malformed"]["reason"], "opt_repeated");
    assert_eq!(two["dns"]["edns"]["udp_size"], 512);
}

/// B111: an upgrade of a library made signed answers fail.
#[test]
fn no_type_of_record_known_or_unknown_fails_the_record() {
    for rtype in 0..=u16::MAX {
        if rtype > 300 && rtype % 97 != 0 && rtype < 65_200 {
            continue;
        }
        let answer = record(rtype, 1, &[7; 24]);
        let found = shown(&frame(6, |sent| {
            sent.response_message = Some(message(0, &[&answer], &[]))
        }));
        let shown = &found["dns"]["answers"][0];
        assert!(
            shown["rdata"].is_string() && found["dns"]["rcode"] == "NOERROR",
            "{rtype}: {found}"
        );
    }
    let signed = odd_message("r19-rrsig");
    assert_eq!(signed["dns"]["answers"][1]["type"], "RRSIG");
    let text = signed["dns"]["answers"][1]["rdata"].as_str().unwrap();
    assert!(text.starts_with("A 13 2 300 2"), "{text}");
}

/// B112: HTTPS and SVCB were not decoded.
#[test]
fn service_bindings_are_decoded_or_shown_in_the_generic_form() {
    let found = odd_message("r10-https");
    assert_eq!(found["dns"]["answers"][0]["type"], "HTTPS");
    let text = found["dns"]["answers"][0]["rdata"].as_str().unwrap();
    assert!(
        text.contains("alpn=") && text.contains("ipv4hint="),
        "{text}"
    );
    let bad = odd_message("r11-svcb-bad-param");
    let text = bad["dns"]["answers"][0]["rdata"].as_str().unwrap();
    assert!(text.starts_with("\\# "), "{text}");
}

/// B115: an UPDATE with class ANY and no data was taken for malformed.
#[test]
fn an_update_shows_its_zone_and_takes_records_without_data() {
    let found = odd_message("h08-update");
    let dns = &found["dns"];
    assert_eq!(
        (&dns["opcode"], &dns["qname"]),
        (&json!("UPDATE"), &json!("example."))
    );
    assert_eq!(dns["zone"][0]["type"], "SOA");
    assert_eq!(dns["updates"].as_array().unwrap().len(), 2);
    assert!(
        dns["updates"][1].get("rdata").is_none() && dns.get("malformed").is_none(),
        "{dns}"
    );
}

/// B004, B119: large answers were cut or refused.
#[test]
fn a_message_of_the_largest_size_is_one_record_and_whole() {
    let found = odd_message("z01-message-65535");
    assert_eq!(found["dns"]["answers"].as_array().unwrap().len(), 245);
    let size = found["query_size"]
        .as_u64()
        .or_else(|| found["response_size"].as_u64());
    assert_eq!(size, Some(65_535));
}

/// B123: dnstap-read shows the times to live of a set of records as one value.
#[test]
fn each_record_has_its_own_time_to_live_as_it_was_sent() {
    let found = odd_message("r17-ttl-top-bit");
    let ttls: Vec<_> = found["dns"]["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| &answer["ttl"])
        .collect();
    assert_eq!(ttls, [&json!(2_147_483_648_u64), &json!(4_294_967_295_u64)]);
}

/// How the tools show odd things, and the rule: the rows of "decode oddities" that the tests above do not hold.
#[test]
fn codes_options_and_counts_beyond_the_usual_are_shown() {
    let rows = [
        ("e06-badvers", "/dns/rcode", json!("BADVERS")),
        ("e07-ext-rcode-4095", "/dns/rcode", json!(4095)),
        ("e05-version-1", "/dns/edns/version", json!(1)),
        ("e21-size-0", "/dns/edns/udp_size", json!(0)),
        ("e03-opt-in-answer", "/dns/qname", json!("www.example.")),
        (
            "e03-opt-in-answer",
            "/dns/malformed/reason",
            json!("opt_place"),
        ),
        (
            "e04-opt-owner-not-root",
            "/dns/malformed/reason",
            json!("opt_place"),
        ),
        ("e25-ede-not-utf8", "/dns/rcode", json!("SERVFAIL")),
        (
            "e23-opt-before-additional",
            "/dns/additionals/0/type",
            json!("A"),
        ),
        ("e23-opt-before-additional", "/dns/edns/version", json!(0)),
        ("e24-tsig", "/dns/additionals/0/type", json!("TSIG")),
        (
            "e17-nsid-binary",
            "/dns/edns/option_values/0/name",
            json!("NSID"),
        ),
        (
            "e18-cookie-bad-length",
            "/dns/edns/option_values/0/malformed/reason",
            json!("edns_option"),
        ),
        (
            "r01-unknown-type",
            "/dns/answers/0/rdata",
            json!("\\# 4 DEADBEEF"),
        ),
        (
            "r02-unknown-type-empty",
            "/dns/answers/0/rdata",
            json!("\\# 0"),
        ),
        ("r06-class-4242", "/dns/qclass", json!("CLASS4242")),
        ("r04-qtype-any", "/dns/qtype", json!("ANY")),
        ("r20-null-type", "/dns/answers/0/type", json!("NULL")),
        ("r14-soa-compressed", "/dns/rcode", json!("NXDOMAIN")),
        (
            "h01-all-flags",
            "/dns/flags",
            json!(["qr", "aa", "tc", "rd", "ra", "z", "ad", "cd"]),
        ),
        ("h03-opcode-3", "/dns/opcode", json!(3)),
        ("h05-rcode-11", "/dns/rcode", json!("DSOTYPENI")),
        ("h06-qr-set-in-query", "/type", json!("CLIENT_QUERY")),
        ("h06-qr-set-in-query", "/dns/flags/0", json!("qr")),
        ("h07-notify", "/dns/opcode", json!("NOTIFY")),
        (
            "t08-ancount-too-big",
            "/dns/malformed/reason",
            json!("records_missing"),
        ),
        ("t14-trailing-bytes", "/dns/trailing", json!(8)),
        ("t14-trailing-bytes", "/dns/qname", json!("www.example.")),
        ("t17-two-questions", "/dns/counts/qd", json!(2)),
        ("t17-two-questions", "/dns/qname", json!("www.example.")),
        (
            "n06-pointer-into-header",
            "/dns/malformed/reason",
            json!("pointer_target"),
        ),
        (
            "n09-name-256",
            "/dns/malformed/reason",
            json!("name_too_long"),
        ),
    ];
    for (id, pointer, wanted) in rows {
        let found = odd_message(id);
        assert_eq!(
            found.pointer(pointer).unwrap_or(&Value::Null),
            &wanted,
            "{id} {pointer} in {found}"
        );
    }
    // All of several extended errors, in order; text that is no UTF-8 escaped.
    let opt = record(41, 512, b"\0\x0f\0\x03\0\x0fa\0\x0f\0\x04\0\x16b\xff");
    let found = shown(&frame(6, |sent| {
        sent.response_message = Some(message(0, &[], &[&opt]))
    }));
    let errors: Vec<_> = found["dns"]["edns"]["option_values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["info_code"].clone(), error["text"].clone()))
        .collect();
    assert_eq!(
        errors,
        [(json!(15), json!("a")), (json!(22), json!("b\\255"))]
    );
    // An UPDATE that deletes without data in class NONE: its zone is shown, and what is wrong.
    let mut update = message(5, &[], &[]);
    update[9] = 1;
    update.extend(record(1, 254, b""));
    let found = shown(&frame(13, |sent| sent.query_message = Some(update)));
    assert_eq!(found["dns"]["opcode"], "UPDATE");
}

/// B080: a warning for each odd value flooded logs; here each oddity has one label, whatever the value.
#[test]
fn what_is_odd_is_said_with_a_label_and_not_with_the_value() {
    for number in [0, 9, 200, i32::MAX] {
        let payload = frame(5, |message| message.socket_family = Some(number));
        let found = shown(&payload);
        assert_eq!(found["family"], number);
        assert!(found.get("odd").is_none_or(Value::is_array), "{found}");
    }
}

/// Every frame of the real servers is a record in every format.
#[test]
fn every_captured_frame_is_a_record_in_every_format() {
    for payload in captured().iter().step_by(37) {
        in_every_format(payload);
    }
}
