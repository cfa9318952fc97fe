//! The intake: one connection's life, from its first byte to its last frame handed over.
//!
//! It reads runs from the link, sends them through the stages in place, posts them in the ledger and hands what is kept to
//! the fan. While a lane makes it wait it goes on reading within a budget, because a sender that stops waits for our FINISH:
//! libfstrm senders (BIND, Knot) hang in their own shutdown until it comes. When the stream has ended the socket is closed
//! at once, and what still waits is handed over after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::dnstap::DnstapView;
use crate::fstrm::compress::CompressReason;
use crate::fstrm::{Dialect, Frames};
use crate::ids::{DropSlot, ListenerId};
use crate::link::fstrm::{Event, Link, LinkError};
use crate::pipeline::acks::{Account, Mismatch, Seen};
use crate::pipeline::batch::{Batch, Origin};
use crate::pipeline::fan::Fan;
use crate::pipeline::ledger::{Arrival, Ledger};
use crate::pipeline::stage::{Chain, Kept};
use crate::shutdown::{Phase, Signal};
use crate::transport::rate::PeerRate;

/// While we stop: a TCP sender that has been silent this long has nothing more on the way.
const QUIET_BEFORE_CLOSE: Duration = Duration::from_millis(100);
/// While we stop: a TCP sender that never falls silent is cut after this time.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Memory that connections may use to read on while an output makes them wait, shared by all.
#[derive(Debug)]
pub struct ReadAhead {
    used: AtomicUsize,
    max: usize,
    per_connection: usize,
}

impl ReadAhead {
    /// `max` bytes in all, `per_connection` bytes for each. More than a socket's buffers hold (some 200 KiB for a Unix
    /// socket, up to 6 MiB for TCP) lets a STOP that waits behind them be seen.
    pub fn new(max: usize, per_connection: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max,
            per_connection,
        }
    }

    fn allows(&self, held: usize) -> bool {
        held < self.per_connection && self.used.load(Ordering::Relaxed) < self.max
    }

    fn change(&self, from: usize, to: usize) {
        if to >= from {
            self.used.fetch_add(to - from, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(from - to, Ordering::Relaxed);
        }
    }
}

/// The places where a listener itself drops frames.
#[derive(Clone, Debug)]
pub struct ListenerSlots {
    oversized: DropSlot,
    undecompressed: Vec<(CompressReason, DropSlot)>,
}

impl ListenerSlots {
    /// Registers them for the listener `name`.
    pub fn register(ledger: &Ledger, name: &str) -> Self {
        let at = format!("listener:{name}");
        let undecompressed = CompressReason::ALL
            .map(|r| (r, ledger.register_drop(&at, r.as_str())))
            .to_vec();
        Self {
            oversized: ledger.register_drop(&at, "oversized"),
            undecompressed,
        }
    }

    fn of(&self, reason: CompressReason) -> DropSlot {
        self.undecompressed
            .iter()
            .find(|s| s.0 == reason)
            .map_or(self.oversized, |s| s.1)
    }
}

/// How a connection ended.
#[derive(Debug)]
pub struct Closed {
    /// A label value of `tapflow_connections_closed_total`.
    pub reason: &'static str,
    /// The error, where there was one.
    pub error: Option<LinkError>,
    /// Data frames received.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Control frames that were ignored.
    pub ignored: u64,
    /// Frames of it that the listener or a stage dropped.
    pub dropped: u64,
}

/// The reason of a connection that we ended because the process stops.
pub const REASON_SHUTDOWN: &str = "shutdown";

/// The sender of an acknowledged stream sent other frames than it announced.
pub const REASON_MISMATCH: &str = "batch_mismatch";

/// An output lost frames of an acknowledged stream, so it cannot be acknowledged any further.
pub const REASON_NOT_TAKEN: &str = "not_taken";

/// Where duplicates are counted.
#[derive(Clone)]
pub struct Duplicates(pub Counter);

impl std::fmt::Debug for Duplicates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Duplicates")
    }
}

/// What every connection of a listener is given.
#[derive(Debug)]
pub struct Shared {
    /// The ledger.
    pub ledger: Ledger,
    /// The listener's account.
    pub listener: ListenerId,
    /// Where the listener drops.
    pub slots: ListenerSlots,
    /// The read-ahead budget.
    pub read_ahead: Arc<ReadAhead>,
    /// The batches of acknowledged streams that have come.
    pub seen: Seen,
    /// Where frames that came again are counted; in the ledger they are filtered.
    pub duplicates: Duplicates,
}

