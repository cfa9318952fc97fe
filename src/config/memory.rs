//! The most memory that settings allow tapflow to take.

use std::fmt;

use crate::config::Config;
use crate::stages::options::StageOptions;
use crate::transport::options::{ListenerOptions, ReceiveCompression};
use crate::units::ByteSize;
use crate::units::Endpoint;

/// Bytes for what does not grow with settings: code, threads, the metrics' fixed series, compressors of files.
const PROCESS_BYTES: u64 = 64 << 20;
/// Bytes of a connection beside its buffers: task, span, counters, socket.
const CONNECTION_BYTES: u64 = 16 << 10;
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
/// process    = 64 MiB + identities_max × 2 KiB
/// listeners  = Σ connections_max × (2 × buffer + decompressed_max + 16 KiB)
/// outputs    = Σ queue_bytes × 4
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
        MemoryBound {
            process: PROCESS_BYTES.saturating_add(sum(
                &mut identities.map(|count| count.saturating_mul(IDENTITY_BYTES))
            )),
            connections: sum(&mut self
                .listener
                .iter()
                .map(|listener| u64::from(listener.connections_max))),
            listeners: sum(&mut self.listener.iter().map(listener_bytes)),
            outputs: sum(&mut self
                .output
                .iter()
                .map(|output| output.queue_bytes.bytes().saturating_mul(PINNED_TIMES))),
        }
    }
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
    let tls = match listener.uri {
        Endpoint::Tls { .. } => TLS_BYTES,
        _ => 0,
    };
    u64::from(listener.connections_max)
        .saturating_mul(buffers.saturating_add(CONNECTION_BYTES).saturating_add(tls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::options::{NullOptions, OutputKind, OutputOptions};
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
        let null = OutputOptions::new(OutputKind::Null(NullOptions {}));
        let config = Config {
            listener: vec![listener, plain],
            output: vec![
                OutputOptions {
                    queue_bytes: ByteSize(1000),
                    ..null.clone()
                },
                OutputOptions {
                    queue_bytes: ByteSize(10),
                    ..null
                },
            ],
            ..Config::default()
        };
        let bound = config.memory_bound();
        let mib = 1u64 << 20;
        assert_eq!(
            bound.listeners,
            3 * (9 * mib + 16384) + 3 * (2 * (mib + 262_144) + 16384)
        );
        assert_eq!(bound.outputs, 4040);
        assert_eq!(bound.process, 64 * mib + 1000 * 2048);
        assert_eq!(bound.connections, 6);
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
