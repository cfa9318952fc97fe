//! The corpus into a listener, file by file: the process lives, every frame is delivered or counted, the connection ends for
//! the reason that it should, and the next good sender is served as at the start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::frames::{ACCEPT, FINISH};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Running, Socket};
use crate::support::{eventually, shared_corpus, testdata};

/// Frames, answers and reason of each file of `corpus/framing`, as the corpus says is right.
const FRAMING: &[(&str, u64, &[u32], &str)] = &[
    // No type and a list that is empty match everything.
    ("f02-start-no-content-type", 1, &[], "clean"),
    ("f03-start-two-types", 0, &[], "malformed"),
    ("f04-start-wrong-type", 0, &[], "content_type_mismatch"),
    ("f06-start-type-nul", 0, &[], "content_type_mismatch"),
    ("f07-start-type-257", 0, &[], "malformed"),
    ("f08-control-length-0", 0, &[], "malformed"),
    ("f09-control-length-3", 0, &[], "malformed"),
    ("f12-unknown-control", 2, &[], "clean"),
    ("f15-field-cut", 0, &[], "malformed"),
    ("f17-data-after-stop", 1, &[], "clean"),
    ("f20-cut-in-length", 1, &[], "truncated"),
    ("f21-cut-in-payload", 1, &[], "truncated"),
    ("f24-empty-file", 0, &[], "handshake_eof"),
    ("f25-length-max", 1, &[], "lost_framing"),
    // On a socket READY is normal.
    ("f27-ready-in-file", 1, &[ACCEPT, FINISH], "clean"),
    ("f29-accept-first", 0, &[], "unexpected_frame"),
    ("f31-stop-only", 0, &[], "unexpected_frame"),
    ("f32-tls-hello", 0, &[], "tls"),
    ("f33-http-get", 0, &[], "http"),
    ("f34-two-octet-length", 0, &[], "powerdns_protobuf"),
    ("f35-syslog", 0, &[], "wrong_protocol"),
    ("f36-little-endian", 0, &[], "control_too_long"),
    ("f38-frame-70000", 3, &[], "clean"),
    ("f39-frame-300000", 3, &[], "clean"),
    ("f40-handshake-client", 2, &[ACCEPT, FINISH], "clean"),
    ("f43-ready-no-type", 1, &[ACCEPT, FINISH], "clean"),
    ("f44-ready-40-types", 0, &[], "content_type_mismatch"),
    ("f46-gzip", 0, &[], "wrong_protocol"),
];

/// Every file under `folder`, in order.
fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => walk(&path, into),
            false => into.push(path),
        }
    }
}

/// Sends the bytes and waits for the close: frames received, answers, and the close reason.
async fn pour(running: &Running, socket: Socket, bytes: &[u8]) -> (u64, Vec<u32>, String) {
    let closed = || running.scrape().nonzero("tapflow_connections_closed_total");
    let (before, received) = (closed(), running.ledger().received);
    let answers = Peer::pour(&running.at(socket), bytes).await;
    assert!(answers.payloads.is_empty(), "no data is answered");
    let after = eventually("the close is counted", || {
        Some(closed()).filter(|c| *c != before)
    })
    .await;
    let ended = |c: &BTreeMap<String, f64>| c.values().sum::<f64>();
    assert_eq!(
        ended(&after),
        ended(&before) + 1.0,
        "one connection, one close"
    );
    let series = after
        .iter()
        .find(|(name, n)| before.get(*name) != Some(n))
        .map(|(name, _)| name.clone());
    let reason =
        series.and_then(|s| Some(s.split("reason=\"").nth(1)?.split('"').next()?.to_owned()));
    (
        running.ledger().received - received,
        answers.controls,
        reason.expect("a reason"),
    )
}

