//! The borrowed view against prost, the corpus of odd payloads, and the builder.

mod dnstap_support;

use std::collections::BTreeMap;
use std::time::Duration;

use dnstap_support::{captured, files, payloads};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use tapflow::dnstap::{
    DecodeReason, DnstapView, Message, MessageType, ViewError, build, fuzz_view, pb,
};

/// What a payload is, in one line: its error, or type, addresses, protocol, latency, DNS octets, oddities.
fn described(payload: &[u8]) -> String {
    let view = match DnstapView::parse(payload) {
        Ok(view) => view,
        Err(error) => return DecodeReason::from(error).as_str().to_owned(),
    };
    let message = match view.classify() {
        Ok(message) => message,
        Err(reason) => return reason.as_str().to_owned(),
    };
    let mut cells = vec![message.message_type().as_str().to_owned()];
    let ip = |address: Option<std::net::IpAddr>| {
        address.map_or_else(|| "-".to_owned(), |address| address.to_string())
    };
    cells.push(format!(
        "{}>{}",
        ip(message.query_ip()),
        ip(message.response_ip())
    ));
    cells.push(message.protocol().map_or_else(
        || "-".to_owned(),
        |protocol| {
            protocol
                .name()
                .map_or_else(|| protocol.number().to_string(), str::to_owned)
        },
    ));
    cells.push(message.time().map_or_else(
        || "-".to_owned(),
        |time| format!("{}.{:09}", time.seconds, time.nanos),
    ));
    cells.push(
        message
            .dns()
            .map_or_else(|| "-".to_owned(), |(dns, _)| dns.len().to_string()),
    );
    cells.extend(
        message
            .oddities()
            .iter()
            .map(|oddity| oddity.as_str().to_owned()),
    );
    cells.join(" ")
}

/// The middle one of three frames in each file; the first and the last are the same good frame.
const CORPUS: &str = "
p02-missing-message-type | message_type_missing
p03-dnstap-type-2 | dnstap_type_unknown
p04-dnstap-type-missing | dnstap_type_missing
p05-no-message | message_missing
p06-v4mapped-family-inet | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29 address_family
p08-address-empty | CLIENT_QUERY ->- UDP 1700000000.123456789 29
p09-address-len-17 | CLIENT_QUERY ->198.51.100.53 UDP 1700000000.123456789 29 address_length address_family
p10-inet6-with-4 | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29 address_family
p11-no-family | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
p13-no-addresses | CLIENT_QUERY ->- UDP 1700000000.123456789 29
p14-protocol-0 | CLIENT_QUERY 192.0.2.1>198.51.100.53 0 1700000000.123456789 29
p16-protocol-4 | CLIENT_QUERY 192.0.2.1>198.51.100.53 DOH 1700000000.123456789 29
p17-protocol-5 | CLIENT_QUERY 192.0.2.1>198.51.100.53 DNSCryptUDP 1700000000.123456789 29
p18-protocol-6 | CLIENT_QUERY 192.0.2.1>198.51.100.53 DNSCryptTCP 1700000000.123456789 29
p19-protocol-7 | CLIENT_QUERY 192.0.2.1>198.51.100.53 DOQ 1700000000.123456789 29
p20-protocol-99 | CLIENT_QUERY 192.0.2.1>198.51.100.53 99 1700000000.123456789 29
p21-nsec-1e9 | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.1000000000 29 time
p23-sec-max | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 18446744073709551615.123456789 29 time
p24-sec-i64max | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 9223372036854775807.123456789 29 time
p25-no-time | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP - 29
p27-sec-only | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.000000000 29
p30-identity-binary | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
p31-identity-64k | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
p35-message-twice | CLIENT_RESPONSE 192.0.2.1>198.51.100.53 UDP 1700000001.000000001 45
p37-query-without-message | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 -
p38-response-in-query-field | CLIENT_RESPONSE 192.0.2.1>198.51.100.53 UDP 1700000001.000000001 -
p39-truncated-payload | protobuf_overrun
p41-length-overrun | protobuf_overrun
p42-field-0 | protobuf_key
p43-random | protobuf_wire_type
p45-query-zone-unterminated | RESOLVER_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29 query_zone
p47-policy-unknown-enum | CLIENT_RESPONSE 192.0.2.1>198.51.100.53 UDP 1700000001.000000001 45
p48-http-protocol | CLIENT_QUERY 192.0.2.1>198.51.100.53 DOH 1700000000.123456789 29
p49-stub-query | STUB_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
p50-update-response | UPDATE_RESPONSE 192.0.2.1>198.51.100.53 UDP 1700000001.000000001 25
p51-type-field-first-varint-long | CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
p52-negative-enum | other 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29
";

