//! A sender.

use std::io;

use tapflow::transport::{Stream, dial};
use tapflow::units::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::frames::{self, ACCEPT, FINISH, Parted, control};
use crate::support::{PATIENCE, within};

/// A connected sender. What it waits for has to come, or the test fails.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: Stream,
}

impl Peer {
    /// Connected, nothing said.
    pub(crate) async fn connect(to: &Endpoint) -> Self {
        Self {
            stream: dial(to, PATIENCE)
                .await
                .expect("the listener takes connections"),
        }
    }

    /// Connected, with the whole handshake of a bidirectional sender behind it.
    pub(crate) async fn bidirectional(to: &Endpoint) -> Self {
        let mut peer = Self::connect(to).await;
        peer.handshake().await;
        peer
    }

    /// Connected, START sent.
    pub(crate) async fn unidirectional(to: &Endpoint) -> Self {
        let mut peer = Self::connect(to).await;
        peer.send(&frames::start()).await;
        peer
    }

    /// READY, wait for ACCEPT with our type, START.
    pub(crate) async fn handshake(&mut self) {
        self.send(&frames::ready()).await;
        let want = control(ACCEPT, &[frames::DNSTAP]);
        assert_eq!(self.read(want.len()).await, want, "ACCEPT");
        self.send(&frames::start()).await;
    }

    /// Writes all of it.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        within("the service takes bytes", self.stream.write_all(bytes))
            .await
            .expect("the service is there");
    }

    /// Writes what the other side takes; it may close any time.
    pub(crate) async fn send_what_goes(&mut self, bytes: &[u8]) -> io::Result<()> {
        within(
            "the service takes bytes or closes",
            self.stream.write_all(bytes),
        )
        .await
    }

    /// Exactly `n` bytes.
    pub(crate) async fn read(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        within("an answer", self.stream.read_exact(&mut bytes))
            .await
            .expect("an answer");
        bytes
    }

    /// Exactly `n` bytes, or `None` when the service closes before.
    pub(crate) async fn read_or_end(&mut self, n: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; n];
        within("an answer or the close", self.stream.read_exact(&mut bytes))
            .await
            .ok()
            .map(|_| bytes)
    }

    /// What comes until the service closes; a reset counts as a close.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = within("the service closes", self.stream.read_to_end(&mut bytes)).await;
        bytes
    }

    /// STOP, FINISH, close: the end of a bidirectional stream.
    pub(crate) async fn stop(mut self) {
        self.send(&frames::stop()).await;
        assert_eq!(
            self.read_to_end().await,
            control(FINISH, &[]),
            "FINISH, then the close"
        );
    }

    /// STOP, close: the end of a unidirectional stream, to which nothing is ever written.
    pub(crate) async fn stop_one_way(mut self) {
        self.send(&frames::stop()).await;
        assert!(
            self.read_to_end().await.is_empty(),
            "nothing is written to a unidirectional sender"
        );
    }

    /// Says that nothing more comes, and reads to the end.
    pub(crate) async fn half_close(&mut self) -> Vec<u8> {
        let _ = self.stream.shutdown().await;
        self.read_to_end().await
    }

    /// Sends these bytes whatever they are, half-closes, and gives what was answered.
    pub(crate) async fn pour(to: &Endpoint, bytes: &[u8]) -> Parted {
        let mut peer = Self::connect(to).await;
        let _ = peer.send_what_goes(bytes).await;
        frames::part_all(&peer.half_close().await)
    }
}
