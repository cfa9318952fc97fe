//! What the tasks of a session and its users share: one lock, and those who wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::buffer::Pinned;
use super::{CloseReason, Config, Core, Event, OpenError, Received, StreamError};

type OnClose = Box<dyn FnOnce(&CloseReason) + Send>;

/// Who waits for one stream.
#[derive(Default)]
pub(super) struct Wakers {
    read: Option<Waker>,
    write: Option<Waker>,
}

/// What the lock guards.
pub(super) struct Inner {
    pub(super) core: Core,
    pub(super) wakers: HashMap<u32, Wakers>,
    pub(super) pings: HashMap<u32, oneshot::Sender<()>>,
    pub(super) on_close: Vec<OnClose>,
    /// Why the session is over, once the callbacks were taken.
    pub(super) ended: Option<CloseReason>,
    /// When the connection last gave something.
    pub(super) heard: Instant,
    pub(super) idle_since: Option<Instant>,
}

/// A lock that is held for one piece of work, never across a wait or a wake. Tests put another in its place.
pub(super) trait Lock<T> {
    fn new(value: T) -> Self;
    fn locked<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Lock<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn locked<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One session.
pub(super) struct Shared<L = Mutex<Inner>> {
    inner: L,
    pub(super) config: Config,
    pub(super) pinned: Pinned,
    pub(super) incoming: Notify,
    pub(super) can_open: Notify,
    /// There is something to write.
    pub(super) write: Notify,
    /// The connection has been silent for a while.
    pub(super) quiet: Notify,
    pub(super) over: watch::Sender<Option<CloseReason>>,
    /// The core is closed.
    closing: Notify,
}

impl<L: Lock<Inner>> Shared<L> {
    pub(super) fn new(core: Core, config: Config) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            pinned: core.pinned().clone(),
            inner: L::new(Inner {
                core,
                wakers: HashMap::new(),
                pings: HashMap::new(),
                on_close: Vec::new(),
                ended: None,
                heard: now,
                idle_since: Some(now),
            }),
            config,
            incoming: Notify::new(),
            can_open: Notify::new(),
            write: Notify::new(),
            quiet: Notify::new(),
            over: watch::Sender::new(None),
            closing: Notify::new(),
        })
    }

    /// Works on the session, then wakes whom that concerns, without the lock.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        let mut wake = Vec::new();
        let (result, write) = self.inner.locked(|inner| {
            let result = work(inner);
            self.notice(inner, &mut wake);
            (result, inner.core.wants_write())
        });
        if write {
            self.write.notify_one();
        }
        for waker in wake {
            waker.wake();
        }
        result
    }

    fn notice(&self, inner: &mut Inner, wake: &mut Vec<Waker>) {
        let Inner {
            core,
            wakers,
            pings,
            idle_since,
            ..
        } = inner;
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
                    self.closing.notify_waiters();
                    self.incoming.notify_waiters();
                    self.can_open.notify_waiters();
                }
            }
        }
    }

    pub(super) fn close(&self, reason: CloseReason) {
        self.with(|inner| inner.core.close(reason));
    }

    /// Resolves when the session is closed here, be it not yet flushed.
    pub(super) async fn closing(&self) {
        let mut waits = std::pin::pin!(self.closing.notified());
        waits.as_mut().enable();
        if self.with(|inner| inner.core.closed().is_none()) {
            waits.await;
        }
    }

    /// The next octets of a stream.
    pub(super) fn poll_recv(
        &self,
        id: u32,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamError>> {
        let mut waker = Some(cx.waker().clone());
        self.with(|inner| match inner.core.recv(id, usize::MAX)? {
            Received::Octets(octets) => Poll::Ready(Ok(Some(octets))),
            Received::End => Poll::Ready(Ok(None)),
            Received::Nothing => {
                let wakers = inner.wakers.entry(id).or_default();
                std::mem::swap(&mut wakers.read, &mut waker);
                Poll::Pending
            }
        })
    }

    /// Writes with `send`; pending where that writes nothing.
    pub(super) fn poll_send(
        &self,
        id: u32,
        cx: &Context<'_>,
        send: impl FnOnce(&mut Core, u32) -> Result<usize, StreamError>,
    ) -> Poll<Result<usize, StreamError>> {
        let mut waker = Some(cx.waker().clone());
        self.with(|inner| match send(&mut inner.core, id) {
            Ok(0) => {
                let wakers = inner.wakers.entry(id).or_default();
                std::mem::swap(&mut wakers.write, &mut waker);
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        })
    }

    /// Opens a stream, as soon as that may be.
    pub(super) async fn open(&self) -> Result<u32, OpenError> {
        loop {
            let mut waits = std::pin::pin!(self.can_open.notified());
            waits.as_mut().enable();
            match self.with(|inner| inner.core.open(false)) {
                Err(OpenError::ReceiveCap) => tokio::select! {
                    biased;
                    () = waits => {}
                    () = self.pinned.freed() => {}
                },
                Err(e) if e.is_momentary() => waits.await,
                result => {
                    // One notice may stand for several places, and for the end of the session.
                    self.can_open.notify_one();
                    return result;
                }
            }
        }
    }

    /// The next stream of the peer.
    pub(super) async fn accept(&self) -> Option<u32> {
        loop {
            let mut waits = std::pin::pin!(self.incoming.notified());
            waits.as_mut().enable();
            let (id, more, closed) = self.with(|inner| {
                let id = inner.core.accept();
                let more = inner.core.waiting() > 0;
                (id, more, inner.core.closed().is_some())
            });
            if more {
                self.incoming.notify_one();
            }
            match id {
                Some(id) => return Some(id),
                None if closed => return None,
                None => {}
            }
            waits.await;
        }
    }

    /// A stream is let go.
    pub(super) fn release(&self, id: u32) {
        // The last waker of a task may drop the task, and with it other streams: not under the lock.
        let wakers = self.with(|inner| {
            inner.core.release(id);
            inner.wakers.remove(&id)
        });
        drop(wakers);
    }
}
