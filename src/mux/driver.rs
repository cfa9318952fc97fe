//! The tasks of a session: one reads, one writes, one keeps time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::outgoing::{Batch, Segment};
use super::{CloseReason, Config, Core, Event};

/// Buffer of a session that is quiet, in octets.
const QUIET_BUFFER: usize = 4 * 1024;
/// Slices of one vectored write.
const SLICES: usize = 64;
/// Silence after which the large read buffer goes.
const QUIET_AFTER: Duration = Duration::from_secs(1);

type OnClose = Box<dyn FnOnce(&CloseReason) + Send>;

#[derive(Default)]
pub(super) struct Wakers {
    pub(super) read: Option<Waker>,
    pub(super) write: Option<Waker>,
}

pub(super) struct Inner {
    pub(super) core: Core,
    pub(super) wakers: HashMap<u32, Wakers>,
    pub(super) pings: HashMap<u32, oneshot::Sender<()>>,
    pub(super) on_close: Vec<OnClose>,
    /// Why the session is over, once the callbacks were taken.
    pub(super) ended: Option<CloseReason>,
    heard: Instant,
    idle_since: Option<Instant>,
}

pub(super) struct Shared {
    inner: Mutex<Inner>,
    pub(super) config: Config,
    pub(super) incoming: Notify,
    pub(super) can_open: Notify,
    write: Notify,
    quiet: Notify,
    pub(super) over: watch::Sender<Option<CloseReason>>,
    closing: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(core: Core, config: Config) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                core,
                wakers: HashMap::new(),
                pings: HashMap::new(),
                on_close: Vec::new(),
                ended: None,
                heard: Instant::now(),
                idle_since: Some(Instant::now()),
            }),
            config,
            incoming: Notify::new(),
            can_open: Notify::new(),
            write: Notify::new(),
            quiet: Notify::new(),
            over: watch::Sender::new(None),
            closing: watch::Sender::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the session, then wakes whom that concerns, without the lock.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        let mut wake = Vec::new();
        let mut inner = self.lock();
        let result = work(&mut inner);
        let Inner {
            core,
            wakers,
            pings,
            idle_since,
            ..
        } = &mut *inner;
        while let Some(event) = core.poll_event() {
            match event {
                Event::Incoming => self.incoming.notify_one(),
                Event::CanOpen => self.can_open.notify_one(),
                Event::Readable(id) => {
                    wake.extend(wakers.get_mut(&id).and_then(|w| w.read.take()));
                }
                Event::Writable(id) => {
                    wake.extend(wakers.get_mut(&id).and_then(|w| w.write.take()));
                }
                Event::Pong(value) => {
                    if let Some(waits) = pings.remove(&value) {
                        let _ = waits.send(());
                    }
                }
                Event::Idle => *idle_since = Some(Instant::now()),
                Event::Busy => *idle_since = None,
                Event::Closed => {
                    pings.clear();
                    for w in wakers.values_mut() {
                        wake.extend(w.read.take());
                        wake.extend(w.write.take());
                    }
                    self.closing.send_replace(true);
                }
            }
        }
        let write = inner.core.wants_write();
        drop(inner);
        if write {
            self.write.notify_one();
        }
        for waker in wake {
            waker.wake();
        }
        result
    }

    pub(super) fn close(&self, reason: CloseReason) {
        self.with(|inner| inner.core.close(reason));
    }

    /// Resolves when the session is closed here, be it not yet flushed.
    pub(super) async fn closing(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

/// Serves a session until it is over.
pub(super) async fn run<T: AsyncRead + AsyncWrite + Send + 'static>(io: T, shared: Arc<Shared>) {
    let (reader, writer) = tokio::io::split(io);
    let reading = tokio::spawn(read(reader, Arc::clone(&shared)));
    let timing = tokio::spawn(keep_time(Arc::clone(&shared)));
    let writing = tokio::spawn(write(writer, Arc::clone(&shared)));
    shared.closing().await;
    timing.abort();
    let abort = writing.abort_handle();
    if tokio::time::timeout(shared.config.close_timeout, writing)
        .await
        .is_err()
    {
        abort.abort();
    }
    reading.abort();
    let (reason, callbacks) = shared.with(|inner| {
        // In one step with taking the callbacks: one that comes later sees this, and none falls between.
        inner.ended = inner.core.closed().cloned();
        (inner.ended.clone(), std::mem::take(&mut inner.on_close))
    });
    if let Some(reason) = reason {
        for callback in callbacks {
            callback(&reason);
        }
        shared.over.send_replace(Some(reason));
    }
    shared.incoming.notify_waiters();
    shared.can_open.notify_waiters();
}

