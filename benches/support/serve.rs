//! `tapflow serve` and `tapflow replay` as processes, with the ledger checked.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Result;
use super::input::Input;
use super::proc::{Killed, Usage, finish, usage};

const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");

/// The stages of a case, as configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stages {
    /// Decode and metrics.
    Metrics,
    /// Decode alone.
    Decode,
    /// None: frames go through as they are.
    None,
}

/// How a collector is set up.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// TCP on loopback instead of a Unix socket.
    pub(crate) tcp: bool,
    /// Its stages.
    pub(crate) stages: Stages,
    /// The keys of its one output.
    pub(crate) output: String,
}

impl Setup {
    /// A Unix socket, decode and metrics, nothing kept.
    pub(crate) fn counting() -> Self {
        Self {
            tcp: false,
            stages: Stages::Metrics,
            output: "type = \"null\"".to_owned(),
        }
    }
}

/// A running collector.
#[derive(Debug)]
pub(crate) struct Serve {
    child: Killed,
    /// Where it listens.
    pub(crate) to: String,
    /// Where its HTTP is.
    pub(crate) http: String,
    data: PathBuf,
}

impl Serve {
    /// Starts it, with its files in `folder`, and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, or ends at its start.
    pub(crate) fn start(folder: &Path, setup: &Setup) -> Result<Self> {
        let data = folder.join("data");
        let config = folder.join("bench.toml");
        let listen = if setup.tcp {
            "tcp:127.0.0.1:0".to_owned()
        } else {
            format!("unix:{}", folder.join("bench.sock").display())
        };
        let stages = match setup.stages {
            Stages::Metrics => "[[stage]]\ntype = \"decode\"\n[[stage]]\ntype = \"metrics\"\n",
            Stages::Decode => "[[stage]]\ntype = \"decode\"\n",
            Stages::None => "",
        };
        let none = if stages.is_empty() {
            "stage = []\n"
        } else {
            ""
        };
        let output = &setup.output;
        let text = format!(
            "data_dir = {data:?}\n{none}[http]\naddress = \"127.0.0.1:0\"\n[[listener]]\nuri = {listen:?}\n\
             connections_max = 100000\n[[output]]\n{output}\n{stages}"
        );
        fs::write(&config, text)?;
        let mut child = Killed(
            Command::new(TAPFLOW)
                .args(["serve", "--config"])
                .arg(&config)
                .stderr(Stdio::piped())
                .spawn()?,
        );
        let stderr = child.0.stderr.take().ok_or("no standard error")?;
        let (to, http) = addresses(stderr)?;
        Ok(Self {
            child,
            to,
            http,
            data,
        })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// What it has used so far.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(self.pid())
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    /// It has ended already.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let pid = Pid::from_child(&self.child.0);
        kill_process(pid, Signal::TERM)?;
        self.child.0.wait()?;
        Ok(())
    }

    /// Waits until so many frames have come and its output has them all.
    ///
    /// # Errors
    /// The ledger does not close, or they are not all there within a minute.
    pub(crate) fn settled(&self, frames: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut http = Http::connect(&self.http)?;
        loop {
            let ledger = http.ledger()?;
            if ledger["closes"] != true {
                return Err(format!("the ledger does not close: {ledger}").into());
            }
            if ledger["received"] == frames && ledger["outputs"][0]["delivered"] == frames {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("sent {frames} frames, but: {ledger}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.0.kill();
        let _ = self.child.0.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// Reads where the collector listens from what it prints, and leaves the rest of its output to a thread.
fn addresses(stderr: impl Read + Send + 'static) -> Result<(String, String)> {
    let mut lines = BufReader::new(stderr).lines();
    let (mut to, mut http) = (None, None);
    while to.is_none() || http.is_none() {
        let line = lines.next().ok_or("the collector ended at its start")??;
        let word = line.trim();
        if word.starts_with("tcp:") || word.starts_with("unix:") {
            to = Some(word.to_owned());
        }
        if let Some(rest) = word.strip_prefix("metrics: http://") {
            http = rest.split('/').next().map(str::to_owned);
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
    Ok((to.unwrap_or_default(), http.unwrap_or_default()))
}

/// A connection to a collector's HTTP that is used again and again.
#[derive(Debug)]
pub(crate) struct Http(BufReader<TcpStream>);

impl Http {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The ledger, now.
    ///
    /// # Errors
    /// No answer, or not JSON.
    pub(crate) fn ledger(&mut self) -> Result<Value> {
        let ask = b"GET /ledger HTTP/1.1\r\nHost: bench\r\n\r\n";
        self.0.get_mut().write_all(ask)?;
        let mut length = 0;
        loop {
            let line = super::proc::line(&mut self.0)?;
            if line.is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}

/// The command that sends `input` to a place so many times.
pub(crate) fn replay(to: &str, input: &Input, loops: usize, connections: usize) -> Command {
    let mut command = Command::new(TAPFLOW);
    command.args(["replay", "--quiet", "--report", "json", "--to", to]);
    command.args(["--loop", &loops.to_string()]);
    command.args(["--connections", &connections.to_string()]);
    command.arg(&input.file);
    command
}

/// Sends it: seconds, and what the sender used.
///
/// # Errors
/// Not everything was taken.
pub(crate) fn send(
    to: &str,
    input: &Input,
    loops: usize,
    connections: usize,
) -> Result<(f64, Usage)> {
    let (_, seconds, used) = finish(&mut replay(to, input, loops, connections))?;
    Ok((seconds, used))
}
