//! Comparing what a format writes with what another program prints.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use prost::Message as _;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::format::{Entry, Format, Settings, Source};

use crate::dnstap_support::{files, payloads};

/// What we write for each record of `path`.
pub(crate) fn ours(path: &Path, format: &str) -> Vec<String> {
    written(payloads(path), format)
}

/// What we write for each payload that is a record.
fn written(payloads: Vec<Vec<u8>>, format: &str) -> Vec<String> {
    let format: Format = format.parse().unwrap();
    let mut line = format.line(&Settings::default()).unwrap().unwrap();
    let mut out = Vec::new();
    line.begin(&mut out);
    let mut records = Vec::new();
    for payload in payloads {
        let Ok(view) = DnstapView::parse(&payload) else {
            continue;
        };
        let is_record = view.classify().is_ok();
        let entry = Entry {
            payload: &payload,
            view: Ok(&view),
            source: Source::default(),
        };
        assert_eq!(line.write(&mut out, entry).is_ok(), is_record);
        if is_record {
            records.push(String::from_utf8(std::mem::take(&mut out)).expect("text"));
        }
        assert!(out.is_empty(), "all or nothing");
    }
    records
}

/// What we write of a query with this identity, zone and DNS message.
pub(crate) fn written_query(format: &str, identity: &[u8], zone: &[u8], dns: Vec<u8>) -> String {
    let dnstap = pb::Dnstap {
        identity: Some(identity.to_vec()),
        r#type: Some(1),
        message: Some(pb::Message {
            r#type: Some(5),
            query_zone: Some(zone.to_vec()),
            query_message: Some(dns),
            ..pb::Message::default()
        }),
        ..pb::Dnstap::default()
    };
    written(vec![dnstap.encode_to_vec()], format).concat()
}

/// A DNS message without questions, with these records.
pub(crate) fn message(opcode: u8, answers: &[&[u8]], additionals: &[&[u8]]) -> Vec<u8> {
    let counts = [answers.len() as u8, 0, additionals.len() as u8];
    let mut octets = vec![0, 7, opcode << 3, 0, 0, 0];
    octets.extend(counts.into_iter().flat_map(|count| [0, count]));
    octets.extend([answers, additionals].concat().concat());
    octets
}

/// A record of the root's with TTL 5.
pub(crate) fn record(rtype: u16, class: u16, data: &[u8]) -> Vec<u8> {
    let mut octets = vec![0];
    octets.extend(rtype.to_be_bytes());
    octets.extend(class.to_be_bytes());
    octets.extend([0, 0, 0, 5, 0, data.len() as u8]);
    octets.extend(data);
    octets
}

/// Objects, a line each, or documents, which end in `---`.
pub(crate) fn split(text: &str) -> Vec<String> {
    if text.starts_with('{') {
        return text.split_inclusive('\n').map(str::to_owned).collect();
    }
    let mut documents = vec![String::new()];
    for line in text.split_inclusive('\n') {
        documents.last_mut().unwrap().push_str(line);
        if line == "---\n" {
            documents.push(String::new());
        }
    }
    documents.retain(|document| !document.is_empty());
    documents
}

/// The name of a file without its ending.
pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Where two texts first differ, for people.
pub(crate) fn difference(ours: &str, theirs: &str) -> String {
    let (ours, theirs) = (ours.replace("\\n", "\n"), theirs.replace("\\n", "\n"));
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
pub(crate) fn captures() -> Vec<PathBuf> {
    let mut paths = files("captures", "fstrm");
    let corpus = std::env::var_os("TAPFLOW_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"),
        PathBuf::from,
    );
    for folder in [corpus.join("captured"), corpus.join("../captures")] {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            println!("skipped: no captures at {}", folder.display());
            continue;
        };
        paths.extend(
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|end| end == "fstrm")),
        );
    }
    paths
}
