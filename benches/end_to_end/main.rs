//! The whole way, as processes: `tapflow replay` into `tapflow serve`.
//!
//! `cargo bench --bench end_to_end` runs every case in turn, round after round, so that all of them see the same machine, and
//! prints markdown tables: rates with what a frame costs each side, the targets of the project with what was measured, and
//! what a frame costs as connections, identities and names become many. Each round checks that the collector's ledger closes
//! and that every frame was delivered. The data is the servers' captures in `testdata/captures`, one after another, over and
//! over; `--bench peers` does the same work with other collectors.
//!
//! Arguments after `--`: `--rounds N` (5), `--million-frames N` (20), `--test` (one small round, for CI), words that choose
//! cases by their names.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with the comparison with peers")]
mod support;

mod calls;
mod cases;
mod growth;
mod quiet;
mod targets;

use support::figures::table;
use support::input::Input;
use support::{Folder, Result, Settings, headline};

fn main() -> Result<()> {
    let settings = Settings::from_args()?;
    cases::raise_file_limit();
    let folder = Folder::new()?;
    let input = Input::captures(folder.path())?;
    println!("{}.\n", headline(&settings, "end_to_end"));
    println!(
        "{} frames of {} bytes on average, over and over; {} million a round where a case has its full rate.\n",
        input.frames,
        input.bytes / input.frames,
        settings.frames as f64 / 1e6,
    );
    let bench = cases::Bench {
        settings: &settings,
        folder: folder.path(),
        input: &input,
    };
    let done = cases::run(&bench)?;
    if !done.is_empty() {
        println!("{}", cases::report(&done));
    }
    if settings.wants("system calls") {
        let calls = calls::count(&bench)?;
        println!(
            "{}",
            table(
                &[
                    "system calls",
                    "collector, a 1,000 frames",
                    "sender, a 1,000 frames",
                    "counted with"
                ],
                &calls
            )
        );
    }
    let growth = growth::run(&bench)?;
    if !growth.is_empty() {
        println!("{}", growth::report(&growth));
    }
    let quiet = quiet::run(&bench)?;
    let rows = targets::rows(&done, &growth, &quiet);
    if !rows.is_empty() {
        println!(
            "{}",
            table(&["case", "target", "measured", "reached"], &rows)
        );
    }
    Ok(())
}
