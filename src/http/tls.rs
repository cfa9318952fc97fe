//! TLS in front of the HTTP server. Handshakes have tasks of their own, so that one that says nothing holds up nobody.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::server::TlsStream;

use crate::log_limit::LogLimit;
use crate::transport::tls::crowd::Crowd;
use crate::transport::tls::server::ServerTls;

/// Time a client may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes under way at most.
const HANDSHAKES_MAX: usize = 64;
/// Clients that are through and wait for the server.
const READY_MAX: usize = 16;
/// After a failed accept (out of descriptors, say) the loop rests.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// At most one line about a failed handshake in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

type Client = (TlsStream<TcpStream>, SocketAddr);

/// Gives the HTTP server its clients.
pub(super) struct TlsListener {
    address: std::io::Result<SocketAddr>,
    clients: mpsc::Receiver<Client>,
    task: tokio::task::JoinHandle<()>,
}

impl TlsListener {
    pub(super) fn new(listener: TcpListener, tls: Arc<ServerTls>) -> Self {
        let (ready, clients) = mpsc::channel(READY_MAX);
        let address = listener.local_addr();
        let task = tokio::spawn(accept(listener, tls, ready));
        Self {
            address,
            clients,
            task,
        }
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Arc<ServerTls>, ready: mpsc::Sender<Client>) {
    let (crowd, log) = (
        Crowd::new(HANDSHAKES_MAX),
        Arc::new(LogLimit::new(LOG_INTERVAL)),
    );
    loop {
        let Ok((tcp, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let (tls, crowd, log, ready) = (tls.clone(), crowd.clone(), log.clone(), ready.clone());
        tokio::spawn(async move {
            match tls.accept(tcp, HANDSHAKE_TIMEOUT, &crowd).await {
                // Nobody takes it when the server has ended.
                Ok(accepted) => drop(ready.send((accepted.stream, peer)).await),
                Err(error) => {
                    if let Some(suppressed) = log.pass(Instant::now()) {
                        let reason = error.fault.as_str();
                        tracing::warn!(%peer, reason, suppressed, "http: {error}");
                    }
                }
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Client {
        match self.clients.recv().await {
            Some(client) => client,
            // The task that accepts never ends before this does.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(error.kind().into()),
        }
    }
}
