//! Two ends against each other, and one against peers of every kind.

mod cancel;
mod faults;
mod hostile;
mod interleavings;
mod model;
mod reference;

use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

use super::{Config, MuxStream, Session};

const LIMIT: Duration = Duration::from_secs(60);

/// Two sessions over a pipe of 64 KiB.
fn pair(config: &Config) -> (Session, Session) {
    let (a, b) = duplex(64 * 1024);
    (
        Session::client(a, config.clone()),
        Session::server(b, config.clone()),
    )
}

/// A client over a pipe, and the pipe's other end.
fn half(config: Config, pipe: usize) -> (Session, DuplexStream) {
    let (io, peer) = duplex(pipe);
    (Session::client(io, config), peer)
}

/// A stream and its other end.
async fn stream(a: &Session, b: &Session) -> (MuxStream, MuxStream) {
    let here = a.open().await.expect("opens");
    let there = within(b.accept()).await.expect("a stream");
    (here, there)
}

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.expect("it hangs")
}

/// Sends back what comes on each stream that the peer opens.
async fn echo(session: Session) {
    while let Some(stream) = session.accept().await {
        tokio::spawn(async move {
            let (mut r, mut w) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut r, &mut w).await;
            let _ = w.shutdown().await;
        });
    }
}
