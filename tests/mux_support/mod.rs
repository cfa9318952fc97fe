//! Peers written in Go, built where Go is.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the Go module in `folder` of the repository; `None`, with a line that says what is skipped, where Go is not.
pub(crate) fn go_program(folder: &str, skipped: &str) -> Option<PathBuf> {
    if Command::new("go").arg("version").output().is_err() {
        println!("skipped: {skipped} (Debian package golang-go)");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let name = source.file_name().expect("a folder");
    // One for each process: several test binaries may build at once.
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}",
        name.display(),
        std::process::id()
    ));
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output()
        .expect("go runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go build in {folder}: {errors}");
    Some(program)
}
