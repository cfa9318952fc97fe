//! What the tests of simple-mux assert, of this library.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::Instant;

use super::super::frame::{Flags, Header, INITIAL_WINDOW, Kind};
use super::super::{CloseReason, Config, Core, OpenError, ReadBuffer, Role, Session, StreamError};
use super::{echo, half, pair, stream, within};

#[tokio::test]
async fn what_was_written_before_a_close_arrives_whole() {
    let (a, b) = pair(&Config::default());
    let mut out = a.open().await.expect("opens");
    out.write_all(&[7; 128 * 1024]).await.expect("writes");
    drop(out);
    let mut all = Vec::new();
    let mut stream = within(b.accept()).await.expect("a stream");
    within(stream.read_to_end(&mut all)).await.expect("reads");
    assert_eq!(all, vec![7; 128 * 1024]);
}

#[tokio::test]
async fn sixteen_streams_echo_ten_mebibytes_each_with_large_and_small_windows() {
    for window in [1 << 20, 64 << 10] {
        let (a, b) = pair(&Config::default());
        let echoes = tokio::spawn(echo(b));
        let mut tasks = Vec::new();
        for n in 0..16u8 {
            let stream = a.open().await.expect("opens");
            stream.set_receive_window(window);
            tasks.push(tokio::spawn(async move {
                let (mut r, mut w) = tokio::io::split(stream);
                let writes = async {
                    for _ in 0..320 {
                        w.write_all(&[n; 32 * 1024]).await.expect("writes");
                    }
                    w.shutdown().await.expect("ends");
                };
                let reads = async {
                    let mut all = Vec::new();
                    r.read_to_end(&mut all).await.expect("reads");
                    assert_eq!(all.len(), 10 * 1024 * 1024);
                    assert!(all.iter().all(|o| *o == n));
                };
                tokio::join!(writes, reads);
            }));
        }
        for task in tasks {
            within(task).await.expect("no panic");
        }
        a.close();
        within(echoes).await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_and_one_with_a_reservation_does_not() {
    let config = Config {
        idle_timeout: Some(Duration::from_secs(5)),
        ..Config::default()
    };
    // The peer has no timeout, so that it is this end that gives up.
    let (io_a, io_b) = duplex(64 * 1024);
    let a = Session::client(io_a, config.clone());
    let _b = Session::server(io_b, Config::default());
    assert_eq!(within(a.closed()).await, CloseReason::IdleTimeout);
    let (io_a, io_b) = duplex(64 * 1024);
    let a = Session::client(io_a, config);
    let _b = Session::server(io_b, Config::default());
    let held = a.reserve(1).expect("reserves");
    assert!(
        tokio::time::timeout(Duration::from_secs(100), a.closed())
            .await
            .is_err()
    );
    drop(held);
    assert_eq!(within(a.closed()).await, CloseReason::IdleTimeout);
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_counts_anew_after_a_hundred_streams() {
    let timeout = Duration::from_secs(5);
    let (io_a, io_b) = duplex(64 * 1024);
    let a = Session::client(
        io_a,
        Config {
            idle_timeout: Some(timeout),
            ..Config::default()
        },
    );
    tokio::spawn(echo(Session::server(io_b, Config::default())));
    for _ in 0..100 {
        let mut stream = a.open().await.expect("opens");
        stream.write_all(b"there and back").await.expect("writes");
        stream.shutdown().await.expect("ends");
        stream.read_to_end(&mut Vec::new()).await.expect("reads");
        tokio::time::advance(timeout / 20).await;
    }
    let began = Instant::now();
    assert_eq!(within(a.closed()).await, CloseReason::IdleTimeout);
    assert!(began.elapsed() > timeout * 9 / 10, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_found_out() {
    let (io, _peer) = duplex(64 * 1024);
    let a = Session::client(io, Config::default());
    let began = Instant::now();
    assert_eq!(a.closed().await, CloseReason::KeepaliveTimeout);
    // Interval and timeout, and the close timeout at most.
    assert!(
        began.elapsed() >= Duration::from_secs(40) && began.elapsed() <= Duration::from_secs(46)
    );
}

#[tokio::test]
async fn the_peers_close_ends_the_session_and_each_stream() {
    let (a, b) = pair(&Config::default());
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(stream(&a, &b).await);
    }
    b.close_with(7);
    assert_eq!(within(a.closed()).await, CloseReason::GoAway(7));
    for (here, there) in &mut streams {
        let reason = StreamError::Session(CloseReason::GoAway(7));
        assert_eq!(within(here.recv()).await, Err(reason.clone()));
        assert_eq!(
            here.send(&mut Bytes::from_static(b"late")).await,
            Err(reason)
        );
        let reason = StreamError::Session(CloseReason::Local(7));
        assert_eq!(within(there.recv()).await, Err(reason));
    }
    assert!(matches!(a.try_open(), Err(OpenError::Session(_))));
    assert!(a.accept().await.is_none());
}

#[tokio::test]
async fn the_hundred_and_first_stream_fails_by_quota_also_when_the_peer_has_not_ended_the_earlier()
{
    let config = Config {
        max_streams: 100,
        ..Config::default()
    };
    let (a, b) = pair(&config);
    let mut here = Vec::new();
    let mut there = Vec::new();
    for _ in 0..100 {
        let (one, other) = stream(&a, &b).await;
        here.push(one);
        there.push(other);
    }
    assert_eq!(a.try_open().err(), Some(OpenError::Quota));
    here.clear();
    a.ping().await.expect("alive");
    assert_eq!(a.try_open().err(), Some(OpenError::Quota));
    there.pop();
    within(a.open()).await.expect("a place is free");
    assert_eq!(a.try_open().err(), Some(OpenError::Quota));
}

#[tokio::test(start_paused = true)]
async fn an_unread_pipe_trips_the_write_timeout() {
    let config = Config {
        write_timeout: Some(Duration::from_secs(3)),
        ..Config::default()
    };
    let (a, _unread) = half(config, 100);
    let began = Instant::now();
    let mut stream = a.try_open().expect("opens");
    stream.write_all(&[0; 10_000]).await.expect("queued");
    assert_eq!(within(a.closed()).await, CloseReason::WriteTimeout);
    assert!(
        began.elapsed() < Duration::from_millis(3100),
        "{:?}",
        began.elapsed()
    );
    let e = stream.write(&[0]).await.expect_err("it is over");
    assert_eq!(e.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn the_write_timeout_counts_from_the_last_progress() {
    let config = Config {
        write_timeout: Some(Duration::from_secs(3)),
        ..Config::default()
    };
    let (a, mut peer) = half(config, 100);
    let mut stream = a.try_open().expect("opens");
    stream.write_all(&[0; 1000]).await.expect("queued");
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        peer.read_exact(&mut [0; 100]).await.expect("reads");
    }
    assert_eq!(a.close_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unread_stream_trips_the_write_timeout_and_what_went_is_known() {
    let config = Config {
        write_timeout: Some(Duration::from_secs(3)),
        ..Config::default()
    };
    let (a, _b) = pair(&config);
    let mut stream = a.open().await.expect("opens");
    let mut data = Bytes::from(vec![0; 4 << 20]);
    let e = stream.send(&mut data).await;
    assert_eq!(e, Err(StreamError::WriteTimeout));
    assert_eq!(data.len(), (4 << 20) - 256 * 1024);
}

#[test]
fn a_thousand_grants_of_one_octet_are_used_exactly() {
    let mut core = Core::new(Role::Client, Config::default());
    let id = core.open(false).expect("opens");
    let first = vec![0; INITIAL_WINDOW as usize];
    let mut sent = 0;
    while sent < first.len() {
        let n = core.send_slice(id, &first[sent..]).expect("writes");
        sent += n;
        core.take();
    }
    for n in 0..1000 {
        assert_eq!(core.send_slice(id, &[1, 2]), Ok(0), "grant {n}");
        let grant = Header::new(Kind::WindowUpdate, Flags::NONE, id, 1).encode();
        core.receive(&mut ReadBuffer::from(&grant[..]));
        assert_eq!(core.send_slice(id, &[1, 2]), Ok(1), "grant {n}");
        core.take();
    }
    assert_eq!(core.send_slice(id, &[1, 2]), Ok(0));
}

#[tokio::test]
async fn a_reset_by_the_peer_unblocks_a_writer() {
    let (a, b) = pair(&Config::default());
    let (mut out, into) = stream(&a, &b).await;
    let writer = tokio::spawn(async move { out.send(&mut Bytes::from(vec![0; 4 << 20])).await });
    tokio::task::yield_now().await;
    into.reset(9);
    let e = within(writer).await.expect("no panic");
    assert_eq!(e, Err(StreamError::Reset(9)));
}
