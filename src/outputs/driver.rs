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

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use crate::ids::OutputId;
use crate::link::outbox::Outbox;
use crate::outputs::encode::Encoder;
use crate::outputs::sink::{Ending, Sink, Wrote};
use crate::pipeline::acks::Receipt;
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
    receipts: Receipts,
    /// When the oldest chunk in the outbox has waited long enough for others.
    flush_at: Option<Instant>,
    /// The place is gone for good.
    ended: bool,
}

/// The receipts of what is in the outbox, or was written and is not safe yet.
#[derive(Default)]
struct Receipts {
    /// The frames that each stands for, counted over everything that was ever put into the outbox; oldest first.
    held: VecDeque<(std::ops::Range<u64>, Receipt)>,
    /// Frames ever put into the outbox, and taken out of it.
    pushed: u64,
    done: u64,
}

impl Receipts {
    /// `frames` of a batch with this receipt were put into the outbox.
    fn push(&mut self, frames: u64, receipt: Option<&Receipt>) {
        let from = self.pushed;
        self.pushed += frames;
        if let Some(receipt) = receipt {
            self.held.push_back((from..self.pushed, receipt.clone()));
        }
    }

    /// Whether some stand for frames that are all done.
    fn ready(&self) -> bool {
        self.held
            .front()
            .is_some_and(|(frames, _)| frames.end <= self.done)
    }

    /// Drops those whose frames are all done.
    fn release(&mut self) {
        while self.ready() {
            self.held.pop_front();
        }
    }

    /// `frames` more were taken out of the outbox without being written.
    fn lose(&mut self, frames: u64) {
        self.done += frames;
        let done = self.done;
        let lost = self
            .held
            .iter()
            .take_while(|(f, _)| f.start < done || f.end <= done);
        lost.for_each(|(_, receipt)| receipt.lose());
        self.release();
    }

    /// Those whose frames are all done are lost all the same.
    fn lose_ready(&mut self) {
        let done = self.done;
        let ready = self.held.iter().take_while(|(f, _)| f.end <= done);
        ready.for_each(|(_, receipt)| receipt.lose());
        self.release();
    }

