//! Settings of the outputs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::format::{Format, Settings};
use crate::transport::tls::TlsVersion;
use crate::transport::tls::client::ClientFiles;
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
    /// Shares frames out among workers, over sessions of many streams.
    Mux(MuxOptions),
}

impl OutputKind {
    /// The values of `type`.
    pub const TYPES: &'static [&'static str] = &["null", "stdout", "file", "dnstap", "mux"];

    /// The value of `type`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null(_) => "null",
            Self::Stdout(_) => "stdout",
            Self::File(_) => "file",
            Self::Dnstap(_) => "dnstap",
            Self::Mux(_) => "mux",
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
    /// Wait for the disk (`fsync`) when a file is closed, before it gets its final name, and before frames are acknowledged
    /// to a sender that waits for it.
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
    /// Authorities of the collector's certificate, in PEM (TLS). Empty: those that the machine trusts.
    pub tls_ca: PathBuf,
    /// Name that the collector's certificate must have (TLS). Empty: the host in `to`.
    pub tls_server_name: String,
    /// Certificate chain to show, in PEM (TLS). Empty: none.
    pub tls_cert: PathBuf,
    /// Its private key, in PEM (TLS).
    pub tls_key: PathBuf,
    /// Oldest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
}

impl DnstapOptions {
    /// Keys that a file must give, since no default can be right.
    pub const REQUIRED: &'static [&'static str] = &["to"];

    /// What TLS is made from, where `to` asks for it.
    pub fn tls(&self) -> Option<ClientFiles> {
        matches!(self.to, Endpoint::Tls { .. }).then(|| ClientFiles {
            ca: self.tls_ca.clone(),
            server_name: self.tls_server_name.clone(),
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            min_version: self.tls_min_version,
        })
    }
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
            tls_ca: PathBuf::new(),
            tls_server_name: String::new(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_min_version: TlsVersion::V12,
        }
    }
}

/// How a mux output shares frames out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Every entry of `workers` gets every frame. Each has a queue, an account and a name (`mux.1`, `mux.2`) of its own.
    All,
    /// Streams take turns, batch by batch.
    #[default]
    RoundRobin,
    /// The stream with the least unwritten and then the least unacknowledged bytes gets the batch.
    LeastLoaded,
    /// Frames with the same key go to the same stream, in order.
    Hash,
}

/// The key of [`Strategy::Hash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashBy {
    /// The connection that a frame came over: nothing is decoded, and batches stay whole.
    #[default]
    Connection,
    /// The dnstap identity.
    Identity,
    /// The client's address.
    Client,
    /// The client's network.
    ClientNetwork,
    /// The query name, whatever its letters' case.
    Qname,
    /// The registered domain of the query name, by the public suffix list that is built in.
    RegisteredDomain,
}

/// Settings of the mux output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MuxOptions {
    /// The workers: addresses, or names that may stand for many. Must be given in a file; the default stands in until then.
    pub workers: Vec<Endpoint>,
    /// How frames are shared out.
    pub strategy: Strategy,
    /// The key, with strategy `hash`.
    pub by: HashBy,
    /// Bits of an IPv4 address that are the client's network.
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address that are the client's network.
    pub ipv6_prefix: u8,
    /// Streams over the session to each worker.
    pub streams: u32,
    /// Offer acknowledged delivery. A worker that does not know it takes plain dnstap all the same.
    pub acknowledge: bool,
    /// Bytes that may be on their way to workers and not acknowledged.
    pub unacked_bytes: ByteSize,
    /// Time without any acknowledgement, or any progress of a write, after which a stream is given up.
    pub ack_timeout: Span,
    /// Silence after which a worker is asked whether it is there; it has as long to answer.
    pub keepalive: Span,
    /// How often names are resolved again.
    pub resolve_interval: Span,
    /// Wait before the first attempt to connect again.
    pub reconnect_min: Span,
    /// Longest wait between attempts.
    pub reconnect_max: Span,
    /// Time a connection may take to be made.
    pub connect_timeout: Span,
    /// Time a worker may take to answer READY.
    pub handshake_timeout: Span,
    /// Time to wait for FINISH after STOP, when nothing is left to be acknowledged.
    pub finish_timeout: Span,
}

impl MuxOptions {
    /// Keys that a file must give, since no default can be right.
    pub const REQUIRED: &'static [&'static str] = &["workers"];
}

impl Default for MuxOptions {
    fn default() -> Self {
        Self {
            workers: vec![Endpoint::tcp("127.0.0.1", 6001)],
            strategy: Strategy::RoundRobin,
            by: HashBy::Connection,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            streams: 2,
            acknowledge: true,
            unacked_bytes: ByteSize::mib(64),
            ack_timeout: Span::secs(60),
            keepalive: Span::secs(5),
            resolve_interval: Span::secs(30),
            reconnect_min: Span::millis(100),
            reconnect_max: Span::secs(10),
            connect_timeout: Span::secs(5),
            handshake_timeout: Span::secs(5),
            finish_timeout: Span::secs(2),
        }
    }
}
