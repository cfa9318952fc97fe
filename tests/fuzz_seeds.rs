//! The entries of fuzz targets on their seeds, and on the seeds with one octet changed or cut off at each place: what a
//! fuzzer begins with, without the fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use tapflow::format::fuzz_payload;
use tapflow::mux::fuzz_wire;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/fuzz")
}

/// The seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = folder().join("seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs `entry` on each seed, on its beginnings, and with octets changed: every `step`th place.
fn run(target: &str, step: usize, entry: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() >= 10, "{target}");
    for (index, seed) in seeds.iter().enumerate() {
        entry(seed);
        // Another place to begin for each, so that together they get everywhere.
        for at in (index % step..seed.len()).step_by(step) {
            entry(&seed[..at]);
            for change in [0x01, 0x80, 0xff] {
                let mut changed = seed.clone();
                changed[at] ^= change;
                entry(&changed);
            }
        }
    }
}

#[test]
fn records_in_every_format_hold_on_seeds_and_near_them() {
    run("format_payload", 11, fuzz_payload);
}

#[test]
fn a_session_holds_its_bounds_on_seeds_and_near_them() {
    run("mux_wire", 1, fuzz_wire);
}

#[test]
fn every_target_has_its_file_and_every_file_its_target() {
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let mut declared: Vec<_> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'))
        .collect();
    declared.sort_unstable();
    let mut found: Vec<_> = fs::read_dir(folder().join("fuzz_targets"))
        .unwrap()
        .map(|entry| format!("fuzz_targets/{}", entry.unwrap().file_name().display()))
        .collect();
    found.sort_unstable();
    assert_eq!(declared, found);
    for folder in fs::read_dir(folder().join("seeds")).unwrap() {
        let target = folder.unwrap().file_name();
        let file = format!("fuzz_targets/{}.rs", target.display());
        assert!(found.contains(&file), "seeds without a target: {file}");
    }
}
