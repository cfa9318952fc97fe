//! Listeners whose connections are sessions: each stream is a connection like any other.

use tapflow::mux::{CloseReason, Config, MuxStream, Session};
use tapflow::pipeline::ledger::Snapshot;
use tapflow::transport::dial;
use tapflow::units::{ByteSize, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::frames::{self, ACCEPT, FINISH, Numbered, control};
use crate::support::peer::Peer;
use crate::support::program::Program;
use crate::support::rig::{Rig, Running, Socket};
use crate::support::{PATIENCE, eventually, within};

/// A rig whose listeners take sessions.
fn rig() -> Rig {
    Rig::new()
        .null()
        .listeners(|l| l.uri = Endpoint::mux(l.uri.clone()))
}

async fn session(to: &Endpoint) -> Session {
    let io = dial(to, PATIENCE).await.expect("the listener is there");
    Session::client(io, Config::default())
}

/// A stream with its handshake behind it.
async fn stream(session: &Session) -> MuxStream {
    let mut stream = within("a stream", session.open()).await.expect("a stream");
    let want = control(ACCEPT, &[frames::DNSTAP]);
    stream.write_all(&frames::ready()).await.unwrap();
    let mut got = vec![0; want.len()];
    within("ACCEPT", stream.read_exact(&mut got)).await.unwrap();
    assert_eq!(got, want);
    stream.write_all(&frames::start()).await.unwrap();
    stream
}

/// STOP, FINISH, end.
async fn stop(mut stream: MuxStream) {
    stream.write_all(&frames::stop()).await.unwrap();
    let mut rest = Vec::new();
    within("the end", stream.read_to_end(&mut rest))
        .await
        .unwrap();
    assert_eq!(rest, control(FINISH, &[]));
}

fn sum(running: &Running, metric: &str, labels: &[&str]) -> u64 {
    running.scrape().sum(metric, labels) as u64
}

async fn session_ends(running: &Running, reason: &str) {
    let label = format!("reason=\"{reason}\"");
    eventually(&format!("a session ends as {reason}"), || {
        (sum(running, "tapflow_sessions_closed_total", &[&label]) == 1).then_some(())
    })
    .await;
}

/// A session with so many streams at once, each with `n` frames.
async fn serves(running: &Running, socket: Socket, streams: u64, n: u64) -> Snapshot {
    let before = running.ledger().received;
    let session = session(&running.at(socket)).await;
    let mut open = Vec::new();
    for _ in 0..streams {
        open.push(stream(&session).await);
    }
    let numbered = Numbered::new();
    for (i, stream) in (0..).zip(&mut open) {
        let bytes = numbered.run(i * n..(i + 1) * n);
        within("room", stream.write_all(&bytes)).await.unwrap();
    }
    for stream in open {
        stop(stream).await;
    }
    running.wait_settled(before + streams * n).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stream_of_a_session_is_a_connection_with_its_own_handshake_and_counts() {
    let running = rig().start().await;
    for socket in Socket::BOTH {
        serves(&running, socket, 8, 10_000).await;
    }
    running.wait_closed("clean", 16).await;
    assert_eq!(sum(&running, "tapflow_connections_accepted_total", &[]), 16);
    assert_eq!(sum(&running, "tapflow_sessions_accepted_total", &[]), 2);
    eventually("both sessions are over", || {
        (sum(&running, "tapflow_sessions_active", &[]) == 0).then_some(())
    })
    .await;
    let ledger = running.stop().await;
    assert_eq!((ledger.received, ledger.lost()), (160_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_protocol_ends_its_session_by_name_and_no_other() {
    let running = rig().start().await;
    let good = session(&running.at(Socket::Tcp)).await;
    let mut kept = stream(&good).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03hello",
    ] {
        let mut peer = Peer::connect(&running.at(Socket::Tcp)).await;
        let _ = peer.send_what_goes(bytes).await;
        peer.read_to_end().await;
    }
    let label = "reason=\"foreign_protocol\"";
    eventually("both foreigners are named", || {
        (sum(&running, "tapflow_sessions_closed_total", &[label]) == 2).then_some(())
    })
    .await;
    kept.write_all(&Numbered::new().run(0..100)).await.unwrap();
    stop(kept).await;
    running.wait_settled(100).await;
    assert!(good.close_reason().is_none());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_streams_ends_its_session_by_name_and_no_other() {
    let running = rig()
        .listeners(|l| l.session_buffer = ByteSize::kib(256))
        .start()
        .await;
    let good = session(&running.at(Socket::Tcp)).await;
    let mut kept = stream(&good).await;
    // SYN of the streams 1, 3, 5 and so on.
    let flood: Vec<u8> = (0..100_000u32)
        .flat_map(|n| [&[0, 1, 0, 1][..], &(2 * n + 1).to_be_bytes(), &[0; 4]].concat())
        .collect();
    let mut peer = Peer::connect(&running.at(Socket::Tcp)).await;
    let _ = peer.send_what_goes(&flood).await;
    session_ends(&running, "stream_flood").await;
    assert!(sum(&running, "tapflow_streams_refused_total", &[]) > 0);
    kept.write_all(&Numbered::new().run(0..100)).await.unwrap();
    stop(kept).await;
    running.wait_settled(100).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_streams_have_the_listeners_limits() {
    let running = rig()
        .listeners(|l| (l.sessions_max, l.connections_max) = (2, 3))
        .start()
        .await;
    let at = running.at(Socket::Tcp);
    let (a, b) = (session(&at).await, session(&at).await);
    let _open = [stream(&a).await, stream(&a).await, stream(&b).await];
    let refused = session(&at).await;
    within("the third session is refused", refused.closed()).await;
    session_ends(&running, "refused_limit").await;
    let mut fourth = b.open().await.unwrap();
    let _ = fourth.write_all(&frames::ready()).await;
    let mut rest = Vec::new();
    let _ = within("the fourth stream ends", fourth.read_to_end(&mut rest)).await;
    assert!(rest.is_empty(), "no ACCEPT: {rest:?}");
    running.wait_closed("refused_limit", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_what_streams_have_sent_and_ends_their_sessions() {
    let running = rig().start().await;
    let mut held = Vec::new();
    for socket in Socket::BOTH {
        let session = session(&running.at(socket)).await;
        let mut open = stream(&session).await;
        open.write_all(&Numbered::new().run(0..1000)).await.unwrap();
        held.push((session, open));
    }
    running.wait_received(2000).await;
    let ledger = running.stop().await;
    assert_eq!((ledger.received, ledger.lost()), (2000, 0));
    for (session, mut open) in held {
        let mut rest = Vec::new();
        within("the stream ends", open.read_to_end(&mut rest))
            .await
            .unwrap();
        assert_eq!(rest, control(FINISH, &[]), "the sender is told");
        drop(open);
        let reason = within("the session ends", session.closed()).await;
        assert!(
            matches!(reason, CloseReason::GoAway(0) | CloseReason::PeerClosed),
            "{reason}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_command_serves_sessions_with_the_outputs_it_is_given() {
    let program = Program::worker();
    let folder = format!("file:{}", program.path("frames").display());
    let started = program
        .arg("--listen")
        .arg("tcp:127.0.0.1:0")
        .arg("--output")
        .arg(format!("{folder}?compress=off"))
        .start();
    let at = started.endpoint("mux+tcp:");
    let session = session(&at).await;
    let mut open = stream(&session).await;
    open.write_all(&Numbered::new().run(0..1000)).await.unwrap();
    stop(open).await;
    drop(session);
    started.wait_ledger("1000 frames", |l| l["outputs"][0]["delivered"] == 1000);
    let (code, ledger, lines) = started.terminate();
    assert_eq!((code, &ledger["closes"]), (Some(0), &true.into()));
    assert!(
        lines.iter().any(|l| l.contains("output of type \"mux\"")),
        "it says how it is used: {lines:#?}"
    );
}
