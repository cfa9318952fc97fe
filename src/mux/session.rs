//! Sessions and reservations, as users hold them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::driver::run;
use super::shared::Shared;
use super::stream::MuxStream;
use super::{CloseReason, Config, Core, OpenError, Role, Status};

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

    pub(super) fn shared(&self) -> &Shared {
        &self.0.0
    }

    #[cfg(test)]
    pub(super) fn weak(&self) -> std::sync::Weak<Shared> {
        Arc::downgrade(&self.0.0)
    }

    #[cfg(test)]
    pub(super) fn waiting_pings(&self) -> usize {
        self.shared().with(|inner| inner.pings.len())
    }

    fn stream(&self, id: u32, local: bool) -> MuxStream {
        MuxStream::new(self.clone(), id, local)
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
        let id = self.shared().open().await?;
        Ok(self.stream(id, true))
    }

    /// The next stream of the peer; `None` when the session is over. Safe to cancel.
    pub async fn accept(&self) -> Option<MuxStream> {
        let id = self.shared().accept().await?;
        Some(self.stream(id, false))
    }

    /// The round trip.
    ///
    /// # Errors
    ///
    /// Why the session is over.
    pub async fn ping(&self) -> Result<Duration, CloseReason> {
        let (answer, answered) = oneshot::channel();
        let began = Instant::now();
        let value = self.shared().with(|inner| match inner.core.closed() {
            Some(reason) => Err(reason.clone()),
            None => {
                let value = inner.core.ping();
                inner.pings.insert(value, answer);
                Ok(value)
            }
        })?;
        let _forget = ForgetPing(self.shared(), value);
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

/// Nobody waits for the answer to a ping any more.
struct ForgetPing<'a>(&'a Shared, u32);

impl Drop for ForgetPing<'_> {
    fn drop(&mut self) {
        self.0.with(|inner| inner.pings.remove(&self.1));
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
