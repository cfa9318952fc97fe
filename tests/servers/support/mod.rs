//! What the tests stand on: processes that cannot outlive a test, the collector under test, a relay that counts what passes
//! between a server and the collector, and a load of DNS queries.

pub(crate) mod collector;
pub(crate) mod load;
pub(crate) mod process;
pub(crate) mod relay;
pub(crate) mod sender;
pub(crate) mod walker;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Waits until `look` finds something, and returns it. The test fails when that takes longer than `limit`.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// [`until`] for a condition, with a limit that only a fault or a very slow machine reaches.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, PATIENCE, || holds().then_some(()));
}

/// How long a condition may take. The slowest thing waited for is libfstrm, which connects again after 5 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// The body of a web page.
pub(crate) fn http_get(address: impl Into<SocketAddr>, path: &str) -> String {
    let mut stream = TcpStream::connect(address.into()).expect("HTTP connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("HTTP request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("HTTP answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP head");
    assert!(
        head.lines().next().is_some_and(|l| l.contains("200 OK")),
        "{path}: {head}"
    );
    body.to_owned()
}
