//! The configuration: the components' options put together, read from TOML and checked.
//!
//! [`load`] reads a file and finds everything that is wrong with it in one go; [`check`] knows what TOML cannot (two
//! listeners at one place); [`problem`] shows a problem with its line. [`uris`] reads listeners and outputs from the
//! command line. [`Config::resolve`] fills in what was left open, and [`Config::memory_bound`] says how much memory the
//! settings allow.
//!
//! A component's options live with the component; nothing here starts anything. Everything can be compared and printed,
//! so that two configurations can be compared piece by piece.

pub mod check;
pub mod load;
pub mod memory;
pub mod problem;
pub mod resolve;
mod sift;
pub mod suggest;
pub mod uris;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::http::options::HttpOptions;
use crate::outputs::options::{FileOptions, OutputKind, OutputOptions};
use crate::stages::options::{DecodeOptions, MetricsOptions, StageOptions};
use crate::transport::options::ListenerOptions;
use crate::units::{Endpoint, FileMode, Span};

/// Everything that can be set. [`Default`] is the main job: it listens on a Unix socket and on loopback TCP, decodes,
/// counts, and keeps the frames in rotated files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder of tapflow's own; `{data_dir}` in other settings stands for it. Empty:
    /// [`resolve::Surroundings::data_dir`] says where.
    pub data_dir: PathBuf,
    /// Time a stop may take to drain the outputs; what is then still in flight is counted as lost.
    pub shutdown_timeout: Span,
    /// Threads that carry connections and outputs. 0: one a core.
    pub worker_threads: u32,
    /// What is logged, and how.
    pub log: LogOptions,
    /// The HTTP server.
    pub http: HttpOptions,
    /// Where senders connect: `[[listener]]`.
    pub listener: Vec<ListenerOptions>,
    /// What is done with records, in order: `[[stage]]`.
    pub stage: Vec<StageOptions>,
    /// Where frames go: `[[output]]`.
    pub output: Vec<OutputOptions>,
}

impl Default for Config {
    fn default() -> Self {
        let unix = ListenerOptions {
            uri: Endpoint::unix("{data_dir}/dnstap.sock"),
            // DNS servers run as users of their own; what a socket in the data folder protects is the folder's mode.
            socket_mode: FileMode(0o666),
            ..ListenerOptions::default()
        };
        let tcp = ListenerOptions {
            uri: Endpoint::tcp("127.0.0.1", 6000),
            ..ListenerOptions::default()
        };
        Self {
            data_dir: PathBuf::new(),
            shutdown_timeout: Span::secs(10),
            worker_threads: 0,
            log: LogOptions::default(),
            http: HttpOptions::default(),
            listener: vec![unix, tcp],
            stage: vec![
                StageOptions::Decode(DecodeOptions::default()),
                StageOptions::Metrics(MetricsOptions::default()),
            ],
            output: vec![OutputOptions::new(OutputKind::File(FileOptions::default()))],
        }
    }
}

/// The `[log]` table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogOptions {
    /// Least important lines that are shown.
    pub level: LogLevel,
    /// How lines are written.
    pub format: LogFormat,
}

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// What keeps tapflow from its work.
    Error,
    /// What an operator should look at.
    Warn,
    /// What happens: starts, stops, connections.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The word of the configuration file, which is also the filter directive of the logging library.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
