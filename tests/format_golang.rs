//! The formats of golang-dnstap against its program `dnstap` itself, where it is installed, and against what it printed.

mod dnstap_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use dnstap_support::{files, payloads};
use tapflow::dnstap::DnstapView;
use tapflow::format::{Entry, Format, Settings, Source};

const JSON: &str = "golang-json";
const YAML: &str = "golang-yaml";

/// Files of the made corpus whose records differ, with where and why. The module's documentation has the list.
#[rustfmt::skip]
const MEANT: &[(&str, &[&str], &str)] = &[
];

/// What we write for each record of `path`.
fn ours(path: &Path, format: &str) -> Vec<String> {
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

/// What the program prints, a record each; `None` where it is not installed. It stops at some frames.
fn theirs(path: &Path, format: &str) -> Option<Vec<String>> {
    let mut command = Command::new("dnstap");
    command.arg(if format == JSON { "-j" } else { "-y" });
    match command.arg("-r").arg(path).output() {
        Ok(output) => Some(split(&String::from_utf8_lossy(&output.stdout))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "skipped: the comparison with golang-dnstap (Debian package golang-github-dnstap-golang-dnstap-cli)"
            );
            None
        }
        Err(error) => panic!("dnstap: {error}"),
    }
}

/// Objects, a line each, or documents, which end in `---`.
fn split(text: &str) -> Vec<String> {
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

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Where two texts first differ, for people.
fn difference(ours: &str, theirs: &str) -> String {
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
fn captures() -> Vec<PathBuf> {
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

#[test]
fn whole_captures_are_what_the_program_prints() {
    let (mut problems, mut equal) = (Vec::new(), 0);
    for path in captures() {
        for format in [JSON, YAML] {
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let ours = ours(&path, format);
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                if ours == theirs {
                    equal += 1;
                    continue;
                }
                problems.push(format!(
                    "{} as {format}: {}",
                    path.display(),
                    difference(ours, theirs)
                ));
            }
        }
    }
    println!("{equal} records equal, {} not", problems.len());
    problems.truncate(40);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(equal > 70_000);
}

#[test]
fn options_data_and_codes_are_written_as_the_program_writes_them() {
    let (mut problems, mut equal) = (Vec::new(), 0);
    for path in files("dnstap-read", "fstrm") {
        for format in [JSON, YAML] {
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let ours = ours(&path, format);
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
            for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                if ours == theirs {
                    equal += 1;
                } else {
                    problems.push(format!("{index} as {format}: {}", difference(ours, theirs)));
                }
            }
        }
    }
    println!("{equal} records equal, {} not", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_odd_file_keeps_its_records_and_differs_only_where_that_is_meant() {
    let mut problems = Vec::new();
    let mut paths = files("corpus/dns-fstrm", "fstrm");
    paths.extend(files("corpus/payload-fstrm", "fstrm"));
    for path in paths {
        for format in [JSON, YAML] {
            let ours = ours(&path, format);
            for record in &ours {
                let is_whole = record.ends_with('\n')
                    && !record
                        .chars()
                        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
                let is_one = format == YAML || record.lines().count() == 1;
                assert!(is_whole && is_one, "{}: {record:?}", path.display());
            }
            let Some(theirs) = theirs(&path, format) else {
                return;
            };
            let is_meant = MEANT
                .iter()
                .any(|(file, formats, _)| name(&path) == *file && formats.contains(&format));
            match (ours == theirs, is_meant) {
                (true, true) => problems.push(format!(
                    "{} as {format} no longer differs, take it out",
                    name(&path)
                )),
                (false, false) => problems.push(format!(
                    "{} as {format}: {}",
                    name(&path),
                    difference(&ours.concat(), &theirs.concat())
                )),
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
