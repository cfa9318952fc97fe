//! A relay between a server and the collector that counts the Frame Streams frames passing it.
//!
//! What it counts towards the collector is what the operating system has taken from it for the collector: a frame counts once
//! all of its bytes are written. On a Unix socket the collector can read all of that, even when it stops meanwhile, so the
//! collector must have received exactly these frames.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::collector::Collector;
use super::wait_for;
use super::walker::{ACCEPT, FINISH, START, STOP, Walker};

/// How one connection has gone so far.
#[derive(Default, Clone, Debug)]
pub(crate) struct Passed {
    /// From the server to the collector.
    pub(crate) up: Walker,
    /// From the collector to the server.
    pub(crate) down: Walker,
    stop_at: Option<Instant>,
    finish_at: Option<Instant>,
    pub(crate) closed: bool,
}

impl Passed {
    /// Whether data may pass: START has.
    pub(crate) fn started(&self) -> bool {
        self.up.controls.contains(&START) && self.down.controls.contains(&ACCEPT)
    }

    /// From the STOP that passed to the FINISH that came back.
    pub(crate) fn stop_to_finish(&self) -> Option<Duration> {
        Some(self.finish_at?.duration_since(self.stop_at?))
    }
}

/// The relay. Dropping it closes everything that it holds.
pub(crate) struct Relay {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Where servers connect: `/path` or `address:port`.
    pub(crate) front: String,
}

struct Shared {
    backend: Backend,
    stop: AtomicBool,
    paused: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

struct Connection {
    passed: Arc<Mutex<Passed>>,
    front: Socket,
}

/// Where the collector is.
#[derive(Clone)]
enum Backend {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn another(&self) -> Self {
        match self {
            Self::Unix(s) => Self::Unix(s.try_clone().expect("socket")),
            Self::Tcp(s) => Self::Tcp(s.try_clone().expect("socket")),
        }
    }

    fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(s) => s.shutdown(how),
            Self::Tcp(s) => s.shutdown(how),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.read(buf),
            Self::Tcp(s) => s.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.write(buf),
            Self::Tcp(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Relay {
    /// A relay whose front is a Unix socket at `front`.
    fn unix(front: &Path, backend: &Backend) -> Self {
        let listener = UnixListener::bind(front).expect("relay socket");
        listener.set_nonblocking(true).expect("relay socket");
        Self::start(
            Listener::Unix(listener),
            front.display().to_string(),
            backend,
        )
    }

    /// A relay whose front is a TCP port on loopback.
    fn tcp(backend: &Backend) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("relay port");
        // A small window, so that a sender comes to wait within a write as soon as the relay pauses.
        socket2::SockRef::from(&listener)
            .set_recv_buffer_size(4096)
            .expect("relay port");
        listener.set_nonblocking(true).expect("relay port");
        let address: SocketAddr = listener.local_addr().expect("relay port");
        Self::start(Listener::Tcp(listener), address.to_string(), backend)
    }

    fn start(listener: Listener, front: String, backend: &Backend) -> Self {
        let shared = Arc::new(Shared {
            backend: backend.clone(),
            stop: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let acceptor = std::thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Self {
            shared,
            acceptor: Some(acceptor),
            front,
        }
    }

    /// Reads nothing more from servers, so that they come to wait, until it is called with `false`.
    pub(crate) fn pause(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Relaxed);
    }

    /// Before the collector, in front of which a server of this kind is to be put: over what its printed lines use.
    /// `direct`: on to the collector over the same; else always to its Unix socket, from which it reads all that was
    /// written, even when it stops meanwhile.
    pub(crate) fn before(collector: &Collector, tcp: bool, direct: bool, front: &Path) -> Self {
        let backend = match tcp && direct {
            true => Backend::Tcp(collector.tcp),
            false => Backend::Unix(collector.unix.clone()),
        };
        if tcp {
            Self::tcp(&backend)
        } else {
            Self::unix(front, &backend)
        }
    }

    /// How each connection that reached the collector has gone, oldest first.
    pub(crate) fn connections(&self) -> Vec<Passed> {
        let connections = lock(&self.shared.connections);
        connections
            .iter()
            .map(|c| lock(&c.passed).clone())
            .collect()
    }

    fn each<T>(&self, look: impl Fn(&Passed) -> T) -> Vec<T> {
        lock(&self.shared.connections)
            .iter()
            .map(|c| look(&lock(&c.passed)))
            .collect()
    }

    /// Whole data frames that were written to the collector, by connection.
    pub(crate) fn frames_by_connection(&self) -> Vec<u64> {
        self.each(|c| c.up.data)
    }

    /// Whole data frames that were written to the collector, over all connections.
    pub(crate) fn frames(&self) -> u64 {
        self.frames_by_connection().iter().sum()
    }

    /// Whether there is an open connection past the handshake, and none that is not past it.
    pub(crate) fn ready(&self) -> bool {
        let open = self.each(|c| (!c.closed).then(|| c.started()));
        let mut open = open.iter().flatten().peekable();
        open.peek().is_some() && open.all(|started| *started)
    }

    /// Waits until nothing has passed for longer than libfstrm keeps frames to itself, which is a second.
    pub(crate) fn wait_quiet(&self) {
        let mut last = (self.frames(), Instant::now());
        wait_for("a quiet relay", || {
            if last.0 != self.frames() {
                last = (self.frames(), Instant::now());
            }
            last.1.elapsed() > Duration::from_millis(1500)
        });
    }

    /// Waits until every connection is closed.
    pub(crate) fn wait_closed(&self) {
        wait_for("the relay's connections closed", || {
            self.each(|c| c.closed).iter().all(|closed| *closed)
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.pause(false);
        lock(&self.shared.connections)
            .iter()
            .for_each(|c| c.front.shutdown(Shutdown::Both));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &Listener) {
        while !self.stop.load(Ordering::Relaxed) {
            let accepted = match listener {
                Listener::Unix(l) => l.accept().map(|(s, _)| Socket::Unix(s)),
                Listener::Tcp(l) => l.accept().map(|(s, _)| Socket::Tcp(s)),
            };
            // When the collector is away the server's connection is closed at once, and it tries again later.
            match accepted {
                Ok(front) => {
                    let back = match &self.backend {
                        Backend::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
                        Backend::Tcp(address) => TcpStream::connect(address).map(Socket::Tcp),
                    };
                    if let Ok(back) = back {
                        self.connect(front, back);
                    }
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn connect(self: &Arc<Self>, front: Socket, back: Socket) {
        let passed = Arc::new(Mutex::new(Passed {
            up: Walker::keeping(),
            ..Passed::default()
        }));
        let mut connections = lock(&self.connections);
        connections.push(Connection {
            passed: passed.clone(),
            front: front.another(),
        });
        let (mut front_in, mut back_out) = (front.another(), back.another());
        std::thread::spawn({
            let (shared, passed) = (self.clone(), passed.clone());
            move || {
                let to_collector = |bytes: &[u8], passed: &mut Passed, before: Instant| {
                    passed.up.feed(bytes);
                    if passed.up.controls.last() == Some(&STOP) {
                        passed.stop_at.get_or_insert(before);
                    }
                };
                if pump(
                    &mut front_in,
                    &mut back_out,
                    Some(&shared.paused),
                    &passed,
                    to_collector,
                ) {
                    back_out.shutdown(Shutdown::Write);
                } else {
                    front_in.shutdown(Shutdown::Both);
                    back_out.shutdown(Shutdown::Both);
                }
            }
        });
        let (mut front, mut back) = (front, back);
        std::thread::spawn(move || {
            let to_server = |bytes: &[u8], passed: &mut Passed, before: Instant| {
                passed.down.feed(bytes);
                if passed.down.controls.last() == Some(&FINISH) {
                    passed.finish_at.get_or_insert(before);
                }
            };
            pump(&mut back, &mut front, None, &passed, to_server);
            // The collector has closed. What the server still writes reaches nobody, and must not be counted.
            back.shutdown(Shutdown::Both);
            front.shutdown(Shutdown::Both);
            lock(&passed).closed = true;
        });
    }
}

/// Moves bytes until one side ends; `note` sees what was written and a moment before it. True: the reading side has ended.
fn pump(
    from: &mut Socket,
    to: &mut Socket,
    paused: Option<&AtomicBool>,
    passed: &Mutex<Passed>,
    note: impl Fn(&[u8], &mut Passed, Instant),
) -> bool {
    let mut buf = [0; 16 * 1024];
    loop {
        while paused.is_some_and(|p| p.load(Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let Ok(n @ 1..) = from.read(&mut buf) else {
            return true;
        };
        let mut rest = &buf[..n];
        while !rest.is_empty() {
            let before = Instant::now();
            let Ok(n @ 1..) = to.write(rest) else {
                return false;
            };
            note(&rest[..n], &mut lock(passed), before);
            rest = &rest[n..];
        }
    }
}