/// How fast a peer may send: over it the connection is not read from until the peer has made up for it.
pub struct Pace {
    /// What its connections share.
    pub rate: Arc<PeerRate>,
    /// Counts the pauses.
    pub waits: Counter,
}

/// One connection on its way through the pipeline.
pub struct Intake<S, G> {
    link: Option<Link<S>>,
    /// Held as long as the socket is open, and dropped with it.
    guard: Option<G>,
    chain: Chain,
    fan: Fan,
    pace: Option<Pace>,
    shared: Arc<Shared>,
    origin: Arc<Origin>,
    arrival: Arrival,
    /// On an acknowledged stream.
    account: Option<Account>,
    held: usize,
    frames: u64,
    bytes: u64,
    ignored: u64,
    dropped: u64,
}

enum Step {
    Go,
    Ended(&'static str, Option<LinkError>),
}

impl<S: AsyncRead + AsyncWrite + Unpin, G> Intake<S, G> {
    /// A connection whose stages are `chain` and whose outputs are behind `fan`.
    pub fn new(
        link: Link<S>,
        guard: G,
        chain: Chain,
        fan: Fan,
        shared: Arc<Shared>,
        origin: Arc<Origin>,
    ) -> Self {
        Self {
            link: Some(link),
            guard: Some(guard),
            chain,
            fan,
            pace: None,
            shared,
            origin,
            arrival: Arrival::default(),
            account: None,
            held: 0,
            frames: 0,
            bytes: 0,
            ignored: 0,
            dropped: 0,
        }
    }

    /// The same connection, read no faster than its peer may send.
    #[must_use]
    pub fn paced(mut self, pace: Option<Pace>) -> Self {
        self.pace = pace;
        self
    }

    /// Runs until the stream has ended and everything of it has been handed over, or given up and counted. `refuse_more`
    /// is called when the process stops (see `transport::Stream::refuse_more`).
    pub async fn run(mut self, mut signal: Signal, refuse_more: impl Fn(&S) -> bool) -> Closed {
        let (mut reason, error) = self.stream(&mut signal).await;
        if reason == REASON_SHUTDOWN {
            reason = self.drain(&mut signal, refuse_more).await;
        }
        if reason == "clean" && self.account.is_some() {
            reason = self.settle(&mut signal).await;
        }
        if let Some(mut link) = self.link.take() {
            // The peer may be gone; there is nobody to tell.
            let _ = link.shutdown().await;
        }
        self.guard = None;
        self.hand_over(&mut signal).await;
        Closed {
            reason,
            error,
            frames: self.frames,
            bytes: self.bytes,
            ignored: self.ignored,
            dropped: self.dropped,
        }
    }

    /// Reads until the stream ends or the process stops.
    async fn stream(&mut self, signal: &mut Signal) -> (&'static str, Option<LinkError>) {
        loop {
            let waiting = self.fan.backlog_bytes() > 0;
            self.note_backlog();
            let may_read = !waiting || self.shared.read_ahead.allows(self.held);
            if let Err(error) = self.acknowledge().await {
                return (error.reason(), Some(error));
            }
            if self.account.as_ref().is_some_and(Account::is_lost) {
                return (REASON_NOT_TAKEN, None);
            }
            let pause = self
                .pace
                .as_ref()
                .and_then(|p| p.rate.pause(Instant::now()));
            if let (Some(pace), Some(_)) = (&self.pace, pause) {
                pace.waits.increment(1);
            }
            let may_read = may_read && pause.is_none();
            let Some(link) = &mut self.link else {
                return (REASON_SHUTDOWN, None);
            };
            let event = tokio::select! {
                biased;
                () = signal.reached(Phase::Draining) => return (REASON_SHUTDOWN, None),
                () = self.fan.room(), if waiting => None,
                () = changed(self.account.as_ref()) => None,
                () = rest(pause), if pause.is_some() => None,
                event = link.next(), if may_read => Some(event),
            };
            if waiting {
                self.fan.retry();
            }
            if let Some(event) = event
                && let Step::Ended(reason, error) = self.on_event(event).await
            {
                return (reason, error);
            }
        }
    }

