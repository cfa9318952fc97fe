//! The task that writes.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt as _, WriteHalf};

use crate::mux::CloseReason;
use crate::mux::outgoing::Batch;
use crate::mux::shared::Shared;
use crate::mux::stall::Stall;

/// Slices of one vectored write.
const SLICES: usize = 64;
/// Octets that are joined where the transport takes one slice at a time.
const JOINED: usize = 64 * 1024;

/// Writes what is queued until the session is closed and nothing is left.
pub(super) async fn write<T: AsyncWrite>(mut io: WriteHalf<T>, shared: Arc<Shared>) {
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
        if let Err(reason) = write_batch(&mut io, &mut batch, &shared).await {
            shared.close(reason);
            return;
        }
        shared.with(|inner| inner.core.written(&mut batch));
    }
}

async fn write_batch<T: AsyncWrite>(
    io: &mut WriteHalf<T>,
    batch: &mut Batch,
    shared: &Shared,
) -> Result<(), CloseReason> {
    let mut joined = BytesMut::new();
    let mut at_boundary = true;
    while !batch.segments.is_empty() || !joined.is_empty() {
        let mut wrote;
        if io.is_write_vectored() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut used = 0;
            for (slice, segment) in slices.iter_mut().zip(&batch.segments) {
                *slice = IoSlice::new(&segment.octets);
                used += 1;
            }
            let slices = slices.get(..used).unwrap_or_default();
            wrote = progress(io, slices, shared).await?;
        } else {
            // One record of the transport for many frames, as under TLS.
            while let Some(segment) = batch.segments.front()
                && (joined.is_empty() || joined.len() + segment.octets.len() <= JOINED)
            {
                joined.extend_from_slice(&segment.octets);
                at_boundary = segment.ends_frame;
                batch.segments.pop_front();
            }
            let n = progress(io, &[IoSlice::new(&joined)], shared).await?;
            joined.advance(n);
            wrote = 0;
            if !joined.is_empty() {
                continue;
            }
        }
        while wrote > 0
            && let Some(front) = batch.segments.front_mut()
        {
            if front.octets.len() > wrote {
                front.octets.advance(wrote);
                at_boundary = false;
                break;
            }
            wrote -= front.octets.len();
            at_boundary = front.ends_frame;
            batch.segments.pop_front();
        }
        if let Some(octets) = shared.with(|inner| inner.core.take_control()) {
            batch.insert_control(octets, at_boundary);
        }
    }
    io.flush().await.map_err(|e| CloseReason::from(&e))
}

/// Writes some of `slices` and gives how much; that no more than the write timeout may pass without any.
async fn progress<T: AsyncWrite>(
    io: &mut WriteHalf<T>,
    slices: &[IoSlice<'_>],
    shared: &Shared,
) -> Result<usize, CloseReason> {
    let mut stall = Stall::default();
    let wrote = poll_fn(|cx| {
        let wrote = Pin::new(&mut *io).poll_write_vectored(cx, slices);
        if wrote.is_pending()
            && let Some(timeout) = shared.config.write_timeout
        {
            ready!(stall.poll(cx, timeout));
            return Poll::Ready(Err(CloseReason::WriteTimeout));
        }
        wrote.map_err(|e| CloseReason::from(&e))
    });
    match wrote.await? {
        0 => Err(CloseReason::from(&io::ErrorKind::WriteZero.into())),
        n => Ok(n),
    }
}
