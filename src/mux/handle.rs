//! What users hold: sessions, streams and reservations.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::driver::{Inner, Shared, run};
use super::{CloseReason, Config, Core, OpenError, Received, Role, Status, StreamError};

/// A session. Clones are the same session; it closes when the last clone and the last stream are gone.
#[derive(Clone)]
pub struct Session(Arc<Owner>);

struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close(CloseReason::Local(0));
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.status()).finish()
    }
}

impl Session {
    /// The end that opened the connection. Needs a tokio runtime.
    pub fn client<T>(io: T, config: Config) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::new(Role::Client, io, config)
    }

    /// The end that accepted the connection. Needs a tokio runtime.
    pub fn server<T>(io: T, config: Config) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::new(Role::Server, io, config)
    }

    fn new<T>(role: Role, io: T, config: Config) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let shared = Shared::new(Core::new(role, config.clone()), config);
        tokio::spawn(run(io, Arc::clone(&shared)));
        Self(Arc::new(Owner(shared)))
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }

    fn stream(&self, id: u32, local: bool) -> MuxStream {
        MuxStream {
            session: self.clone(),
            id,
            local,
            reading: Bytes::new(),
            timer: None,
        }
    }

    /// Opens a stream now.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn try_open(&self) -> Result<MuxStream, OpenError> {
        let id = self.shared().with(|inner| inner.core.open(false))?;
        Ok(self.stream(id, true))
    }

    /// Opens a stream as soon as quota, receive cap and the peer's backlog allow it. Safe to cancel.
    ///
    /// # Errors
    ///
    /// [`OpenError`], where waiting is of no use.
    pub async fn open(&self) -> Result<MuxStream, OpenError> {
        loop {
            let mut waits = std::pin::pin!(self.shared().can_open.notified());
            waits.as_mut().enable();
            match self.try_open() {
                Err(e) if e.is_momentary() => waits.await,
                result => {
                    // One notice may stand for several places, and for the end of the session.
                    self.shared().can_open.notify_one();
                    return result;
                }
            }
        }
    }

    /// The next stream of the peer; `None` when the session is over. Safe to cancel.
    pub async fn accept(&self) -> Option<MuxStream> {
        loop {
            let mut waits = std::pin::pin!(self.shared().incoming.notified());
            waits.as_mut().enable();
            let (id, more, closed) = self.shared().with(|inner| {
                let id = inner.core.accept();
                let more = inner.core.waiting() > 0;
                (id, more, inner.core.closed().is_some())
            });
            if more {
                self.shared().incoming.notify_one();
            }
            match id {
                Some(id) => return Some(self.stream(id, false)),
                None if closed => return None,
                None => {}
            }
            tokio::select! {
                () = waits => {}
                () = self.shared().closing() => {}
            }
        }
    }

    /// The round trip.
    ///
    /// # Errors
    ///
    /// Why the session is over.
    pub async fn ping(&self) -> Result<Duration, CloseReason> {
        let (answer, answered) = oneshot::channel();
        let began = Instant::now();
        self.shared().with(|inner| match inner.core.closed() {
            Some(reason) => Err(reason.clone()),
            None => {
                let value = inner.core.ping();
                inner.pings.insert(value, answer);
                Ok(())
            }
        })?;
        match answered.await {
            Ok(()) => Ok(began.elapsed()),
            Err(_) => Err(self.close_reason().unwrap_or(CloseReason::Local(0))),
        }
    }

    /// Holds back `n` streams of the quota for the holder; the session is not idle meanwhile.
    ///
    /// # Errors
    ///
    /// [`OpenError::Quota`].
    pub fn reserve(&self, n: usize) -> Result<Reservation, OpenError> {
        if self.shared().with(|inner| inner.core.reserve(n)) {
            Ok(Reservation {
                session: self.clone(),
                left: n,
            })
        } else {
            Err(OpenError::Quota)
        }
    }

    /// Counts at this moment.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared().with(|inner| inner.core.status())
    }

    /// Tells the peer that no more streams are opened or taken; open ones go on.
    pub fn go_away(&self) {
        self.shared().with(|inner| inner.core.go_away());
    }

    /// Closes the session: what is queued is written within the close timeout. Never waits; further calls do nothing.
    pub fn close(&self) {
        self.close_with(0);
    }

    /// Closes the session with a go-away code for the peer.
    pub fn close_with(&self, code: u32) {
        self.shared().close(CloseReason::Local(code));
    }

    /// Why the session is closed, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared().with(|inner| inner.core.closed().cloned())
    }

    /// Waits until the session is over and its connection is let go.
    pub async fn closed(&self) -> CloseReason {
        let mut over = self.shared().over.subscribe();
        match over.wait_for(Option::is_some).await.map(|r| r.clone()) {
            Ok(Some(reason)) => reason,
            _ => CloseReason::Local(0),
        }
    }

    /// Calls `callback` when the session is over, without any lock held; at once if it is.
    pub fn on_close(&self, callback: impl FnOnce(&CloseReason) + Send + 'static) {
        let mut callback = Some(callback);
        let ended = self.shared().with(|inner| {
            if inner.ended.is_none()
                && let Some(callback) = callback.take()
            {
                inner.on_close.push(Box::new(callback));
            }
            inner.ended.clone()
        });
        if let (Some(reason), Some(callback)) = (ended, callback) {
            callback(&reason);
        }
    }
}

