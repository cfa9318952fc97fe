//! One stream to a worker: Frame Streams out, acknowledgements back.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::fstrm::{BatchId, ContentType, Control, ControlKind, Mark, SenderAction};
use crate::link::sender::{Failure, SendError, Sender, SenderOptions};
use crate::mux::MuxStream;
use crate::outputs::mux::board::{Board, Next, StreamKey, Unit, Worker};
use crate::outputs::sink::Meter;

/// What streams are run with.
#[derive(Clone, Debug)]
pub(super) struct StreamOptions {
    pub(super) sender: SenderOptions,
    /// This output's number in the names of its batches.
    pub(super) instance: u128,
    /// Longest time without progress while something is to be written or acknowledged.
    pub(super) ack_timeout: Option<Duration>,
    /// How long FINISH may take.
    pub(super) finish_timeout: Option<Duration>,
}

/// A stream that is started.
pub(super) struct Pump<'a> {
    board: &'a Board,
    options: &'a StreamOptions,
    meter: &'a Meter,
    sender: Sender<MuxStream>,
    key: StreamKey,
    wake: Arc<Notify>,
    acknowledged: bool,
    /// What is left of the batch that is being written: its mark, then its frames.
    writing: [Bytes; 2],
    /// When something was written or acknowledged last, or began to be owed.
    progress: Instant,
    stopping: bool,
}

enum Step {
    Written,
    Said(SenderAction),
    Woken,
    TimeUp,
}

impl<'a> Pump<'a> {
    /// Does the handshake, and puts the stream on the board.
    ///
    /// # Errors
    /// As [`Sender::start`].
    pub(super) async fn start(
        board: &'a Board,
        options: &'a StreamOptions,
        meter: &'a Meter,
        io: MuxStream,
        worker: Arc<Worker>,
        slot: u32,
    ) -> Result<Self, SendError> {
        let sender = Sender::start(io, options.sender.clone()).await?;
        let acknowledged = sender.content_type() == Some(&ContentType::DNSTAP_ACK);
        let wake = Arc::new(Notify::new());
        Ok(Self {
            key: board.join(worker, slot, wake.clone()),
            board,
            options,
            meter,
            sender,
            wake,
            acknowledged,
            writing: [Bytes::new(), Bytes::new()],
            progress: Instant::now(),
            stopping: false,
        })
    }

    /// Whether the worker acknowledges.
    pub(super) const fn acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Runs until the stream has ended in good order, or fails. Afterwards it is off the board; returns how many frames of
    /// it are sent again.
    pub(super) async fn run(mut self) -> (Result<(), SendError>, u64) {
        let result = self.pump().await;
        (result, self.board.end(self.key))
    }

    async fn pump(&mut self) -> Result<(), SendError> {
        loop {
            if self.is_written() && !self.stopping {
                let owed = self.board.owes(self.key);
                match self.board.next(self.key) {
                    Next::Write(unit) => {
                        if !owed {
                            self.progress = Instant::now();
                        }
                        self.begin(&unit);
                    }
                    Next::Wait => {}
                    Next::Stop => {
                        self.sender.begin_stop().await?;
                        (self.stopping, self.progress) = (true, Instant::now());
                    }
                }
            }
            match self.step().await? {
                Step::Written => {
                    self.progress = Instant::now();
                    if !self.acknowledged {
                        self.board.written(self.key);
                    }
                }
                Step::Woken => {}
                Step::Said(SenderAction::Mark(Mark::Taken(frames))) if self.acknowledged => {
                    if self.board.taken(self.key, frames) {
                        self.progress = Instant::now();
                    }
                }
                Step::Said(SenderAction::Mark(Mark::Leave)) if self.acknowledged => {
                    self.board.leave(self.key);
                }
                Step::Said(SenderAction::Finished) => return Ok(()),
                Step::Said(SenderAction::Ignored(ControlKind::Finish)) => {
                    let text = "the worker said FINISH before our STOP";
                    return Err(SendError::new(Failure::Closed, text));
                }
                Step::Said(_) => {}
                Step::TimeUp => {
                    let text = match self.stopping && !self.board.owes(self.key) {
                        true => "the worker answers STOP with no FINISH".to_owned(),
                        false => {
                            let time = self.options.ack_timeout.unwrap_or_default();
                            format!("the worker took and acknowledged nothing for {time:?}")
                        }
                    };
                    return Err(SendError::new(Failure::WriteTimeout, text));
                }
            }
        }
    }

    fn is_written(&self) -> bool {
        self.writing.iter().all(Bytes::is_empty)
    }

    fn begin(&mut self, unit: &Unit) {
        let mark = if self.acknowledged {
            let id = BatchId {
                instance: self.options.instance,
                sequence: unit.sequence,
            };
            let frames = u32::try_from(unit.batch.frame_count()).unwrap_or(u32::MAX);
            Control::plain(ControlKind::Mark(Mark::Batch { id, frames })).to_bytes()
        } else {
            Bytes::new()
        };
        self.writing = [mark, unit.batch.bytes().clone()];
        self.meter.wrote(unit.batch.len_bytes());
    }

    /// Until when something must happen.
    fn deadline(&self) -> Option<Instant> {
        let owes = !self.is_written() || (self.acknowledged && self.board.owes(self.key));
        let limit = match (owes, self.stopping) {
            (true, _) => self.options.ack_timeout,
            (false, true) => self.options.finish_timeout,
            (false, false) => None,
        };
        self.progress.checked_add(limit?)
    }

    async fn step(&mut self) -> Result<Step, SendError> {
        let deadline = self.deadline();
        let wake = self.wake.clone();
        let idle = self.is_written() && !self.stopping;
        tokio::select! {
            biased;
            step = poll_fn(|cx| self.poll(cx)) => step,
            () = wake.notified(), if idle => Ok(Step::Woken),
            () = until(deadline) => Ok(Step::TimeUp),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, SendError>> {
        if let Poll::Ready(said) = self.sender.poll_peer(cx) {
            return Poll::Ready(said.map(Step::Said));
        }
        if self.is_written() {
            return Poll::Pending;
        }
        for bytes in &mut self.writing {
            if bytes.is_empty() {
                continue;
            }
            // What it has queued is gone from `bytes`, so it may be dropped at any time.
            let mut send = pin!(self.sender.io_mut().send(bytes));
            match send.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) => {
                    return Poll::Ready(Err(std::io::Error::from(e).into()));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(Step::Written))
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