/// B001, B002, B006, B007, B087.
#[tokio::test(flavor = "multi_thread")]
async fn every_odd_byte_stream_ends_for_the_reason_it_should_and_harms_nobody() {
    let running = Rig::new().decoding().null().start().await;
    let mut files = Vec::new();
    walk(&testdata("corpus/framing"), &mut files);
    assert_eq!(files.len(), FRAMING.len());
    for (path, (name, frames, answers, reason)) in files.iter().zip(FRAMING) {
        assert_eq!(path.file_stem().and_then(|s| s.to_str()), Some(*name));
        let bytes = std::fs::read(path).expect("a file");
        for socket in Socket::BOTH {
            let got = pour(&running, socket, &bytes).await;
            // A refusal may reset the connection, and with it take an answer that was on its way; there is none then.
            assert_eq!(
                (got.0, got.1.as_slice(), got.2.as_str()),
                (*frames, *answers, *reason),
                "{name} over {socket:?}"
            );
            running.serves_well(socket, 1).await;
        }
    }
    running.stop().await;
}

/// B087: records plus errors equal frames, for every file there is, in the wire format or not.
#[tokio::test(flavor = "multi_thread")]
async fn every_file_of_the_corpus_is_taken_in_and_accounted_for() {
    let running = Rig::new().decoding().null().start().await;
    let mut files = Vec::new();
    for folder in ["corpus", "fstrm/wire", "captures"] {
        walk(&testdata(folder), &mut files);
    }
    for folder in [
        "made",
        "captured",
        "fetched/fstrm",
        "fetched/derived",
        "fetched/payload",
    ] {
        if let Some(folder) = shared_corpus(folder) {
            walk(&folder, &mut files);
        }
    }
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for path in &files {
        let bytes = std::fs::read(path).expect("a file");
        let before = running.ledger();
        let (frames, _, reason) = pour(&running, Socket::Unix, &bytes).await;
        let after = running.wait_settled(before.received + frames).await;
        let (errors, delivered) = (
            after.dropped_before() - before.dropped_before(),
            after.outputs[0].delivered - before.outputs[0].delivered,
        );
        assert_eq!(frames, errors + delivered, "{}", path.display());
        // What the listener passed on is either a record or a counted error of the decode stage.
        let metrics = running.scrape();
        assert_eq!(
            metrics.sum("tapflow_dnstap_messages_total", &[]),
            after.outputs[0].delivered as f64,
            "{}",
            path.display()
        );
        *reasons.entry(reason).or_default() += 1;
        running.serves_well(Socket::Unix, 1).await;
    }
    println!("{} files: {reasons:?}", files.len());
    assert!(files.len() >= 230, "{} files", files.len());
    running.stop().await;
}

/// What each server wrote on its socket, poured in whole. B019: dnsdist and the Recursor end without STOP.
#[tokio::test(flavor = "multi_thread")]
async fn what_servers_wrote_on_their_sockets_is_received_to_the_last_frame() {
    let running = Rig::new().decoding().null().start().await;
    let rows: &[(&str, u64, &[u32], &str)] = &[
        ("bind9", 172, &[ACCEPT, FINISH], "clean"),
        ("dnsdist", 60, &[ACCEPT], "no_stop"),
        ("knot", 60, &[ACCEPT, FINISH], "clean"),
        ("knot-resolver", 60, &[ACCEPT, FINISH], "clean"),
        ("nsd", 60, &[ACCEPT, FINISH], "clean"),
        ("pdns-recursor", 82, &[ACCEPT], "no_stop"),
        ("unbound", 194, &[ACCEPT, FINISH], "clean"),
        ("unbound-unidirectional", 194, &[], "clean"),
    ];
    for (name, frames, answers, reason) in rows {
        let bytes = std::fs::read(testdata(&format!("fstrm/wire/{name}.bin"))).expect("a capture");
        for socket in Socket::BOTH {
            let got = pour(&running, socket, &bytes).await;
            assert_eq!(
                (got.0, got.1.as_slice(), got.2.as_str()),
                (*frames, *answers, *reason),
                "{name} over {socket:?}"
            );
        }
    }
    let ledger = running.stop().await;
    assert_eq!(
        ledger.lost(),
        0,
        "servers send nothing that cannot be decoded: {}",
        ledger.to_json()
    );
}
