//! The connections of a replay: all are made first, then all send at once, each to its STOP.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::cargo::{Piece, Supply};
use crate::fstrm::{ContentType, Dialect};
use crate::link::outbox::{Chunk, Outbox, SLICES_MAX};
use crate::link::sender::{Farewell, SendError, Sender, SenderOptions};
use crate::shutdown::{Phase, Signal};
use crate::transport::dial_with;
use crate::transport::tls::client::ClientTls;
use crate::units::Endpoint;

/// Bytes offered to the operating system in one call.
const WRITE_BYTES: usize = 4 * 1024 * 1024;
/// Connections being made at a time: less than any listener's queue of those it has not accepted yet.
const CONNECTING_MAX: usize = 64;
/// Wait before a Unix socket whose listener's queue is full is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// How to send.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) to: Endpoint,
    /// Whom to trust and what to show where `to` asks for TLS.
    pub(super) tls: Arc<ClientTls>,
    pub(super) connections: usize,
    pub(super) dialect: Dialect,
    pub(super) compressed: bool,
    /// Limit for connecting, for the handshake, for a write without progress, and for FINISH.
    pub(super) timeout: Duration,
    /// Frames a second on each connection.
    pub(super) rate: Option<f64>,
}

/// What was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// Frames written whole.
    pub(super) frames: u64,
    /// Bytes of data frames written.
    pub(super) bytes: u64,
    /// From the first byte to the last, FINISH included where it came.
    pub(super) seconds: f64,
    /// Streams whose FINISH came.
    pub(super) finished: u64,
    /// Streams that ended well without FINISH, where none is due.
    pub(super) unasked: u64,
    /// Connections that failed or whose end is unclear, by cause.
    pub(super) failed: BTreeMap<String, u64>,
}

/// One connection's part.
struct Part {
    frames: u64,
    bytes: u64,
    ended: Instant,
    farewell: Result<bool, String>,
}

/// Connects all, handshake included.
///
/// # Errors
/// When one of them cannot be made: then nothing is sent.
pub(super) async fn connect(plan: &Plan) -> anyhow::Result<Vec<Sender>> {
    let slots = Arc::new(Semaphore::new(CONNECTING_MAX));
    let mut tasks = JoinSet::new();
    for _ in 0..plan.connections {
        let (plan, slots) = (plan.clone(), slots.clone());
        tasks.spawn(async move {
            let _slot = slots.acquire().await?;
            connect_one(&plan).await
        });
    }
    let mut senders = Vec::with_capacity(plan.connections);
    while let Some(sender) = tasks.join_next().await {
        let sender = sender.context("a connecting task failed")?;
        let made = senders.len();
        senders.push(sender.with_context(|| match (plan.connections, made) {
            (1, _) => format!("{}: cannot connect", plan.to),
            (n, made) => format!("{}: cannot connect ({made} of {n} were made)", plan.to),
        })?);
    }
    Ok(senders)
}

async fn connect_one(plan: &Plan) -> anyhow::Result<Sender> {
    let give_up = Instant::now() + plan.timeout;
    let stream = loop {
        match dial_with(&plan.to, Some(&plan.tls), plan.timeout).await {
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < give_up => {
                sleep(RETRY).await;
            }
            other => break other?,
        }
    };
    let options = SenderOptions {
        dialect: plan.dialect,
        content_types: vec![ContentType::DNSTAP],
        compressed: plan.compressed,
        handshake_timeout: Some(plan.timeout),
        write_timeout: Some(plan.timeout),
        finish_timeout: Some(plan.timeout),
    };
    Ok(Sender::start(stream, options).await?)
}

