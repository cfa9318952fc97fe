//! System calls a frame, in rounds of their own.
//!
//! `perf stat` counts them without holding the process up. Where there is no such counter, `strace -c` does; it slows every
//! call, so that each one takes more frames along: then the figures are a lower bound.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::cases::Bench;
use crate::support::Result;
use crate::support::proc::{finish, installed};
use crate::support::serve::{Serve, Setup, Stages, replay};

const EVENT: &str = "raw_syscalls:sys_enter";

#[derive(Clone, Copy)]
enum Counter {
    Perf,
    Strace,
}

impl Counter {
    fn find() -> Option<Self> {
        let perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", EVENT, "true"])
            .output();
        if perf.is_ok_and(|o| number(&String::from_utf8_lossy(&o.stderr)).is_some()) {
            return Some(Self::Perf);
        }
        installed("strace").then_some(Self::Strace)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf stat",
            Self::Strace => "strace -c",
        }
    }

    /// Starts to count the calls of a process.
    fn attach(self, pid: u32, out: &Path) -> Result<Child> {
        let mut command = match self {
            Self::Perf => {
                let mut c = Command::new("perf");
                c.args(["stat", "-x", ",", "-e", EVENT, "-o"]).arg(out);
                c
            }
            Self::Strace => {
                let mut c = Command::new("strace");
                c.args(["-f", "-c", "-o"]).arg(out);
                c
            }
        };
        let child = command
            .args(["-p", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Neither says when it is there; a collector without senders makes no calls meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(500));
        Ok(child)
    }

    /// The same command, its calls counted from start to end.
    fn around(self, command: &Command, out: &Path) -> Command {
        let mut around = match self {
            Self::Perf => {
                let mut c = Command::new("perf");
                c.args(["stat", "-x", ",", "-e", EVENT, "-o"]).arg(out);
                c
            }
            Self::Strace => {
                let mut c = Command::new("strace");
                c.args(["-f", "-c", "-o"]).arg(out);
                c
            }
        };
        around.arg(command.get_program()).args(command.get_args());
        around
    }

    fn read(self, out: &Path) -> Result<f64> {
        let text = std::fs::read_to_string(out)?;
        let calls = match self {
            Self::Perf => number(&text),
            // `100.00 0.000000 0 CALLS [ERRORS] total`
            Self::Strace => text
                .lines()
                .find(|l| l.ends_with("total"))
                .and_then(|l| l.split_whitespace().nth(3)?.parse().ok()),
        };
        Ok(calls.ok_or_else(|| format!("no count in {text:?}"))?)
    }
}

/// The count in what `perf stat -x,` says.
fn number(text: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

/// A row for each case: name, calls of collector and sender for a thousand frames, what counted them.
pub(crate) fn count(bench: &Bench<'_>) -> Result<Vec<Vec<String>>> {
    let Some(counter) = Counter::find() else {
        println!(
            "skipped: system calls a frame need perf or strace; apt-get install linux-perf strace\n"
        );
        return Ok(Vec::new());
    };
    let file = "type = \"file\"\ncompress = \"off\"\nkeep_files = 2";
    let setups = [
        ("decode and metrics, Unix", Setup::counting()),
        (
            "decode and metrics, TCP",
            Setup {
                tcp: true,
                ..Setup::counting()
            },
        ),
        (
            "decode, metrics, .fstrm files, Unix",
            Setup {
                output: file.to_owned(),
                ..Setup::counting()
            },
        ),
        (
            "undecoded, Unix",
            Setup {
                stages: Stages::None,
                ..Setup::counting()
            },
        ),
    ];
    let loops = bench.input.loops(bench.settings.frames / 4);
    let thousands = (bench.input.frames * loops) as f64 / 1e3;
    let (of_collector, of_sender) = (
        bench.folder.join("collector.count"),
        bench.folder.join("sender.count"),
    );
    let mut rows = Vec::new();
    for (name, setup) in setups {
        let mut serve = Serve::start(bench.folder, &setup)?;
        let mut attached = counter.attach(serve.pid(), &of_collector)?;
        let command = replay(&serve.to, bench.input, loops, 1);
        finish(&mut counter.around(&command, &of_sender)).map_err(|e| format!("{name}: {e}"))?;
        kill_process(Pid::from_child(&attached), Signal::INT)?;
        attached.wait()?;
        serve.stop()?;
        rows.push(vec![
            name.to_owned(),
            format!("{:.2}", counter.read(&of_collector)? / thousands),
            format!("{:.2}", counter.read(&of_sender)? / thousands),
            counter.name().to_owned(),
        ]);
    }
    Ok(rows)
}
