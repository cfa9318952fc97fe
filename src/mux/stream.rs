//! Streams, as users hold them.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::session::Session;
use super::shared::Inner;
use super::stall::Stall;
use super::{Core, StreamError};

/// A stream. Dropping it ends it after what was written; [`reset`](Self::reset) ends it at once.
pub struct MuxStream {
    session: Session,
    id: u32,
    local: bool,
    reading: Bytes,
    stall: Stall,
}

impl fmt::Debug for MuxStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MuxStream").field("id", &self.id).finish()
    }
}

impl MuxStream {
    pub(super) fn new(session: Session, id: u32, local: bool) -> Self {
        Self {
            session,
            id,
            local,
            reading: Bytes::new(),
            stall: Stall::default(),
        }
    }

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

    fn poll_recv(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        if !self.reading.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.reading))));
        }
        self.session.shared().poll_recv(self.id, cx)
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
        let shared = self.session.shared();
        let sent = shared.poll_send(self.id, cx, send);
        if sent.is_ready() {
            self.stall.clear();
        } else if let Some(timeout) = shared.config.write_timeout {
            ready!(self.stall.poll(cx, timeout));
            return Poll::Ready(Err(StreamError::WriteTimeout));
        }
        sent
    }

    /// Queues `data` without copying. Safe to cancel: what has been queued is gone from `data`, also after an error.
    ///
    /// # Errors
    ///
    /// [`StreamError`].
    pub async fn send(&mut self, data: &mut Bytes) -> Result<(), StreamError> {
        self.stall.clear();
        while !data.is_empty() {
            poll_fn(|cx| self.poll_send(cx, |core, id| core.send(id, data))).await?;
        }
        Ok(())
    }

    /// Writes all that comes to `to` and gives its length in octets. Safe to cancel: what `to` has not taken comes next.
    ///
    /// # Errors
    ///
    /// Those of the stream and those of the writer.
    pub async fn copy_to<W: AsyncWrite + Unpin>(&mut self, to: &mut W) -> io::Result<u64> {
        let mut copied = 0;
        loop {
            if self.reading.is_empty() {
                match self.recv().await? {
                    Some(octets) => self.reading = octets,
                    None => break,
                }
            }
            let n = to.write(&self.reading).await?;
            if n == 0 && !self.reading.is_empty() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.reading.advance(n);
            copied += n as u64;
        }
        to.flush().await?;
        Ok(copied)
    }
}

impl Drop for MuxStream {
    fn drop(&mut self) {
        self.session.shared().release(self.id);
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
