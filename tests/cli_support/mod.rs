//! What the tests of the commands share: running the program, and files to run it on.
#![allow(
    dead_code,
    reason = "each test binary uses its own part of this module"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tapflow::fstrm::{ContentType, Control, ControlKind, Frames};

/// The program, without the environment's settings.
pub(crate) fn tapflow<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapflow"));
    command
        .args(args)
        .env_remove("TAPFLOW_CONFIG")
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Ran {
    Ran::of(&tapflow(args).output().expect("the program runs"))
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).expect("text"),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The JSON report on standard error, which is its last line.
    pub(crate) fn report(&self) -> serde_json::Value {
        let line = self.err.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// A file of testdata.
pub(crate) fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// Files of a folder of testdata, sorted.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(testdata(folder))
        .expect("testdata is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

pub(crate) fn start() -> Vec<u8> {
    Control::with_type(ControlKind::Start, Some(ContentType::DNSTAP))
        .to_bytes()
        .to_vec()
}

pub(crate) fn stop() -> Vec<u8> {
    Control::plain(ControlKind::Stop).to_bytes().to_vec()
}

/// The data frames of a file that begins with START and ends with STOP, as one run.
pub(crate) fn run_of(file: &[u8]) -> &[u8] {
    let body = file
        .strip_prefix(start().as_slice())
        .expect("it begins with START");
    let run = body
        .strip_suffix(stop().as_slice())
        .expect("it ends with STOP");
    Frames::count_of(run).expect("whole frames only");
    run
}

/// The data frames of a capture, as one run, and their number.
pub(crate) fn capture(name: &str) -> (Vec<u8>, usize) {
    let file = fs::read(testdata("captures").join(name)).expect("the capture is there");
    let body = &file[start().len()..];
    // Captures that were ended from outside have no STOP.
    let run = body
        .strip_suffix(stop().as_slice())
        .unwrap_or(body)
        .to_vec();
    let frames = Frames::count_of(&run).expect("whole frames only");
    (run, frames)
}

/// The first `n` frames of a run.
pub(crate) fn first(run: &[u8], n: usize) -> &[u8] {
    let mut frames = Frames::new(run);
    assert_eq!(frames.by_ref().take(n).count(), n);
    &run[..run.len() - frames.rest().len()]
}
