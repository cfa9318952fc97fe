//! Settings of a listener.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::transport::tls::TlsVersion;
use crate::transport::tls::rules::{ClientRule, Rules};
use crate::transport::tls::server::{ClientCertificates, ServerFiles};
use crate::units::{ByteSize, Endpoint, FileMode, Net, Span};

/// One `[[listener]]`: a place where DNS servers connect, and what it takes from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerOptions {
    /// Name in logs, metrics and the ledger. Empty: made from the place, such as `unix-dnstap` or `tcp-6000`.
    pub name: String,
    /// Where to listen. Must be given in a file; the default here stands in until it is.
    pub uri: Endpoint,
    /// Which handshake senders speak.
    pub mode: ListenerMode,
    /// How payloads are compressed.
    pub compression: ReceiveCompression,
    /// Largest control frame, in bytes of its body after the length; a larger one closes the connection.
    pub control_frame_max: ByteSize,
    /// Largest data frame, in bytes of its payload, inclusive. A DNS message over TCP can be 65,535 bytes, and dnstap
    /// adds its own fields.
    pub data_frame_max: ByteSize,
    /// What becomes of a data frame over `data_frame_max`.
    pub oversize: Oversize,
    /// Largest size of one payload after decompression, in bytes; a frame that would pass it is dropped and counted.
    pub decompressed_max: ByteSize,
    /// Time from accepting a connection to the end of its handshake, after which a silent sender is closed.
    pub handshake_timeout: Span,
    /// Time without a byte after which a connection is closed. Off: a quiet sender may stay for ever.
    pub idle_timeout: Span,
    /// Bytes asked of the socket at a time, at most.
    pub read_size: ByteSize,
    /// Bytes of the first buffer a connection gets.
    pub initial_buffer: ByteSize,
    /// Bytes a connection's buffer may grow to. 0: the larger of `data_frame_max` and `control_frame_max`, plus `read_size`.
    /// See [`Self::buffer_limit`].
    pub buffer_max: ByteSize,
    /// The socket's receive buffer (`SO_RCVBUF`) in bytes. 0: as the system has it.
    pub receive_buffer: ByteSize,
    /// Connections at once on this listener.
    pub connections_max: u32,
    /// Connections at once from one address (TCP) or user (Unix). 0: no limit but `connections_max`.
    pub connections_per_peer_max: u32,
    /// Networks that may connect (TCP). Empty: everyone may.
    pub allow: Vec<Net>,
    /// Networks that may not connect, whatever `allow` says (TCP).
    pub deny: Vec<Net>,
    /// Users whose processes may connect, names or numbers (Unix). Empty, with `allow_groups`: everyone may.
    pub allow_users: Vec<String>,
    /// Groups whose processes may connect, names or numbers (Unix); the group that the process runs as counts.
    pub allow_groups: Vec<String>,
    /// New connections a second on this listener. 0: no limit.
    pub connects_per_second_max: u32,
    /// New connections a second from one address (TCP) or user (Unix). 0: no limit.
    pub connects_per_peer_second_max: u32,
    /// Frames a second from one address (TCP) or user (Unix), over all its connections. 0: no limit.
    pub frames_per_peer_second_max: u32,
    /// Bytes a second from one address (TCP) or user (Unix), over all its connections. 0: no limit.
    pub bytes_per_peer_second_max: ByteSize,
    /// What becomes of frames over these two.
    pub over_rate: OverRate,
    /// Sessions at once (`mux+`); each stream of a session is a connection and counts as one.
    pub sessions_max: u32,
    /// Bytes that a session may hold, received and not read yet, all its streams together (`mux+`). Each open stream takes
    /// 256 KiB of it, so it bounds the streams of a session.
    pub session_buffer: ByteSize,
    /// Idle time after which TCP asks whether the peer still lives (TCP), and a session its other end. Off: never.
    pub keepalive: Span,
    /// Permissions of the socket file, set before the first connection is accepted (Unix).
    pub socket_mode: FileMode,
    /// Owner of the socket file, name or number (Unix). Empty: the user tapflow runs as.
    pub owner: String,
    /// Group of the socket file, name or number (Unix). Empty: the group tapflow runs as.
    pub group: String,
    /// Certificate chain in PEM, the listener's own first (TLS).
    pub tls_cert: PathBuf,
    /// Its private key in PEM (TLS).
    pub tls_key: PathBuf,
    /// Whether senders show certificates (TLS).
    pub tls_client: ClientCertificates,
    /// Authorities of senders' certificates in PEM (TLS). Empty: none, so that only fingerprints count.
    pub tls_client_ca: PathBuf,
    /// Which senders may come, by a name or fingerprint of their certificate, and as which dnstap identity (TLS). Empty:
    /// every one with a good certificate, as any.
    pub tls_clients: Vec<ClientRule>,
    /// Oldest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
    /// TLS handshakes under way at once; one more closes the oldest.
    pub tls_handshakes_max: u32,
    /// How often to see whether certificate, key or authorities have changed (TLS). Off: on SIGHUP alone.
    pub tls_reload: Span,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            uri: Endpoint::tcp("127.0.0.1", 6000),
            mode: ListenerMode::Auto,
            compression: ReceiveCompression::Auto,
            control_frame_max: ByteSize(4064),
            data_frame_max: ByteSize::mib(1),
            oversize: Oversize::Skip,
            decompressed_max: ByteSize::mib(8),
            handshake_timeout: Span::secs(5),
            idle_timeout: Span::OFF,
            read_size: ByteSize::kib(256),
            initial_buffer: ByteSize::kib(16),
            buffer_max: ByteSize(0),
            receive_buffer: ByteSize(0),
            connections_max: 10_000,
            connections_per_peer_max: 0,
            allow: Vec::new(),
            deny: Vec::new(),
            allow_users: Vec::new(),
            allow_groups: Vec::new(),
            connects_per_second_max: 0,
            connects_per_peer_second_max: 0,
            frames_per_peer_second_max: 0,
            bytes_per_peer_second_max: ByteSize(0),
            over_rate: OverRate::Wait,
            sessions_max: 64,
            session_buffer: ByteSize::mib(32),
            keepalive: Span::secs(60),
            socket_mode: FileMode(0o660),
            owner: String::new(),
            group: String::new(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_client: ClientCertificates::Off,
            tls_client_ca: PathBuf::new(),
            tls_clients: Vec::new(),
            tls_min_version: TlsVersion::V12,
            tls_handshakes_max: 256,
            tls_reload: Span::secs(30),
        }
    }
}