#[test]
fn every_odd_payload_of_the_corpus_counts_as_its_row_says_and_costs_one_frame() {
    let rows: BTreeMap<&str, &str> = CORPUS
        .trim()
        .lines()
        .map(|line| line.split_once(" | ").unwrap())
        .collect();
    let files = files("corpus/payload-fstrm", "fstrm");
    assert_eq!(files.len(), rows.len(), "a row for each file");
    let mut wrong = Vec::new();
    for path in files {
        let id = path.file_stem().unwrap().to_str().unwrap();
        let [before, odd, after] = &payloads(&path)[..] else {
            panic!("{id}: three frames")
        };
        for good in [before, after] {
            assert_eq!(
                described(good),
                "CLIENT_QUERY 192.0.2.1>198.51.100.53 UDP 1700000000.123456789 29",
                "{id}"
            );
        }
        fuzz_view(odd);
        if described(odd) != rows[id] {
            wrong.push(format!("{id} | {}", described(odd)));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn policy_and_identity_are_kept_octet_for_octet() {
    let odd = |id: &str| {
        payloads(&dnstap_support::testdata(&format!(
            "corpus/payload-fstrm/{id}.fstrm"
        )))
        .swap_remove(1)
    };
    let payload = odd("p47-policy-unknown-enum");
    let policy = DnstapView::parse(&payload)
        .unwrap()
        .message
        .unwrap()
        .policy
        .unwrap();
    assert!(
        std::str::from_utf8(policy.kind.unwrap()).is_err(),
        "a type that is not UTF-8 is kept"
    );
    assert!(policy.action.is_some_and(|action| action > 6), "{policy:?}");
    let payload = odd("p30-identity-binary");
    let view = DnstapView::parse(&payload).unwrap();
    assert!(view.identity.unwrap().contains(&0));
    assert_eq!(
        view.version,
        Some(&[][..]),
        "present and empty is not absent"
    );
    let payload = odd("p52-negative-enum");
    assert!(matches!(
        DnstapView::parse(&payload)
            .unwrap()
            .message
            .unwrap()
            .message_type(),
        MessageType::Unknown(..0)
    ));
}

#[test]
fn the_servers_captures_are_read_as_prost_reads_them() {
    let mut frames = 0;
    for payload in captured() {
        fuzz_view(&payload);
        assert!(DnstapView::parse(&payload).unwrap().classify().is_ok());
        frames += 1;
    }
    // The sum of the capture folder's table.
    assert_eq!(frames, 7466 + 7605 + 5572 + 5548 + 5588 + 3825 + 5600 + 87);
}

#[test]
fn payloads_cut_after_any_octet_are_read_as_prost_reads_them() {
    for payload in captured().iter().step_by(4001) {
        for len in 0..=payload.len() {
            fuzz_view(&payload[..len]);
        }
    }
}

#[test]
fn each_way_to_break_protobuf_has_its_reason() {
    let nested = |groups: usize| {
        [
            vec![0x83, 0x01],
            [0x83, 0x01].repeat(groups - 1),
            [0x84, 0x01].repeat(groups),
        ]
        .concat()
    };
    let rows: [(&str, Vec<u8>, Result<(), ViewError>); 17] = [
        ("nothing", vec![], Ok(())),
        ("a key that is cut", vec![0x80], Err(ViewError::Truncated)),
        (
            "a number that is cut",
            vec![0x78, 0xff],
            Err(ViewError::Truncated),
        ),
        (
            "a number in ten octets",
            [&[0x78], &[0x80; 9][..], &[1]].concat(),
            Ok(()),
        ),
        (
            "a number of more than 64 bits",
            [&[0x78], &[0x80; 9][..], &[2]].concat(),
            Err(ViewError::BadVarint),
        ),
        (
            "a number in eleven octets",
            [&[0x78], &[0x80; 10][..], &[0]].concat(),
            Err(ViewError::BadVarint),
        ),
        ("field 0", vec![0x02, 0], Err(ViewError::BadKey)),
        ("wire type 6", vec![0x0e], Err(ViewError::BadKey)),
        (
            "wire type 7 of an unknown field",
            vec![0x87, 0x01],
            Err(ViewError::BadKey),
        ),
        (
            "a key of more than 32 bits",
            vec![0x80, 0x80, 0x80, 0x80, 0x10],
            Err(ViewError::BadKey),
        ),
        (
            "identity as a number",
            vec![0x08, 1],
            Err(ViewError::WireType),
        ),
        (
            "more octets than there are",
            vec![0x0a, 2, 0],
            Err(ViewError::Overrun),
        ),
        (
            "a length of 64 bits",
            [&[0x0a], &[0xff; 9][..], &[1]].concat(),
            Err(ViewError::Overrun),
        ),
        (
            "the end of a group that has no beginning",
            vec![0x84, 0x01],
            Err(ViewError::BadGroup),
        ),
        (
            "a group with another's end",
            vec![0x83, 0x01, 0x8c, 0x01],
            Err(ViewError::BadGroup),
        ),
        ("100 groups", nested(100), Ok(())),
        ("101 groups", nested(101), Err(ViewError::TooDeep)),
    ];
    for (what, payload, wanted) in rows {
        assert_eq!(DnstapView::parse(&payload).map(|_| ()), wanted, "{what}");
        fuzz_view(&payload);
        // The same one and two messages down, where the limit of depth is one and two less.
        let inside = |tag: u8, body: &[u8]| [&[tag, body.len() as u8], body].concat();
        if payload.len() < 100 {
            fuzz_view(&inside(0x72, &payload));
            fuzz_view(&inside(0x72, &inside(0x7a, &payload)));
        }
    }
    for depth in 95..=101 {
        let mut body = nested(depth);
        for tag in [0x7a, 0x72] {
            let mut framed = vec![tag, body.len() as u8 & 0x7f | 0x80, (body.len() >> 7) as u8];
            framed.append(&mut body);
            body = framed;
            fuzz_view(&body);
        }
    }
}

#[test]
fn latency_needs_two_sane_times_in_order() {
    let message = |asked: (u64, u32), answered: (u64, u32)| Message {
        query_time_sec: Some(asked.0),
        query_time_nsec: Some(asked.1),
        response_time_sec: Some(answered.0),
        response_time_nsec: Some(answered.1),
        ..Message::default()
    };
    let rows = [
        ((10, 999_999_999), (11, 1), Some(Duration::from_nanos(2))),
        ((10, 5), (10, 5), Some(Duration::ZERO)),
        ((10, 5), (10, 4), None),
        (
            (10, 0),
            (609, 999_999_999),
            Some(Duration::new(599, 999_999_999)),
        ),
        ((10, 0), (610, 0), None),
        ((10, 1_000_000_000), (12, 0), None),
        ((10, 0), (11, u32::MAX), None),
        ((u64::MAX, 0), (u64::MAX, 1), None),
    ];
    for (asked, answered, wanted) in rows {
        assert_eq!(
            message(asked, answered).latency(),
            wanted,
            "{asked:?} {answered:?}"
        );
    }
    assert_eq!(
        Message {
            query_time_sec: None,
            ..message((1, 1), (2, 2))
        }
        .latency(),
        None
    );
    assert_eq!(
        Message {
            response_time_sec: None,
            ..message((1, 1), (2, 2))
        }
        .latency(),
        None
    );
}

#[test]
fn a_mapped_address_is_ipv4_only_where_the_family_says_so() {
    let mapped: std::net::Ipv6Addr = "::ffff:192.0.2.1".parse().unwrap();
    let octets = mapped.octets();
    for (family, wanted) in [
        (Some(1), "192.0.2.1"),
        (Some(2), "::ffff:192.0.2.1"),
        (None, "::ffff:192.0.2.1"),
        (Some(9), "::ffff:192.0.2.1"),
    ] {
        let message = Message {
            socket_family: family,
            query_address: Some(&octets),
            ..Message::default()
        };
        assert_eq!(
            message.client_ip().unwrap().to_string(),
            wanted,
            "family {family:?}"
        );
    }
}

#[test]
fn zones_are_whole_names_or_absent() {
    let long = [[1, b'a'].repeat(127), vec![0]].concat();
    let rows: [(&[u8], bool); 8] = [
        (b"\0", true),
        (b"\x07example\0", true),
        (&long, true),
        (b"", false),
        (b"\x07example", false),
        (b"\x07example\0\0", false),
        (b"\xc0\x00", false),
        (b"\x40aa\0", false),
    ];
    for (zone, wanted) in rows {
        let message = Message {
            query_zone: Some(zone),
            ..Message::default()
        };
        assert_eq!(message.zone().is_some(), wanted, "{zone:02x?}");
        assert_eq!(
            message.oddities().is_empty(),
            wanted || zone.is_empty(),
            "{zone:02x?}"
        );
        assert_eq!(
            tapflow::dns::Name::from_wire(zone).is_some(),
            wanted,
            "the two checks agree on {zone:02x?}"
        );
    }
}

#[test]
fn reasons_are_distinct_and_counted_at_their_place() {
    for (index, reason) in DecodeReason::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), index, "{reason:?}");
    }
    let labels: std::collections::BTreeSet<_> = DecodeReason::ALL
        .iter()
        .map(|reason| reason.as_str())
        .collect();
    assert_eq!(labels.len(), DecodeReason::ALL.len());
}

