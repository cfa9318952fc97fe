//! Sinks: the places that bytes go to.
//!
//! A sink writes from the front of an [`Outbox`] and says when it cannot. Gathering, settling the ledger, timers, rotation
//! signals and the stop are the driver's, so a sink is small. A new one is one file here and one line in `outputs::build`.

use std::pin::Pin;
use std::time::Duration;

use metrics::{Counter, Gauge};
use tokio::time::Instant;

use crate::link::outbox::Outbox;
use crate::telemetry::{self, Telemetry};

pub mod file;
pub mod forward;
pub mod stdout;

/// What a sink does in one call. A sink that blocks does its work before it returns the (ready) future.
pub type Step<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What came of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrote {
    /// Something was written, or tried with no harm done; call again while there is something to write.
    Progress,
    /// The place failed: the sink gave up so many frames (it took them out of the outbox). Later ones may do better.
    Failed(u64),
    /// The place is gone for good.
    Ended,
}

/// How an output ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Everything is written: finish in good order.
    Drained,
    /// Time is up: leave the place in a state that can be trusted, and wait for nothing.
    Aborted,
}

/// How long small chunks may wait to be written together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// Bytes that are worth a write.
    pub bytes: usize,
    /// Longest wait of the first chunk.
    pub wait: Duration,
}

impl Gather {
    /// Everything is written at once.
    pub const NOTHING: Self = Self {
        bytes: 0,
        wait: Duration::ZERO,
    };
}

/// A place that bytes go to.
pub trait Sink: Send {
    /// Whether small chunks should wait for more.
    fn gather(&self) -> Gather {
        Gather::NOTHING
    }

    /// Writes from the front of `outbox`, which is not empty. Cancel-safe: the outbox knows what was written.
    fn write<'a>(&'a mut self, outbox: &'a mut Outbox) -> Step<'a, Wrote>;

    /// What there is to do while nothing is to be written; dropped as soon as something is. Called again when it returns.
    fn idle(&mut self) -> Step<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Somebody waits to hear which frames are where they belong: [`Sink::secure`] will be asked from now on.
    fn answers(&mut self) {}

    /// Makes what was written so safe as the settings promise, for those who wait to hear it. Blocks if it must.
    ///
    /// # Errors
    /// It cannot be said to be safe.
    fn secure(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// When [`Sink::tick`] wants to be called, with or without traffic.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// It is due.
    fn tick(&mut self) {}

    /// The operator asked for a new file.
    fn rotate(&mut self) {}

    /// The last call. It is dropped when time is up, so what must not be left out comes before its first wait.
    fn close(&mut self, ending: Ending) -> Step<'_, ()>;
}

/// What every sink counts.
#[derive(Clone)]
pub struct Meter {
    bytes: Counter,
    errors: Counter,
    connected: Gauge,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meter")
    }
}

impl Meter {
    /// The series of the output `name`, from zero.
    pub fn new(telemetry: &Telemetry, name: &str) -> Self {
        Self {
            bytes: telemetry.counter(telemetry::OUTPUT_BYTES, &[name]),
            errors: telemetry.counter(telemetry::OUTPUT_ERRORS, &[name]),
            connected: telemetry.gauge(telemetry::OUTPUT_CONNECTED, &[name]),
        }
    }

    /// So many bytes were written.
    pub fn wrote(&self, bytes: usize) {
        self.bytes.increment(bytes as u64);
    }

    /// The place failed.
    pub fn error(&self) {
        self.errors.increment(1);
    }

    /// Whether the place can be written to.
    pub fn connected(&self, yes: bool) {
        self.connected.set(if yes { 1.0 } else { 0.0 });
    }
}
