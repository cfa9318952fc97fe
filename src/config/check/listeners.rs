//! Listeners, and the HTTP server as far as it shares ports with them.

use std::path::Path;

use super::{Unread, host_bits, is_any, is_loopback, names, path, same_place};
use crate::config::Config;
use crate::config::problem::Problem;
use crate::transport::options::{ListenerOptions, OverRate, ReceiveCompression};
use crate::units::{ByteSize, Endpoint, Span, UNIX_PATH_MAX};

/// Largest DNS message over TCP, which a dnstap frame carries along with its own fields (RFC 1035, section 4.2.2).
const DNS_MESSAGE_MAX: u64 = 65_535;
/// Room for the fields around the message: addresses, times, zone, identity, version. Unbound's largest frame seen is
/// 65,617 bytes; 1 KiB leaves room for long identities.
const DNSTAP_FIELDS: u64 = 1024;
/// Bytes of a START or READY that offers the dnstap content type: type 4, field type 4, length 4, content type 22.
const START_LEN: u64 = 34;
/// The limit of fstrm and golang-framestream for control frames; some senders come near it.
const CONTROL_FRAME_USUAL: u64 = 512;
/// Below this, quiet senders are closed again and again: PowerDNS Recursor keeps a connection a thread, silent or not.
const IDLE_TIMEOUT_SHORT: Span = Span::secs(10);

pub(super) fn check(config: &Config, unread: Unread<'_>, problems: &mut Vec<Problem>) {
    if config.listener.is_empty() && !unread.is("listener") {
        let what = "there is no listener, so nothing can arrive";
        problems.push(
            Problem::error("listener", what)
                .fix("add a [[listener]], or leave the list away for the default ones"),
        );
    }
    let completed = config.listener_names();
    let entries: Vec<(&str, &str)> = config
        .listener
        .iter()
        .zip(&completed)
        .map(|(l, full)| (l.name.as_str(), full.as_str()))
        .collect();
    names("listener", &entries, problems);
    for (i, listener) in config.listener.iter().enumerate() {
        let mut at = At {
            place: format!("listener[{i}]"),
            problems,
        };
        if !unread.is(&at.key("uri")) {
            place(listener, &mut at);
        }
        frames(listener, &mut at);
        buffers(listener, &mut at);
        connections(listener, &mut at);
    }
    clashes(config, unread, problems);
}

/// Where problems of one listener go.
struct At<'p> {
    place: String,
    problems: &'p mut Vec<Problem>,
}

impl At<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.place)
    }

    fn error(&mut self, key: &str, what: impl Into<String>, fix: &str) {
        self.problems
            .push(Problem::error(self.key(key), what).fix(fix));
    }

    fn warn(&mut self, key: &str, what: impl Into<String>, fix: &str) {
        self.problems
            .push(Problem::warning(self.key(key), what).fix(fix));
    }
}

fn place(listener: &ListenerOptions, at: &mut At<'_>) {
    match listener.uri.carrier() {
        Endpoint::Unix(socket) => unix(listener, socket, at),
        Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } => tcp(listener, host, at),
        Endpoint::Mux(_) => {}
    }
    if listener.uri.is_mux() {
        sessions(listener, at);
    } else {
        not_sessions(listener, at);
    }
    host_bits(&at.key("allow"), &listener.allow, at.problems);
    host_bits(&at.key("deny"), &listener.deny, at.problems);
}

fn unix(listener: &ListenerOptions, socket: &Path, at: &mut At<'_>) {
    path(&at.key("uri"), socket, at.problems);
    let length = socket.as_os_str().len();
    if length > UNIX_PATH_MAX {
        let what =
            format!("the path has {length} bytes, and a Unix socket's has at most {UNIX_PATH_MAX}");
        at.error("uri", what, "use a shorter path, such as one below /run");
    }
    if !listener.allow.is_empty() {
        at.warn(
            "allow",
            "`allow` is about networks, and means nothing to a Unix socket",
            "use `socket_mode`, `owner` and `group`, or `allow_users` and `allow_groups`",
        );
    }
    if !listener.deny.is_empty() {
        at.warn(
            "deny",
            "`deny` is about networks, and means nothing to a Unix socket",
            "use `socket_mode`, `owner` and `group`, or `allow_users` and `allow_groups`",
        );
    }
    if listener.socket_mode.0 & 0o222 == 0 {
        at.error(
            "socket_mode",
            "nobody may write to this socket, so nobody can connect",
            "\"0660\" lets owner and group connect",
        );
    }
}

