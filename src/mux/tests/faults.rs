//! Faults of other libraries, a test each: the first eight are simple-mux's.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};

use super::super::frame::{Flags, Header, Kind};
use super::super::{CloseReason, Config, OpenError, Session, StreamError};
use super::{echo, half, pair, stream, within};

#[tokio::test]
async fn fault_1_the_limit_of_concurrent_streams_is_enforced_at_both_ends() {
    let few = Config {
        max_streams: 2,
        ..Config::default()
    };
    let (io_a, io_b) = duplex(64 * 1024);
    let a = Session::client(io_a, Config::default());
    let b = Session::server(io_b, few.clone());
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(a.open().await.expect("opens"));
    }
    let refused = within(streams[2].recv()).await;
    assert_eq!(refused, Err(StreamError::Reset(0)));
    assert_eq!(b.status().remote_streams, 2);
    let one = b.try_open().expect("first");
    let _two = b.try_open().expect("second");
    assert_eq!(b.try_open().err(), Some(OpenError::Quota));
    one.reset(3);
    within(b.open()).await.expect("a place is free");
}

#[tokio::test]
async fn fault_2_a_session_with_reservations_closes() {
    let (a, b) = pair(&Config::default());
    let _held = a.reserve(10).expect("reserves");
    a.close_with(0);
    assert_eq!(within(a.closed()).await, CloseReason::Local(0));
    assert_eq!(within(b.closed()).await, CloseReason::GoAway(0));
}