    /// The process stops: takes what the sender has already written, then tells it and closes.
    async fn drain(
        &mut self,
        signal: &mut Signal,
        refuse_more: impl Fn(&S) -> bool,
    ) -> &'static str {
        let Some(link) = &mut self.link else {
            return REASON_SHUTDOWN;
        };
        // On an acknowledged stream the sender is asked to stop, and does: nothing is guessed from silence.
        let asked = link.acknowledged();
        link.leave();
        // A peer that does not hear it is found out by the next read.
        let _ = link.flush().await;
        let told = asked || refuse_more(link.io());
        let deadline = tokio::time::Instant::now() + DRAIN_MAX;
        let reason = loop {
            self.fan.retry();
            self.note_backlog();
            let waiting = self.fan.backlog_bytes() > 0;
            let may_read = !waiting || self.shared.read_ahead.allows(self.held);
            let lost = self.account.as_ref().is_some_and(Account::is_lost);
            if lost || self.acknowledge().await.is_err() {
                break REASON_SHUTDOWN;
            }
            let Some(link) = &mut self.link else {
                break REASON_SHUTDOWN;
            };
            let event = tokio::select! {
                biased;
                () = signal.reached(Phase::Aborting) => break REASON_SHUTDOWN,
                event = link.next(), if may_read => event,
                () = changed(self.account.as_ref()) => continue,
                () = self.fan.room(), if waiting => continue,
                () = tokio::time::sleep(QUIET_BEFORE_CLOSE), if !told && !waiting => break REASON_SHUTDOWN,
                () = tokio::time::sleep_until(deadline), if !told => break REASON_SHUTDOWN,
            };
            match self.on_event(event).await {
                Step::Go => {}
                // A stream that ended by itself while we stopped ended well; an end that we caused is ours.
                Step::Ended("clean", _) => break "clean",
                Step::Ended(..) => break REASON_SHUTDOWN,
            }
        };
        if let Some(link) = &mut self.link
            && !asked
        {
            let _ = tokio::time::timeout(QUIET_BEFORE_CLOSE, link.finish_early()).await;
        }
        reason
    }

    /// Tells the sender what has been taken since it was told last.
    async fn acknowledge(&mut self) -> Result<(), LinkError> {
        let (Some(account), Some(link)) = (&mut self.account, &mut self.link) else {
            return Ok(());
        };
        if let Some(taken) = account.news() {
            link.taken(taken);
            link.flush().await?;
        }
        Ok(())
    }

