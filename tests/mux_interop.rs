//! The mux speaks yamux as the `yamux` crate does, in both roles, over TCP.

use std::future::poll_fn;

use bytes::Bytes;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tapflow::mux::{Config, Session};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

const STREAMS: usize = 16;
/// More than a window of 256 KiB, so that credit has to come back.
const OCTETS: usize = 700_000;

/// What a stream carries, different for each.
fn content(stream: usize) -> Vec<u8> {
    (0..OCTETS).map(|n| (n / 7 + stream * 31) as u8).collect()
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (dialled.unwrap(), accepted.unwrap().0)
}

type Theirs = yamux::Connection<Compat<TcpStream>>;

fn theirs(io: TcpStream, mode: yamux::Mode) -> Theirs {
    yamux::Connection::new(io.compat(), yamux::Config::default(), mode)
}

/// Sends back whatever comes on each stream that the peer opens, until the peer closes the session.
async fn they_echo(mut connection: Theirs) {
    while let Some(stream) = poll_fn(|cx| connection.poll_next_inbound(cx)).await {
        let Ok(stream) = stream else { return };
        tokio::spawn(async move {
            let (read, mut write) = stream.split();
            futures_util::io::copy(read, &mut write).await.unwrap();
            write.close().await.unwrap();
        });
    }
}

/// Sends on a stream of ours, finishes it, and holds what comes back to what was sent.
async fn we_check(session: &Session, number: usize) {
    let mut stream = session.open().await.unwrap();
    let sent = content(number);
    let mut back = Vec::new();
    let (mut read, mut write) = tokio::io::split(&mut stream);
    let writes = async {
        use tokio::io::AsyncWriteExt as _;
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let reads = async {
        use tokio::io::AsyncReadExt as _;
        read.read_to_end(&mut back).await.unwrap();
    };
    tokio::join!(writes, reads);
    assert!(back == sent, "stream {number}: {} octets back", back.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_we_open_come_back_whole_from_the_yamux_crate_in_either_role() {
    for we_dial in [true, false] {
        let (dialled, accepted) = pair().await;
        let (ours, other, mode) = match we_dial {
            true => (dialled, accepted, yamux::Mode::Server),
            false => (accepted, dialled, yamux::Mode::Client),
        };
        let session = match we_dial {
            true => Session::client(ours, Config::default()),
            false => Session::server(ours, Config::default()),
        };
        let echo = tokio::spawn(they_echo(theirs(other, mode)));
        let streams: Vec<_> = (0..STREAMS)
            .map(|number| {
                let session = session.clone();
                tokio::spawn(async move { we_check(&session, number).await })
            })
            .collect();
        for stream in streams {
            stream.await.unwrap();
        }
        assert!(session.ping().await.is_ok(), "they answer a ping");
        session.close();
        session.closed().await;
        echo.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_the_yamux_crate_opens_come_back_whole_from_us_in_either_role() {
    for they_dial in [true, false] {
        let (dialled, accepted) = pair().await;
        let (other, ours, mode) = match they_dial {
            true => (dialled, accepted, yamux::Mode::Client),
            false => (accepted, dialled, yamux::Mode::Server),
        };
        let session = match they_dial {
            true => Session::server(ours, Config::default()),
            false => Session::client(ours, Config::default()),
        };
        let echo = {
            let session = session.clone();
            tokio::spawn(async move {
                while let Some(mut stream) = session.accept().await {
                    tokio::spawn(async move {
                        while let Some(mut octets) = stream.recv().await.unwrap() {
                            while !octets.is_empty() {
                                stream.send(&mut octets).await.unwrap();
                            }
                        }
                        stream.finish();
                    });
                }
            })
        };
        let mut connection = theirs(other, mode);
        let mut checks = Vec::new();
        for number in 0..STREAMS {
            let stream = poll_fn(|cx| connection.poll_new_outbound(cx))
                .await
                .unwrap();
            checks.push(tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let sent = Bytes::from(content(number));
                let mut back = Vec::new();
                let writes = async {
                    write.write_all(&sent).await.unwrap();
                    write.close().await.unwrap();
                };
                let reads = async { read.read_to_end(&mut back).await.unwrap() };
                tokio::join!(writes, reads);
                assert!(back == sent, "stream {number}: {} octets back", back.len());
            }));
        }
        let drive = tokio::spawn(async move {
            while poll_fn(|cx| connection.poll_next_inbound(cx))
                .await
                .is_some_and(|s| s.is_ok())
            {}
        });
        for check in checks {
            check.await.unwrap();
        }
        session.close();
        session.closed().await;
        drive.await.unwrap();
        echo.await.unwrap();
    }
}
