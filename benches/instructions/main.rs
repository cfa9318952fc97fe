//! Instructions a frame on the hot path, counted by valgrind's callgrind, and held to what was recorded.
//!
//! `cargo bench --bench instructions` fails when a step takes over 3 % more instructions than `testdata/instructions.tsv`
//! says, so that a slower hot path is seen on any machine, however busy. The counts hold for one compiler; with another one,
//! only 15 % more is a failure, and the figures ought to be recorded anew:
//! `cargo bench --bench instructions -- --record`. The same is due when a step has become faster, or is meant to be slower.
//!
//! Only `steps::measured` is counted: neither starting nor loading nor a first round. `--test` runs every step once without
//! valgrind. Copies of 4 KiB and more count by their bytes, as callgrind sees them; no step has any.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]

mod record;
mod steps;

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};

use record::Record;
use steps::{STEPS, Sample, Step};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds that are counted.
const ROUNDS: usize = 4;
/// Growth that is a failure, in percent: with the compiler of the record, with another one.
const TOLERANCE: [f64; 2] = [3.0, 15.0];

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|a| a == word);
    if let [role, name, rounds] = args.as_slice()
        && role == "--run"
    {
        let step = STEPS
            .iter()
            .find(|s| s.name == name)
            .ok_or("no such step")?;
        println!("{}", (step.run)(&Sample::load()?, rounds.parse()?));
        return Ok(ExitCode::SUCCESS);
    }
    if has("--test") {
        let sample = Sample::load()?;
        for step in STEPS {
            println!("{}: {}", step.name, (step.run)(&sample, 1));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(valgrind) = version("valgrind") else {
        println!("skipped: instructions are counted by valgrind; apt-get install valgrind");
        return Ok(ExitCode::SUCCESS);
    };
    let compiler = version("rustc").unwrap_or_else(|| "an unknown compiler".to_owned());
    let frames = Sample::load()?.frames;
    let mut now = Record::new(&compiler, &valgrind);
    for step in STEPS {
        now.steps.push((step.name.to_owned(), count(step, frames)?));
    }
    if has("--record") {
        now.save()?;
        print!("{}", now.text());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(compare(&now, &Record::load()?))
}

/// The first line of what a program says of its version.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_owned())
}

/// Instructions a frame of a step.
fn count(step: &Step, frames: usize) -> Result<f64> {
    let out = std::env::temp_dir().join(format!("tapflow-callgrind-{}", std::process::id()));
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .args(["--collect-atstart=no", "--toggle-collect=*steps::measured*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["--run", step.name, &ROUNDS.to_string()])
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("{} under valgrind: {status}", step.name).into());
    }
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    let total = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("summary:")
                .or_else(|| line.strip_prefix("totals:"))
        })
        .ok_or("callgrind wrote no total")?;
    let total: f64 = total.trim().parse()?;
    if total == 0.0 {
        return Err("callgrind found nothing to count: is `measured` inlined?".into());
    }
    Ok(total / (ROUNDS * frames) as f64)
}

/// Says what has changed, and whether that is a failure.
fn compare(now: &Record, recorded: &Record) -> ExitCode {
    let same = now.compiler == recorded.compiler;
    let tolerance = TOLERANCE[usize::from(!same)];
    if !same {
        println!(
            "recorded with {}, this is {}: growth up to {tolerance} % passes; record anew with `cargo bench --bench \
             instructions -- --record`",
            recorded.compiler, now.compiler
        );
    }
    let mut failed = false;
    println!(
        "{:<24} {:>12} {:>12} {:>9}",
        "step", "recorded", "now", "growth"
    );
    for (name, count) in &now.steps {
        let Some(before) = recorded.of(name) else {
            println!("{name:<24} {:>12} {count:>12.1}   not recorded", "");
            failed = true;
            continue;
        };
        let growth = (count / before - 1.0) * 100.0;
        let verdict = if growth > tolerance {
            failed = true;
            "  TOO MUCH"
        } else if growth < -tolerance {
            "  faster: record it"
        } else {
            ""
        };
        println!("{name:<24} {before:>12.1} {count:>12.1} {growth:>8.1}%{verdict}");
    }
    if failed {
        println!(
            "a step takes over {tolerance} % more instructions a frame than testdata/instructions.tsv says. If that is meant, \
             `cargo bench --bench instructions -- --record`, and say why in the commit"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
