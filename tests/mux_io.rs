//! The mux over connections of every kind: one engine, generic over what reads and writes.

use std::sync::Arc;
use std::time::Duration;

use tapflow::mux::{CloseReason, Config, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const STREAMS: usize = 12;
const OCTETS: usize = 2_000_000;

async fn within<F: Future>(work: F) -> F::Output {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.expect("it hangs")
}

fn content(stream: usize) -> Vec<u8> {
    (0..OCTETS).map(|n| (n / 3 + stream * 13) as u8).collect()
}

/// Streams both ways at once, each echoed whole; pings beside them; an end with a code that the other end learns.
async fn holds(a: Session, b: Session) {
    let mut work = Vec::new();
    for session in [&a, &b] {
        let session = session.clone();
        tokio::spawn(async move {
            while let Some(stream) = session.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = tokio::io::split(stream);
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
    }
    for number in 0..STREAMS {
        let session = if number % 2 == 0 {
            a.clone()
        } else {
            b.clone()
        };
        work.push(tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(session.open().await.unwrap());
            let sent = content(number);
            let mut back = Vec::new();
            let writes = async {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            };
            tokio::join!(writes, async { read.read_to_end(&mut back).await.unwrap() });
            assert!(back == sent, "stream {number}");
        }));
    }
    within(a.ping()).await.unwrap();
    within(b.ping()).await.unwrap();
    for work in work {
        within(work).await.unwrap();
    }
    a.close_with(4);
    assert_eq!(within(a.closed()).await, CloseReason::Local(4));
    assert_eq!(within(b.closed()).await, CloseReason::GoAway(4));
}

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (dialled.unwrap(), accepted.unwrap().0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_hold_over_unix_sockets() {
    let (a, b) = UnixStream::pair().unwrap();
    let config = Config::default();
    holds(
        Session::client(a, config.clone()),
        Session::server(b, config),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_hold_over_tls() {
    let key = rcgen::generate_simple_self_signed(["worker.example".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let secret = PrivateKeyDer::Pkcs8(key.signing_key.serialize_der().into());
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], secret)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (dialled, accepted) = tcp().await;
    let name = ServerName::try_from("worker.example").unwrap();
    let (a, b) = tokio::join!(
        TlsConnector::from(Arc::new(client)).connect(name, dialled),
        TlsAcceptor::from(Arc::new(server)).accept(accepted),
    );
    let config = Config::default();
    holds(
        Session::client(a.unwrap(), config.clone()),
        Session::server(b.unwrap(), config),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_hold_at_once() {
    let config = Config::default();
    let mut sessions = Vec::new();
    for _ in 0..1000 {
        let (a, b) = tokio::io::duplex(4096);
        let a = Session::client(a, config.clone());
        let b = Session::server(b, config.clone());
        sessions.push((a, b));
    }
    let mut streams = Vec::new();
    for (a, b) in &sessions {
        let mut out = a.open().await.unwrap();
        out.write_all(b"one of a thousand").await.unwrap();
        streams.push((out, within(b.accept()).await.unwrap()));
    }
    for (out, into) in &mut streams {
        let mut text = [0; 17];
        within(into.read_exact(&mut text)).await.unwrap();
        into.write_all(&text).await.unwrap();
        within(out.read_exact(&mut text)).await.unwrap();
        assert_eq!(&text, b"one of a thousand");
    }
    drop(streams);
    for (a, b) in &sessions {
        a.close();
        assert_eq!(within(b.closed()).await, CloseReason::GoAway(0));
    }
}
