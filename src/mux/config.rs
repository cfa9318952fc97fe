//! What a session may use and how long it waits.

use std::time::Duration;

use super::frame::INITIAL_WINDOW;

/// Limits and deadlines of one session. Sizes are in octets.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whether the peer may open streams.
    pub accept: bool,
    /// Window of each stream at this end: how much the peer may send before it is read. At least [`INITIAL_WINDOW`], which
    /// yamux gives without asking.
    pub stream_window: u32,
    /// What all streams together may hold or have been granted. Every open stream takes [`INITIAL_WINDOW`] of it; larger
    /// windows, and read buffers that payload stays in (as a whole, wherever it is), take what is left, up to half of it all.
    /// Beside it a session takes one read buffer and twice the write budget.
    pub receive_cap: u64,
    /// The largest buffer that is read into.
    pub read_buffer: usize,
    /// Data that may wait for the connection, all streams together; as much again may be on its way.
    pub write_budget: usize,
    /// Silence after which the peer is pinged; `None` never asks.
    pub keepalive_interval: Option<Duration>,
    /// How long after that ping any traffic must come.
    pub keepalive_timeout: Duration,
    /// A session without streams and reservations for so long ends.
    pub idle_timeout: Option<Duration>,
    /// A write to a stream that makes no progress for so long fails, and a connection that takes nothing for so long ends.
    pub write_timeout: Option<Duration>,
    /// How long closing waits until what is queued is written and the peer has closed in turn.
    pub close_timeout: Duration,
    /// Streams that may be open at once, counted apart for those opened here and those of the peer.
    pub max_streams: usize,
    /// Streams of the peer that may wait for [`accept`](super::Session::accept); more are refused.
    pub accept_backlog: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accept: true,
            stream_window: 1024 * 1024,
            receive_cap: 256 * 1024 * 1024,
            read_buffer: 256 * 1024,
            write_budget: 512 * 1024,
            keepalive_interval: Some(Duration::from_secs(30)),
            keepalive_timeout: Duration::from_secs(10),
            idle_timeout: None,
            write_timeout: None,
            close_timeout: Duration::from_secs(5),
            max_streams: 1000,
            accept_backlog: 256,
        }
    }
}

impl Config {
    pub(super) const fn window(&self) -> u32 {
        if self.stream_window < INITIAL_WINDOW {
            INITIAL_WINDOW
        } else {
            self.stream_window
        }
    }
}
