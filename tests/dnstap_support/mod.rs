//! Reading test files: the payloads in a Frame Streams file, and the files of a folder of `testdata/`.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

/// A path under `testdata/`.
pub(crate) fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// The files of a folder under `testdata/` with that extension, by name.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(testdata(folder))
        .unwrap_or_else(|error| panic!("testdata/{folder}: {error}"))
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    assert!(
        !files.is_empty(),
        "testdata/{folder} has .{extension} files"
    );
    files
}

/// The payloads of the data frames in a well-formed Frame Streams file.
pub(crate) fn payloads(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = &file[..];
    let take = |rest: &mut &[u8]| {
        let (len, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        Some(u32::from_be_bytes(*len) as usize)
    };
    let mut payloads = Vec::new();
    while let Some(len) = take(&mut rest) {
        let (len, is_data) = if len > 0 {
            (len, true)
        } else {
            (take(&mut rest).expect("control length"), false)
        };
        let (octets, tail) = rest.split_at(len);
        if is_data {
            payloads.push(octets.to_vec());
        }
        rest = tail;
    }
    payloads
}

/// The payloads of the data frames in a Frame Streams file, up to where it ends or breaks.
pub(crate) fn payloads_until_it_breaks(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut rest, mut payloads) = (&file[..], Vec::new());
    let mut next = || {
        let (len, tail) = rest.split_first_chunk::<4>()?;
        rest = tail;
        let (len, is_data) = match u32::from_be_bytes(*len) {
            0 => {
                let (len, tail) = rest.split_first_chunk::<4>()?;
                rest = tail;
                (u32::from_be_bytes(*len), false)
            }
            len => (len, true),
        };
        let (octets, tail) = rest.split_at_checked(len as usize)?;
        rest = tail;
        Some((octets, is_data))
    };
    while let Some((octets, is_data)) = next() {
        if is_data {
            payloads.push(octets.to_vec());
        }
    }
    payloads
}

/// The payloads of every capture.
pub(crate) fn captured() -> Vec<Vec<u8>> {
    files("captures", "fstrm")
        .iter()
        .flat_map(|path| payloads(path))
        .collect()
}
