//! The most memory that settings allow tapflow to take.

use std::fmt;

use crate::config::Config;
use crate::outputs::options::{OutputKind, OutputOptions, Strategy};
use crate::stages::options::StageOptions;
use crate::transport::options::{ListenerOptions, ReceiveCompression};
use crate::units::ByteSize;
use crate::units::Endpoint;

/// Bytes for what does not grow with settings: code, threads, the metrics' fixed series, compressors of files.
const PROCESS_BYTES: u64 = 64 << 20;
/// Bytes of a connection beside its buffers: task, span, counters, socket.
const CONNECTION_BYTES: u64 = 16 << 10;
/// Bytes of a session beside what it holds for its streams: what waits to be written, control frames, tables.
const SESSION_BYTES: u64 = 1 << 20;
/// Bytes of a stream to a worker: what the worker may send unasked, which is acknowledgements.
const STREAM_BYTES: u64 = 1 << 20;
/// Bytes of the names of batches that are remembered: 64 senders with 4096 of some 150 bytes each.
const SEEN_BYTES: u64 = 40 << 20;
/// A TLS connection's own buffers: records that came and are not decrypted, and what waits to be sent.
const TLS_BYTES: u64 = 160 << 10;
/// Bytes of one identity's time series: label and value, in the recorder and in a scrape.
const IDENTITY_BYTES: u64 = 2 << 10;
/// A waiting batch may hold a buffer of up to four times its own bytes (less than a quarter is copied out instead).
const PINNED_TIMES: u64 = 4;

/// The most memory that settings allow tapflow to take, in bytes, and what makes it up.
///
/// ```text
/// total      = process + listeners + outputs
/// process    = 64 MiB + identities_max × 2 KiB, + 40 MiB where a listener takes sessions (names of batches seen)
/// listeners  = Σ connections_max × (2 × buffer + decompressed_max + 16 KiB) + sessions
/// sessions   = sessions_max × (session_buffer + read_size + 1 MiB), where connections are sessions (mux+), else 0
/// outputs    = Σ queue_bytes × 4 + workers
/// workers    = unacked_bytes × 4 + workers × (streams × 1 MiB + 2 MiB) of each mux output; with strategy all the queue
///              and unacked_bytes count once for each worker
/// ```
///
/// `buffer` is `buffer_max`, or `data_frame_max` + `read_size` where that is 0. It counts twice, since the batch that
/// waits for room in a queue may have taken one whole buffer while the connection has begun the next.
/// `decompressed_max` counts unless `compression` is `off`. A queue counts four times, since a waiting batch may hold a
/// buffer of up to four times its size. Outputs that wait for the same batch share it, so the true figure is lower. The
/// kernel's socket buffers are not tapflow's memory and are not in it.
///
/// It is a bound and not an estimate: it is reached when every connection there may be sends its largest frames at
/// once while every output stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// What does not grow with connections or queues.
    pub process: u64,
    /// Connections of all listeners.
    pub connections: u64,
    /// Buffers of all connections.
    pub listeners: u64,
    /// Batches in all queues, with the buffers they hold.
    pub outputs: u64,
}

impl MemoryBound {
    /// The sum, in bytes.
    pub const fn total(&self) -> u64 {
        self.process
            .saturating_add(self.listeners)
            .saturating_add(self.outputs)
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes| ByteSize(bytes).rounded();
        write!(
            f,
            "at most {}: {} for {} connections at their largest, {} for waiting batches, {} for the rest",
            size(self.total()),
            size(self.listeners),
            self.connections,
            size(self.outputs),
            size(self.process)
        )
    }
}

impl Config {
    /// The most memory these settings allow tapflow to take; the formula is on [`MemoryBound`].
    pub fn memory_bound(&self) -> MemoryBound {
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0u64, u64::saturating_add);
        let identities = self.stage.iter().filter_map(|stage| match stage {
            StageOptions::Metrics(metrics) => Some(u64::from(metrics.identities_max)),
            _ => None,
        });
        let seen = match self.listener.iter().any(|l| l.uri.is_mux()) {
            true => SEEN_BYTES,
            false => 0,
        };
        MemoryBound {
            process: PROCESS_BYTES.saturating_add(seen).saturating_add(sum(
                &mut identities.map(|count| count.saturating_mul(IDENTITY_BYTES))
            )),
            connections: sum(&mut self
                .listener
                .iter()
                .map(|listener| u64::from(listener.connections_max))),
            listeners: sum(&mut self.listener.iter().map(listener_bytes)),
            outputs: sum(&mut self.output.iter().map(output_bytes)),
        }
    }
}

