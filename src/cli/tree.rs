//! Folders of dnstap files, such as the one an output of type `file` writes: which files there are, oldest first.
//!
//! A file goes through several names in its life: `X.fstrm.part` while it is written, `X.fstrm`, and perhaps `X.fstrm.zst`
//! once it is compressed. All of them are the one file `X.fstrm`. The names that an output gives sort by age.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::packing;

/// The ending of a file that is not finished.
const PART: &str = ".part";
/// Endings of files that can be read.
const READABLE: [&str; 5] = [".fstrm", ".dnstap", ".pcap", ".pcapng", ".cap"];

/// One file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name without what says how it is packed or whether it is finished: the same for the whole life of the file.
    pub stem: String,
    /// Where it is now.
    pub path: PathBuf,
    /// Whether it is still being written.
    pub part: bool,
}

/// The readable files in `folder`, by name.
///
/// # Errors
/// Those of reading the folder.
pub fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found: BTreeMap<String, (u8, Entry)> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((stem, rank)) = name.to_str().and_then(read_name) else {
            continue;
        };
        if found.get(stem).is_some_and(|(best, _)| *best <= rank) {
            continue;
        }
        let file = Entry {
            stem: stem.to_owned(),
            path: entry.path(),
            part: rank == RANK_PART,
        };
        found.insert(stem.to_owned(), (rank, file));
    }
    Ok(found.into_values().map(|(_, entry)| entry).collect())
}

/// While a file is compressed it exists in two forms; the plain one is complete.
const RANK_PLAIN: u8 = 0;
const RANK_PACKED: u8 = 1;
const RANK_PART: u8 = 2;

/// The stem of a readable file's name, and how its form ranks among others of the same stem.
fn read_name(name: &str) -> Option<(&str, u8)> {
    let (rest, part) = match name.strip_suffix(PART) {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let packed = packing::of_name(Path::new(rest)).map(packing::ending);
    let stem = match packed {
        Some(ending) => rest.strip_suffix(ending)?.strip_suffix('.')?,
        None => rest,
    };
    let readable = READABLE
        .iter()
        .any(|ending| stem.len() > ending.len() && stem.ends_with(ending));
    match (readable && !stem.starts_with('.'), part, packed.is_some()) {
        (false, _, _) => None,
        // Compression that is not finished: the file itself is still there beside it.
        (true, true, true) => None,
        (true, true, false) => Some((stem, RANK_PART)),
        (true, false, true) => Some((stem, RANK_PACKED)),
        (true, false, false) => Some((stem, RANK_PLAIN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_file_are_one_and_foreign_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "tap-20260102T030405Z-0002.fstrm.part",
            "tap-20260102T030405Z-0001.fstrm",
            "tap-20260102T030405Z-0001.fstrm.zst.part",
            "tap-20260101T030405Z-0001.fstrm.zst",
            "tap-20260101T030406Z-0001.fstrm.gz",
            "tap-20260101T030406Z-0001.fstrm",
            "tap-20260101T030406Z-0001.jsonl",
            "notes.txt.gz",
            ".hidden.fstrm",
            ".fstrm",
            "x.zst",
            "z.pcapng",
        ] {
            fs::write(folder.path().join(name), b"x").unwrap();
        }
        let names: Vec<_> = list(folder.path())
            .unwrap()
            .into_iter()
            .map(|entry| (entry.path.file_name().unwrap().to_owned(), entry.part))
            .collect();
        assert_eq!(
            names,
            [
                ("tap-20260101T030405Z-0001.fstrm.zst".into(), false),
                ("tap-20260101T030406Z-0001.fstrm".into(), false),
                ("tap-20260102T030405Z-0001.fstrm".into(), false),
                ("tap-20260102T030405Z-0002.fstrm.part".into(), true),
                ("z.pcapng".into(), false),
            ]
        );
    }
}