#[tokio::test]
async fn fault_2_a_session_with_reservations_whose_peer_died_does_not_leak() {
    let (a, peer) = half(Config::default(), 1024);
    let mut held = a.reserve(10).expect("reserves");
    drop(peer);
    let reason = within(a.closed()).await;
    assert!(
        matches!(reason, CloseReason::PeerClosed | CloseReason::Io { .. }),
        "{reason:?}"
    );
    assert_eq!(held.open().err(), Some(OpenError::Session(reason)));
    let (gone, mut notice) = tokio::sync::oneshot::channel::<()>();
    a.on_close(move |_| drop(gone));
    assert!(notice.try_recv().is_err(), "called at once");
    let weak = a.weak();
    drop((a, held));
    within(async {
        while weak.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_3_close_does_not_hang_behind_a_blocked_writer() {
    let (io, _never_read) = duplex(16);
    let a = Session::client(io, Config::default());
    let mut stream = a.try_open().expect("opens");
    let writer = tokio::spawn(async move { stream.write_all(&[0; 1 << 21]).await });
    tokio::task::yield_now().await;
    a.close();
    assert!(within(writer).await.expect("no panic").is_err());
    assert_eq!(within(a.closed()).await, CloseReason::Local(0));
}

#[tokio::test]
async fn fault_4_closing_a_stream_while_data_arrives_leaves_the_session_alive() {
    let (a, b) = pair(&Config::default());
    for _ in 0..20 {
        let mut out = a.open().await.expect("opens");
        let writer = tokio::spawn(async move { while out.write_all(&[1; 9000]).await.is_ok() {} });
        let mut stream = within(b.accept()).await.expect("a stream");
        within(stream.recv()).await.expect("data");
        drop(stream);
        within(writer).await.expect("no panic");
    }
    within(a.ping()).await.expect("alive");
    assert_eq!(a.status().local_streams, 0);
}

#[tokio::test]
async fn fault_5_closing_stream_and_session_at_once_does_not_deadlock() {
    for _ in 0..50 {
        let (a, b) = pair(&Config::default());
        let stream = a.open().await.expect("opens");
        let inner = a.clone();
        a.on_close(move |_| inner.close());
        let one = tokio::spawn(async move { drop(stream) });
        let two = tokio::spawn({
            let a = a.clone();
            async move { a.close() }
        });
        within(async { (one.await, two.await) })
            .await
            .0
            .expect("no panic");
        within(a.closed()).await;
        within(b.closed()).await;
    }
}

#[tokio::test]
async fn fault_6_a_reader_takes_in_everything_while_nothing_can_be_written() {
    // A reader that wrote its replies itself would stop with the writer.
    let (mut peer, read) = duplex(1024);
    let b = Session::server(tokio::io::join(read, Stuck), Config::default());
    let feeds = tokio::spawn(async move {
        let syn = Header::new(Kind::Data, Flags::SYN, 1, 0).encode();
        peer.write_all(&syn).await.expect("taken");
        for n in 0..200 {
            let ping = Header::new(Kind::Ping, Flags::SYN, 0, n).encode();
            let data = Header::new(Kind::Data, Flags::NONE, 1, 1000).encode();
            peer.write_all(&ping).await.expect("taken");
            peer.write_all(&data).await.expect("taken");
            peer.write_all(&[3; 1000]).await.expect("taken");
        }
        let fin = Header::new(Kind::Data, Flags::FIN, 1, 0).encode();
        peer.write_all(&fin).await.expect("taken");
        peer
    });
    let mut into = within(b.accept()).await.expect("a stream");
    let mut all = Vec::new();
    within(into.read_to_end(&mut all)).await.expect("reads");
    assert_eq!(all, vec![3; 200_000]);
    assert_eq!(b.close_reason(), None);
    within(feeds).await.expect("no panic");
}

/// A connection that takes nothing.
struct Stuck;

impl AsyncWrite for Stuck {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn fault_6_both_ends_under_load_and_pings_over_a_tiny_pipe_do_not_deadlock() {
    let (io_a, io_b) = duplex(64);
    let config = Config {
        stream_window: 256 * 1024,
        write_budget: 64 * 1024,
        ..Config::default()
    };
    let a = Session::client(io_a, config.clone());
    let b = Session::server(io_b, config);
    let mut work = Vec::new();
    for (here, there) in [(&a, &b), (&b, &a)] {
        for _ in 0..3 {
            let (out, mut into) = stream(here, there).await;
            let (mut r, mut w) = tokio::io::split(out);
            work.push(tokio::spawn(async move {
                w.write_all(&[5; 600_000]).await.expect("writes");
                w.shutdown().await.expect("ends");
                600_000
            }));
            work.push(tokio::spawn(async move {
                r.read_to_end(&mut Vec::new()).await.expect("reads")
            }));
            work.push(tokio::spawn(async move {
                let (mut r, mut w) = tokio::io::split(&mut into);
                let n = tokio::io::copy(&mut r, &mut w).await.expect("copies");
                w.shutdown().await.expect("ends");
                usize::try_from(n).expect("fits")
            }));
        }
    }
    for session in [a.clone(), b.clone()] {
        work.push(tokio::spawn(async move {
            for _ in 0..50 {
                session.ping().await.expect("alive");
            }
            600_000
        }));
    }
    for work in work {
        assert_eq!(within(work).await.expect("no panic"), 600_000);
    }
}

#[tokio::test]
async fn fault_7_copying_out_gives_the_error_of_the_writer() {
    let (a, b) = pair(&Config::default());
    let mut out = a.open().await.expect("opens");
    out.write_all(&[1; 100]).await.expect("writes");
    let mut stream = within(b.accept()).await.expect("a stream");
    let (mut w, r) = duplex(10);
    drop(r);
    let e = within(stream.copy_to(&mut w)).await.expect_err("broken");
    assert_eq!(e.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn fault_8_streams_nobody_accepts_block_no_other() {
    let (a, b) = pair(&Config::default());
    let mut first = a.open().await.expect("opens");
    let mut accepted = within(b.accept()).await.expect("a stream");
    let mut pending = Vec::new();
    for _ in 0..100 {
        let mut s = a.open().await.expect("opens");
        s.write_all(b"waits").await.expect("writes");
        pending.push(s);
    }
    first.write_all(b"goes").await.expect("writes");
    assert_eq!(
        within(accepted.recv()).await,
        Ok(Some(Bytes::from_static(b"goes")))
    );
}

/// The yamux crate.
#[tokio::test]
async fn a_stream_that_is_opened_and_never_written_is_seen_by_the_peer() {
    let (a, b) = pair(&Config::default());
    let stream = a.open().await.expect("opens");
    assert_eq!(within(b.accept()).await.expect("seen").id(), stream.id());
}

/// tokio-yamux.
#[tokio::test]
async fn a_stream_that_is_only_written_does_not_stall_though_nobody_reads_it() {
    let (a, b) = pair(&Config::default());
    let (mut out, mut into) = stream(&a, &b).await;
    // What lies unread in the other direction changes nothing.
    into.write_all(&[9; 100_000]).await.expect("writes");
    let reads = tokio::spawn(async move {
        let mut all = Vec::new();
        into.read_to_end(&mut all).await.expect("reads");
        all.len()
    });
    within(out.write_all(&[1; 8 << 20])).await.expect("writes");
    out.shutdown().await.expect("ends");
    assert_eq!(within(reads).await.expect("no panic"), 8 << 20);
}

/// smux, version 1.
#[tokio::test]
async fn a_slow_stream_leaves_the_receive_cap_to_others() {
    let config = Config {
        receive_cap: 2 << 20,
        ..Config::default()
    };
    let (a, b) = pair(&config);
    let mut slow = Vec::new();
    for _ in 0..3 {
        let (mut out, into) = within(stream(&a, &b)).await;
        let fills = tokio::spawn(async move {
            let _ = out.write_all(&[1; 8 << 20]).await;
        });
        slow.push((fills, into));
    }
    let (mut out, mut into) = stream(&a, &b).await;
    let writes = tokio::spawn(async move { out.write_all(&[2; 8 << 20]).await });
    let mut got = 0;
    while let Some(octets) = within(into.recv()).await.expect("reads") {
        got += octets.len();
        let status = b.status();
        assert!(status.promised <= 2 << 20, "{status:?}");
    }
    assert_eq!(got, 8 << 20);
    within(writes).await.expect("no panic").expect("writes");
    for (fills, _) in slow {
        fills.abort();
    }
}

/// The yamux crate before 0.14.1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_is_lost_when_a_stream_is_split_over_two_tasks() {
    let (a, b) = pair(&Config::default());
    tokio::spawn(echo(b));
    let (mut r, mut w) = tokio::io::split(a.open().await.expect("opens"));
    let (told, mut tells) = tokio::sync::mpsc::channel(1);
    let reads = tokio::spawn(async move {
        let mut one = [0];
        for _ in 0..3000 {
            r.read_exact(&mut one).await.expect("reads");
            told.send(()).await.expect("the writer is there");
        }
    });
    for n in 0..3000u32 {
        w.write_all(&[n as u8]).await.expect("writes");
        within(tells.recv()).await.expect("the reader is there");
    }
    within(reads).await.expect("no panic");
}