fn tcp(listener: &ListenerOptions, host: &str, at: &mut At<'_>) {
    let plain = ListenerOptions::default();
    for (key, set) in [
        ("socket_mode", listener.socket_mode != plain.socket_mode),
        ("owner", !listener.owner.is_empty()),
        ("group", !listener.group.is_empty()),
        ("allow_users", !listener.allow_users.is_empty()),
        ("allow_groups", !listener.allow_groups.is_empty()),
    ] {
        if set {
            at.warn(
                key,
                format!("`{key}` is about a socket file, and means nothing to TCP"),
                "use `allow` to say who may connect",
            );
        }
    }
    if listener.allow.is_empty() && !is_loopback(host) {
        let what = format!(
            "`allow` is empty, so everyone who can reach {} may send",
            listener.uri
        );
        at.warn("uri", what, "list the senders' networks in `allow`; [\"0.0.0.0/0\", \"::/0\"] says that everyone is meant");
    }
}

/// Window of a stream before it is asked for, in bytes; yamux gives it unasked.
const STREAM_WINDOW: u64 = crate::mux::frame::INITIAL_WINDOW as u64;

fn sessions(listener: &ListenerOptions, at: &mut At<'_>) {
    if listener.sessions_max == 0 {
        at.error(
            "sessions_max",
            "with 0 sessions nobody can connect",
            "the default is 64",
        );
    }
    if listener.session_buffer.bytes() < STREAM_WINDOW {
        at.error(
            "session_buffer",
            "each stream of a session takes 256 KiB of it, so there could be none",
            "the default is \"32MiB\"",
        );
    }
}

fn not_sessions(listener: &ListenerOptions, at: &mut At<'_>) {
    let plain = ListenerOptions::default();
    for (key, set) in [
        ("sessions_max", listener.sessions_max != plain.sessions_max),
        (
            "session_buffer",
            listener.session_buffer != plain.session_buffer,
        ),
    ] {
        if set {
            at.warn(
                key,
                format!(
                    "`{key}` is about sessions, and means nothing to {}",
                    listener.uri
                ),
                "use it at mux+tcp: or mux+unix:",
            );
        }
    }
}

fn frames(listener: &ListenerOptions, at: &mut At<'_>) {
    let data = listener.data_frame_max.bytes();
    if data == 0 {
        at.error(
            "data_frame_max",
            "no frame is 0 bytes or smaller, so nothing would be taken",
            "the default is \"1MiB\"",
        );
    } else if data > u64::from(u32::MAX) {
        at.error(
            "data_frame_max",
            "a frame's length is 32 bits wide, so no frame is over 4294967295 bytes",
            "the default is \"1MiB\"",
        );
    } else if data < DNS_MESSAGE_MAX + DNSTAP_FIELDS {
        let what = format!(
            "a DNS message over TCP can have {DNS_MESSAGE_MAX} bytes, and its frame is larger still: with {} such frames are lost",
            listener.data_frame_max
        );
        at.warn(
            "data_frame_max",
            what,
            "use at least \"68KiB\"; the default is \"1MiB\"",
        );
    }
    let control = listener.control_frame_max.bytes();
    if control < START_LEN {
        let what = format!(
            "START and READY of dnstap have {START_LEN} bytes, so every sender would be refused"
        );
        at.error("control_frame_max", what, "the default is 4064");
    } else if control > u64::from(u32::MAX) {
        at.error(
            "control_frame_max",
            "a frame's length is 32 bits wide",
            "the default is 4064",
        );
    } else if control < CONTROL_FRAME_USUAL {
        let what = format!(
            "senders may use control frames of {CONTROL_FRAME_USUAL} bytes, and some appliances larger ones"
        );
        at.warn("control_frame_max", what, "the default is 4064");
    }
    if listener.compression != ReceiveCompression::Off
        && listener.decompressed_max.bytes() < DNS_MESSAGE_MAX + DNSTAP_FIELDS
    {
        let what = format!(
            "a payload over {} after decompression is lost, and one DNS message can be larger",
            listener.decompressed_max
        );
        at.warn(
            "decompressed_max",
            what,
            "the default is \"8MiB\", which holds a bulk of frames",
        );
    }
}

/// Bytes of a frame's length before its payload.
const LENGTH_PREFIX: u64 = 4;