fn octets() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(vec(any::<u8>(), 0..40))
}

fn typed() -> impl Strategy<Value = pb::Dnstap> {
    let number = || proptest::option::of(prop_oneof![0..20i32, any::<i32>()]);
    let policy = (octets(), octets(), number(), number(), octets()).prop_map(
        |(kind, rule, action, matched, value)| pb::Policy {
            r#type: kind,
            rule,
            action,
            r#match: matched,
            value,
        },
    );
    let seconds =
        || proptest::option::of(prop_oneof![1_700_000_000..1_800_000_000u64, any::<u64>()]);
    let one = (
        number(),
        number(),
        number(),
        octets(),
        octets(),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
    );
    let two = (
        seconds(),
        any::<Option<u32>>(),
        octets(),
        octets(),
        seconds(),
        any::<Option<u32>>(),
        octets(),
    );
    let message = (one, two, proptest::option::of(policy), number()).prop_map(
        |(one, two, policy, http_protocol)| pb::Message {
            r#type: one.0,
            socket_family: one.1,
            socket_protocol: one.2,
            query_address: one.3,
            response_address: one.4,
            query_port: one.5,
            response_port: one.6,
            query_time_sec: two.0,
            query_time_nsec: two.1,
            query_message: two.2,
            query_zone: two.3,
            response_time_sec: two.4,
            response_time_nsec: two.5,
            response_message: two.6,
            policy,
            http_protocol,
        },
    );
    (
        octets(),
        octets(),
        octets(),
        proptest::option::of(message),
        number(),
    )
        .prop_map(|(identity, version, extra, message, kind)| pb::Dnstap {
            identity,
            version,
            extra,
            message,
            r#type: kind,
        })
}

