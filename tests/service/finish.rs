//! FINISH: at once after STOP whatever the outputs do, and never to a sender that does not expect it.

use std::time::{Duration, Instant};

use tapflow::units::ByteSize;

use crate::support::collector::Collector;
use crate::support::eventually;
use crate::support::frames::{self, FINISH, Numbered, control};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket};

/// Time that FINISH may take.
const FINISH_MAX: Duration = Duration::from_millis(100);

/// B026, B029: STOP behind several megabytes, while the only output is blocked and its queue is full.
async fn blocked(socket: Socket) {
    const SENDERS: u64 = 5;
    const FRAMES: u64 = 40_000;
    let rig = Rig::new()
        .alone()
        .forward("next", |o| o.queue_bytes = ByteSize::kib(256));
    let collector = Collector::listen(&rig.socket("next"), false);
    let running = rig.start().await;
    let run = Numbered::new().run(0..FRAMES);
    assert!(run.len() > 4_000_000);
    let mut took = Vec::new();
    for n in 1..=SENDERS {
        let mut peer = Peer::bidirectional(&running.at(socket)).await;
        peer.send(&run).await;
        let stop = Instant::now();
        peer.stop().await;
        took.push(stop.elapsed());
        running.wait_received(n * FRAMES).await;
    }
    took.sort_unstable();
    println!("{socket:?}: FINISH after {took:?}");
    assert!(took[took.len() / 2] < FINISH_MAX, "FINISH after {took:?}");
    let before = running.ledger();
    assert!(
        before.outputs[0].in_flight > (SENDERS - 1) * FRAMES,
        "the output is blocked: {}",
        before.to_json()
    );
    eventually("the closed senders' sockets are closed here too", || {
        (running.scrape().sum("tapflow_connections_active", &[]) == 0.0).then_some(())
    })
    .await;
    collector.open();
    let ledger = running.stop().await;
    assert_eq!(ledger.outputs[0].delivered, SENDERS * FRAMES);
    assert_eq!(collector.arrived().await.len() as u64, SENDERS * FRAMES);
}

/// B026.
#[tokio::test(flavor = "multi_thread")]
async fn finish_comes_at_once_over_unix_while_megabytes_wait_for_a_blocked_output() {
    blocked(Socket::Unix).await;
}

/// B026.
#[tokio::test(flavor = "multi_thread")]
async fn finish_comes_at_once_over_tcp_while_megabytes_wait_for_a_blocked_output() {
    blocked(Socket::Tcp).await;
}

/// B017: START without READY is a one-way sender; nothing is written to it, at any time.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ever_written_to_a_unidirectional_sender() {
    let running = Rig::new().null().start().await;
    for socket in Socket::BOTH {
        let mut peer = Peer::unidirectional(&running.at(socket)).await;
        peer.send(&Numbered::new().run(0..10)).await;
        peer.stop_one_way().await;
    }
    running.wait_settled(20).await;
    running.wait_closed("clean", 2).await;
    running.stop().await;
}

/// B018: Unbound closes right after STOP; FINISH finds nobody, and that is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_closes_right_after_stop_ends_clean() {
    let running = Rig::new().null().start().await;
    let run = Numbered::new().run(0..10);
    for n in 1..=100u64 {
        for socket in Socket::BOTH {
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&[run.clone(), frames::stop()].concat()).await;
            drop(peer);
        }
        running.wait_received(n * 20).await;
    }
    running.wait_closed("clean", 200).await;
    assert_eq!(
        running
            .scrape()
            .nonzero("tapflow_connections_closed_total")
            .len(),
        2,
        "no other reason"
    );
    running.stop().await;
}

/// B027: all of FINISH comes before the close, also when the sender says more after STOP.
#[tokio::test(flavor = "multi_thread")]
async fn finish_arrives_although_the_sender_goes_on_after_stop() {
    let running = Rig::new().null().start().await;
    let run = Numbered::new().run(0..10);
    for socket in Socket::BOTH {
        for _ in 0..50 {
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&[frames::stop(), run.clone()].concat()).await;
            assert_eq!(peer.read_to_end().await, control(FINISH, &[]));
        }
    }
    running.wait_closed("clean", 100).await;
    assert_eq!(
        running.stop().await.received,
        0,
        "what comes after STOP is no data"
    );
}

/// B019: dnsdist and PowerDNS Recursor close without STOP; everything before the close is kept, and the end is told apart
/// from one within a frame.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_without_stop_keeps_every_whole_frame() {
    let running = Rig::new().null().start().await;
    let run = Numbered::new().run(0..10);
    for socket in Socket::BOTH {
        for cut in [0, 1, 50] {
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&run[..run.len() - cut]).await;
            drop(peer);
        }
    }
    running.wait_closed("no_stop", 2).await;
    running.wait_closed("truncated", 4).await;
    running.wait_settled(2 * (10 + 9 + 9)).await;
    running.stop().await;
}
