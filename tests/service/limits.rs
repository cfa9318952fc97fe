//! Frame limits: where they are, and what becomes of what is over them.

use tapflow::transport::options::Oversize;
use tapflow::units::ByteSize;

use crate::support::eventually;
use crate::support::frames::{self, ACCEPT, DNSTAP, Numbered, READY, control, data};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Running, Socket, drops};

/// A good frame, the frame, a good frame.
fn around(payload_len: usize) -> Vec<u8> {
    let numbered = Numbered::new();
    [
        numbered.run(0..1),
        data(&vec![7; payload_len]),
        numbered.run(1..2),
    ]
    .concat()
}

/// B004, B010, B011: a frame over the limit is skipped exactly, and counted; the limit itself is within.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_frame_is_skipped_exactly_and_the_stream_goes_on() {
    let running = Rig::new()
        .listeners(|l| l.data_frame_max = ByteSize(70_000))
        .null()
        .start()
        .await;
    let mut received = 0;
    for socket in Socket::BOTH {
        for (len, lost) in [(69_999, 0), (70_000, 0), (70_001, 1), (5_000_000, 1)] {
            let before = running.ledger().lost();
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&around(len)).await;
            peer.stop().await;
            received += 3;
            assert_eq!(
                running.wait_settled(received).await.lost() - before,
                lost,
                "{len} bytes over {socket:?}"
            );
        }
    }
    running.wait_closed("clean", 8).await;
    let ledger = running.stop().await;
    let want = ["listener:tcp/oversized", "listener:unix/oversized"].map(|d| (d.to_owned(), 2));
    let mut got = drops(&ledger);
    got.sort();
    assert_eq!(got, want);
    let bytes: u64 = ledger.listeners.iter().map(|l| l.2).sum();
    let sent: usize = [69_999, 70_000, 70_001, 5_000_000]
        .map(|n| around(n).len())
        .iter()
        .sum::<usize>()
        * 2;
    assert_eq!(bytes, sent as u64, "skipped bytes are received bytes");
}

/// B010: or it ends the stream, as configured.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_frame_closes_the_connection_where_it_is_set_to() {
    let change = |l: &mut tapflow::transport::options::ListenerOptions| {
        (l.data_frame_max, l.oversize) = (ByteSize(70_000), Oversize::Close);
    };
    let running = Rig::new().listeners(change).null().start().await;
    for (n, socket) in (1..).zip(Socket::BOTH) {
        let mut peer = Peer::bidirectional(&running.at(socket)).await;
        let _ = peer.send_what_goes(&around(70_001)).await;
        assert!(peer.read_to_end().await.is_empty());
        running.wait_closed("data_too_long", n).await;
    }
    running.wait_settled(2).await;
    running.serves_well(Socket::Unix, 10).await;
    running.stop().await;
}

/// B001, B005: appliances send larger control frames than libfstrm takes; every limit can be raised, each for itself.
#[tokio::test(flavor = "multi_thread")]
async fn limits_can_be_raised_to_any_size() {
    let rows = [
        (ByteSize::mib(4), ByteSize::kib(64)),
        (ByteSize(4064), ByteSize::mib(32)),
        (ByteSize::mib(4), ByteSize::mib(32)),
    ];
    for (control_max, data_max) in rows {
        let running = Rig::new()
            .listeners(|l| (l.control_frame_max, l.data_frame_max) = (control_max, data_max))
            .null()
            .start()
            .await;
        let mut peer = Peer::connect(&running.at(Socket::Unix)).await;
        // A READY that fills its limit: foreign types of 248 octets (256 with their header), then ours.
        let foreign = [b'x'; 248];
        let room = control_max.as_usize() - 4 - 8 - DNSTAP.len();
        let types: Vec<&[u8]> = std::iter::repeat_n(&foreign[..], room / 256)
            .chain([DNSTAP])
            .collect();
        peer.send(&control(READY, &types)).await;
        let accept = control(ACCEPT, &[DNSTAP]);
        assert_eq!(
            peer.read(accept.len()).await,
            accept,
            "control frames up to {control_max}"
        );
        peer.send(&frames::start()).await;
        peer.send(&around(data_max.as_usize())).await;
        peer.stop().await;
        assert_eq!(
            running.wait_settled(3).await.lost(),
            0,
            "data frames up to {data_max}"
        );
        running.stop().await;
    }
}

/// A control frame's body of `len` octets that begins with this type.
fn body(kind: u32, len: usize, fill: u8) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    body.resize(len.max(4), fill);
    body.truncate(len);
    body
}

async fn pour_control(running: &Running, body: &[u8]) {
    let frame = [&[0; 4][..], &(body.len() as u32).to_be_bytes(), body].concat();
    let mut peer = Peer::connect(&running.at(Socket::Unix)).await;
    let _ = peer.send_what_goes(&frame).await;
    let _ = peer.half_close().await;
}

/// B002: a control frame of any length and content costs at most its own connection.
#[tokio::test(flavor = "multi_thread")]
async fn control_frames_of_any_length_never_end_the_process() {
    let running = Rig::new().null().start().await;
    let mut poured = 0;
    for len in 0..=5000 {
        pour_control(
            &running,
            &body([READY, 2, 3, 9][len % 4], len, [0, 1, 0xff][len % 3]),
        )
        .await;
        poured += 1;
    }
    eventually("every connection is closed", || {
        (running
            .scrape()
            .sum("tapflow_connections_closed_total", &[]) as u64
            == poured)
            .then_some(())
    })
    .await;
    println!(
        "{:?}",
        running.scrape().nonzero("tapflow_connections_closed_total")
    );
    assert!(
        running.closed("malformed") > 3000 && running.closed("control_too_long") == 5000 - 4064,
        "closed with a reason"
    );
    running.serves_well(Socket::Unix, 10).await;
    running.stop().await;
}