/// Protobuf fields with numbers and wire types around those of the schema, in any order, repeated, nested and
/// with numbers longer than they need be.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let varint = |value: u64, spare: usize| {
        let mut octets = Vec::new();
        let mut value = value;
        while value >= 0x80 {
            octets.push(value as u8 | 0x80);
            value >>= 7;
        }
        octets.push(value as u8);
        for _ in 0..spare.min(10usize.saturating_sub(octets.len())) {
            *octets.last_mut().unwrap() |= 0x80;
            octets.push(0);
        }
        octets
    };
    let number = prop_oneof![1..18u64, Just(0), Just((1 << 29) - 1)];
    let value = prop_oneof![0..300u64, any::<u64>()];
    let leaf = (
        number,
        0..6u64,
        value,
        prop_oneof![4 => Just(0usize), 1 => 0..9usize],
        vec(any::<u8>(), 0..20),
    )
        .prop_map(move |(number, wire_type, value, spare, octets)| {
            let key = varint(number << 3 | wire_type, spare.min(4));
            let value = match wire_type {
                0 => varint(value, spare),
                1 => octets.iter().copied().chain([0; 8]).take(8).collect(),
                2 => [varint(octets.len() as u64, spare), octets].concat(),
                5 => octets.iter().copied().chain([0; 4]).take(4).collect(),
                _ => vec![],
            };
            [key, value].concat()
        });
    let tree = leaf.prop_recursive(4, 40, 6, move |inner| {
        (
            prop_oneof![Just(14u64), Just(15), 1..18u64],
            any::<bool>(),
            vec(inner, 0..6),
        )
            .prop_map(move |(number, group, inner)| {
                let body = inner.concat();
                if group {
                    [varint(number << 3 | 3, 0), body, varint(number << 3 | 4, 0)].concat()
                } else {
                    [
                        varint(number << 3 | 2, 0),
                        varint(body.len() as u64, 0),
                        body,
                    ]
                    .concat()
                }
            })
    });
    vec(tree, 0..8).prop_map(|fields| fields.concat())
}

