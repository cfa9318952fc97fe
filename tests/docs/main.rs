//! The book in `docs/`: its pages are all there and linked, what is made from the code is current, every command runs or is a
//! sample of a kind that is named here, every configuration loads.
//!
//! `TAPFLOW_DOCS=write cargo test --test docs` writes the generated pages anew.

mod commands;
mod generate;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the pages.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src")
}

/// Every page: its path below the source folder, and its text.
fn pages() -> Vec<(String, String)> {
    fn walk(folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|e| e == "md") {
                let name = path.strip_prefix(source()).expect("a page");
                into.push((
                    name.display().to_string(),
                    fs::read_to_string(&path).expect("a page"),
                ));
            }
        }
    }
    let mut found = Vec::new();
    walk(&source(), &mut found);
    found.sort();
    found
}

/// The fenced blocks of a page: what stands behind the fence, and the text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(String, String)>);
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info.to_owned(), String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}
