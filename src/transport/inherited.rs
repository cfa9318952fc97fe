//! Sockets that the service manager has bound for us (`LISTEN_FDS`, systemd.socket(5)). A listener whose place is that of
//! such a socket takes it instead of binding one: senders may connect before this process runs and while it restarts, and
//! the file, its mode and its owner are the manager's.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use listenfd::ListenFd;

/// A socket that was handed over and that no listener has taken yet.
#[derive(Debug)]
enum Handed {
    Unix(UnixListener),
    Tcp(std::net::TcpListener),
}

fn handed() -> &'static Mutex<Vec<Handed>> {
    static HANDED: OnceLock<Mutex<Vec<Handed>>> = OnceLock::new();
    HANDED.get_or_init(|| {
        let mut fds = ListenFd::from_env();
        let mut found = Vec::new();
        for i in 0..fds.len() {
            if let Ok(Some(listener)) = fds.take_unix_listener(i) {
                found.push(Handed::Unix(listener));
            } else if let Ok(Some(listener)) = fds.take_tcp_listener(i) {
                found.push(Handed::Tcp(listener));
            } else {
                tracing::warn!(number = i, "a socket from the service manager is neither a Unix nor a TCP stream socket that listens; it is not used");
            }
        }
        Mutex::new(found)
    })
}

fn take(is: impl Fn(&Handed) -> bool) -> Option<Handed> {
    let mut handed = handed().lock().unwrap_or_else(PoisonError::into_inner);
    let at = handed.iter().position(is)?;
    Some(handed.swap_remove(at))
}

/// The socket that was bound to this path for us.
pub(super) fn unix(path: &Path) -> Option<UnixListener> {
    let here = |handed: &Handed| matches!(handed, Handed::Unix(l) if l.local_addr().is_ok_and(|a| a.as_pathname() == Some(path)));
    match take(here)? {
        Handed::Unix(listener) => Some(listener),
        Handed::Tcp(_) => None,
    }
}

/// The socket that was bound to this address for us.
pub(super) fn tcp(address: std::net::SocketAddr) -> Option<std::net::TcpListener> {
    let here = |handed: &Handed| matches!(handed, Handed::Tcp(l) if l.local_addr().is_ok_and(|a| a == address));
    match take(here)? {
        Handed::Tcp(listener) => Some(listener),
        Handed::Unix(_) => None,
    }
}
