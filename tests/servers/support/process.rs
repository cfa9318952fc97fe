//! Processes that end with the test that started them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::until;

/// A child process with its output in a file. Dropping it kills it and whatever it has forked.
pub(crate) struct Process {
    child: Child,
    pub(crate) name: String,
    pub(crate) log: PathBuf,
}

impl Process {
    /// Starts it; both outputs go to `log`.
    pub(crate) fn start(name: &str, command: &mut Command, log: PathBuf) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("log file");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("log file"))
            .stderr(file);
        let child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        Self {
            child,
            name: name.to_owned(),
            log,
        }
    }

    /// Everything it has printed.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether it runs; the test fails with its output when it does not.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("wait") {
            panic!(
                "{} ended by itself, {status}:\n{}",
                self.name,
                self.printed()
            );
        }
    }

    /// Whether it runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, without waiting.
    pub(crate) fn signal_term(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits for the end of a process that was asked to end.
    pub(crate) fn wait_end(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("end of {}", self.name);
        until(&what, limit, || self.child.try_wait().expect("wait"))
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal_term();
        self.wait_end(Duration::from_secs(30))
    }

    /// SIGKILL to it and to what it has forked, and waits for the end.
    pub(crate) fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // The children first: without their parent they could not be found any more.
        for pid in descendants(Pid::from_child(&self.child)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let printed = self.printed();
            let tail: Vec<&str> = printed.lines().rev().take(30).collect();
            eprintln!("--- the last that {} printed:", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The processes that `pid` and its children have forked.
fn descendants(pid: Pid) -> Vec<Pid> {
    let path = format!(
        "/proc/{pid}/task/{pid}/children",
        pid = pid.as_raw_nonzero()
    );
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    for child in children
        .split_whitespace()
        .filter_map(|c| Pid::from_raw(c.parse().ok()?))
    {
        all.push(child);
        all.extend(descendants(child));
    }
    all
}

/// Where a program is, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(program))
        .find(|p| p.is_file())
}

/// Where a program is; when it is not installed, one line says so and the test passes.
pub(crate) fn find_or_skip(program: &str, package: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        // Not captured by the test harness, so that a CI run shows what it did not test.
        let line = format!("skipped: {program} is not installed; apt-get install {package}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
    found
}

/// `testdata/servers/NAME`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/servers")
        .join(name)
}
