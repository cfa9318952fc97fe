//! TCP: bind options and the keepalive that finds dead peers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::transport::BindError;
use crate::transport::unix::BACKLOG;

/// Probes that may go unanswered before the kernel gives the peer up.
const KEEPALIVE_PROBES: u32 = 4;

/// Binds a TCP listener; `receive_buffer` (bytes, 0 = the system's) is set before `listen`, so that accepted connections
/// inherit it and the window scale fits.
///
/// # Errors
/// Address in use or not ours, no permission for the port.
pub fn bind(address: SocketAddr, receive_buffer: usize) -> Result<TcpListener, BindError> {
    let listen = || -> io::Result<TcpListener> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // Without it a restart would have to wait for the old connections' TIME_WAIT.
        socket.set_reuse_address(true)?;
        if receive_buffer > 0 {
            socket.set_recv_buffer_size(receive_buffer)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|e| {
        let advice = match e.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{address}: another process listens on this port; stop it or choose another port")
            }
            io::ErrorKind::AddrNotAvailable => format!("{address}: this address is not on this machine"),
            io::ErrorKind::PermissionDenied => {
                format!("{address}: no permission for this port; ports under 1024 need root or CAP_NET_BIND_SERVICE")
            }
            _ => format!("{address}: {e}"),
        };
        BindError::new(e, advice)
    })
}

/// Turns keepalive on: first probe after `idle` without traffic, then every quarter of it, gone after four silent ones. So a
/// peer that lost power is noticed within twice `idle`. Nagle is turned off: what we send is handshakes and whole batches.
pub fn prepare(stream: &TcpStream, idle: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(idle) = idle {
        let interval = (idle / KEEPALIVE_PROBES).max(Duration::from_secs(1));
        let keepalive = TcpKeepalive::new()
            .with_time(idle.max(Duration::from_secs(1)))
            .with_interval(interval)
            .with_retries(KEEPALIVE_PROBES);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keepalive_and_buffer_size_reach_the_socket() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), 64 * 1024).unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let stream = accepted.unwrap().0;
        prepare(&stream, Some(Duration::from_secs(60))).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && stream.nodelay().unwrap());
        assert_eq!(
            socket.tcp_keepalive_time().unwrap(),
            Duration::from_secs(60)
        );
        assert!(socket.recv_buffer_size().unwrap() >= 64 * 1024);
    }

    #[tokio::test]
    async fn a_port_in_use_is_explained() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let err = bind(listener.local_addr().unwrap(), 0).unwrap_err();
        assert!(
            err.to_string()
                .contains("another process listens on this port"),
            "{err}"
        );
    }
}
