//! [`Driver`]: the one loop that every output with a queue runs in.
//!
//! ```text
//!            ┌──────── signal: abort ─▶ give up the rest, counted
//!   queue ─▶ encode ─▶ outbox ─▶ sink.write ─▶ settle in the ledger
//!            ▲             └ small chunks wait a moment for more
//!            └─ timers: gathered long enough, sink due; rotate on request; sink.idle when there is nothing else
//! ```
//! It takes at most [`BUDGET_BYTES`] out of the queue at a time, so beyond the queue's limit an output holds little, and the
//! queue's policy decides as soon as the place is slow. Each write is settled with one posting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use crate::ids::OutputId;
use crate::link::outbox::Outbox;
use crate::outputs::encode::Encoder;
use crate::outputs::sink::{Ending, Sink, Wrote};
use crate::pipeline::batch::Batch;
use crate::pipeline::ledger::{Ledger, OutputDrop};
use crate::pipeline::queue::Queue;
use crate::shutdown::{Phase, Signal};

/// Bytes taken out of the queue at a time (one batch at least). A write of a megabyte costs next to nothing beside its
/// bytes, and more would only keep frames out of reach of the queue's policy.
pub const BUDGET_BYTES: usize = 1 << 20;

/// Chunks that are written whatever their size, so that gathering tiny ones is bounded too.
const CHUNKS_MAX: usize = 256;

/// Time a sink has to leave things in order once the process aborts.
const ABORT_GRACE: Duration = Duration::from_millis(50);

/// One output: its encoder and sink, fed by its queue.
pub struct Driver {
    name: Arc<str>,
    id: OutputId,
    ledger: Ledger,
    queue: Arc<Queue>,
    encoder: Box<dyn Encoder>,
    sink: Box<dyn Sink>,
    signal: Signal,
    rotate: watch::Receiver<u64>,
    blocking: bool,
    /// Batches received and not encoded yet, in reverse order.
    batches: Vec<Batch>,
    /// Frames of the batch that is being encoded: they are in neither `batches` nor `outbox`.
    encoding: u64,
    outbox: Outbox,
    /// When the oldest chunk in the outbox has waited long enough for others.
    flush_at: Option<Instant>,
    /// The place is gone for good.
    ended: bool,
}

/// What a driver is made of.
pub(crate) struct DriverParts {
    pub(crate) name: Arc<str>,
    pub(crate) id: OutputId,
    pub(crate) ledger: Ledger,
    pub(crate) queue: Arc<Queue>,
    pub(crate) encoder: Box<dyn Encoder>,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) signal: Signal,
    pub(crate) rotate: watch::Receiver<u64>,
    pub(crate) blocking: bool,
}

/// What happens next.
enum Next {
    Batches,
    Flush,
    Tick,
    Rotate,
    Idle,
    Closed,
    Abort,
}

impl Driver {
    pub(crate) fn new(parts: DriverParts) -> Self {
        let DriverParts { name, id, ledger, queue, encoder, sink, signal, rotate, blocking } = parts;
        Self {
            name,
            id,
            ledger,
            queue,
            encoder,
            sink,
            signal,
            rotate,
            blocking,
            batches: Vec::new(),
            encoding: 0,
            outbox: Outbox::new(),
            flush_at: None,
            ended: false,
        }
    }

    /// Whether the sink blocks: then [`Driver::run`] belongs on a thread of its own, in `Handle::block_on` of a
    /// multi-threaded runtime. (A current-thread runtime does not move timers on for other threads.)
    pub fn blocking(&self) -> bool {
        self.blocking
    }

    /// The output's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs until the queue is closed and everything in it is written, or until the process aborts. Afterwards no frame is
    /// in flight on this output.
    pub async fn run(mut self) {
        let aborted = loop {
            match self.next().await {
                Next::Batches => self.encode(),
                Next::Flush => self.flush_at = None,
                Next::Tick => {
                    self.flush().await;
                    self.sink.tick();
                }
                Next::Rotate => {
                    // What came before the request goes where it would have gone without it.
                    self.flush().await;
                    self.sink.rotate();
                }
                Next::Idle => {}
                Next::Closed => {
                    self.flush().await;
                    break self.signal.phase() == Phase::Aborting;
                }
                Next::Abort => break true,
            }
            if self.is_flush_wanted() {
                self.flush().await;
            }
        };
        self.close(aborted).await;
    }