/// Sends everything; `bytes` shows how much at any moment. Draining ends each stream after what was begun, aborting at once.
pub(super) async fn send(
    senders: Vec<Sender>,
    supplies: Vec<Supply>,
    plan: &Plan,
    signal: &Signal,
    bytes: &Arc<AtomicU64>,
) -> Sent {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (i, (sender, supply)) in senders.into_iter().zip(supplies).enumerate() {
        let pace = plan.rate.map(|rate| Pace {
            start,
            rate,
            // Connections take turns: all of them together are even, too.
            ahead: i as f64 / plan.connections as f64,
            frames: 0,
        });
        let (signal, bytes) = (signal.clone(), bytes.clone());
        tasks.spawn(async move { one(sender, supply, pace, signal, &bytes).await });
    }
    let mut sent = Sent::default();
    let mut ended = start;
    while let Some(part) = tasks.join_next().await {
        match part {
            Ok(part) => {
                sent.frames += part.frames;
                sent.bytes += part.bytes;
                ended = ended.max(part.ended);
                match part.farewell {
                    Ok(true) => sent.finished += 1,
                    Ok(false) => sent.unasked += 1,
                    Err(why) => *sent.failed.entry(why).or_default() += 1,
                }
            }
            Err(e) => *sent.failed.entry(e.to_string()).or_default() += 1,
        }
    }
    sent.seconds = (ended - start).as_secs_f64();
    sent
}

/// When the next frames are due.
struct Pace {
    start: Instant,
    rate: f64,
    /// Part of a piece's time by which this connection is behind the first.
    ahead: f64,
    frames: u64,
}

impl Pace {
    /// The time at which `piece` is due. Times are counted from the start, so that neither the length of waits nor a stall
    /// of the peer adds up: what is late is made up for.
    fn due(&mut self, piece: &Piece) -> Instant {
        let at = (self.frames as f64 + self.ahead * piece.frames as f64) / self.rate;
        self.frames += piece.frames;
        self.start + Duration::from_secs_f64(at)
    }
}

async fn one(
    mut sender: Sender,
    mut supply: Supply,
    pace: Option<Pace>,
    mut signal: Signal,
    total: &AtomicU64,
) -> Part {
    let mut outbox = Outbox::new();
    let mut bytes = 0;
    let mut abort = signal.clone();
    let pumped = tokio::select! {
        pumped = pump(&mut sender, &mut supply, pace, &mut outbox, &mut signal, |n| {
            bytes += n as u64;
            total.fetch_add(n as u64, Ordering::Relaxed);
        }) => pumped.map_err(|e| e.to_string()),
        () = abort.reached(Phase::Aborting) => Err("given up on the signal".to_owned()),
    };
    let frames = outbox.take_delivered();
    let mut ended = Instant::now();
    // The reading thread need not read on for this connection.
    drop(supply);
    let farewell = match pumped {
        Err(why) => Err(why),
        Ok(()) => tokio::select! {
            farewell = sender.stop() => match farewell {
                Farewell::Finished => {
                    ended = Instant::now();
                    Ok(true)
                }
                Farewell::Unasked | Farewell::Closed => Ok(false),
                Farewell::Unclear(e) => Err(e.to_string()),
            },
            () = abort.reached(Phase::Aborting) => Err("not waited for FINISH, on the signal".to_owned()),
        },
    };
    Part {
        frames,
        bytes,
        ended,
        farewell,
    }
}

/// Writes until there is no more, or draining is asked for.
async fn pump(
    sender: &mut Sender,
    supply: &mut Supply,
    mut pace: Option<Pace>,
    outbox: &mut Outbox,
    signal: &mut Signal,
    mut wrote: impl FnMut(usize),
) -> Result<(), SendError> {
    loop {
        let draining = signal.phase() >= Phase::Draining;
        if outbox.is_empty() {
            let piece = tokio::select! {
                biased;
                () = signal.reached(Phase::Draining) => None,
                piece = next(supply, pace.as_mut()) => piece,
                error = sender.closed() => return Err(error),
            };
            let Some(piece) = piece else { return Ok(()) };
            outbox.push(chunk(piece));
        }
        while pace.is_none()
            && !draining
            && outbox.len_bytes() < WRITE_BYTES
            && outbox.chunk_count() < SLICES_MAX
        {
            let Some(piece) = supply.ready() else { break };
            outbox.push(chunk(piece));
        }
        wrote(sender.write(outbox).await?);
    }
}

/// The next piece, when it is due.
async fn next(supply: &mut Supply, pace: Option<&mut Pace>) -> Option<Piece> {
    let piece = supply.next().await?;
    if let Some(pace) = pace {
        let due = pace.due(&piece);
        if due > Instant::now() {
            sleep_until(due).await;
        }
    }
    Some(piece)
}

fn chunk(piece: Piece) -> Chunk {
    Chunk::new(piece.bytes, piece.frames, piece.layout)
}