fn buffers(listener: &ListenerOptions, at: &mut At<'_>) {
    let needed = listener
        .data_frame_max
        .bytes()
        .max(listener.control_frame_max.bytes())
        .saturating_add(2 * LENGTH_PREFIX);
    if !listener.buffer_max.is_zero() && listener.buffer_max.bytes() < needed {
        let what = format!(
            "a frame of {} does not fit a buffer of {}",
            listener.data_frame_max, listener.buffer_max
        );
        at.error(
            "buffer_max",
            what,
            "make it larger, or 0 for the larger of the frame limits plus `read_size`",
        );
    }
    if listener.read_size.bytes() < 512 {
        at.error(
            "read_size",
            format!(
                "reading {} bytes at a time is of no use",
                listener.read_size.bytes()
            ),
            "the default is \"256KiB\"",
        );
    } else if listener.read_size < ByteSize::kib(4) {
        at.warn(
            "read_size",
            "small reads cost a system call each, and this asks for many",
            "the default is \"256KiB\"",
        );
    } else if listener.read_size > ByteSize::mib(64) {
        at.error(
            "read_size",
            "each connection may take that much at once",
            "the default is \"256KiB\"",
        );
    }
    if listener.initial_buffer.bytes() > listener.buffer_limit() {
        let what = format!(
            "the first buffer is larger than the largest, {}",
            ByteSize(listener.buffer_limit())
        );
        at.error("initial_buffer", what, "the default is \"16KiB\"");
    }
    if listener.receive_buffer.bytes() > i32::MAX as u64 {
        at.error(
            "receive_buffer",
            "the system takes at most 2147483647 bytes",
            "0 leaves it as the system has it",
        );
    }
}

fn connections(listener: &ListenerOptions, at: &mut At<'_>) {
    let bytes = listener.bytes_per_peer_second_max.bytes();
    if bytes > 0 && bytes < listener.data_frame_max.bytes() && listener.over_rate == OverRate::Drop
    {
        let what = format!(
            "a frame may have {}, and one of more than a second's bytes never passes",
            listener.data_frame_max
        );
        at.warn(
            "bytes_per_peer_second_max",
            what,
            "make it at least `data_frame_max`",
        );
    }
    if listener.connections_max == 0 {
        at.error(
            "connections_max",
            "with 0 connections nobody can connect",
            "the default is 10000",
        );
    } else if listener.connections_per_peer_max > listener.connections_max {
        at.warn(
            "connections_per_peer_max",
            "it is larger than `connections_max`, so it never applies",
            "0 says that there is no limit for one peer",
        );
    }
    if listener.handshake_timeout.is_off() {
        at.warn(
            "handshake_timeout",
            "a peer that connects and says nothing holds its connection for ever",
            "the default is \"5s\"",
        );
    }
    if !listener.idle_timeout.is_off() && listener.idle_timeout < IDLE_TIMEOUT_SHORT {
        let what = format!(
            "DNS servers keep silent connections, and would be closed after {} again and again",
            listener.idle_timeout
        );
        at.warn(
            "idle_timeout",
            what,
            "\"off\", the default, leaves it to `keepalive` to find dead peers",
        );
    }
    if let Some(keepalive) = listener.keepalive.get()
        && (keepalive.as_secs() == 0 || keepalive.as_secs() > 32_767)
    {
        at.error(
            "keepalive",
            "the system takes 1 second to 32767 seconds",
            "the default is \"60s\"",
        );
    }
}

/// Listeners that would take each other's place, or the HTTP server's.
fn clashes(config: &Config, unread: Unread<'_>, problems: &mut Vec<Problem>) {
    let readable = |i: usize| !unread.is(&format!("listener[{i}].uri"));
    for (i, listener) in config
        .listener
        .iter()
        .enumerate()
        .filter(|(i, _)| readable(*i))
    {
        let place = format!("listener[{i}].uri");
        let mut earlier = config
            .listener
            .iter()
            .enumerate()
            .take(i)
            .filter(|(j, _)| readable(*j));
        if let Some((j, other)) = earlier.find(|(_, other)| same_place(&other.uri, &listener.uri)) {
            let what = format!("listener {} listens at {} already", j + 1, other.uri);
            problems
                .push(Problem::error(place, what).fix("each listener needs a place of its own"));
        } else if let Some((host, port)) = listener.uri.host_port()
            && config.http.enabled
            && !unread.is("http.address")
            && port != 0
            && port == config.http.address.port()
            && (is_any(host)
                || config.http.address.ip().is_unspecified()
                || host == config.http.address.ip().to_string())
        {
            let what = format!("the HTTP server is at {} already", config.http.address);
            problems.push(Problem::error(place, what).fix("use another port, here or in [http]"));
        }
    }
}
