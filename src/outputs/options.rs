//! Settings of the outputs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::format::{Format, Settings};
use crate::units::{ByteSize, Endpoint, Span};

/// One `[[output]]`: what every output has, and the settings of its `type`.
///
/// In a file all keys stand side by side. `flatten` would let unknown keys pass, did not each kind's own struct, which
/// gets every key that is not one of the four here, refuse them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputOptions {
    /// Name in logs, metrics and the ledger. Empty: the type, with a number from the second of a type on.
    #[serde(default)]
    pub name: String,
    /// What happens when the queue is full.
    #[serde(default)]
    pub policy: QueuePolicy,
    /// Bytes that may wait in the queue. Memory use is at most four times as much, since a waiting batch may hold a
    /// buffer up to four times its size.
    #[serde(default = "queue_bytes_default")]
    pub queue_bytes: ByteSize,
    /// Batches that may wait in the queue.
    #[serde(default = "queue_batches_default")]
    pub queue_batches: u32,
    /// The type and its own settings.
    #[serde(flatten)]
    pub kind: OutputKind,
}

const fn queue_bytes_default() -> ByteSize {
    ByteSize::mib(64)
}

const fn queue_batches_default() -> u32 {
    1024
}

impl OutputOptions {
    /// An output of this kind, with the default name and queue.
    pub fn new(kind: OutputKind) -> Self {
        Self {
            name: String::new(),
            policy: QueuePolicy::default(),
            queue_bytes: queue_bytes_default(),
            queue_batches: queue_batches_default(),
            kind,
        }
    }
}

/// What happens when an output's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// Reading from senders waits until there is room. Nothing is lost here; senders may drop on their side.
    #[default]
    Block,
    /// The batch that does not fit is dropped and counted.
    DropNewest,
    /// The oldest waiting batches are dropped and counted, to make room.
    DropOldest,
}

/// The type of an output and its own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputKind {
    /// Takes everything and keeps nothing: for measuring, and for metrics alone.
    Null(NullOptions),
    /// Writes to standard output.
    Stdout(StdoutOptions),
    /// Writes rotated files into a folder.
    File(FileOptions),
    /// Forwards to another dnstap collector.
    Dnstap(DnstapOptions),
}

impl OutputKind {
    /// The values of `type`.
    pub const TYPES: &'static [&'static str] = &["null", "stdout", "file", "dnstap"];

    /// The value of `type`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null(_) => "null",
            Self::Stdout(_) => "stdout",
            Self::File(_) => "file",
            Self::Dnstap(_) => "dnstap",
        }
    }
}

/// Settings of the null output: none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NullOptions {}

/// A compression that an output writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendCompression {
    /// None.
    Off,
    /// Gzip: read by everything, slow.
    Gzip,
    /// LZ4 frames: fastest.
    Lz4,
    /// Snappy in xerial framing.
    Snappy,
    /// Zstandard: smallest, and fast.
    Zstd,
}

/// Settings of the stdout output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StdoutOptions {
    /// How frames are written.
    pub format: Format,
    /// Names of the fields that are written, in order, in the formats that take a choice. Empty: the format's own choice.
    pub fields: Vec<String>,
    /// Times in UTC in the formats that show local time; else in the machine's time zone.
    pub utc: bool,
}

impl StdoutOptions {
    /// What is set about the format.
    pub fn settings(&self) -> Settings {
        Settings {
            utc: self.utc,
            fields: self.fields.clone(),
        }
    }
}

impl Default for StdoutOptions {
    fn default() -> Self {
        Self {
            format: Format::TEXT,
            fields: Vec::new(),
            utc: false,
        }
    }
}

/// Settings of the file output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileOptions {
    /// Folder the files are put into; made when it does not exist.
    pub path: PathBuf,
    /// First part of each file's name; the time it was begun and an ending follow.
    pub prefix: String,
    /// How frames are written.
    pub format: Format,
    /// Bytes after which a new file is begun, before compression. 0: never for its size.
    pub rotate_size: ByteSize,
    /// Time after which a new file is begun, with or without traffic. Off: never for its age.
    pub rotate_time: Span,
    /// Closed files kept; older ones are removed. 0: all are kept.
    pub keep_files: u32,
    /// Compression of a file once it is closed.
    pub compress: SendCompression,
    /// Names of the fields that are written, in order, in the formats that take a choice. Empty: the format's own choice.
    pub fields: Vec<String>,
    /// Times in UTC in the formats that show local time; else in the machine's time zone.
    pub utc: bool,
    /// Wait for the disk (`fsync`) when a file is closed, before it gets its final name.
    pub sync: bool,
}

impl FileOptions {
    /// What is set about the format.
    pub fn settings(&self) -> Settings {
        Settings {
            utc: self.utc,
            fields: self.fields.clone(),
        }
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            path: PathBuf::from("{data_dir}/frames"),
            prefix: "tapflow".to_owned(),
            format: Format::Fstrm,
            rotate_size: ByteSize::mib(256),
            rotate_time: Span::secs(3600),
            keep_files: 48,
            compress: SendCompression::Zstd,
            fields: Vec::new(),
            utc: false,
            sync: false,
        }
    }
}

/// Which handshake a forward speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardMode {
    /// READY, ACCEPT, START, data, STOP, FINISH: the collector says that it takes the content, and that it has it all.
    #[default]
    Bidirectional,
    /// START, data, STOP; nothing is waited for.
    Unidirectional,
    /// Data frames alone, no control frames.
    Raw,
}

/// Settings of the dnstap output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnstapOptions {
    /// The collector to forward to. Must be given in a file; the default here stands in until it is.
    pub to: Endpoint,
    /// Which handshake is spoken.
    pub mode: ForwardMode,
    /// Compression of payloads; the receiver must know it (tapflow, go-framestream and DNS-collector do).
    pub compress: SendCompression,
    /// Put many frames into one compressed payload; else compress each by itself.
    pub bulk: bool,
    /// Wait before the first attempt to connect again.
    pub reconnect_min: Span,
    /// Longest wait between attempts; it doubles from `reconnect_min` up to this, with chance added.
    pub reconnect_max: Span,
    /// Time a connection may take to be made.
    pub connect_timeout: Span,
    /// Time the collector may take to answer READY.
    pub handshake_timeout: Span,
    /// Time a write may make no progress before the connection is given up.
    pub write_timeout: Span,
    /// Time to wait for FINISH after STOP.
    pub finish_timeout: Span,
}

impl DnstapOptions {
    /// Keys that a file must give, since no default can be right.
    pub const REQUIRED: &'static [&'static str] = &["to"];
}

impl Default for DnstapOptions {
    fn default() -> Self {
        Self {
            to: Endpoint::tcp("127.0.0.1", 6000),
            mode: ForwardMode::Bidirectional,
            compress: SendCompression::Off,
            bulk: true,
            reconnect_min: Span::millis(100),
            reconnect_max: Span::secs(10),
            connect_timeout: Span::secs(5),
            handshake_timeout: Span::secs(5),
            write_timeout: Span::secs(30),
            finish_timeout: Span::secs(2),
        }
    }
}
