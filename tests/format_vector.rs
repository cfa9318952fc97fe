//! The format vector-json against the events that Vector's documentation and its tests show, and what ours says where
//! Vector loses something.

mod dnstap_support;
mod format_support;

use format_support::{captures, message, ours, record};
use prost::Message as _;
use serde_json::{Value, json};
use tapflow::dnstap::{DnstapView, pb};
use tapflow::format::{Entry, Format, Settings, Source};

fn text(payload: &[u8], source: Source<'_>) -> String {
    let format: Format = "vector-json".parse().unwrap();
    let mut line = format.line(&Settings::default()).unwrap().unwrap();
    let view = DnstapView::parse(payload).unwrap();
    let entry = Entry {
        payload,
        view: Ok(&view),
        source,
    };
    let mut out = Vec::new();
    line.begin(&mut out);
    line.write(&mut out, entry).unwrap();
    String::from_utf8(out).unwrap()
}

fn event(dnstap: &pb::Dnstap) -> Value {
    serde_json::from_str(&text(&dnstap.encode_to_vec(), Source::default())).unwrap()
}

fn dnstap(message: pb::Message) -> pb::Dnstap {
    pb::Dnstap {
        identity: Some(b"ns1".to_vec()),
        version: Some(b"BIND 9.16.3".to_vec()),
        r#type: Some(1),
        message: Some(message),
        ..pb::Dnstap::default()
    }
}

/// The event of a response with this message.
fn of_response(dns: Vec<u8>) -> Value {
    event(&dnstap(pb::Message {
        r#type: Some(6),
        response_message: Some(dns),
        ..pb::Message::default()
    }))
}

/// facebook1.com., type A, with EDNS and a cookie: the query of Vector's example.
const QUERY: &[u8] = b"\x93\x02\0\0\0\x01\0\0\0\0\0\x01\x09facebook1\x03com\0\0\x01\0\x01\
    \0\0\x29\x02\0\0\0\x80\0\0\x0c\0\x0a\0\x08\xec\x63\x08\x01\xbd\xcd\x58\x33";

/// h5.example.com., type SOA, code BADVERS, with an extended error: its response.
const RESPONSE: &[u8] = b"\xb3\x38\0\0\0\x01\0\0\0\0\0\x01\x02h5\x07example\x03com\0\0\x06\0\x01\
    \0\0\x29\x04\xd0\x01\x01\x40\0\0\x39\0\x0f\0\x35\0\x09no SEP matching the DS found for dnssec-failed.org.";

const UPDATE: &[u8] = b"\x70\x8b\xa8\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x06\0\x01";

#[test]
fn a_query_and_a_response_give_the_event_that_vector_documents() {
    let event = event(&pb::Dnstap {
        extra: Some(Vec::new()),
        ..dnstap(pb::Message {
            r#type: Some(3),
            socket_family: Some(2),
            socket_protocol: Some(1),
            query_address: Some(vec![0; 16]),
            response_address: Some(
                [0x20, 1, 5, 2, 0x70, 0x94, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x30].to_vec(),
            ),
            query_port: Some(46_835),
            response_port: Some(53),
            query_time_sec: Some(1_593_489_007),
            query_time_nsec: Some(920_014_129),
            query_message: Some(QUERY.to_vec()),
            query_zone: Some(b"\x03com\0".to_vec()),
            response_message: Some(RESPONSE.to_vec()),
            ..pb::Message::default()
        })
    });
    let header = |id: u16, rcode: u16| {
        json!({"aa": false, "ad": false, "anCount": 0, "arCount": 1, "cd": false, "id": id, "nsCount": 0, "opcode": 0,
            "qdCount": 1, "qr": 0, "ra": false, "rcode": rcode, "rd": false, "tc": false})
    };
    let wanted = json!({
        "dataType": "Message", "dataTypeId": 1, "extraInfo": "", "messageSize": 100,
        "messageType": "ResolverQuery", "messageTypeId": 3, "queryZone": "com.",
        "requestData": {
            "fullRcode": 0, "header": header(37_634, 0),
            "opt": {"do": true, "ednsVersion": 0, "extendedRcode": 0, "udpPayloadSize": 512,
                "options": [{"optCode": 10, "optName": "Cookie", "optValue": "7GMIAb3NWDM="}]},
            "question": [{"class": "IN", "domainName": "facebook1.com.", "questionType": "A", "questionTypeId": 1}],
            "rcodeName": "NoError",
        },
        "responseAddress": "2001:502:7094::30",
        "responseData": {
            "fullRcode": 16, "header": header(45_880, 16),
            "opt": {"do": false, "ednsVersion": 1, "extendedRcode": 1, "udpPayloadSize": 1232,
                "ede": [{"extraText": "no SEP matching the DS found for dnssec-failed.org.", "infoCode": 9,
                    "purpose": "DNSKEY Missing"}]},
            "question": [{"class": "IN", "domainName": "h5.example.com.", "questionType": "SOA", "questionTypeId": 6}],
            "rcodeName": "BADVERS",
        },
        "responsePort": 53, "serverId": "ns1", "serverVersion": "BIND 9.16.3", "socketFamily": "INET6",
        "socketProtocol": "UDP", "sourceAddress": "::", "sourcePort": 46_835, "source_type": "dnstap",
        "time": 1_593_489_007_920_014_129_u64, "timePrecision": "ns", "timestamp": "2020-06-30T03:50:07.920014129Z",
    });
    let size = RESPONSE.len();
    let mut wanted = wanted;
    wanted["messageSize"] = json!(size);
    assert_eq!(event, wanted);
}