    /// STOP came on an acknowledged stream: waits until everything of it is taken, tells the sender, and says FINISH.
    async fn settle(&mut self, signal: &mut Signal) -> &'static str {
        loop {
            let clear = self.fan.retry();
            self.note_backlog();
            if let Err(error) = self.acknowledge().await {
                return error.reason();
            }
            let Some(account) = &self.account else {
                return REASON_SHUTDOWN;
            };
            if account.is_lost() {
                return REASON_NOT_TAKEN;
            }
            if clear && account.is_settled() {
                break;
            }
            tokio::select! {
                biased;
                () = signal.reached(Phase::Aborting) => return REASON_SHUTDOWN,
                () = account.changed() => {}
                () = self.fan.room(), if !clear => {}
            }
        }
        if let Err(error) = self.acknowledge().await {
            return error.reason();
        }
        if let Some(link) = &mut self.link {
            link.finish();
            // The peer may be gone; it has been told what counts.
            let _ = link.flush().await;
        }
        "clean"
    }

    /// Hands over what waits, until it is gone or the process gives up.
    async fn hand_over(&mut self, signal: &mut Signal) {
        while !self.fan.retry() {
            self.note_backlog();
            tokio::select! {
                biased;
                () = signal.reached(Phase::Aborting) => {
                    self.fan.give_up();
                }
                () = self.fan.room() => {}
            }
        }
        self.note_backlog();
    }

    fn note_backlog(&mut self) {
        let now = self.fan.backlog_bytes();
        if now != self.held {
            self.shared.read_ahead.change(self.held, now);
            self.held = now;
        }
    }

    async fn on_event(&mut self, event: Result<Event, LinkError>) -> Step {
        match event {
            Ok(Event::Run { frames, wire_bytes }) => {
                if self.on_run(frames, wire_bytes).is_err() {
                    return Step::Ended(REASON_MISMATCH, None);
                }
                // A sender that never pauses must not keep the others from their turn.
                tokio::task::yield_now().await;
            }
            Ok(Event::Batch { id, frames }) => {
                if let Some(account) = &mut self.account
                    && account.begin(id, frames).is_err()
                {
                    return Step::Ended(REASON_MISMATCH, None);
                }
            }
            Ok(Event::Skipped { len }) => {
                // Sending it again would not make it smaller, so it counts as taken, here or as a duplicate.
                if let Some(account) = &mut self.account
                    && account.come(1).is_err()
                {
                    return Step::Ended(REASON_MISMATCH, None);
                }
                self.on_lost(self.shared.slots.oversized, u64::from(len) + 4)
            }
            Ok(Event::Undecompressed { error, wire_bytes }) => {
                tracing::debug!(%error, "a compressed frame is lost");
                self.on_lost(self.shared.slots.of(error.reason), wire_bytes as u64);
            }
            Ok(Event::Ignored) => self.ignored += 1,
            Ok(Event::Started { dialect }) => self.on_started(dialect),
            Ok(Event::Stopped) => return Step::Ended("clean", None),
            Ok(Event::Eof(end)) => return Step::Ended(end.as_str(), None),
            Err(error) => return Step::Ended(error.reason(), Some(error)),
        }
        Step::Go
    }

    fn on_started(&mut self, dialect: Dialect) {
        let acknowledged = self.link.as_ref().is_some_and(Link::acknowledged);
        if acknowledged {
            let number = self.origin.conn.number();
            self.account = Some(Account::new(self.shared.seen.clone(), number));
        }
        tracing::debug!(dialect = dialect.as_str(), acknowledged, "stream started");
    }

    fn on_run(&mut self, frames: usize, wire_bytes: usize) -> Result<(), Mismatch> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let (mut receipt, mut duplicates, mut skip) = (None, 0, 0);
        if let Some(account) = &mut self.account {
            let coming = account.come(frames)?;
            receipt = Some(coming.receipt);
            duplicates = coming.duplicates as usize;
            skip = Frames::new(link.run())
                .take(duplicates)
                .map(|payload| 4 + payload.len())
                .sum();
            self.shared.duplicates.0.increment(duplicates as u64);
        }
        if self.frames == 0 {
            note_identity(link.run());
        }
        let received = SystemTime::now();
        let arrival = &mut self.arrival;
        arrival.dropped.clear();
        let had = duplicates as u64;
        (arrival.received, arrival.filtered, arrival.kept) = (had, had, 0);
        arrival.bytes = wire_bytes as u64;
        let fresh = link.run().get(skip..).unwrap_or_default();
        let kept = self
            .chain
            .process(fresh, frames - duplicates, &self.origin, received, arrival);
        self.shared.ledger.arrive(self.shared.listener, arrival);
        self.frames += arrival.received;
        self.dropped += arrival.dropped.iter().map(|d| d.1).sum::<u64>();
        self.bytes += arrival.bytes;
        if let Some(pace) = &self.pace {
            pace.rate
                .spend(arrival.received, arrival.bytes, Instant::now());
        }
        let count = arrival.kept as usize;
        if !self.fan.keeps_bytes() {
            self.fan.deliver_inline(arrival.kept);
            return Ok(());
        }
        let bytes = match kept {
            Kept::None => return Ok(()),
            _ if count == 0 => return Ok(()),
            Kept::All => link.take_run().slice(skip..),
            Kept::Some(bytes) => bytes,
        };
        let batch = Batch::new(self.origin.clone(), received, bytes, count);
        self.fan.push(&batch.with_receipt(receipt));
        Ok(())
    }

    fn on_lost(&mut self, slot: DropSlot, bytes: u64) {
        let arrival = Arrival {
            received: 1,
            bytes,
            filtered: 0,
            dropped: vec![(slot, 1)],
            kept: 0,
        };
        self.shared.ledger.arrive(self.shared.listener, &arrival);
        self.frames += 1;
        self.dropped += 1;
        self.bytes += bytes;
    }
}

impl<S, G> Drop for Intake<S, G> {
    fn drop(&mut self) {
        self.shared.read_ahead.change(self.held, 0);
    }
}

/// Waits for a change of the account; for ever where there is none.
async fn changed(account: Option<&Account>) {
    match account {
        Some(account) => account.changed().await,
        None => std::future::pending().await,
    }
}

/// A pause. Nothing is made of it until it is awaited, which most turns of the loop do not.
async fn rest(pause: Option<Duration>) {
    tokio::time::sleep(pause.unwrap_or_default()).await;
}

/// Puts the first frame's identity on the connection's span.
fn note_identity(run: &[u8]) {
    let Some(payload) = Frames::new(run).next() else {
        return;
    };
    if let Ok(DnstapView {
        identity: Some(identity),
        ..
    }) = DnstapView::parse(payload)
    {
        // An identity is whatever the sender says; a log line gets the printable start of it.
        let shown: String = String::from_utf8_lossy(identity.get(..64).unwrap_or(identity))
            .escape_default()
            .collect();
        tracing::Span::current().record("identity", shown);
    }
}