fn output_bytes(output: &OutputOptions) -> u64 {
    let queue = output.queue_bytes.bytes();
    let OutputKind::Mux(mux) = &output.kind else {
        return queue.saturating_mul(PINNED_TIMES);
    };
    let workers = mux.workers.len() as u64;
    let lanes = match mux.strategy {
        Strategy::All => workers,
        _ => 1,
    };
    let streams = u64::from(mux.streams).saturating_mul(STREAM_BYTES);
    queue
        .saturating_add(mux.unacked_bytes.bytes())
        .saturating_mul(PINNED_TIMES)
        .saturating_mul(lanes)
        .saturating_add(workers.saturating_mul(streams.saturating_add(2 * SESSION_BYTES)))
}

fn listener_bytes(listener: &ListenerOptions) -> u64 {
    let decompressed = match listener.compression {
        ReceiveCompression::Off => 0,
        _ => listener.decompressed_max.bytes(),
    };
    let buffers = listener
        .buffer_limit()
        .saturating_mul(2)
        .saturating_add(decompressed);
    let tls = match listener.uri.carrier() {
        Endpoint::Tls { .. } => TLS_BYTES,
        _ => 0,
    };
    let mut connection = buffers.saturating_add(CONNECTION_BYTES);
    let sessions = if listener.uri.is_mux() {
        let session = listener
            .session_buffer
            .bytes()
            .saturating_add(listener.read_size.bytes())
            .saturating_add(SESSION_BYTES)
            .saturating_add(tls);
        u64::from(listener.sessions_max).saturating_mul(session)
    } else {
        connection = connection.saturating_add(tls);
        0
    };
    u64::from(listener.connections_max)
        .saturating_mul(connection)
        .saturating_add(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::options::{MuxOptions, NullOptions};
    use crate::units::ByteSize;

    #[test]
    fn the_bound_follows_the_stated_formula() {
        let listener = ListenerOptions {
            connections_max: 3,
            buffer_max: ByteSize::mib(2),
            decompressed_max: ByteSize::mib(5),
            ..ListenerOptions::default()
        };
        let plain = ListenerOptions {
            compression: ReceiveCompression::Off,
            buffer_max: ByteSize(0),
            ..listener.clone()
        };
        let sessions = ListenerOptions {
            uri: Endpoint::mux(listener.uri.clone()),
            sessions_max: 2,
            ..plain.clone()
        };
        let mux = MuxOptions {
            workers: vec![Endpoint::tcp("a", 1); 3],
            streams: 4,
            unacked_bytes: ByteSize(7),
            ..MuxOptions::default()
        };
        let null = OutputOptions::new(OutputKind::Null(NullOptions {}));
        let config = Config {
            listener: vec![listener, plain, sessions],
            output: vec![
                OutputOptions {
                    queue_bytes: ByteSize(1000),
                    ..null.clone()
                },
                OutputOptions {
                    queue_bytes: ByteSize(10),
                    ..null
                },
                OutputOptions {
                    queue_bytes: ByteSize(5),
                    ..OutputOptions::new(OutputKind::Mux(mux.clone()))
                },
                OutputOptions {
                    queue_bytes: ByteSize(5),
                    ..OutputOptions::new(OutputKind::Mux(MuxOptions {
                        strategy: Strategy::All,
                        ..mux
                    }))
                },
            ],
            ..Config::default()
        };
        let bound = config.memory_bound();
        let mib = 1u64 << 20;
        assert_eq!(
            bound.listeners,
            3 * (9 * mib + 16384)
                + 2 * 3 * (2 * (mib + 262_144) + 16384)
                + 2 * (33 * mib + 262_144)
        );
        assert_eq!(bound.outputs, 4040 + 48 + 3 * 48 + 2 * 3 * 6 * mib);
        assert_eq!(bound.process, 104 * mib + 1000 * 2048);
        assert_eq!(bound.connections, 9);
        assert_eq!(
            bound.total(),
            bound.listeners + bound.outputs + bound.process
        );
    }

    #[test]
    fn absurd_settings_do_not_overflow() {
        let listener = ListenerOptions {
            buffer_max: ByteSize(u64::MAX),
            connections_max: u32::MAX,
            ..ListenerOptions::default()
        };
        let config = Config {
            listener: vec![listener.clone(), listener],
            ..Config::default()
        };
        assert_eq!(config.memory_bound().total(), u64::MAX);
    }
}
