//! A place that takes nothing: each policy loses what it says, and nobody else suffers.

use std::time::Duration;

use tapflow::outputs::options::{
    DnstapOptions, NullOptions, OutputKind, OutputOptions, QueuePolicy,
};
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::units::{ByteSize, Endpoint, Span};

use crate::support::{
    Habits, Peer, Rig, dropped, file_options, file_output, files, numbers_of_file, until,
};

fn forward(to: &std::path::Path, policy: QueuePolicy, queue_bytes: u64) -> OutputOptions {
    let options = DnstapOptions {
        to: Endpoint::unix(to),
        reconnect_min: Span::millis(5),
        reconnect_max: Span::millis(20),
        ..DnstapOptions::default()
    };
    OutputOptions {
        policy,
        queue_bytes: ByteSize(queue_bytes),
        ..OutputOptions::new(OutputKind::Dnstap(options))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_delivers_everything_at_once() {
    let mut rig = Rig::new();
    let mut null = rig.start("null", OutputOptions::new(OutputKind::Null(NullOptions {})));
    rig.send(&[&null], 1000, 10, 150).await;
    let account = rig.drain(&mut null).await;
    assert_eq!((account.delivered, account.dropped_total()), (1000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_stalled_receiver_dropped_equals_missing_exactly() {
    for policy in [QueuePolicy::DropNewest, QueuePolicy::DropOldest] {
        let mut rig = Rig::new();
        let path = rig.path("peer.sock");
        let peer = Peer::listen(
            &path,
            Habits {
                stalls: true,
                ..Habits::GOOD
            },
        );
        let mut out = rig.start("forward", forward(&path, policy, 200_000));
        rig.send(&[&out], 50_000, 50, 150).await;
        let stalled = rig.account(&out);
        assert!(
            dropped(&stalled, OutputDrop::QueueFull) > 20_000,
            "{policy:?}: {stalled:?}"
        );
        peer.go.send_replace(true);
        let account = rig.drain(&mut out).await;
        let got = peer.got.lock().unwrap().all();
        assert_eq!(account.delivered, got.len() as u64, "{policy:?}");
        assert_eq!(
            account.dropped_total(),
            50_000 - got.len() as u64,
            "{policy:?}"
        );
        assert_eq!(
            dropped(&account, OutputDrop::QueueFull),
            account.dropped_total()
        );
        assert!(
            got.windows(2).all(|w| w[0] < w[1]),
            "{policy:?}: in order and none twice"
        );
        let newest = *got.last().unwrap();
        assert_eq!(
            newest == 49_999,
            policy == QueuePolicy::DropOldest,
            "{policy:?} kept {newest} as its last"
        );
        assert_eq!(peer.got.lock().unwrap().stopped, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn block_makes_the_sender_wait_and_loses_nothing() {
    let mut rig = Rig::new();
    let path = rig.path("peer.sock");
    let peer = Peer::listen(
        &path,
        Habits {
            stalls: true,
            ..Habits::GOOD
        },
    );
    let mut out = rig.start("forward", forward(&path, QueuePolicy::Block, 200_000));
    let waits = tokio::time::timeout(
        Duration::from_millis(300),
        rig.send(&[&out], 50_000, 50, 150),
    )
    .await;
    assert!(waits.is_err(), "the sender is made to wait");
    // The batch that the cancelled connection had in hand is counted, the others are still on their way.
    let lost = dropped(&rig.account(&out), OutputDrop::Shutdown);
    assert_eq!(lost, 50);
    peer.go.send_replace(true);
    let sent = rig.sent();
    let rest = 50_000 - sent;
    rig.send(&[&out], rest, 50, 150).await;
    let account = rig.drain(&mut out).await;
    let got = peer.got.lock().unwrap().all();
    assert_eq!(
        (account.delivered, got.len() as u64),
        (50_000 - lost, 50_000 - lost)
    );
    assert!(got.windows(2).all(|w| w[0] < w[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_output_costs_the_others_nothing() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let mut dead = rig.start(
        "dead",
        forward(&rig.path("nobody.sock"), QueuePolicy::DropOldest, 100_000),
    );
    let mut file = rig.start("files", file_output(file_options(&dir)));
    rig.send(&[&dead, &file], 100_000, 100, 150).await;
    let account = rig.drain(&mut file).await;
    assert_eq!((account.delivered, account.dropped_total()), (100_000, 0));
    let numbers: Vec<u64> = files(&dir)
        .iter()
        .flat_map(|(name, bytes)| numbers_of_file(name, bytes))
        .collect();
    assert_eq!(numbers, (0..100_000).collect::<Vec<_>>());
    until("attempts are counted", || {
        rig.metric("tapflow_output_reconnects_total{output=\"dead\",reason=\"unreachable\"}") >= 2.0
    })
    .await;
    assert_eq!(rig.metric("tapflow_output_connected{output=\"dead\"}"), 0.0);
    let took = rig.abort(&mut dead).await;
    assert!(took < Duration::from_millis(500), "{took:?}");
    let account = rig.account(&dead);
    assert_eq!(account.delivered, 0);
    assert_eq!(
        dropped(&account, OutputDrop::QueueFull) + dropped(&account, OutputDrop::Shutdown),
        100_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn aborting_while_a_write_is_blocked_ends_in_time_and_counts() {
    let mut rig = Rig::new();
    let path = rig.path("peer.sock");
    let peer = Peer::listen(
        &path,
        Habits {
            stalls: true,
            ..Habits::GOOD
        },
    );
    let mut out = rig.start(
        "forward",
        forward(&path, QueuePolicy::DropNewest, 1_000_000),
    );
    rig.send(&[&out], 50_000, 50, 150).await;
    until("the socket's buffer is full", || {
        rig.account(&out).delivered > 0
    })
    .await;
    let took = rig.abort(&mut out).await;
    assert!(took < Duration::from_millis(500), "{took:?}");
    let account = rig.account(&out);
    assert_eq!(account.delivered + account.dropped_total(), 50_000);
    assert!(dropped(&account, OutputDrop::Shutdown) > 0);
    // What counts as delivered is what the peer can still read, the frame that was cut is not among it.
    peer.go.send_replace(true);
    until("the peer reads what was written", || {
        peer.count() as u64 >= account.delivered
    })
    .await;
    assert_eq!(peer.count() as u64, account.delivered);
}