impl ListenerOptions {
    /// Keys that a file must give, since no default can be right.
    pub const REQUIRED: &'static [&'static str] = &["uri"];

    /// What TLS is made from, where the place asks for it.
    pub fn tls(&self) -> Option<ServerFiles> {
        matches!(self.uri.carrier(), Endpoint::Tls { .. }).then(|| ServerFiles {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client: self.tls_client,
            rules: Rules::new(self.tls_clients.clone()),
            min_version: self.tls_min_version,
        })
    }

    /// Bytes a connection's buffer may grow to: `buffer_max`, or the sum that stands for its 0.
    pub fn buffer_limit(&self) -> u64 {
        match self.buffer_max.bytes() {
            0 => self
                .data_frame_max
                .bytes()
                .max(self.control_frame_max.bytes())
                .saturating_add(self.read_size.bytes()),
            bytes => bytes,
        }
    }
}

/// Which handshake a listener expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerMode {
    /// Whatever the first bytes show: READY, START or the length of a data frame.
    #[default]
    Auto,
    /// READY, ACCEPT, START, data, STOP, FINISH. Other beginnings are refused.
    Bidirectional,
    /// START, data, STOP; nothing is written. Other beginnings are refused.
    Unidirectional,
    /// Data frames alone, no control frames.
    Raw,
}

/// Which compression a listener expects inside frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveCompression {
    /// Whatever each payload's first bytes show.
    #[default]
    Auto,
    /// None; a compressed payload is passed on as it is and will not decode.
    Off,
    /// Gzip in every frame.
    Gzip,
    /// LZ4 frames in every frame.
    Lz4,
    /// Snappy (xerial framing or a raw block) in every frame.
    Snappy,
    /// Zstandard in every frame.
    Zstd,
}

/// What becomes of frames of a peer that sends more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverRate {
    /// They are read later: the peer has to wait, and may drop on its side.
    #[default]
    Wait,
    /// They are dropped, and counted.
    Drop,
}

/// What becomes of a data frame over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversize {
    /// Its bytes are skipped exactly, the frame is counted as dropped, and the connection goes on.
    #[default]
    Skip,
    /// The connection is closed.
    Close,
}
