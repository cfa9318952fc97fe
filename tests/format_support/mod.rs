//! Comparing what a format writes with what another program prints.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use tapflow::dnstap::DnstapView;
use tapflow::format::{Entry, Format, Settings, Source};

use crate::dnstap_support::{files, payloads};

/// What we write for each record of `path`.
pub(crate) fn ours(path: &Path, format: &str) -> Vec<String> {
    let format: Format = format.parse().unwrap();
    let mut line = format.line(&Settings::default()).unwrap().unwrap();
    let mut out = Vec::new();
    line.begin(&mut out);
    let mut records = Vec::new();
    for payload in payloads(path) {
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