#[test]
fn an_update_gives_the_event_that_vector_tests() {
    let event = event(&dnstap(pb::Message {
        r#type: Some(14),
        socket_family: Some(1),
        socket_protocol: Some(1),
        query_address: Some(vec![127, 0, 0, 1]),
        response_address: Some(vec![127, 0, 0, 1]),
        query_port: Some(14_124),
        response_port: Some(0),
        query_time_sec: Some(1_593_541_950),
        query_time_nsec: Some(1),
        query_message: Some(UPDATE.to_vec()),
        response_message: Some(UPDATE.to_vec()),
        response_time_sec: Some(1_593_541_950),
        response_time_nsec: Some(792_494_106),
        ..pb::Message::default()
    }));
    let data = json!({
        "fullRcode": 0,
        "header": {"adCount": 0, "id": 28_811, "opcode": 5, "prCount": 0, "qr": 1, "rcode": 0, "upCount": 0, "zoCount": 1},
        "rcodeName": "NoError",
        "zone": {"zClass": "IN", "zName": "example.com.", "zType": "SOA", "zTypeId": 6},
    });
    let wanted = json!({
        "dataType": "Message", "dataTypeId": 1, "messageSize": 29, "messageType": "UpdateResponse", "messageTypeId": 14,
        "requestData": data, "responseAddress": "127.0.0.1", "responseData": data, "responsePort": 0, "serverId": "ns1",
        "serverVersion": "BIND 9.16.3", "socketFamily": "INET", "socketProtocol": "UDP", "sourceAddress": "127.0.0.1",
        "sourcePort": 14_124, "source_type": "dnstap", "time": 1_593_541_950_792_494_106_u64, "timePrecision": "ns",
        "timestamp": "2020-06-30T18:32:30.792494106Z",
    });
    assert_eq!(event, wanted);
}

#[test]
fn an_update_has_prerequisites_updates_and_records_without_data() {
    let mut dns = message(5, &[&record(255, 255, b"")], &[]);
    dns[5] = 1;
    dns[9] = 1;
    let zone = b"\x07example\0\0\x06\0\x01";
    dns.splice(12..12, zone.iter().copied());
    dns.extend(record(1, 1, &[192, 0, 2, 1]));
    let event = event(&dnstap(pb::Message {
        r#type: Some(13),
        query_message: Some(dns),
        ..pb::Message::default()
    }));
    let data = &event["requestData"];
    assert_eq!(event["error"], Value::Null, "{event}");
    assert_eq!(
        data["prerequisite"],
        json!([{"class": "ANY", "domainName": ".", "rData": "", "recordType": "ANY", "recordTypeId": 255, "ttl": 5}])
    );
    assert_eq!(
        data["update"],
        json!([{"class": "IN", "domainName": ".", "rData": "192.0.2.1", "recordType": "A", "recordTypeId": 1, "ttl": 5}])
    );
    assert_eq!(data["zone"]["zName"], "example.");
}

