//! The same work with other collectors: one command, one run, interleaved, ratios round by round.
//!
//! `cargo bench --bench peers` needs Go (the peers in `benches/peers/go`, each from its own module at the version in
//! `go.mod`) and `fstrm_capture` (`apt-get install fstrm-bin`); what is not there is said in its row. Other programs take part
//! when they are at hand: see [`collectors`] and [`memory`].
//!
//! - Over a socket: every collector takes the servers' captures over a Unix socket from the same sender, `tapflow replay`. A
//!   rate is what the collector says it got, over the time from the sender's start until it had that: who drops is judged by
//!   what was delivered.
//! - From memory: frames found in a buffer, and dnstap with the DNS message decoded, without any socket.
//!
//! Arguments after `--`: `--rounds N` (5), `--million-frames N` (20; peers get a tenth), `--test`, words that choose parts.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with the end-to-end harness")]
mod support;

mod collectors;
mod memory;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::figures::table;
use support::proc::finish;
use support::{Folder, Result, Settings, headline};

fn main() -> Result<()> {
    let settings = Settings::from_args()?;
    let folder = Folder::new()?;
    println!("{}.\n", headline(&settings, "peers"));
    let go = build_go(folder.path());
    match &go {
        Ok(program) => println!("{}\n", versions(program)?),
        Err(why) => println!("skipped: the peers in Go: {why}\n"),
    }
    let go = go.ok();
    if settings.wants("memory") {
        let rows = memory::run(&settings, folder.path(), go.as_deref())?;
        println!(
            "{}",
            table(
                &[
                    "from memory",
                    "tapflow, a frame",
                    "peer",
                    "peer, a frame",
                    "allocations a frame",
                    "times as fast"
                ],
                &rows
            )
        );
    }
    if settings.wants("socket") {
        let rows = collectors::run(&settings, folder.path(), go.as_deref())?;
        println!(
            "{}",
            table(
                &[
                    "over a Unix socket",
                    "million frames/s delivered",
                    "delivered",
                    "CPU a frame",
                    "peak memory",
                    "tapflow undecoded is faster",
                    "tapflow counting is faster"
                ],
                &rows
            )
        );
    }
    Ok(())
}

/// Builds the program in `benches/peers/go`.
fn build_go(folder: &Path) -> std::result::Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/go");
    let program = folder.join("peers");
    let mut build = Command::new("go");
    build
        .current_dir(source)
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".");
    match finish(&mut build) {
        Ok(_) => Ok(program),
        Err(why) => Err(format!("go build: {why}")),
    }
}

/// The versions that were built in, as a sentence.
fn versions(program: &Path) -> Result<String> {
    let (said, _, _) = finish(Command::new(program).arg("versions"))?;
    let modules: Vec<String> = said
        .lines()
        .filter(|line| !line.contains("golang.org/x/"))
        .map(|line| match line.split_once(' ') {
            Some((version, "go")) => version.to_owned(),
            Some((version, module)) => format!("{module} {version}"),
            None => line.to_owned(),
        })
        .collect();
    Ok(format!("Peers in Go: {}.", modules.join(", ")))
}