async fn read<T: AsyncRead>(mut io: ReadHalf<T>, shared: Arc<Shared>) {
    let mut size = QUIET_BUFFER;
    let mut buf = BytesMut::new();
    loop {
        if buf.capacity() - buf.len() < size / 4 {
            buf.reserve(size);
        }
        let got = tokio::select! {
            got = io.read_buf(&mut buf) => got,
            () = shared.quiet.notified() => {
                size = QUIET_BUFFER;
                if buf.is_empty() {
                    buf = BytesMut::new();
                }
                continue;
            }
        };
        match got {
            Ok(0) => {
                shared.with(|inner| inner.core.end_of_input(buf.len()));
                return;
            }
            Ok(n) => {
                if n >= size / 2 {
                    size = (size * 4).min(shared.config.read_buffer.max(QUIET_BUFFER));
                }
                shared.with(|inner| {
                    inner.heard = Instant::now();
                    inner.core.receive(&mut buf);
                });
                // After the close the rest is read and dropped, so that the peer can read what is written to it.
            }
            Err(e) => {
                shared.close(CloseReason::from(&e));
                return;
            }
        }
    }
}

async fn write<T: AsyncWrite>(mut io: WriteHalf<T>, shared: Arc<Shared>) {
    loop {
        let (mut batch, more, closed) = shared.with(|inner| {
            let batch = inner.core.take();
            (
                batch,
                inner.core.wants_write(),
                inner.core.closed().is_some(),
            )
        });
        if batch.is_empty() {
            if closed {
                let _ = io.shutdown().await;
                return;
            }
            if more {
                // Streams were given their turn: let them use it.
                tokio::task::yield_now().await;
            } else {
                shared.write.notified().await;
            }
            continue;
        }
        if let Err(e) = write_batch(&mut io, &mut batch, &shared).await {
            shared.close(CloseReason::from(&e));
            return;
        }
        shared.with(|inner| inner.core.written(&mut batch));
    }
}

async fn write_batch<T: AsyncWrite>(
    io: &mut WriteHalf<T>,
    batch: &mut Batch,
    shared: &Shared,
) -> io::Result<()> {
    let mut joined = BytesMut::new();
    let mut at_boundary = true;
    while !batch.segments.is_empty() {
        if !io.is_write_vectored() && joined.is_empty() {
            // One record of the transport for many frames, as under TLS.
            while let Some(segment) = batch.segments.front()
                && (joined.is_empty() || joined.len() + segment.octets.len() <= 64 * 1024)
            {
                joined.extend_from_slice(&segment.octets);
                at_boundary = segment.ends_frame;
                batch.segments.pop_front();
            }
            io.write_all_buf(&mut joined).await?;
        } else {
            let mut wrote = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let mut used = 0;
                for (slice, segment) in slices.iter_mut().zip(&batch.segments) {
                    *slice = IoSlice::new(&segment.octets);
                    used += 1;
                }
                let slices = slices.get(..used).unwrap_or_default();
                poll_fn(|cx| std::pin::Pin::new(&mut *io).poll_write_vectored(cx, slices)).await?
            };
            if wrote == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            while let Some(front) = batch.segments.front_mut() {
                if front.octets.len() > wrote {
                    front.octets.advance(wrote);
                    at_boundary = at_boundary && wrote == 0;
                    break;
                }
                wrote -= front.octets.len();
                at_boundary = front.ends_frame;
                batch.segments.pop_front();
            }
        }
        if let Some(octets) = shared.with(|inner| inner.core.take_control()) {
            let segment = Segment {
                octets,
                ends_frame: true,
            };
            let ends = batch.segments.iter().position(|s| s.ends_frame);
            let at = if at_boundary {
                0
            } else {
                ends.map_or(batch.segments.len(), |i| i + 1)
            };
            batch.segments.insert(at, segment);
        }
    }
    io.flush().await
}

/// Keepalive, idle timeout, sweeps.
async fn keep_time(shared: Arc<Shared>) {
    const SWEEP: Duration = Duration::from_secs(30);
    let config = &shared.config;
    let mut pinged: Option<Instant> = None;
    let mut quiet = false;
    let mut sweep = Instant::now() + SWEEP;
    loop {
        let now = Instant::now();
        let (heard, idle_since) = shared.with(|inner| {
            let idle = (!inner.core.in_use()).then_some(inner.idle_since).flatten();
            (inner.heard, idle)
        });
        let mut next = sweep;
        if now >= sweep {
            shared.with(|inner| inner.core.sweep());
            sweep = now + SWEEP;
            next = sweep;
        }
        if heard + QUIET_AFTER > now {
            quiet = false;
            next = next.min(heard + QUIET_AFTER);
        } else if !quiet {
            quiet = true;
            shared.quiet.notify_one();
        }
        if let Some(interval) = config.keepalive_interval {
            if pinged.is_some_and(|at| heard >= at) {
                pinged = None;
            }
            match pinged {
                Some(at) if at + config.keepalive_timeout <= now => {
                    return shared.close(CloseReason::KeepaliveTimeout);
                }
                Some(at) => next = next.min(at + config.keepalive_timeout),
                None if heard + interval <= now => {
                    shared.with(|inner| inner.core.ping());
                    pinged = Some(now);
                    next = next.min(now + config.keepalive_timeout);
                }
                None => next = next.min(heard + interval),
            }
        }
        if let Some(timeout) = config.idle_timeout {
            match idle_since {
                Some(since) if since + timeout <= now => {
                    return shared.close(CloseReason::IdleTimeout);
                }
                Some(since) => next = next.min(since + timeout),
                None => next = next.min(now + timeout),
            }
        }
        tokio::time::sleep_until(next).await;
    }
}