#[test]
fn data_of_records_are_what_vector_writes_for_them() {
    let rows: &[(u16, &[u8], &str, &str)] = &[
        (1, &[192, 0, 2, 1], "rData", "192.0.2.1"),
        (1, &[192, 0, 2], "rDataBytes", "wAAC"),
        (10, b"\x01\x02", "rData", "AQI="),
        (13, b"\x07RFC8482\0", "rData", "\"RFC8482\" \"\""),
        (16, b"\x02a\"\x01\\", "rData", "\"a\\\"\" \"\\\\\""),
        (39, b"\x01a\0", "rDataBytes", "AWEA"),
        (
            29,
            &[0, 0x12, 0x16, 0x13, 0x8b, 0x3c, 0xf0, 0x18, 0x81, 0x0c, 0xbc, 0xe0, 0, 0x98, 0x95, 0xb8],
            "rData",
            "52 22 23.000 N 4 53 32.000 E -2.00m 1m 10000m 10m",
        ),
        (
            46,
            b"\0\x01\x08\x02\0\0\x01\x2c\x5e\x5d\xc0\x80\x5e\x5d\xc0\x7f\x30\x39\x01a\0\x01\x02\x03",
            "rData",
            "A 8 2 300 1583202432 1583202431 12345 a. AQID",
        ),
        (
            65,
            b"\0\x01\0\0\x01\0\x06\x02h3\x02h2\0\x03\0\x02\x01\xbb\0\x04\0\x08\xac\x40\xc4\x1c\xac\x40\xc5\x1c",
            "rData",
            "1 . alpn=\"h3,h2\" port=\"443\" ipv4hint=\"172.64.196.28,172.64.197.28\"",
        ),
        (52, &[3, 1, 1, 0xab, 0xcd], "rData", "3 1 1 ABCD"),
        (11, &[192, 0, 2, 1, 6, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0x80], "rData", "192.0.2.1 6 25 80"),
        (22, &[0x47, 0xab], "rData", "0x47AB"),
        (22, &[], "rDataBytes", ""),
        (40, &[1, 2, 3, 4, 5, 6], "rData", "1 2 3 BAUG"),
        (108, &[0, 1, 2, 3, 4, 5], "rDataBytes", "AAECAwQF"),
        (259, &[1, 2], "rDataBytes", "AQI="),
        (65_280, &[1, 2], "rDataBytes", "AQI="),
    ];
    for (rtype, data, key, wanted) in rows {
        let event = of_response(message(0, &[&record(*rtype, 1, data)], &[]));
        let written = &event["responseData"]["answers"][0];
        assert_eq!(written[*key], *wanted, "type {rtype}: {written}");
        let has_name = tapflow::dns::iana::type_name(*rtype).is_some();
        assert_eq!(written.get("recordType").is_some(), has_name);
        assert_eq!(written["recordTypeId"], *rtype);
    }
}

#[test]
fn what_is_malformed_has_an_error_and_the_octets_and_what_could_be_read() {
    let mut cut = message(0, &[&record(1, 1, &[192, 0, 2, 1])], &[]);
    cut[7] = 2;
    let event = of_response(cut.clone());
    assert_eq!(
        event["error"],
        format!(
            "malformed DNS message: records_missing at octet {}",
            cut.len()
        )
    );
    let octets = |text: &Value| {
        data_encoding::BASE64
            .decode(text.as_str().unwrap().as_bytes())
            .unwrap()
    };
    assert_eq!(octets(&event["responseData"]["rawData"]), cut);
    assert_eq!(event["responseData"]["answers"][0]["rData"], "192.0.2.1");
    let frame = pb::Dnstap::decode(&octets(&event["rawData"])[..]).unwrap();
    assert_eq!(frame.message.unwrap().response_message, Some(cut));
    type Edit = fn(&mut pb::Message);
    let rows: &[(Edit, &str)] = &[
        (
            |m| m.query_address = Some(vec![1, 2, 3]),
            "Cannot parse query_address",
        ),
        (
            |m| m.response_address = Some(vec![1]),
            "Cannot parse response_address",
        ),
        (
            |m| m.query_time_sec = Some(u64::MAX),
            "Cannot parse timestamp",
        ),
        (|m| m.query_zone = Some(vec![1]), "Cannot parse query_zone"),
        (
            |m| m.r#type = Some(99),
            "Unsupported DNSTap message type: 99",
        ),
        (
            |m| m.query_message = Some(vec![1, 2]),
            "malformed DNS message: header_cut at octet 2",
        ),
    ];
    for (edit, wanted) in rows {
        let mut message = pb::Message {
            r#type: Some(5),
            query_message: Some(QUERY.to_vec()),
            ..pb::Message::default()
        };
        edit(&mut message);
        let is_short = message.query_message.as_ref().unwrap().len() == 2;
        let text = text(&dnstap(message).encode_to_vec(), Source::default());
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["error"], *wanted);
        assert!(event["rawData"].is_string());
        assert_eq!(
            event["requestData"]["question"].is_array(),
            !is_short,
            "{event}"
        );
        keys_ascend(&text);
    }
}