/// Streams held back from the quota; what is left is given back on drop.
#[derive(Debug)]
pub struct Reservation {
    session: Session,
    left: usize,
}

impl Reservation {
    /// Opens one of the streams.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; [`OpenError::Quota`] when none is left.
    pub fn open(&mut self) -> Result<MuxStream, OpenError> {
        let left = self.left.checked_sub(1).ok_or(OpenError::Quota)?;
        let id = self.session.shared().with(|inner| inner.core.open(true))?;
        self.left = left;
        Ok(self.session.stream(id, true))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.session
            .shared()
            .with(|inner| inner.core.unreserve(self.left));
    }
}

/// A stream. Dropping it ends it after what was written; [`reset`](Self::reset) ends it at once.
pub struct MuxStream {
    session: Session,
    id: u32,
    local: bool,
    reading: Bytes,
    timer: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for MuxStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MuxStream").field("id", &self.id).finish()
    }
}

impl MuxStream {
    /// Its identifier on the wire.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Whether the peer opened it.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        !self.local
    }

    /// Its session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Sets how much the peer may send before it is read, in octets.
    pub fn set_receive_window(&self, window: u32) {
        self.with(|inner, id| inner.core.set_receive_window(id, window));
    }

    /// Ends it in both directions at once.
    pub fn reset(self, code: u32) {
        self.with(|inner, id| inner.core.reset(id, code));
    }

    /// Ends this direction, after what was written.
    pub fn finish(&self) {
        self.with(|inner, id| inner.core.finish(id));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner, u32) -> T) -> T {
        self.session.shared().with(|inner| work(inner, self.id))
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        if !self.reading.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.reading))));
        }
        self.with(|inner, id| match inner.core.recv(id, usize::MAX)? {
            Received::Octets(octets) => Poll::Ready(Ok(Some(octets))),
            Received::End => Poll::Ready(Ok(None)),
            Received::Nothing => {
                inner.wakers.entry(id).or_default().read = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    }

    /// The next octets without copying; `None` at the peer's end. Safe to cancel.
    ///
    /// # Errors
    ///
    /// [`StreamError`], after all that came before it.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, StreamError> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        send: impl FnOnce(&mut Core, u32) -> Result<usize, StreamError>,
    ) -> Poll<Result<usize, StreamError>> {
        let sent = self.with(|inner, id| {
            let sent = send(&mut inner.core, id);
            if sent == Ok(0) {
                inner.wakers.entry(id).or_default().write = Some(cx.waker().clone());
            }
            sent
        });
        if sent != Ok(0) {
            self.timer = None;
            return Poll::Ready(sent);
        }
        if let Some(timeout) = self.session.shared().config.write_timeout {
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
            return Poll::Ready(Err(StreamError::WriteTimeout));
        }
        Poll::Pending
    }

    /// Queues `data` without copying. Safe to cancel: what has been queued is gone from `data`, also after an error.
    ///
    /// # Errors
    ///
    /// [`StreamError`].
    pub async fn send(&mut self, data: &mut Bytes) -> Result<(), StreamError> {
        self.timer = None;
        while !data.is_empty() {
            poll_fn(|cx| self.poll_send(cx, |core, id| core.send(id, data))).await?;
        }
        Ok(())
    }

    /// Writes all that comes to `to` and gives its length in octets.
    ///
    /// # Errors
    ///
    /// Those of the stream and those of the writer.
    pub async fn copy_to<W: AsyncWrite + Unpin>(&mut self, to: &mut W) -> io::Result<u64> {
        let mut copied = 0;
        while let Some(octets) = self.recv().await? {
            to.write_all(&octets).await?;
            copied += octets.len() as u64;
        }
        to.flush().await?;
        Ok(copied)
    }
}

impl Drop for MuxStream {
    fn drop(&mut self) {
        self.with(|inner, id| {
            inner.core.release(id);
            inner.wakers.remove(&id);
        });
    }
}

impl AsyncRead for MuxStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() > 0
            && let Some(mut octets) = ready!(this.poll_recv(cx))?
        {
            let n = octets.len().min(buf.remaining());
            if let Some(part) = octets.get(..n) {
                buf.put_slice(part);
            }
            octets.advance(n);
            this.reading = octets;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MuxStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let sent = ready!(
            self.get_mut()
                .poll_send(cx, |core, id| core.send_slice(id, data))
        );
        Poll::Ready(sent.map_err(io::Error::from))
    }

    /// Nothing waits for this: the writer task writes what is queued at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The half-close.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}
