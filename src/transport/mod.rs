//! Sockets, and nothing about what is spoken on them.
//!
//! [`Bound`] is a socket that listens; [`Bound::accept`] gives a [`Stream`] and who is at its other end. [`dial`] makes the
//! outgoing ones. Read [`unix`] for the life of a socket file, [`tcp`] for options, [`admission`] for who may connect.
//! [`tls`] is TCP with a handshake that the listener does in the connection's own task. A further transport is one more
//! variant of [`Stream`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

pub mod admission;
mod inherited;
pub mod options;
pub mod rate;
pub mod tcp;
pub mod tls;
pub mod unix;

use crate::transport::admission::PeerKey;
use crate::units::Endpoint;

/// A socket could not be bound: the text says why and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct BindError {
    /// Kept for [`std::fmt::Debug`]; the text says it already.
    cause: io::Error,
    text: String,
}

impl BindError {
    pub(crate) fn new(source: io::Error, text: String) -> Self {
        Self {
            cause: source,
            text,
        }
    }
}

impl From<io::Error> for BindError {
    fn from(e: io::Error) -> Self {
        Self {
            text: e.to_string(),
            cause: e,
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// A Unix stream socket.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection with TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Tells the peer to stop sending, where the transport can: after it on a Unix socket everything the peer has written
    /// can still be read and further writes of the peer fail. TCP has no such thing. `true`: done.
    pub fn refuse_more(&self) -> bool {
        match self {
            Self::Unix(s) => socket2::SockRef::from(s)
                .shutdown(std::net::Shutdown::Read)
                .is_ok(),
            Self::Tcp(_) | Self::Tls(_) => false,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(s) => Pin::new(s).poll_read(cx, buf),
            Self::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            // Who closes TCP without closing TLS has ended the stream all the same; whether it was complete is for Frame
            // Streams' own STOP to say.
            Self::Tls(s) => match Pin::new(s).poll_read(cx, buf) {
                Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                other => other,
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(s) => Pin::new(s).poll_write(cx, buf),
            Self::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Self::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Self::Tcp(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Self::Tls(s) => Pin::new(s).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(_) | Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(s) => Pin::new(s).poll_shutdown(cx),
            Self::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            Self::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct Peer {
    /// For logs: the address, or `uid=… pid=…` of a Unix peer.
    pub text: String,
    /// For limits and rules.
    pub key: PeerKey,
    /// The group of a local peer's process.
    pub group: Option<u32>,
}

/// A socket that listens.
#[derive(Debug)]
pub enum Bound {
    /// A Unix socket and its file.
    /// Without the file where the service manager has made it.
    Unix(UnixListener, Option<unix::SocketFile>),
    /// A TCP socket.
    Tcp(TcpListener),
}

/// What a socket is bound with.
#[derive(Clone, Debug)]
pub struct BindOptions {
    /// Where.
    pub address: Endpoint,
    /// Mode and owner of a Unix socket.
    pub access: unix::Access,
    /// `SO_RCVBUF` in bytes; 0 leaves the system's.
    pub receive_buffer: usize,
    /// TCP keepalive: idle time before the first probe.
    pub keepalive: Option<Duration>,
}

impl Bound {
    /// Binds; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// See [`unix::bind`] and [`tcp::bind`]; a TCP host that does not resolve.
    pub async fn bind(options: &BindOptions) -> Result<Self, BindError> {
        match options.address.carrier() {
            Endpoint::Mux(_) => Err(BindError::from(io::Error::from(
                io::ErrorKind::InvalidInput,
            ))),
            Endpoint::Unix(path) => {
                if let Some(handed) = inherited::unix(path) {
                    handed.set_nonblocking(true)?;
                    return Ok(Self::Unix(UnixListener::from_std(handed)?, None));
                }
                unix::bind(path, &options.access).map(|(l, f)| Self::Unix(l, Some(f)))
            }
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
                let mut last = None;
                for address in resolve(host, *port).await? {
                    if let Some(handed) = inherited::tcp(address) {
                        handed.set_nonblocking(true)?;
                        return Ok(Self::Tcp(TcpListener::from_std(handed)?));
                    }
                    match tcp::bind(address, options.receive_buffer) {
                        Ok(l) => return Ok(Self::Tcp(l)),
                        Err(e) => last = Some(e),
                    }
                }
                Err(last.unwrap_or_else(|| {
                    BindError::new(
                        io::ErrorKind::NotFound.into(),
                        format!("{host}: the name has no address"),
                    )
                }))
            }
        }
    }

    /// The address it is bound to: with the port that the system chose, where port 0 was asked for.
    pub fn address(&self, asked: &Endpoint) -> Endpoint {
        let mut bound = asked.clone();
        if let Self::Tcp(l) = self
            && let Ok(a) = l.local_addr()
        {
            let carrier = bound.carrier_mut();
            *carrier = match carrier {
                Endpoint::Tls { .. } => Endpoint::tls(a.ip().to_string(), a.port()),
                _ => Endpoint::tcp(a.ip().to_string(), a.port()),
            };
        }
        bound
    }

    /// The next connection. Cancel-safe.
    ///
    /// # Errors
    /// What `accept` says; none of it is a reason to stop accepting.
    pub async fn accept(&self, options: &BindOptions) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Unix(l, _) => {
                let (stream, _) = l.accept().await?;
                if options.receive_buffer > 0 {
                    let _ = socket2::SockRef::from(&stream)
                        .set_recv_buffer_size(options.receive_buffer);
                }
                let (uid, group, text) = match stream.peer_cred() {
                    Ok(c) => (
                        c.uid(),
                        Some(c.gid()),
                        c.pid().map_or_else(
                            || format!("uid={}", c.uid()),
                            |pid| format!("uid={} pid={pid}", c.uid()),
                        ),
                    ),
                    Err(_) => (u32::MAX, None, "unix".to_owned()),
                };
                Ok((
                    Stream::Unix(stream),
                    Peer {
                        text,
                        key: PeerKey::Uid(uid),
                        group,
                    },
                ))
            }
            Self::Tcp(l) => {
                let (stream, address) = l.accept().await?;
                // The connection may be gone already; reading will find out.
                let _ = tcp::prepare(&stream, options.keepalive);
                let key = PeerKey::Ip(address.ip().to_canonical());
                Ok((
                    Stream::Tcp(stream),
                    Peer {
                        text: address.to_string(),
                        key,
                        group: None,
                    },
                ))
            }
        }
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, BindError> {
    match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(e) => {
            let text = format!("{host}: cannot resolve this name ({e})");
            Err(BindError::new(e, text))
        }
    }
}

/// Connects to `address` within `timeout`; where it asks for TLS, by the authorities that the machine trusts.
///
/// # Errors
/// As [`dial_with`].
pub async fn dial(address: &Endpoint, timeout: Duration) -> io::Result<Stream> {
    dial_with(address, None, timeout).await
}

/// Connects to `address` within `timeout`, with TLS as `tls` has it where the address asks for TLS.
///
/// # Errors
/// Refused, unreachable, not resolvable; `TimedOut` when the time is up; a [`tls::HandshakeError`] inside where TLS failed.
pub async fn dial_with(
    address: &Endpoint,
    tls: Option<&Arc<tls::client::ClientTls>>,
    timeout: Duration,
) -> io::Result<Stream> {
    let connect = async {
        match address.carrier() {
            Endpoint::Mux(_) => Err(io::ErrorKind::InvalidInput.into()),
            Endpoint::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            Endpoint::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tcp::prepare(&stream, Some(Duration::from_secs(60)))?;
                Ok(Stream::Tcp(stream))
            }
            Endpoint::Tls { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tcp::prepare(&stream, Some(Duration::from_secs(60)))?;
                let system = || Arc::new(tls::client::ClientTls::new(Default::default()));
                let tls = tls.map_or_else(system, Arc::clone);
                let stream = tls.connect(stream, host).await.map_err(io::Error::other)?;
                Ok(Stream::Tls(Box::new(stream.into())))
            }
        }
    };
    match tokio::time::timeout(timeout, connect).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection to {address} within {timeout:?}"),
        )),
    }
}
