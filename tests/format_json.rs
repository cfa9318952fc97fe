//! Our JSON: golden lines, and that every line parses and gives back the octets that went in.

mod dnstap_support;

use std::time::{Duration, UNIX_EPOCH};

use dnstap_support::{captured, files, payloads, testdata};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tapflow::dnstap::{DnstapView, Message, Policy, build};
use tapflow::format::{Source, fuzz_payload, json};

fn object(view: &DnstapView<'_>, source: &Source<'_>) -> Value {
    let mut out = Vec::new();
    json::write(&mut out, view, source).expect("a record");
    assert_eq!(out.iter().filter(|octet| **octet == b'\n').count(), 1);
    serde_json::from_slice(&out).expect("JSON")
}

fn odd(id: &str) -> Vec<u8> {
    payloads(&testdata(&format!("corpus/payload-fstrm/{id}.fstrm"))).swap_remove(1)
}

fn view_of(message: Message<'_>) -> DnstapView<'_> {
    DnstapView {
        kind: Some(1),
        message: Some(message),
        ..DnstapView::default()
    }
}

#[test]
fn a_whole_record_is_written_as_the_module_text_shows() {
    let mut response = std::fs::read(testdata("corpus/dns/e01-do.msg")).unwrap();
    response[..4].copy_from_slice(&[0x12, 0x34, 0x81, 0x83]);
    let view = DnstapView {
        identity: Some(b"ns1"),
        version: Some(b"BIND 9"),
        extra: Some(b"a\\b\0\xff\""),
        kind: Some(1),
        message: Some(Message {
            kind: Some(6),
            socket_family: Some(1),
            socket_protocol: Some(4),
            http_protocol: Some(2),
            query_address: Some(&[192, 0, 2, 1]),
            response_address: Some(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            query_port: Some(5353),
            response_port: Some(443),
            query_time_sec: Some(1_767_323_045),
            query_time_nsec: Some(1),
            response_time_sec: Some(1_767_323_045),
            response_time_nsec: Some(1_000_001),
            query_zone: Some(b"\x07e xampl\0"),
            response_message: Some(&response),
            policy: Some(Policy {
                kind: Some(b"RPZ"),
                rule: None,
                action: Some(1),
                matched: Some(77),
                value: Some(b"x"),
            }),
            ..Message::default()
        }),
    };
    let received = UNIX_EPOCH + Duration::new(1_767_323_045, 2_000_000);
    let source = Source {
        received: Some(received),
        listener: "unix",
        peer: "uid 53",
    };
    let mut out = Vec::new();
    json::write(&mut out, &view, &source).unwrap();
    let wanted = concat!(
        r#"{"type":"CLIENT_RESPONSE","identity":"ns1","version":"BIND 9","extra":"a\\\\b\\000\\255\"","#,
        r#""family":"INET","protocol":"DOH","http_protocol":"HTTP2","query_address":"192.0.2.1","query_port":5353,"#,
        r#""response_address":"2001:db8::1","response_port":443,"query_time":"2026-01-02T03:04:05.000000001Z","#,
        r#""response_time":"2026-01-02T03:04:05.001000001Z","latency":0.001000000,"query_zone":"e\\032xampl.","#,
        r#""response_size":40,"policy":{"type":"RPZ","action":"NXDOMAIN","match":77,"value":"x"},"#,
        r#""dns":{"id":4660,"opcode":"QUERY","rcode":"NXDOMAIN","flags":["qr","rd","ra"],"qname":"www.example.","#,
        r#""qtype":"A","qclass":"IN","counts":{"qd":1,"an":0,"ns":0,"ar":1},"#,
        r#""edns":{"version":0,"udp_size":1232,"do":true,"options":[]}},"odd":["address_family"],"#,
        r#""source":{"received":"2026-01-02T03:04:05.002000000Z","listener":"unix","peer":"uid 53"}}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(out).unwrap(), wanted);
}

#[test]
fn what_the_frame_does_not_say_has_no_key() {
    let found = object(
        &view_of(Message {
            kind: Some(5),
            ..Message::default()
        }),
        &Source::default(),
    );
    assert_eq!(found, json!({ "type": "CLIENT_QUERY" }));
    let found = object(
        &view_of(Message {
            kind: Some(-7),
            socket_family: Some(9),
            ..Message::default()
        }),
        &Source {
            peer: "x",
            ..Source::default()
        },
    );
    assert_eq!(
        found,
        json!({ "type": -7, "family": 9, "source": { "peer": "x" } })
    );
}

#[test]
fn odd_payloads_show_what_is_odd_and_keep_the_rest() {
    let rows = [
        (
            "p06-v4mapped-family-inet",
            "/query_address",
            json!("192.0.2.1"),
        ),
        ("p08-address-empty", "/query_address", Value::Null),
        ("p09-address-len-17", "/query_address", Value::Null),
        ("p09-address-len-17", "/odd/0", json!("address_length")),
        ("p20-protocol-99", "/protocol", json!(99)),
        (
            "p21-nsec-1e9",
            "/query_time",
            json!({ "seconds": 1_700_000_000, "nanos": 1_000_000_000 }),
        ),
        ("p23-sec-max", "/query_time/seconds", json!(u64::MAX)),
        ("p24-sec-i64max", "/query_time/seconds", json!(i64::MAX)),
        ("p25-no-time", "/query_time", Value::Null),
        (
            "p27-sec-only",
            "/query_time",
            json!("2023-11-14T22:13:20.000000000Z"),
        ),
        ("p37-query-without-message", "/dns", Value::Null),
        ("p38-response-in-query-field", "/dns", Value::Null),
        ("p38-response-in-query-field", "/query_size", json!(45)),
        ("p45-query-zone-unterminated", "/query_zone", Value::Null),
        ("p45-query-zone-unterminated", "/odd", json!(["query_zone"])),
        ("p48-http-protocol", "/http_protocol", json!("HTTP3")),
        ("p49-stub-query", "/type", json!("STUB_QUERY")),
        ("p50-update-response", "/type", json!("UPDATE_RESPONSE")),
    ];
    for (id, pointer, wanted) in rows {
        let payload = odd(id);
        let found = object(&DnstapView::parse(&payload).unwrap(), &Source::default());
        assert_eq!(
            found.pointer(pointer).cloned().unwrap_or(Value::Null),
            wanted,
            "{id} {pointer} in {found}"
        );
    }
    let payload = odd("p31-identity-64k");
    let found = object(&DnstapView::parse(&payload).unwrap(), &Source::default());
    assert_eq!(
        found["identity"].as_str().unwrap().len(),
        65_536,
        "nothing is cut"
    );
}

#[test]
fn odd_messages_show_what_is_wrong_and_where() {
    let rows = [
        (
            "t01-empty",
            "/dns",
            json!({ "malformed": { "reason": "header_cut", "offset": 0 } }),
        ),
        (
            "t02-one-octet",
            "/dns/malformed/reason",
            json!("header_cut"),
        ),
        ("t04-header-only-formerr", "/dns/rcode", json!("FORMERR")),
        ("t04-header-only-formerr", "/dns/qname", Value::Null),
        (
            "t08-ancount-too-big",
            "/dns/malformed",
            json!({ "reason": "records_missing", "offset": 45 }),
        ),
        ("t10-tc-clean", "/dns/malformed", Value::Null),
        ("t10-tc-clean", "/dns/flags/1", json!("tc")),
        ("t14-trailing-bytes", "/dns/trailing", json!(8)),
        ("t17-two-questions", "/dns/counts/qd", json!(2)),
        (
            "n16-special-octets",
            "/dns/qname",
            json!(r#"sp\032ace.q\"t.b\\s.semi\;.at\@.dol\$.par\(\).example."#),
        ),
        (
            "n24-json-html",
            "/dns/qname",
            json!(r#"</script>.{\"a\":1}.=cmd\(\).example."#),
        ),
        ("n01-self-pointer-qname", "/dns/qname", Value::Null),
        ("h08-update", "/dns/opcode", json!("UPDATE")),
        ("h03-opcode-3", "/dns/opcode", json!(3)),
        ("e06-badvers", "/dns/rcode", json!("BADVERS")),
        ("e07-ext-rcode-4095", "/dns/rcode", json!(4095)),
        ("e05-version-1", "/dns/edns/version", json!(1)),
        ("e10-ecs-v4", "/dns/edns/options", json!([8])),
        ("e10-ecs-v4", "/dns/edns/option_values/0/name", json!("ECS")),
        (
            "e12-ecs-prefix-33",
            "/dns/edns/option_values/0/malformed/reason",
            json!("edns_option"),
        ),
        (
            "e20-padding-468",
            "/dns/edns/option_values/0/length",
            json!(400),
        ),
        ("e03-opt-in-answer", "/dns/answers/0/type", json!("OPT")),
        (
            "e03-opt-in-answer",
            "/dns/answers/0/malformed/reason",
            json!("opt_place"),
        ),
        (
            "t12-a-rdata-3",
            "/dns/answers/0/malformed/reason",
            json!("rdata"),
        ),
        ("t17-two-questions", "/dns/questions/1/class", json!("IN")),
        ("h08-update", "/dns/zone/0/type", json!("SOA")),
        ("h08-update", "/dns/answers", Value::Null),
        ("r01-unknown-type", "/dns/qtype", json!("TYPE65280")),
        ("r06-class-4242", "/dns/qclass", json!("CLASS4242")),
    ];
    for (id, pointer, wanted) in rows {
        let payload = payloads(&testdata(&format!("corpus/dns-fstrm/{id}.fstrm"))).swap_remove(0);
        let found = object(&DnstapView::parse(&payload).unwrap(), &Source::default());
        assert_eq!(
            found.pointer(pointer).cloned().unwrap_or(Value::Null),
            wanted,
            "{id} {pointer} in {found}"
        );
    }
}

/// Every payload in testdata.
fn everything() -> Vec<Vec<u8>> {
    let made = [
        files("corpus/dns-fstrm", "fstrm"),
        files("corpus/payload-fstrm", "fstrm"),
    ]
    .concat();
    let mut all = captured();
    all.extend(made.iter().flat_map(|file| payloads(file)));
    all
}

#[test]
fn every_line_of_every_frame_validates_against_the_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../proto/tapflow-record.schema.json")).unwrap();
    jsonschema::meta::validate(&schema).expect("the schema is one");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let validated = |payloads: &[Vec<u8>]| {
        let source = Source {
            received: Some(UNIX_EPOCH + Duration::new(1_767_323_045, 5)),
            listener: "unix",
            peer: "uid 53",
        };
        let (mut out, mut lines) = (Vec::new(), 0);
        for payload in payloads {
            let Ok(view) = DnstapView::parse(payload) else {
                continue;
            };
            out.clear();
            if json::write(&mut out, &view, &source).is_err() {
                continue;
            }
            let line: Value = serde_json::from_slice(&out).unwrap();
            if let Err(error) = validator.validate(&line) {
                panic!("{error} at {} in {line}", error.instance_path());
            }
            lines += 1;
        }
        lines
    };
    // A debug build validates some thousand lines a second on a core.
    let all = everything();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let lines: usize = std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(cores));
        let running: Vec<_> = parts.map(|part| scope.spawn(|| validated(part))).collect();
        running.into_iter().map(|part| part.join().unwrap()).sum()
    });
    // All but those of testdata/corpus that are no records.
    assert_eq!(all.len() - lines, 8);
    let strange = json!({ "type": "CLIENT_QUERY", "surprise": 1 });
    assert!(!validator.is_valid(&strange), "other keys are refused");
}

#[test]
fn all_records_of_a_message_are_counted_out() {
    let mut out = Vec::new();
    for payload in captured().iter().step_by(3) {
        let view = DnstapView::parse(payload).unwrap();
        let Some((octets, _)) = view.message.and_then(|message| message.dns()) else {
            continue;
        };
        let Ok(dns) = tapflow::dns::DnsView::parse(octets) else {
            continue;
        };
        out.clear();
        json::write(&mut out, &view, &Source::default()).unwrap();
        let line: Value = serde_json::from_slice(&out).unwrap();
        let listed: usize = [
            "answers",
            "prerequisites",
            "authorities",
            "updates",
            "additionals",
        ]
        .iter()
        .map(|key| line["dns"][key].as_array().map_or(0, Vec::len))
        .sum();
        let edns = usize::from(line["dns"].get("edns").is_some());
        assert_eq!(listed + edns, dns.records().count(), "{line}");
    }
}

#[test]
fn both_messages_of_a_frame_are_shown() {
    let query = std::fs::read(testdata("corpus/dns/e01-do.msg")).unwrap();
    let both = |kind| {
        object(
            &view_of(Message {
                kind: Some(kind),
                query_message: Some(&query),
                response_message: Some(&query),
                ..Message::default()
            }),
            &Source::default(),
        )
    };
    let (asked, answered) = (both(5), both(6));
    assert_eq!(asked["dns"], asked["response_dns"]);
    assert_eq!(answered["dns"], answered["query_dns"]);
    assert!(asked.get("query_dns").is_none() && answered.get("response_dns").is_none());
    assert_eq!(
        both(99)["dns"],
        both(99)["query_dns"],
        "an unknown type is of its response"
    );
}

#[test]
fn every_option_is_decoded() {
    let options: &[(&[u8], Value)] = &[
        (
            b"\0\x03\0\x02\x01a",
            json!({"code": 3, "name": "NSID", "id": "\\001a"}),
        ),
        (
            b"\0\x08\0\x07\0\x01\x18\0\xc0\0\x02",
            json!({"code": 8, "name": "ECS", "family": 1, "source_prefix": 24, "scope_prefix": 0, "address": "192.0.2.0"}),
        ),
        (
            b"\0\x0a\0\x08abcdefgh",
            json!({"code": 10, "name": "COOKIE", "client": "6162636465666768"}),
        ),
        (
            b"\0\x0b\0\x02\0\x0c",
            json!({"code": 11, "name": "KEEPALIVE", "timeout_ms": 1200}),
        ),
        (b"\0\x0b\0\0", json!({"code": 11, "name": "KEEPALIVE"})),
        (
            b"\0\x0c\0\x03\0\0\0",
            json!({"code": 12, "name": "PADDING", "length": 3}),
        ),
        (
            b"\0\x0c\0\x01\x07",
            json!({"code": 12, "name": "PADDING", "length": 1, "octets": "07"}),
        ),
        (
            b"\0\x0f\0\x05\0\x0fno!",
            json!({"code": 15, "name": "EDE", "info_code": 15, "purpose": "Blocked", "text": "no!"}),
        ),
        (
            b"\0\x0f\0\x01x",
            json!({"code": 15, "name": "EDE", "octets": "78", "malformed": {"reason": "edns_option", "offset": 23}}),
        ),
        (b"\xff\xfe\0\x01y", json!({"code": 65534, "octets": "79"})),
    ];
    for (option, wanted) in options {
        let mut message = b"\0\x01\0\0\0\0\0\0\0\0\0\x01\0\0\x29\x10\0\0\0\0\0\0".to_vec();
        message.push(option.len() as u8);
        message.extend_from_slice(option);
        let found = object(
            &view_of(Message {
                kind: Some(5),
                query_message: Some(&message),
                ..Message::default()
            }),
            &Source::default(),
        );
        assert_eq!(&found["dns"]["edns"]["option_values"][0], wanted, "{found}");
    }
}

#[test]
fn every_frame_of_testdata_is_one_line_of_json_that_gives_back_its_octets() {
    for payload in captured().iter().step_by(5) {
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

/// A message with one question whose name has any octets.
fn question() -> impl Strategy<Value = Vec<u8>> {
    (
        vec(vec(any::<u8>(), 1..20), 0..8),
        any::<[u8; 4]>(),
        any::<[u8; 4]>(),
        vec(any::<u8>(), 0..20),
    )
        .prop_map(|(labels, head, tail, after)| {
            let name = labels
                .iter()
                .flat_map(|label| [&[label.len() as u8], &label[..]].concat());
            let header = head.into_iter().chain([0, 1, 0, 0, 0, 0, 0, 1]);
            header
                .chain(name)
                .chain([0])
                .chain(tail)
                .chain(after)
                .collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_is_one_line_that_gives_back_its_octets(
        dns in question(),
        texts in vec(proptest::option::of(vec(any::<u8>(), 0..24)), 6),
        numbers in vec(any::<Option<i32>>(), 5),
        kind in 1..16i32,
        times in any::<[Option<u64>; 2]>(),
        nanos in any::<[Option<u32>; 2]>(),
        ports in any::<[Option<u32>; 2]>(),
    ) {
        let text = |index: usize| texts[index].as_deref();
        let message = Message {
            kind: Some(kind),
            socket_family: numbers[0],
            socket_protocol: numbers[1],
            http_protocol: numbers[2],
            query_address: text(3),
            response_address: text(4),
            query_zone: text(5),
            query_port: ports[0],
            response_port: ports[1],
            query_time_sec: times[0],
            query_time_nsec: nanos[0],
            response_time_sec: times[1],
            response_time_nsec: nanos[1],
            query_message: Some(&dns),
            response_message: Some(&dns),
            policy: Some(Policy { kind: text(0), rule: text(1), action: numbers[3], matched: numbers[4], value: text(2) }),
        };
        let view = DnstapView { identity: text(0), version: text(1), extra: text(2), kind: Some(1), message: Some(message) };
        let mut payload = Vec::new();
        build::write(&mut payload, &view);
        fuzz_payload(&payload);
    }
}
