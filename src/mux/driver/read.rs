//! The task that reads.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadHalf};
use tokio::time::Instant;

use crate::mux::CloseReason;
use crate::mux::buffer::ReadBuffer;
use crate::mux::shared::Shared;

/// Buffer of a session that is quiet, in octets.
const QUIET_BUFFER: usize = 4 * 1024;

/// Reads the connection to its end. Never writes, and never waits for a stream or an acceptor.
pub(super) async fn read<T: AsyncRead>(mut io: ReadHalf<T>, shared: Arc<Shared>) {
    let mut size = QUIET_BUFFER;
    let mut input = ReadBuffer::default();
    loop {
        input.make_room(size);
        let got = tokio::select! {
            got = io.read_buf(input.spare()) => got,
            () = shared.quiet.notified() => {
                size = QUIET_BUFFER;
                input.shrink();
                continue;
            }
        };
        match got {
            Ok(0) => {
                shared.with(|inner| inner.core.end_of_input(input.len()));
                return;
            }
            Ok(n) => {
                if n >= size / 2 {
                    size = (size * 4).min(shared.config.read_buffer.max(QUIET_BUFFER));
                }
                shared.with(|inner| {
                    inner.heard = Instant::now();
                    inner.core.receive(&mut input);
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
