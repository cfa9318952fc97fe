//! Odd dnstap payloads, each between two good frames: each costs its own frame at most, and is counted under its reason.

use std::collections::BTreeMap;

use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, drops};
use crate::support::testdata;

/// The files whose odd frame is no record, with the reason; the odd frame of every other file is kept.
const ERRORS: &[(&str, &str)] = &[
    ("p02-missing-message-type", "message_type_missing"),
    ("p03-dnstap-type-2", "dnstap_type_unknown"),
    ("p04-dnstap-type-missing", "dnstap_type_missing"),
    ("p05-no-message", "message_missing"),
    ("p39-truncated-payload", "protobuf_overrun"),
    ("p41-length-overrun", "protobuf_overrun"),
    ("p42-field-0", "protobuf_key"),
    ("p43-random", "*"),
];

/// B065 to B089.
#[tokio::test(flavor = "multi_thread")]
async fn an_odd_payload_is_kept_or_counted_under_its_reason_and_costs_nobody_else() {
    let mut names: Vec<String> = std::fs::read_dir(testdata("corpus/payload-fstrm"))
        .expect("the corpus")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 37);
    for file in names {
        let name = file.trim_end_matches(".fstrm");
        let bytes =
            std::fs::read(testdata(&format!("corpus/payload-fstrm/{file}"))).expect("a file");
        let running = Rig::new().decoding().null().start().await;
        Peer::pour(&running.at(Socket::Unix), &bytes).await;
        let ledger = running.wait_settled(3).await;
        running.wait_closed("clean", 1).await;
        let reason = ERRORS.iter().find(|e| e.0 == name).map(|e| e.1);
        let got = drops(&ledger);
        match reason {
            None => assert!(
                got.is_empty() && ledger.outputs[0].delivered == 3,
                "{name}: {}",
                ledger.to_json()
            ),
            Some("*") => assert!(
                got.len() == 1 && got[0].0.starts_with("stage:decode/protobuf_"),
                "{name}: {got:?}"
            ),
            Some(reason) => assert_eq!(got, [(format!("stage:decode/{reason}"), 1)], "{name}"),
        }
        let messages = running.scrape().sum("tapflow_dnstap_messages_total", &[]);
        assert_eq!(messages, ledger.outputs[0].delivered as f64, "{name}");
        running.stop().await;
    }
}

/// B068, B069, B071, B078, B088: what is only unusual is counted under its type, and an unknown number under `other`.
#[tokio::test(flavor = "multi_thread")]
async fn unusual_types_and_protocols_are_counted_under_their_names() {
    let rows: &[(&str, &str, &str)] = &[
        (
            "p49-stub-query",
            "tapflow_dnstap_messages_total",
            "{type=\"STUB_QUERY\"}",
        ),
        (
            "p50-update-response",
            "tapflow_dnstap_messages_total",
            "{type=\"UPDATE_RESPONSE\"}",
        ),
        (
            "p52-negative-enum",
            "tapflow_dnstap_messages_total",
            "{type=\"other\"}",
        ),
        (
            "p19-protocol-7",
            "tapflow_dns_transport_total",
            "{protocol=\"DOQ\",family=\"INET\"}",
        ),
        (
            "p20-protocol-99",
            "tapflow_dns_transport_total",
            "{protocol=\"other\",family=\"INET\"}",
        ),
        (
            "p11-no-family",
            "tapflow_dns_transport_total",
            "{protocol=\"UDP\",family=\"other\"}",
        ),
    ];
    for (file, metric, series) in rows {
        let bytes =
            std::fs::read(testdata(&format!("corpus/payload-fstrm/{file}.fstrm"))).expect("a file");
        let running = Rig::new().decoding().null().start().await;
        Peer::pour(&running.at(Socket::Unix), &bytes).await;
        assert_eq!(running.wait_settled(3).await.lost(), 0);
        let counted: BTreeMap<String, f64> = running.scrape().nonzero(metric);
        assert_eq!(counted.get(*series), Some(&1.0), "{file}: {counted:?}");
        running.stop().await;
    }
}

/// B107, B098 and rule 2 of the corpus: a DNS message that cannot be decoded costs the DNS fields and not the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_dns_message_keeps_its_record_and_is_counted() {
    let rows: &[(&str, Option<&str>)] = &[
        ("n01-self-pointer-qname", Some("dns_")),
        ("n05-pointer-cut", Some("dns_")),
        ("t01-empty", Some("dns_")),
        ("t06-name-no-type", Some("dns_")),
        ("t04-header-only-formerr", None),
        ("t10-tc-clean", None),
        ("t18-no-question-answer", None),
        ("n16-special-octets", None),
    ];
    for (file, reason) in rows {
        let bytes =
            std::fs::read(testdata(&format!("corpus/dns-fstrm/{file}.fstrm"))).expect("a file");
        let running = Rig::new().decoding().null().start().await;
        Peer::pour(&running.at(Socket::Unix), &bytes).await;
        let ledger = running.wait_settled(1).await;
        assert_eq!(
            (ledger.lost(), ledger.outputs[0].delivered),
            (0, 1),
            "{file}"
        );
        let errors = running.scrape().nonzero("tapflow_decode_errors_total");
        match reason {
            None => assert!(errors.is_empty(), "{file}: {errors:?}"),
            Some(start) => assert!(
                errors.len() == 1 && errors.iter().all(|(s, n)| s.contains(start) && *n == 1.0),
                "{file}: {errors:?}"
            ),
        }
        running.stop().await;
    }
}
