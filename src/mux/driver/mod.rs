//! The tasks of a session: one reads, one writes, one keeps time.

mod read;
mod time;
mod write;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::CloseReason;
use super::shared::Shared;

/// Serves a session until it is over.
pub(super) async fn run<T: AsyncRead + AsyncWrite + Send + 'static>(io: T, shared: Arc<Shared>) {
    let (reader, writer) = tokio::io::split(io);
    let mut reading = tokio::spawn(read::read(reader, Arc::clone(&shared)));
    let timing = tokio::spawn(time::keep_time(Arc::clone(&shared)));
    let mut writing = tokio::spawn(write::write(writer, Arc::clone(&shared)));
    shared.closing().await;
    timing.abort();
    let end = Instant::now() + shared.config.close_timeout;
    let peer = shared.with(|inner| {
        let closed = inner.core.closed();
        closed.is_none_or(CloseReason::leaves_a_peer)
    });
    if timeout_at(end, &mut writing).await.is_err() {
        writing.abort();
    } else if peer {
        // A connection that is let go with unread octets is reset, and what was written last may not arrive.
        let _ = timeout_at(end, &mut reading).await;
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
}
