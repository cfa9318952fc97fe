//! Processes and what they cost.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;

/// A child that ends however the round ends.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Seconds on a processor, user and system, in steps of 10 ms.
    pub(crate) cpu: f64,
    /// Peak resident memory in bytes; 0 once the process has ended.
    pub(crate) peak: u64,
}

/// Whether a program can be started.
pub(crate) fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// What a process has used, also one that has ended and is not waited for yet.
///
/// # Errors
/// There is no such process.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    // Fields 14 and 15 of proc(5), in ticks of 10 ms.
    let ticks: f64 = fields.get(11).ok_or("stat")?.parse::<f64>()?
        + fields.get(12).ok_or("stat")?.parse::<f64>()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = peak.map_or(Ok(0), |p| p.trim().trim_end_matches(" kB").trim().parse())?;
    Ok(Usage {
        cpu: ticks / 100.0,
        peak: kib * 1024,
    })
}

/// Seconds on a processor to the nanosecond, of all threads that live.
///
/// # Errors
/// There is no such process, or the kernel keeps no such figures.
pub(crate) fn cpu_exact(pid: u32) -> Result<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let word = text.split_whitespace().next().ok_or("schedstat")?;
        nanos += word.parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

/// Runs a program to its end: what it wrote to standard output, its seconds, what it used.
///
/// # Errors
/// It cannot be started, or it fails: then with what it wrote to standard error.
pub(crate) fn finish(command: &mut Command) -> Result<(String, f64, Usage)> {
    let started = Instant::now();
    let mut child = Killed(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?,
    );
    let mut stderr = child.0.stderr.take().ok_or("no standard error")?;
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut said = String::new();
    child
        .0
        .stdout
        .take()
        .ok_or("no standard output")?
        .read_to_string(&mut said)?;
    let seconds = started.elapsed().as_secs_f64();
    // It has closed its output, so it ends at once; as long as nobody waits for it, its figures stay.
    let stat = format!("/proc/{}/stat", child.0.id());
    let deadline = Instant::now() + Duration::from_secs(10);
    while !fs::read_to_string(&stat)?.contains(") Z ") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let used = usage(child.0.id())?;
    let status = child.0.wait()?;
    if !status.success() {
        let text = complaints.join().unwrap_or_default();
        return Err(format!("{command:?}: {status}: {text}").into());
    }
    Ok((said, seconds, used))
}

/// The next line that a child writes, without its end.
///
/// # Errors
/// It ended before.
pub(crate) fn line(from: &mut BufReader<impl Read>) -> Result<String> {
    let mut text = String::new();
    if from.read_line(&mut text)? == 0 {
        return Err("it ended without a word".into());
    }
    Ok(text.trim().to_owned())
}
