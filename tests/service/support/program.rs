//! The real program, with its signals, its standard error and its exit code.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tapflow::units::Endpoint;
use tempfile::TempDir;

use crate::support::scrape::Scrape;
use crate::support::{eventually_blocking, http};

/// `tapflow serve` to be, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) folder: TempDir,
    command: &'static str,
    args: Vec<String>,
    log: String,
    namespace: Option<String>,
}

impl Program {
    /// In this network namespace.
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// `tapflow worker` to be.
    pub(crate) fn worker() -> Self {
        Self {
            command: "worker",
            ..Self::new()
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            command: "serve",
            folder: tempfile::tempdir().expect("a temporary folder"),
            args: Vec::new(),
            log: "info".to_owned(),
            namespace: None,
        }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Listens on the Unix socket in.sock in the folder.
    pub(crate) fn unix(self) -> Self {
        let uri = format!("unix:{}", self.path("in.sock").display());
        self.arg("--listen").arg(uri)
    }

    /// With this configuration, in which `{folder}` stands for the folder.
    pub(crate) fn config(self, toml: &str) -> Self {
        let path = self.path("tapflow.toml");
        let text = toml.replace("{folder}", &self.folder.path().display().to_string());
        std::fs::write(&path, text).expect("the configuration is written");
        self.arg("--config").arg(path.display().to_string())
    }

    /// Logs from this level on.
    pub(crate) fn log(mut self, level: &str) -> Self {
        self.log = level.to_owned();
        self
    }

    fn command(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_tapflow");
        let mut command = Command::new(program);
        if let Some(namespace) = &self.namespace {
            command = Command::new("ip");
            command.args(["netns", "exec", namespace, program]);
        }
        command
            .arg(self.command)
            .args(&self.args)
            .args(["--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.path("data"));
        command
            .env("TAPFLOW_LOG", &self.log)
            .env("NO_COLOR", "1")
            .env_remove("TAPFLOW_CONFIG");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end, for those that cannot start: exit code and standard error.
    pub(crate) fn fails(&self) -> (Option<i32>, String) {
        let output = self.command().output().expect("the program runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    /// Starts it and waits until it says that it serves.
    pub(crate) fn start(self) -> Started {
        let mut child = self.command().spawn().expect("the program starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let reader = std::thread::spawn({
            let lines = lines.clone();
            move || {
                stderr
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|l| lines.lock().unwrap().push(l))
            }
        });
        let mut started = Started {
            child,
            lines,
            reader: Some(reader),
            http: ([127, 0, 0, 1], 0).into(),
            folder: self.folder,
        };
        let line = started.wait_line("metrics: http://");
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|t| t.split('/').next())
            .and_then(|t| t.parse().ok());
        started.http = address.expect("the HTTP address is in the line");
        started
    }
}

/// `tapflow serve` that runs. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Started {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    http: SocketAddr,
    pub(crate) folder: TempDir,
}

impl Started {
    /// What it has written on standard error so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The lines so far with this text.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        self.lines()
            .into_iter()
            .filter(|l| l.contains(text))
            .collect()
    }

    /// The first line with this text, once it is there.
    pub(crate) fn wait_line(&self, text: &str) -> String {
        let what = || format!("a line with {text:?} in {:#?}", self.lines());
        eventually_blocking(what, || self.lines().into_iter().find(|l| l.contains(text)))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The Unix socket of [`Program::unix`].
    pub(crate) fn unix(&self) -> Endpoint {
        Endpoint::unix(self.path("in.sock"))
    }

    /// The endpoint that it says it listens on and that begins so.
    pub(crate) fn endpoint(&self, start: &str) -> Endpoint {
        let line = self
            .lines()
            .into_iter()
            .find(|l| l.trim().starts_with(start))
            .expect("the listener is in the welcome");
        line.trim().parse().expect("an endpoint")
    }

    pub(crate) fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        http::get(self.http, path)
    }

    pub(crate) fn scrape(&self) -> Scrape {
        Scrape::of(&self.get("/metrics").expect("/metrics").1)
    }

    /// The ledger page.
    pub(crate) fn ledger(&self) -> serde_json::Value {
        serde_json::from_str(&self.get("/ledger").expect("/ledger").1).expect("JSON")
    }

    /// Waits until the ledger says what `look` wants.
    pub(crate) fn wait_ledger(
        &self,
        what: &str,
        look: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let what = || format!("{what} in {}", self.ledger());
        eventually_blocking(what, || Some(self.ledger()).filter(|l| look(l)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("/proc");
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .expect("a number")
            * 1024
    }

    /// Open files.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(Path::new("/proc").join(self.pid().to_string()).join("fd"))
            .expect("/proc")
            .count()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is there");
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("the process can be waited for")
    }

    /// Waits for the end: the exit code, and the ledger of its last words.
    pub(crate) fn end(mut self) -> (Option<i32>, serde_json::Value, Vec<String>) {
        let lines = self.lines.clone();
        let status = eventually_blocking(
            || format!("the end, after {:#?}", lines.lock().unwrap()),
            || self.ended(),
        );
        if let Some(reader) = self.reader.take() {
            reader.join().expect("standard error is read");
        }
        let lines = self.lines();
        let words = lines
            .iter()
            .rev()
            .find_map(|l| l.split_once("ledger="))
            .map(|(_, l)| l.to_owned());
        let text = words.unwrap_or_else(|| panic!("no ledger in {lines:#?}"));
        // The log quotes the document; what is inside is JSON with its quotes escaped.
        let json = serde_json::from_str::<String>(text.trim()).unwrap_or(text);
        (
            status.code(),
            serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}")),
            lines,
        )
    }

    /// SIGTERM, and the exit code; for those whose log level hides the ledger.
    pub(crate) fn exit_code_of_stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        eventually_blocking(|| "the end".to_owned(), || self.ended()).code()
    }

    /// SIGTERM, and the end.
    pub(crate) fn terminate(self) -> (Option<i32>, serde_json::Value, Vec<String>) {
        self.signal(Signal::TERM);
        self.end()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
