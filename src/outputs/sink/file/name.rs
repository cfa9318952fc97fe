//! File names: `PREFIX-YYYYMMDDTHHMMSSZ-NNNN.EXT`, with `.gz` and the like after compression, and `.part` after anything that
//! is not finished. The time is when the file was begun; the number tells files of one second apart. Sorting the names sorts
//! the files by age.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::format::{Format, Shape};
use crate::outputs::sink::file::compress::Compression;

/// The ending of a file that is not finished.
pub const PART: &str = ".part";

/// What a name in the folder says, when it is one of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// `YYYYMMDDTHHMMSSZ`.
    pub stamp: String,
    /// The number.
    pub number: u64,
    /// What the file holds.
    pub shape: Shape,
    /// How it is compressed, if it is.
    pub compression: Option<Compression>,
    /// Whether it is not finished.
    pub part: bool,
}

impl Name {
    /// Reads a file name. `None`: it is not one that an output with this prefix would give, so the file is not ours.
    pub fn parse(prefix: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(prefix)?.strip_prefix('-')?;
        let (stamp, rest) = rest.split_once('-')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
        if date.len() != 8 || time.len() != 6 || !digits(date) || !digits(time) {
            return None;
        }
        let (rest, part) = rest
            .strip_suffix(PART)
            .map_or((rest, false), |rest| (rest, true));
        let (number, extension) = rest.split_once('.')?;
        if number.len() < 4 || !digits(number) {
            return None;
        }
        let (extension, compression) = match extension.split_once('.') {
            None => (extension, None),
            Some((extension, ending)) => (
                extension,
                Some(
                    Compression::ALL
                        .into_iter()
                        .find(|c| c.extension() == ending)?,
                ),
            ),
        };
        let shape = Format::shape_of_extension(extension)?;
        Some(Self {
            stamp: stamp.to_owned(),
            number: number.parse().ok()?,
            shape,
            compression,
            part,
        })
    }
}

/// The files of one output, oldest first, each with every form it exists in.
pub type Listing = BTreeMap<(String, u64), Vec<(Name, PathBuf)>>;

/// The files of one output in its folder.
///
/// # Errors
/// Those of reading the folder.
pub fn list(dir: &Path, prefix: &str) -> io::Result<Listing> {
    let mut found = Listing::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(name) = entry
            .file_name()
            .to_str()
            .and_then(|n| Name::parse(prefix, n))
        {
            found
                .entry((name.stamp.clone(), name.number))
                .or_default()
                .push((name, entry.path()));
        }
    }
    Ok(found)
}

/// Gives out names that are not taken.
#[derive(Debug)]
pub struct Namer {
    dir: PathBuf,
    prefix: String,
    extension: &'static str,
    last: (String, u64),
}

impl Namer {
    /// Names in `dir`.
    pub fn new(dir: &Path, prefix: &str, extension: &'static str) -> Self {
        Self {
            dir: dir.to_owned(),
            prefix: prefix.to_owned(),
            extension,
            last: (String::new(), 0),
        }
    }

    /// The final name of a file begun now, which exists in no form.
    pub fn give(&mut self) -> PathBuf {
        let stamp = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        // A clock that was set back must not make names that sort before those of older files within one second.
        let mut number = if stamp == self.last.0 {
            self.last.1 + 1
        } else {
            1
        };
        loop {
            let name = format!("{}-{stamp}-{number:04}.{}", self.prefix, self.extension);
            let path = self.dir.join(&name);
            if !self.is_taken(&path) {
                self.last = (stamp, number);
                return path;
            }
            number += 1;
        }
    }

    fn is_taken(&self, path: &Path) -> bool {
        let compressed = Compression::ALL.into_iter().map(|c| c.path(path));
        std::iter::once(path.to_owned())
            .chain(compressed)
            .any(|p| p.exists() || part(&p).exists())
    }
}

/// The name of `path` while it is not finished.
pub fn part(path: &Path) -> PathBuf {
    with_ending(path, PART)
}

/// `path` with `ending` after it.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_this_output_gives_are_its_own() {
        for (name, want) in [
            ("tap-20260102T030405Z-0001.fstrm", Some((1, None, false))),
            (
                "tap-20260102T030405Z-12345.fstrm",
                Some((12345, None, false)),
            ),
            (
                "tap-20260102T030405Z-0001.fstrm.part",
                Some((1, None, true)),
            ),
            (
                "tap-20260102T030405Z-0002.jsonl.zst",
                Some((2, Some(Compression::Zstd), false)),
            ),
            (
                "tap-20260102T030405Z-0002.txt.gz.part",
                Some((2, Some(Compression::Gzip), true)),
            ),
            ("tap-x-20260102T030405Z-0001.fstrm", None),
            ("tap20260102T030405Z-0001.fstrm", None),
            ("other-20260102T030405Z-0001.fstrm", None),
            ("tap-20260102T030405Z-0001.fstrm.1", None),
            ("tap-20260102T030405Z-001.fstrm", None),
            ("tap-2026010T2030405Z-0001.fstrm", None),
            ("tap-20260102T030405Z-0001.pcapng", None),
            ("tap-20260102T030405Z-.fstrm", None),
            ("tap-", None),
        ] {
            let got = Name::parse("tap", name).map(|n| (n.number, n.compression, n.part));
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_name_is_never_given_twice_nor_one_that_exists_in_any_form() {
        let dir = tempfile::tempdir().unwrap();
        let mut namer = Namer::new(dir.path(), "tap", "fstrm");
        let mut seen = std::collections::BTreeSet::new();
        for ending in ["", ".part", ".zst", ".gz.part"] {
            let path = namer.give();
            assert!(seen.insert(path.clone()), "{}", path.display());
            fs::write(with_ending(&path, ending), b"x").unwrap();
            // A second output of the same name begins to count anew and still finds what exists.
            assert!(!seen.contains(&Namer::new(dir.path(), "tap", "fstrm").give()));
        }
    }
}
