//! Another collector, which an output forwards to: it can stall, and it tells which frames arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tapflow::units::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::frames::{self, FINISH, Numbered, Parted, READY, START, STOP, control};
use crate::support::within;

/// A collector on a Unix socket. It reads only while it is open.
#[derive(Debug)]
pub(crate) struct Collector {
    gate: watch::Sender<bool>,
    connected: Arc<AtomicU64>,
    arrived: JoinHandle<Vec<u64>>,
}

impl Collector {
    /// Listens at `endpoint` and completes handshakes; after that it reads as long as it is open.
    pub(crate) fn listen(endpoint: &Endpoint, open: bool) -> Self {
        let Endpoint::Unix(path) = endpoint else {
            panic!("a Unix socket is wanted")
        };
        let listener = UnixListener::bind(path).expect("the collector's socket");
        let (gate, gated) = watch::channel(open);
        let connected = Arc::new(AtomicU64::new(0));
        let arrived = tokio::spawn(collect(listener, gated, connected.clone()));
        Self {
            gate,
            connected,
            arrived,
        }
    }

    /// Begins to read.
    pub(crate) fn open(&self) {
        self.gate.send_replace(true);
    }

    /// Completed handshakes.
    pub(crate) fn connected(&self) -> u64 {
        self.connected.load(Ordering::SeqCst)
    }

    /// The numbers of the frames that came until STOP.
    pub(crate) async fn arrived(self) -> Vec<u64> {
        within("the collector sees STOP", self.arrived)
            .await
            .expect("the collector works")
    }
}

async fn collect(
    listener: UnixListener,
    mut gate: watch::Receiver<bool>,
    connected: Arc<AtomicU64>,
) -> Vec<u64> {
    let numbered = Numbered::new();
    let mut numbers = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let (mut bytes, mut parted) = (Vec::new(), Parted::default());
        if !until(&mut stream, &mut bytes, &mut parted, READY).await {
            continue;
        }
        // An output that is given frames while it connects for no particular reason begins anew.
        let accept = control(frames::ACCEPT, &[frames::DNSTAP]);
        if stream.write_all(&accept).await.is_err() {
            continue;
        }
        if !until(&mut stream, &mut bytes, &mut parted, START).await {
            continue;
        }
        connected.fetch_add(1, Ordering::SeqCst);
        gate.wait_for(|open| *open)
            .await
            .expect("the test holds the gate");
        let stopped = until(&mut stream, &mut bytes, &mut parted, STOP).await;
        numbers.extend(parted.payloads.iter().map(|p| numbered.number(p)));
        if stopped {
            stream
                .write_all(&control(FINISH, &[]))
                .await
                .expect("FINISH goes out");
            return numbers;
        }
    }
}

/// Reads until this control frame has come; `false`: the stream ended before.
async fn until(
    stream: &mut UnixStream,
    bytes: &mut Vec<u8>,
    parted: &mut Parted,
    kind: u32,
) -> bool {
    loop {
        frames::part(bytes, parted);
        if parted.controls.contains(&kind) {
            return true;
        }
        bytes.reserve(1 << 18);
        if !matches!(stream.read_buf(bytes).await, Ok(n) if n > 0) {
            return false;
        }
    }
}