/// What happens to octets on the way: bits flipped, pieces cut out, doubled, or put in.
fn damage() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, prop::sample::Index, Vec<u8>)>> {
    vec(
        (
            0..4u8,
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            vec(any::<u8>(), 0..6),
        ),
        1..5,
    )
}

fn damaged(
    mut payload: Vec<u8>,
    damage: &[(u8, prop::sample::Index, prop::sample::Index, Vec<u8>)],
) -> Vec<u8> {
    for (how, from, to, octets) in damage {
        let (from, to) = (from.index(payload.len() + 1), to.index(payload.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match how {
            0 => payload
                .iter_mut()
                .skip(from)
                .take(1)
                .for_each(|octet| *octet ^= 1 << (to % 8)),
            1 => drop(payload.drain(from..to)),
            2 => {
                let piece = payload[from..to].to_vec();
                payload.splice(to..to, piece);
            }
            _ => drop(payload.splice(from..from, octets.iter().copied())),
        }
    }
    payload
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn any_octets_are_read_as_prost_reads_them(payload in vec(any::<u8>(), 0..200)) {
        fuzz_view(&payload);
    }

    #[test]
    fn any_fields_are_read_as_prost_reads_them(payload in fields()) {
        fuzz_view(&payload);
        // Inside a message as well.
        if payload.len() < 128 {
            fuzz_view(&[&[0x72, payload.len() as u8], &payload[..]].concat());
        }
    }

    #[test]
    fn any_message_is_read_as_prost_reads_it_whole_and_damaged(typed in typed(), damage in damage()) {
        let payload = typed.encode_to_vec();
        fuzz_view(&payload);
        let view = DnstapView::parse(&payload).unwrap();
        let mut built = Vec::new();
        build::write(&mut built, &view);
        prop_assert_eq!(built.len(), build::encoded_len(&view));
        prop_assert_eq!(pb::Dnstap::decode(&built[..]).unwrap(), typed);
        fuzz_view(&damaged(payload, &damage));
    }

    #[test]
    fn captured_payloads_are_read_as_prost_reads_them_when_damaged(pick: prop::sample::Index, damage in damage()) {
        let payload = pick.get(SAMPLE.get_or_init(|| captured().into_iter().step_by(97).filter(|payload| payload.len() < 600).collect()));
        fuzz_view(&damaged(payload.clone(), &damage));
    }
}

static SAMPLE: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