#[test]
fn a_record_without_a_message_has_its_time_and_one_without_times_that_of_its_arrival() {
    let event = event(&dnstap(pb::Message {
        r#type: Some(6),
        query_time_sec: Some(1),
        response_time_sec: Some(2),
        response_time_nsec: Some(500_000_000),
        ..pb::Message::default()
    }));
    assert_eq!(
        event["requestData"],
        json!({"time": 1_000_000_000, "timePrecision": "ns"})
    );
    assert_eq!(
        event["responseData"],
        json!({"time": 2_500_000_000_u64, "timePrecision": "ns"})
    );
    assert_eq!(event["timestamp"], "1970-01-01T00:00:02.500Z");
    let bare = dnstap(pb::Message {
        r#type: Some(6),
        ..pb::Message::default()
    });
    let source = Source {
        received: Some(std::time::UNIX_EPOCH + std::time::Duration::from_micros(86_400_000_001)),
        listener: "unix",
        peer: "192.0.2.9:5",
    };
    let event: Value = serde_json::from_str(&text(&bare.encode_to_vec(), source)).unwrap();
    assert_eq!(event["timestamp"], "1970-01-02T00:00:00.000001Z");
    assert_eq!(event["host"], "192.0.2.9:5");
    assert_eq!(event.get("time"), None);
}

/// The keys of every object stand in the order of their octets, each once.
fn keys_ascend(text: &str) {
    // serde_json keeps the order here, and of a key that is there twice the first place: hence the text again.
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        format!("{value}\n").len(),
        text.len(),
        "a key stands twice: {text}"
    );
    let mut values = vec![&value];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(map) => {
                let keys: Vec<_> = map.keys().collect();
                assert!(keys.is_sorted(), "{keys:?}");
                values.extend(map.values());
            }
            Value::Array(list) => values.extend(list),
            _ => {}
        }
    }
}

#[test]
fn every_capture_gives_events_with_the_names_types_and_codes_of_our_json() {
    let mut events = 0;
    for path in captures() {
        let records = ours(&path, "json");
        for (ours, theirs) in records.iter().zip(ours(&path, "vector-json")).step_by(5) {
            keys_ascend(&theirs);
            let ours: Value = serde_json::from_str(ours).unwrap();
            let theirs: Value = serde_json::from_str(&theirs).unwrap();
            events += 1;
            let is_query = ours["type"].as_str().unwrap().ends_with("QUERY");
            let data = &theirs[if is_query {
                "requestData"
            } else {
                "responseData"
            }];
            let dns = &ours["dns"];
            if dns["counts"].is_null() {
                continue;
            }
            for (a, b) in [
                (&ours["identity"], &theirs["serverId"]),
                (&ours["query_address"], &theirs["sourceAddress"]),
                (&ours["query_port"], &theirs["sourcePort"]),
                (&dns["id"], &data["header"]["id"]),
                (
                    &dns["counts"]["an"],
                    if data["zone"].is_null() {
                        &data["header"]["anCount"]
                    } else {
                        &data["header"]["prCount"]
                    },
                ),
                (
                    &dns["answers"][0]["name"],
                    &data["answers"][0]["domainName"],
                ),
                (
                    &dns["additionals"][0]["name"],
                    &data["additional"][0]["domainName"],
                ),
            ] {
                assert_eq!(a, b, "{}\n{ours}\n{theirs}", path.display());
            }
            if data["zone"].is_null() {
                assert_eq!(dns["qname"], data["question"][0]["domainName"]);
                assert_eq!(
                    dns["answers"].as_array().map(Vec::len),
                    data["answers"].as_array().map(Vec::len)
                );
            }
        }
    }
    assert!(events > 5_000);
}
