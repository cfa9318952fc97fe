//! Ports for servers that tests start.

use std::sync::atomic::{AtomicU16, Ordering};

/// Whether this machine has IPv6 on loopback.
pub(crate) fn has_v6() -> bool {
    std::net::UdpSocket::bind("[::1]:0").is_ok()
}

/// A port that is free on loopback for UDP and TCP, IPv4 and IPv6. It is below the ports that the system gives to clients, so
/// that it stays free until a server takes it; no two calls of one run return the same.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 16_000;
    const COUNT: u16 = 16_000;
    let start = (std::process::id() % 160) as u16 * 100;
    let v6 = has_v6();
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let free = |host: &str| {
            std::net::UdpSocket::bind((host, port)).is_ok()
                && std::net::TcpListener::bind((host, port)).is_ok()
        };
        if free("127.0.0.1") && (!v6 || free("::1")) {
            return port;
        }
    }
    panic!("no free port on loopback");
}
