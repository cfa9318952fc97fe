//! The mux speaks yamux as hashicorp/yamux does, in both roles, over TCP and over Unix sockets.

mod mux_support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mux_support::go_program;
use tapflow::mux::{CloseReason, Config, MuxStream, OpenError, Session, StreamError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};

const LIMIT: Duration = Duration::from_secs(60);
/// More than either end's window, so that credit has to come back many times.
const LARGE: usize = 5_000_000;

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.expect("it hangs")
}

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, role: &str, network: &str, address: &str) -> Peer {
    let child = Command::new(program)
        .args([role, network, address])
        .stdout(Stdio::null())
        .spawn();
    Peer(child.expect("it starts"))
}

/// A session with the peer, which has the other role; it dials.
async fn connect(program: &Path, ours: &str, network: &str) -> (Session, Peer) {
    let theirs = if ours == "client" { "server" } else { "client" };
    let config = Config::default();
    if network == "tcp" {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = start(program, theirs, network, &address);
        let (io, _) = within(listener.accept()).await.unwrap();
        match ours {
            "client" => (Session::client(io, config), peer),
            _ => (Session::server(io, config), peer),
        }
    } else {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mux.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let peer = start(program, theirs, network, path.to_str().unwrap());
        let (io, _) = within(listener.accept()).await.unwrap();
        match ours {
            "client" => (Session::client(io, config), peer),
            _ => (Session::server(io, config), peer),
        }
    }
}

async fn command(session: &Session, line: &str) -> MuxStream {
    let mut stream = session.open().await.expect("opens");
    let line = format!("{line}\n");
    stream.write_all(line.as_bytes()).await.expect("writes");
    stream
}

/// The whole answer to a command.
async fn answer(session: &Session, line: &str) -> String {
    let mut text = String::new();
    let mut stream = command(session, line).await;
    within(stream.read_to_string(&mut text)).await.expect(line);
    text
}

fn content(stream: usize) -> Vec<u8> {
    (0..LARGE).map(|n| (n / 5 + stream * 17) as u8).collect()
}

async fn echoed(session: Session, number: usize) {
    let (mut read, mut write) = tokio::io::split(command(&session, "echo").await);
    let sent = content(number);
    let mut back = Vec::new();
    let writes = async {
        write.write_all(&sent).await.expect("writes");
        write.shutdown().await.expect("ends");
    };
    let reads = async { read.read_to_end(&mut back).await.expect("reads") };
    within(async { tokio::join!(writes, reads) }).await;
    assert!(back == sent, "stream {number}: {} octets", back.len());
}

async fn echo(mut stream: MuxStream) {
    while let Ok(Some(mut octets)) = stream.recv().await {
        stream.send(&mut octets).await.expect("sends");
    }
    stream.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashicorp_yamux_and_the_mux_understand_each_other_in_either_role() {
    let Some(program) = go_program("testdata/peers/yamux-go", "the mux against hashicorp/yamux")
    else {
        return;
    };
    for (ours, network) in [
        ("client", "tcp"),
        ("server", "tcp"),
        ("client", "unix"),
        ("server", "unix"),
    ] {
        let (session, _peer) = connect(&program, ours, network).await;
        // Many streams at once both ways, each of many windows.
        let accepts = tokio::spawn({
            let session = session.clone();
            async move {
                while let Some(stream) = session.accept().await {
                    tokio::spawn(echo(stream));
                }
            }
        });
        let theirs = tokio::spawn({
            let session = session.clone();
            async move { answer(&session, "open 16 1500000").await }
        });
        let ours: Vec<_> = (0..4)
            .map(|number| tokio::spawn(echoed(session.clone(), number)))
            .collect();
        for stream in ours {
            stream.await.unwrap();
        }
        assert_eq!(within(theirs).await.unwrap(), "");
        assert_eq!(answer(&session, "open 200 10").await, "");
        pings(&session).await;
        half_closes(&session).await;
        resets(&session).await;
        goes_away(&session).await;
        session.close();
        assert_eq!(within(session.closed()).await, CloseReason::Local(0));
        within(accepts).await.unwrap();
    }
    let _ = std::fs::remove_file(program);
}

async fn pings(session: &Session) {
    within(session.ping()).await.expect("they answer");
    assert_eq!(answer(session, "ping").await, "<nil>");
}

async fn half_closes(session: &Session) {
    let mut stream = command(session, "half").await;
    let mut text = String::new();
    within(stream.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "done");
    // Their end is over; ours goes on, for less than the time after which that library resets.
    stream.write_all(&[1; 300_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(answer(session, "last").await, "300000 <nil>");
}

async fn resets(session: &Session) {
    // Theirs.
    let mut stream = command(session, "leave").await;
    assert_eq!(within(stream.recv()).await, Ok(None));
    let e = loop {
        match stream.send(&mut bytes::Bytes::from_static(b"more")).await {
            Ok(()) => tokio::task::yield_now().await,
            Err(e) => break e,
        }
    };
    assert_eq!(e, StreamError::Reset(0));
    // Ours.
    let stream = command(session, "read").await;
    within(session.ping()).await.unwrap();
    stream.reset(5);
    assert_eq!(answer(session, "last").await, "connection reset");
    assert_eq!(session.close_reason(), None);
}

async fn goes_away(session: &Session) {
    let mut open = command(session, "echo").await;
    let mut ask = command(session, "last").await;
    // Theirs: no more from us, and open streams go on.
    assert_eq!(answer(session, "go-away").await, "<nil>");
    within(session.ping()).await.unwrap();
    assert_eq!(session.try_open().err(), Some(OpenError::GoneAway));
    open.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    within(open.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"still here");
    ask.shutdown().await.unwrap();
}