    async fn next(&mut self) -> Next {
        let Self { queue, batches, sink, signal, rotate, flush_at, ended, .. } = self;
        let due = if *ended { None } else { sink.due() };
        tokio::select! {
            biased;
            () = aborting(signal) => Next::Abort,
            () = requested(rotate) => Next::Rotate,
            () = until(*flush_at) => Next::Flush,
            () = until(due) => Next::Tick,
            more = queue.recv_many(batches, BUDGET_BYTES) => if more { Next::Batches } else { Next::Closed },
            () = sink.idle(), if !*ended && flush_at.is_none() => Next::Idle,
        }
    }

    fn encode(&mut self) {
        self.batches.reverse();
        while let Some(batch) = self.batches.pop() {
            let frames = batch.frame_count() as u64;
            if self.ended {
                self.ledger.dropped(self.id, OutputDrop::WriteError, frames);
                continue;
            }
            self.encoding = frames;
            let bad = self.encoder.encode(&batch, &mut self.outbox);
            self.encoding = 0;
            self.ledger.dropped(self.id, OutputDrop::Unencodable, bad);
        }
        let gather = self.sink.gather();
        if self.outbox.len_bytes() < gather.bytes && self.flush_at.is_none() && !self.outbox.is_empty() {
            self.flush_at = Some(Instant::now() + gather.wait);
        }
    }

    fn is_flush_wanted(&self) -> bool {
        let enough = self.outbox.len_bytes() >= self.sink.gather().bytes || self.outbox.chunk_count() >= CHUNKS_MAX;
        !self.outbox.is_empty() && (enough || self.flush_at.is_none())
    }

    /// Writes until the outbox is empty, or the process aborts.
    async fn flush(&mut self) {
        self.flush_at = None;
        while !self.outbox.is_empty() {
            let Self { sink, outbox, signal, .. } = self;
            let wrote = tokio::select! {
                biased;
                () = aborting(signal) => None,
                wrote = sink.write(outbox) => Some(wrote),
            };
            self.ledger.delivered(self.id, self.outbox.take_delivered());
            match wrote {
                None => return,
                Some(Wrote::Progress) => {}
                Some(Wrote::Failed(frames)) => self.ledger.dropped(self.id, OutputDrop::WriteError, frames),
                Some(Wrote::Ended) => {
                    self.ended = true;
                    let frames = self.outbox.give_up();
                    self.ledger.dropped(self.id, OutputDrop::WriteError, frames);
                }
            }
        }
    }

    async fn close(&mut self, aborted: bool) {
        self.give_up();
        if !aborted {
            let Self { sink, signal, .. } = self;
            tokio::select! {
                biased;
                () = sink.close(Ending::Drained) => info!(output = &*self.name, "output closed"),
                () = aborting(signal) => warn!(output = &*self.name, "output not closed in good order: time is up"),
            }
        } else if timeout(ABORT_GRACE, self.sink.close(Ending::Aborted)).await.is_err() {
            warn!(output = &*self.name, "output abandoned: it did not close in time");
        }
    }

    /// Closes the queue and counts everything that is here as lost in the shutdown.
    fn give_up(&mut self) {
        self.queue.close();
        self.ledger.delivered(self.id, self.outbox.take_delivered());
        let received: u64 = self.batches.drain(..).map(|b| b.frame_count() as u64).sum();
        let lost = received + std::mem::take(&mut self.encoding) + self.outbox.give_up() + self.queue.abandon();
        self.ledger.dropped(self.id, OutputDrop::Shutdown, lost);
        if lost > 0 {
            error!(output = &*self.name, frames = lost, "frames not written when the output stopped");
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // After `run` there is nothing left. A driver that panicked or was never run must not leave frames in flight, nor
        // connections waiting for room in its queue.
        self.give_up();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({})", self.name)
    }
}

/// Waits for the order to abort; for ever when nobody can give it any more.
async fn aborting(signal: &mut Signal) {
    signal.reached(Phase::Aborting).await;
    if signal.phase() != Phase::Aborting {
        std::future::pending().await
    }
}

/// Waits for the next request to rotate; for ever when nobody can make one any more.
async fn requested(rotate: &mut watch::Receiver<u64>) {
    if rotate.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
