//! `tapflow read --stats`: a summary of what files hold.

mod cli_support;

use std::path::Path;

use cli_support::{files, run, testdata};
use serde_json::Value;

fn summary(args: &[&Path]) -> Value {
    let mut all = vec![
        Path::new("read"),
        Path::new("--stats"),
        Path::new("--format"),
        Path::new("json"),
    ];
    all.extend(args);
    let ran = run(all);
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {} {}", ran.out, ran.err))
}

fn sum(table: &Value) -> u64 {
    let rows = table["first"].as_object().unwrap();
    rows.values().map(|n| n.as_u64().unwrap()).sum()
}

/// Each record as the JSON format writes it is the independent way to the same counts.
#[test]
fn the_summary_of_every_capture_counts_what_its_records_say() {
    for file in files("captures") {
        let name = file.display().to_string();
        let stats = summary(&[&file]);
        let lines = run([
            Path::new("read"),
            Path::new("--format"),
            Path::new("json"),
            &file,
        ]);
        let records: Vec<Value> = lines
            .out
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(stats["records"], records.len(), "{name}");
        assert_eq!(stats["frames"]["frames"], records.len(), "{name}");
        let kinds = sum(&stats["message_types"]);
        assert_eq!(kinds, records.len() as u64, "{name}");
        for (kind, count) in stats["message_types"]["first"].as_object().unwrap() {
            let found = records
                .iter()
                .filter(|r| r["type"] == kind.as_str())
                .count();
            assert_eq!(count, found, "{name} {kind}");
        }
        let clients: std::collections::HashSet<&str> = records
            .iter()
            .filter_map(|r| r["query_address"].as_str())
            .collect();
        assert_eq!(stats["clients"]["distinct"], clients.len(), "{name}");
        assert_eq!(stats["clients"]["exact"], true);
        let latencies = records.iter().filter(|r| !r["latency"].is_null()).count();
        assert_eq!(stats["latency"]["records"], latencies, "{name}");
        let columns: u64 = stats["rate"]["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .sum();
        let timed = columns + stats["rate"]["outside"].as_u64().unwrap();
        assert_eq!(timed, records.len() as u64, "{name}");
    }
}

#[test]
fn what_is_malformed_is_summed_up_by_reason_and_nothing_in_any_corpus_file_ends_the_summary() {
    let mut reasons = std::collections::BTreeSet::new();
    for folder in ["corpus/framing", "corpus/payload-fstrm", "corpus/dns-fstrm"] {
        for file in files(folder) {
            let stats = summary(&[&file]);
            let frames = &stats["frames"];
            let errors: u64 = frames["errors"]
                .as_object()
                .unwrap()
                .values()
                .map(|n| n.as_u64().unwrap())
                .sum();
            assert_eq!(
                frames["frames"].as_u64().unwrap(),
                frames["records"].as_u64().unwrap() + errors,
                "{}",
                file.display()
            );
            assert_eq!(stats["records"], frames["records"], "{}", file.display());
            reasons.extend(
                stats["malformed"]["first"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned(),
            );
        }
    }
    assert!(reasons.len() > 5, "{reasons:?}");
}

#[test]
fn the_text_shows_the_plot_and_the_tables_and_a_filter_narrows_them() {
    let file = testdata("captures/unbound.fstrm");
    let all = run([Path::new("read"), Path::new("--stats"), &file]);
    assert_eq!((all.code, all.err.as_str()), (Some(0), ""));
    for part in [
        "frames 7466, records 7466, errors 0",
        "Records over time",
        "█",
        "Names (first 10 of",
        "p99 ",
    ] {
        assert!(all.out.contains(part), "{part}: {}", all.out);
    }
    let some = run([
        Path::new("read"),
        Path::new("--stats"),
        Path::new("--filter"),
        Path::new("rcode=NXDOMAIN"),
        &file,
    ]);
    assert_eq!(some.code, Some(0));
    assert!(
        some.out.contains("100.0%  NXDOMAIN") && !some.out.contains("NOERROR"),
        "{}",
        some.out
    );
}

#[test]
fn a_summary_comes_as_text_or_json_and_not_of_a_file_that_grows() {
    let file = testdata("captures/kdig.fstrm");
    let hex = run([
        Path::new("read"),
        Path::new("--stats"),
        Path::new("--format"),
        Path::new("dnstap-read"),
        &file,
    ]);
    assert_eq!(hex.code, Some(2));
    assert!(hex.err.contains("text or json"), "{}", hex.err);
    let follow = run([
        Path::new("read"),
        Path::new("--stats"),
        Path::new("--follow"),
        &file,
    ]);
    assert_eq!(follow.code, Some(2));
}
