//! Compressed senders: each codec, one frame a payload and many, counted exactly; and those that mean harm.

use std::io::Write as _;

use flate2::write::GzEncoder;
use tapflow::fstrm::{Codec, Compressor};
use tapflow::units::ByteSize;

use crate::support::collector::Collector;
use crate::support::frames::{Numbered, data};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, drops};

const FRAMES: u64 = 2000;

/// The frames 0 to [`FRAMES`], compressed.
fn compressed(codec: Codec, bulk: bool) -> Vec<u8> {
    let (mut compressor, mut out) = (Compressor::new(codec), Vec::new());
    let numbered = Numbered::new();
    if bulk {
        // Bulk payloads of 250 frames.
        for first in (0..FRAMES).step_by(250) {
            compressor
                .bulk(&numbered.run(first..first + 250), &mut out)
                .expect("it compresses");
        }
    } else {
        compressor
            .each(&numbered.run(0..FRAMES), &mut out)
            .expect("it compresses");
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn every_codec_and_layout_is_counted_frame_by_frame_and_arrives_decompressed() {
    let rig = Rig::new().decoding().null().forward("next", |_| {});
    let collector = Collector::listen(&rig.socket("next"), true);
    let running = rig.start().await;
    let (mut received, mut bytes) = (0, 0);
    for codec in Codec::ALL {
        for (bulk, socket) in [(true, Socket::Unix), (false, Socket::Tcp)] {
            let stream = compressed(codec, bulk);
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&stream).await;
            peer.stop().await;
            received += FRAMES;
            bytes += stream.len() as u64;
            assert_eq!(
                running.wait_settled(received).await.lost(),
                0,
                "{codec}, bulk {bulk}"
            );
        }
    }
    let ledger = running.stop().await;
    assert_eq!(
        ledger.listeners.iter().map(|l| l.2).sum::<u64>(),
        bytes,
        "bytes as they came"
    );
    let arrived = collector.arrived().await;
    assert!(
        arrived.into_iter().eq((0..8).flat_map(|_| 0..FRAMES)),
        "every frame, in order"
    );
}

/// A bomb, and bytes that do not decompress, cost one frame each.
#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_costs_its_own_frame() {
    let running = Rig::new()
        .listeners(|l| l.decompressed_max = ByteSize::mib(1))
        .decoding()
        .null()
        .start()
        .await;
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 64 << 20]).expect("it compresses");
    let bomb = data(&gzip.finish().expect("it compresses"));
    assert!(bomb.len() < 100_000);
    let broken = data(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff]);
    let good = compressed(Codec::Gzip, true);
    for (n, socket) in (1..).zip(Socket::BOTH) {
        let mut peer = Peer::bidirectional(&running.at(socket)).await;
        for bytes in [&good, &bomb, &good, &broken, &good] {
            peer.send(bytes).await;
        }
        peer.stop().await;
        assert_eq!(
            running.wait_settled(n * (3 * FRAMES + 2)).await.lost(),
            n * 2
        );
    }
    running.wait_closed("clean", 2).await;
    let ledger = running.stop().await;
    assert_eq!(ledger.outputs[0].delivered, 2 * 3 * FRAMES);
    let drops = drops(&ledger);
    println!("{drops:?}");
    assert_eq!(drops.len(), 4, "two reasons on two listeners: {drops:?}");
    assert!(
        drops
            .iter()
            .all(|d| d.0.starts_with("listener:") && d.1 == 1),
        "{drops:?}"
    );
}
