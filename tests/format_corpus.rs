//! Every file of the shared corpus through every decoder and writer. The corpus is other projects' data and not
//! in this repository: `TAPFLOW_CORPUS` names its folder, `../shared/corpus` is where it is looked for
//! otherwise.

use std::path::{Path, PathBuf};

use tapflow::dns::fuzz_message;
use tapflow::dnstap::{DnstapView, fuzz_view};
use tapflow::format::fuzz_payload;

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("TAPFLOW_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!(
            "skipped: no corpus at {} (set TAPFLOW_CORPUS)",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    files
}

/// The data frames of a Frame Streams file up to where it ends or breaks.
fn payloads(file: &[u8]) -> Vec<&[u8]> {
    fn take<'a>(rest: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
        let mut word = || {
            let (word, tail) = rest.split_first_chunk::<4>()?;
            *rest = tail;
            usize::try_from(u32::from_be_bytes(*word)).ok()
        };
        let (len, is_data) = match word()? {
            0 => (word()?, false),
            len => (len, true),
        };
        let (octets, tail) = rest.split_at_checked(len)?;
        *rest = tail;
        Some((is_data, octets))
    }
    let mut rest = file;
    let mut payloads = Vec::new();
    while let Some((is_data, octets)) = take(&mut rest) {
        if is_data {
            payloads.push(octets);
        }
    }
    payloads
}

#[test]
fn every_frame_of_the_corpus_is_a_record_or_a_reason() {
    let Some(corpus) = corpus() else { return };
    let (mut frames, mut records, mut reasons) = (0, 0, 0);
    for path in files(&corpus) {
        let is_stream = path
            .extension()
            .is_some_and(|end| end == "fstrm" || end == "dnstap" || end == "wire");
        let file = std::fs::read(&path).expect("a file");
        // What is no stream is a payload or a message as it stands, or rubbish, which must do no harm either.
        let payloads = if is_stream {
            payloads(&file)
        } else {
            vec![&file[..]]
        };
        for payload in payloads {
            fuzz_view(payload);
            fuzz_payload(payload);
            fuzz_message(payload);
            frames += 1;
            match DnstapView::parse(payload).map(|view| view.classify().is_ok()) {
                Ok(true) => records += 1,
                Ok(false) | Err(_) => reasons += 1,
            }
        }
    }
    println!("{frames} frames, {records} records, {reasons} with a reason why not");
    assert_eq!(records + reasons, frames);
    assert!(
        records > 2000 && reasons > 100,
        "{records} records, {reasons} others"
    );
}