    /// All of them are lost.
    fn lose_all(&mut self) {
        self.done = self.pushed;
        self.held.drain(..).for_each(|(_, receipt)| receipt.lose());
    }
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
        let DriverParts {
            name,
            id,
            ledger,
            queue,
            encoder,
            sink,
            signal,
            rotate,
            blocking,
        } = parts;
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
            receipts: Receipts::default(),
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
        let Self {
            queue,
            batches,
            sink,
            signal,
            rotate,
            flush_at,
            ended,
            ..
        } = self;
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
                batch.lose();
                self.ledger.dropped(self.id, OutputDrop::WriteError, frames);
                continue;
            }
            self.encoding = frames;
            let before = self.outbox.frames();
            let bad = self.encoder.encode(&batch, &mut self.outbox);
            self.encoding = 0;
            if batch.receipt().is_some() {
                self.sink.answers();
            }
            let pushed = self.outbox.frames().saturating_sub(before);
            self.receipts.push(pushed, batch.receipt());
            self.ledger.dropped(self.id, OutputDrop::Unencodable, bad);
        }
        self.answer();
        let gather = self.sink.gather();
        if self.outbox.len_bytes() < gather.bytes
            && self.flush_at.is_none()
            && !self.outbox.is_empty()
        {
            self.flush_at = Some(Instant::now() + gather.wait);
        }
    }

    fn is_flush_wanted(&self) -> bool {
        let enough = self.outbox.len_bytes() >= self.sink.gather().bytes
            || self.outbox.chunk_count() >= CHUNKS_MAX;
        !self.outbox.is_empty() && (enough || self.flush_at.is_none())
    }

    /// Writes until the outbox is empty, or the process aborts.
    async fn flush(&mut self) {
        self.flush_at = None;
        while !self.outbox.is_empty() {
            let Self {
                sink,
                outbox,
                signal,
                ..
            } = self;
            let wrote = tokio::select! {
                biased;
                () = aborting(signal) => None,
                wrote = sink.write(outbox) => Some(wrote),
            };
            let delivered = self.outbox.take_delivered();
            self.ledger.delivered(self.id, delivered);
            self.receipts.done += delivered;
            self.answer();
            match wrote {
                None => return,
                Some(Wrote::Progress) => {}
                Some(Wrote::Failed(frames)) => {
                    self.receipts.lose(frames);
                    self.ledger.dropped(self.id, OutputDrop::WriteError, frames)
                }
                Some(Wrote::Ended) => {
                    self.ended = true;
                    let frames = self.outbox.give_up();
                    self.receipts.lose_all();
                    self.ledger.dropped(self.id, OutputDrop::WriteError, frames);
                }
            }
        }
    }

    /// Lets those know who wait for frames that are written now.
    fn answer(&mut self) {
        if !self.receipts.ready() {
            return;
        }
        match self.sink.secure() {
            Ok(()) => self.receipts.release(),
            // After a sync that failed the system has forgotten what it could not write, so trying again proves nothing.
            Err(error) => {
                warn!(
                    output = &*self.name,
                    "written, but not safe, and not acknowledged: {error}"
                );
                self.receipts.lose_ready();
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
        } else if timeout(ABORT_GRACE, self.sink.close(Ending::Aborted))
            .await
            .is_err()
        {
            warn!(
                output = &*self.name,
                "output abandoned: it did not close in time"
            );
        }
    }

    /// Closes the queue and counts everything that is here as lost in the shutdown.
    fn give_up(&mut self) {
        self.queue.close();
        let delivered = self.outbox.take_delivered();
        self.ledger.delivered(self.id, delivered);
        self.receipts.done += delivered;
        self.answer();
        self.receipts.lose_all();
        self.batches.iter().for_each(Batch::lose);
        let received: u64 = self.batches.drain(..).map(|b| b.frame_count() as u64).sum();
        let lost = received
            + std::mem::take(&mut self.encoding)
            + self.outbox.give_up()
            + self.queue.abandon();
        self.ledger.dropped(self.id, OutputDrop::Shutdown, lost);
        if lost > 0 {
            error!(
                output = &*self.name,
                frames = lost,
                "frames not written when the output stopped"
            );
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

#[cfg(test)]
pub(crate) mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::ids::{ConnId, ListenerId};
    use crate::link::outbox::{Chunk, Layout};
    use crate::outputs::sink::{Gather, Step};
    use crate::pipeline::batch::Origin;
    use crate::pipeline::lane::Lane;
    use crate::pipeline::ledger::{Arrival, OutputSnapshot};
    use crate::pipeline::queue::{Policy, QueueLimits};
    use crate::shutdown::{Trigger, channel};

    /// A driver with its lane, and what moves them.
    pub(crate) struct Rig {
        pub(crate) trigger: Trigger,
        pub(crate) lane: Lane,
        pub(crate) rotate: watch::Sender<u64>,
        ledger: Ledger,
        listener: ListenerId,
        origin: Arc<Origin>,
    }

    impl Rig {
        pub(crate) fn new(
            encoder: Box<dyn Encoder>,
            sink: impl FnOnce(Signal) -> Box<dyn Sink>,
        ) -> (Self, Driver) {
            let ledger = Ledger::new();
            let listener = ledger.register_listener("test");
            let (trigger, signal) = channel();
            let (rotate, requests) = watch::channel(0);
            let queue = Arc::new(Queue::new(QueueLimits {
                bytes: 1 << 30,
                batches: 1 << 20,
                policy: Policy::Block,
            }));
            let lane = Lane::queued("out", ledger.clone(), queue.clone());
            let driver = Driver::new(DriverParts {
                name: "out".into(),
                id: lane.id,
                ledger: ledger.clone(),
                queue,
                encoder,
                sink: sink(signal.clone()),
                signal,
                rotate: requests,
                blocking: false,
            });
            let origin = Arc::new(Origin {
                conn: ConnId::next(),
                listener: "test".into(),
                peer: "p".into(),
            });
            (
                Self {
                    trigger,
                    lane,
                    rotate,
                    ledger,
                    listener,
                    origin,
                },
                driver,
            )
        }

        /// Offers a batch of one-octet frames.
        pub(crate) fn offer(&self, payloads: &[u8]) {
            self.offer_with(payloads, None);
        }

        /// The same with a receipt.
        pub(crate) fn offer_with(&self, payloads: &[u8], receipt: Option<Receipt>) {
            let frames = payloads.len() as u64;
            let bytes: Vec<u8> = payloads.iter().flat_map(|p| [0, 0, 0, 1, *p]).collect();
            self.ledger.arrive(
                self.listener,
                &Arrival {
                    received: frames,
                    bytes: bytes.len() as u64,
                    kept: frames,
                    ..Arrival::default()
                },
            );
            let batch = Batch::new(
                self.origin.clone(),
                SystemTime::now(),
                bytes.into(),
                payloads.len(),
            );
            assert!(self.lane.offer(batch.with_receipt(receipt)).is_none());
        }

        pub(crate) fn account(&self) -> OutputSnapshot {
            let snapshot = self.ledger.snapshot();
            assert!(snapshot.closes(), "{snapshot:?}");
            snapshot.outputs[0].clone()
        }

        pub(crate) fn dropped(&self, reason: OutputDrop) -> u64 {
            self.account()
                .dropped
                .iter()
                .find(|d| d.0 == reason)
                .unwrap()
                .1
        }

        pub(crate) fn close(&self) {
            self.lane.queue().unwrap().close();
        }
    }

    /// Writes the run; panics at a payload of 13, cannot encode 99.
    struct Superstitious;
    impl Encoder for Superstitious {
        fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64 {
            assert!(batch.payloads().all(|p| p != [13]), "unlucky");
            let good: Vec<u8> = batch
                .payloads()
                .filter(|p| *p != [99])
                .flat_map(|p| [0, 0, 0, 1, p[0]])
                .collect();
            let frames = good.len() as u64 / 5;
            outbox.push(Chunk::new(good.into(), frames, Layout::Run));
            batch.frame_count() as u64 - frames
        }
    }

    #[tokio::test]
    async fn receipts_wait_for_the_write_and_what_a_failed_one_cost_is_never_acknowledged() {
        use crate::fstrm::BatchId;
        use crate::pipeline::acks::{Account, Seen};
        for fails in [false, true] {
            let log = Log::default();
            let recorder = Recorder {
                log: log.clone(),
                gather: Gather::NOTHING,
                due: None,
                fails,
            };
            let (rig, driver) = Rig::new(Box::new(Superstitious), |_| Box::new(recorder));
            let mut account = Account::new(Seen::default(), 1);
            let id = BatchId {
                instance: 1,
                sequence: 1,
            };
            account.begin(id, 6).unwrap();
            // The second batch has a frame that cannot be encoded, the third nothing else.
            for payloads in [&[1, 2, 3][..], &[4, 99], &[99]] {
                let receipt = account.come(payloads.len()).unwrap().receipt;
                rig.offer_with(payloads, Some(receipt));
            }
            assert_eq!(account.news(), None, "nothing is written yet");
            rig.close();
            driver.run().await;
            assert_eq!(account.is_lost(), fails);
            assert_eq!(
                account.news(),
                (!fails).then_some(6),
                "{:?}",
                log.lock().unwrap()
            );
        }
    }

    /// What became of a [`Recorder`], in order.
    type Log = Arc<std::sync::Mutex<Vec<String>>>;

    /// Notes everything it is asked to do; fails on request.
    struct Recorder {
        log: Log,
        gather: Gather,
        due: Option<Instant>,
        fails: bool,
    }

    impl Sink for Recorder {
        fn gather(&self) -> Gather {
            self.gather
        }
        fn write<'a>(&'a mut self, outbox: &'a mut Outbox) -> Step<'a, Wrote> {
            let (bytes, frames) = (outbox.len_bytes(), outbox.frames());
            self.log.lock().unwrap().push(format!("write {frames}"));
            if std::mem::take(&mut self.fails) {
                return Box::pin(std::future::ready(Wrote::Failed(outbox.give_up())));
            }
            outbox.advance(bytes);
            Box::pin(std::future::ready(Wrote::Progress))
        }
        fn due(&self) -> Option<Instant> {
            self.due
        }
        fn tick(&mut self) {
            self.due = None;
            self.log.lock().unwrap().push("tick".into());
        }
        fn rotate(&mut self) {
            self.log.lock().unwrap().push("rotate".into());
        }
        fn close(&mut self, ending: Ending) -> Step<'_, ()> {
            self.log.lock().unwrap().push(format!("{ending:?}"));
            Box::pin(std::future::ready(()))
        }
    }

    fn recorder(gather: Gather, due: Option<Duration>, fails: bool) -> (Rig, Driver, Log) {
        let log = Log::default();
        let sink = Recorder {
            log: log.clone(),
            gather,
            due: due.map(|d| Instant::now() + d),
            fails,
        };
        let (rig, driver) = Rig::new(Box::new(Superstitious), |_| Box::new(sink));
        (rig, driver, log)
    }

    #[tokio::test(start_paused = true)]
    async fn small_chunks_wait_for_others_but_not_for_long_and_not_at_a_rotation() {
        let gather = Gather {
            bytes: 20,
            wait: Duration::from_secs(1),
        };
        let (rig, driver, log) = recorder(gather, Some(Duration::from_secs(5)), false);
        let task = tokio::spawn(driver.run());
        let expect = async |entries: &[&str]| {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(*log.lock().unwrap(), entries);
        };
        rig.offer(&[1]);
        expect(&[]).await;
        rig.offer(&[2, 3, 4]);
        expect(&["write 4"]).await;
        rig.offer(&[5]);
        tokio::time::sleep(Duration::from_millis(900)).await;
        rig.offer(&[6]);
        expect(&["write 4"]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        expect(&["write 4", "write 2"]).await;
        rig.offer(&[7]);
        expect(&["write 4", "write 2"]).await;
        rig.rotate.send_modify(|n| *n += 1);
        expect(&["write 4", "write 2", "write 1", "rotate"]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        expect(&["write 4", "write 2", "write 1", "rotate", "tick"]).await;
        rig.offer(&[8]);
        rig.close();
        task.await.unwrap();
        assert_eq!(log.lock().unwrap()[5..], ["write 1", "Drained"]);
        assert_eq!(rig.account().delivered, 8);
    }

    #[tokio::test]
    async fn what_cannot_be_encoded_and_what_cannot_be_written_is_counted_and_the_rest_goes_on() {
        let (rig, driver, _) = recorder(Gather::NOTHING, None, true);
        let task = tokio::spawn(driver.run());
        rig.offer(&[1, 99, 2]);
        while rig.account().in_flight > 0 {
            tokio::task::yield_now().await;
        }
        rig.offer(&[3, 99]);
        rig.close();
        task.await.unwrap();
        assert_eq!(
            (
                rig.account().delivered,
                rig.dropped(OutputDrop::WriteError),
                rig.dropped(OutputDrop::Unencodable)
            ),
            (1, 2, 2)
        );
    }

    #[tokio::test]
    async fn a_panic_leaves_no_frame_in_flight_and_the_lane_closed() {
        let (rig, driver, _) = recorder(
            Gather {
                bytes: 1 << 20,
                wait: Duration::from_secs(60),
            },
            None,
            false,
        );
        for batch in [&[1, 2][..], &[3, 13, 4], &[5]] {
            rig.offer(batch);
        }
        assert!(tokio::spawn(driver.run()).await.unwrap_err().is_panic());
        rig.offer(&[6]);
        assert_eq!(
            (rig.account().in_flight, rig.dropped(OutputDrop::Shutdown)),
            (0, 7)
        );
    }

    #[tokio::test]
    async fn a_driver_that_never_ran_gives_its_frames_up() {
        let (rig, driver, _) = recorder(Gather::NOTHING, None, false);
        rig.offer(&[1, 2]);
        drop(driver);
        assert_eq!(
            (rig.account().in_flight, rig.dropped(OutputDrop::Shutdown)),
            (0, 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_abort_gives_up_what_is_gathered_and_closes_the_sink() {
        let (rig, driver, log) = recorder(
            Gather {
                bytes: 1 << 20,
                wait: Duration::from_secs(60),
            },
            None,
            false,
        );
        let task = tokio::spawn(driver.run());
        rig.offer(&[1, 2]);
        tokio::time::sleep(Duration::from_millis(10)).await;
        rig.trigger.advance(Phase::Aborting);
        task.await.unwrap();
        assert_eq!(*log.lock().unwrap(), ["Aborted"]);
        assert_eq!(
            (rig.account().delivered, rig.dropped(OutputDrop::Shutdown)),
            (0, 2)
        );
    }
}
