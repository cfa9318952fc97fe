//! Outputs do not feel each other.

use tapflow::outputs::options::QueuePolicy;
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::units::{ByteSize, Span};

use crate::support::collector::Collector;
use crate::support::frames::Numbered;
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, output};

/// B041, B044, B047, B049: beside one output that is dead and one that is slow, both with a policy that drops, the good
/// one gets every frame, and the sender is not slowed to their pace.
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_dead_and_a_stalled_output_the_good_one_gets_everything() {
    const FRAMES: u64 = 300_000;
    let mut rig = Rig::new()
        .forward("good", |_| {})
        .forward("dead", |o| {
            (o.policy, o.queue_bytes) = (QueuePolicy::DropNewest, ByteSize::mib(2))
        })
        .forward("slow", |o| {
            (o.policy, o.queue_bytes) = (QueuePolicy::DropOldest, ByteSize::mib(2))
        });
    rig.config.shutdown_timeout = Span::secs(2);
    let good = Collector::listen(&rig.socket("good"), true);
    let _slow = Collector::listen(&rig.socket("slow"), false);
    let running = rig.start().await;
    let numbered = Numbered::new();
    for socket in Socket::BOTH {
        let mut peer = Peer::bidirectional(&running.at(socket)).await;
        for first in (0..FRAMES / 2).step_by(1000) {
            peer.send(&numbered.run(first..first + 1000)).await;
        }
        peer.stop().await;
    }
    running.wait_received(FRAMES).await;
    crate::support::eventually("the good output has everything", || {
        (output(&running.ledger(), "good").delivered == FRAMES).then_some(())
    })
    .await;
    let now = running.ledger();
    for name in ["dead", "slow"] {
        let account = output(&now, name);
        assert!(
            account.in_flight > 1000 && account.dropped_total() > FRAMES / 2,
            "{name}: {}",
            now.to_json()
        );
    }
    let ledger = running.stop().await;
    assert_eq!(output(&ledger, "good").delivered, FRAMES);
    assert_eq!(output(&ledger, "good").dropped_total(), 0);
    for name in ["dead", "slow"] {
        let account = output(&ledger, name);
        assert_eq!(
            account.delivered + account.dropped_total(),
            FRAMES,
            "{name}: {}",
            ledger.to_json()
        );
        let at_stop: u64 = account
            .dropped
            .iter()
            .filter(|d| d.0 == OutputDrop::Shutdown)
            .map(|d| d.1)
            .sum();
        assert!(
            at_stop > 0,
            "{name}: what waited at the stop is counted: {}",
            ledger.to_json()
        );
    }
    assert_eq!(good.arrived().await.len() as u64, FRAMES);
}
