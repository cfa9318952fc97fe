//! A million frames: nothing is lost where the policy is to wait, and where it is to drop, what is missing is what is counted.

use std::sync::Arc;
use std::time::Instant;

use tapflow::outputs::options::QueuePolicy;
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::units::ByteSize;
use tokio::sync::Barrier;

use crate::support::collector::Collector;
use crate::support::eventually;
use crate::support::frames::Numbered;
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, output};

const MILLION: u64 = 1_000_000;

/// Sends a million frames over so many connections, all open at once, to a null output and to a collector, both of which
/// get every one of them.
async fn through(socket: Socket, connections: u64) {
    let rig = Rig::new().null().forward("next", |_| {});
    let collector = Collector::listen(&rig.socket("next"), true);
    let running = rig.start().await;
    let began = Instant::now();
    let share = MILLION / connections;
    let (all_open, at) = (
        Arc::new(Barrier::new(connections as usize)),
        running.at(socket),
    );
    let senders: Vec<_> = (0..connections)
        .map(|n| {
            let (all_open, at) = (all_open.clone(), at.clone());
            tokio::spawn(async move {
                let mut peer = Peer::bidirectional(&at).await;
                all_open.wait().await;
                let numbered = Numbered::new();
                for piece in (0..share).step_by(1000) {
                    let first = n * share + piece;
                    peer.send(&numbered.run(first..first + 1000)).await;
                }
                peer.stop().await;
            })
        })
        .collect();
    for sender in senders {
        sender.await.expect("a sender is served to its end");
    }
    let ledger = running.wait_settled(MILLION).await;
    println!(
        "{socket:?}, {connections} connections: {:?}",
        began.elapsed()
    );
    assert_eq!(ledger.lost(), 0, "{}", ledger.to_json());
    running.wait_closed("clean", connections).await;
    let ledger = running.stop().await;
    assert_eq!(
        (
            output(&ledger, "null").delivered,
            output(&ledger, "next").delivered
        ),
        (MILLION, MILLION)
    );
    let mut arrived = collector.arrived().await;
    if connections == 1 {
        assert!(arrived.is_sorted(), "the order of arrival is kept");
    }
    arrived.sort_unstable();
    assert!(
        arrived.iter().copied().eq(0..MILLION),
        "each frame arrives once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_frames_through_one_unix_connection_are_all_delivered_in_order() {
    through(Socket::Unix, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_frames_through_one_tcp_connection_are_all_delivered_in_order() {
    through(Socket::Tcp, 1).await;
}

/// B038: many peers at once on one socket.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_frames_through_a_thousand_unix_connections_are_all_delivered() {
    through(Socket::Unix, 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_frames_through_a_thousand_tcp_connections_are_all_delivered() {
    through(Socket::Tcp, 1000).await;
}

/// B047: a million frames while the output stalls, with a policy that drops.
async fn stalled(policy: QueuePolicy) {
    let rig = Rig::new().null().forward("next", |o| {
        o.policy = policy;
        o.queue_bytes = ByteSize::mib(4);
    });
    let collector = Collector::listen(&rig.socket("next"), false);
    let running = rig.start().await;
    eventually("the output is connected", || {
        (collector.connected() > 0).then_some(())
    })
    .await;
    let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
    let numbered = Numbered::new();
    for first in (0..MILLION).step_by(1000) {
        peer.send(&numbered.run(first..first + 1000)).await;
    }
    peer.stop().await;
    running.wait_received(MILLION).await;
    let ledger = running.ledger();
    assert!(
        output(&ledger, "next").dropped_total() > MILLION / 2,
        "{}",
        ledger.to_json()
    );
    assert!(
        output(&ledger, "next").in_flight > 10_000,
        "{}",
        ledger.to_json()
    );
    collector.open();
    let ledger = running.stop().await;
    let arrived = collector.arrived().await;
    let next = output(&ledger, "next");
    let dropped: u64 = next
        .dropped
        .iter()
        .filter(|d| d.0 == OutputDrop::QueueFull)
        .map(|d| d.1)
        .sum();
    assert_eq!(
        next.dropped_total(),
        dropped,
        "the queue is the only place that drops: {}",
        ledger.to_json()
    );
    assert_eq!(
        (arrived.len() as u64, MILLION - arrived.len() as u64),
        (next.delivered, dropped)
    );
    assert_eq!(output(&ledger, "null").delivered, MILLION);
    assert!(arrived.is_sorted_by(|a, b| a < b), "in order, each once");
    match policy {
        QueuePolicy::DropOldest => {
            assert_eq!(arrived.last(), Some(&(MILLION - 1)), "the newest is kept")
        }
        _ => assert!(
            arrived.iter().copied().take(10_000).eq(0..10_000),
            "the oldest are kept"
        ),
    }
}

/// B047.
#[tokio::test(flavor = "multi_thread")]
async fn with_drop_newest_and_a_stalled_output_dropped_is_exactly_what_is_missing() {
    stalled(QueuePolicy::DropNewest).await;
}

/// B047.
#[tokio::test(flavor = "multi_thread")]
async fn with_drop_oldest_and_a_stalled_output_dropped_is_exactly_what_is_missing() {
    stalled(QueuePolicy::DropOldest).await;
}

/// B041: with `block` the sender waits, and loses nothing once the output goes on.
#[tokio::test(flavor = "multi_thread")]
async fn with_block_and_a_stalled_output_the_sender_waits_and_nothing_is_lost() {
    const FRAMES: u64 = 300_000;
    let rig = Rig::new().forward("next", |o| o.queue_bytes = ByteSize::mib(1));
    let collector = Collector::listen(&rig.socket("next"), false);
    let running = rig.start().await;
    let at = running.at(Socket::Unix);
    let sender = tokio::spawn(async move {
        let mut peer = Peer::bidirectional(&at).await;
        let numbered = Numbered::new();
        for first in (0..FRAMES).step_by(1000) {
            peer.send(&numbered.run(first..first + 1000)).await;
        }
        peer.stop().await;
    });
    // Queue, read-ahead and socket buffers hold some 10 MB of the 30; then nothing moves.
    let mut last = u64::MAX;
    let held = loop {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let now = running.ledger().received;
        if now == last && now > 0 {
            break now;
        }
        last = now;
    };
    assert!(
        held < FRAMES * 2 / 3,
        "{held} of {FRAMES} are held in memory"
    );
    assert!(!sender.is_finished(), "the sender waits");
    collector.open();
    sender.await.expect("the sender is served to its end");
    let ledger = running.wait_settled(FRAMES).await;
    assert_eq!(ledger.lost(), 0);
    running.stop().await;
    assert!(collector.arrived().await.into_iter().eq(0..FRAMES));
}
