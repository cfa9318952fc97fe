//! Acknowledged delivery as a worker speaks it, against a sender whose octets are written out by hand.

use std::time::Duration;

use tapflow::mux::{Config, MuxStream, Session};
use tapflow::outputs::options::QueuePolicy;
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::transport::dial;
use tapflow::units::{ByteSize, Endpoint, Span};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::collector::Collector;
use crate::support::frames::{self, ACCEPT, FINISH, Numbered, READY, START, control};
use crate::support::rig::{Rig, Running, Socket, output};
use crate::support::{PATIENCE, eventually, within};

const ACK: &[u8] = b"protobuf:dnstap.Dnstap+ack";
const TAKEN: u32 = 0x7461_7002;
const LEAVE: u32 = 0x7461_7003;

/// BATCH, of an instance that is all 7.
fn batch(sequence: u64, frames: u32) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, 0, 0, 0, 32, 0x74, 0x61, 0x70, 1];
    out.extend([7; 16]);
    out.extend(sequence.to_be_bytes());
    out.extend(frames.to_be_bytes());
    out
}

/// What a worker says.
#[derive(PartialEq, Eq, Debug)]
enum Said {
    Taken(u64),
    Leave,
    Finish,
    /// The stream is over.
    End,
}

/// An acknowledged stream.
struct Sender {
    stream: MuxStream,
}

impl Sender {
    async fn open(at: &Endpoint) -> Self {
        let io = dial(at, PATIENCE).await.expect("the listener is there");
        let session = Session::client(io, Config::default());
        let mut stream = session.open().await.expect("a stream");
        let offer = control(READY, &[ACK, frames::DNSTAP]);
        stream.write_all(&offer).await.unwrap();
        let want = control(ACCEPT, &[ACK]);
        let mut got = vec![0; want.len()];
        within("ACCEPT", stream.read_exact(&mut got)).await.unwrap();
        assert_eq!(got, want, "our own type is taken");
        stream.write_all(&control(START, &[ACK])).await.unwrap();
        Self { stream }
    }

    async fn send(&mut self, bytes: &[u8]) {
        within("room", self.stream.write_all(bytes)).await.unwrap();
    }

    async fn hear(&mut self) -> Said {
        let mut head = [0; 12];
        match within("an answer", self.stream.read_exact(&mut head)).await {
            Ok(_) => {}
            Err(_) => return Said::End,
        }
        assert_eq!(head[..4], [0; 4], "a control frame");
        match u32::from_be_bytes(head[8..].try_into().unwrap()) {
            TAKEN => Said::Taken(self.stream.read_u64().await.unwrap()),
            LEAVE => Said::Leave,
            FINISH => Said::Finish,
            other => panic!("control type {other}"),
        }
    }

    /// Waits until so many frames are acknowledged.
    async fn hears_taken(&mut self, frames: u64) {
        loop {
            match self.hear().await {
                Said::Taken(n) if n == frames => return,
                Said::Taken(n) => assert!(n < frames, "{n} of {frames}"),
                other => panic!("{other:?} before {frames} were taken"),
            }
        }
    }
}

fn rig() -> Rig {
    Rig::new().listeners(|l| l.uri = Endpoint::mux(l.uri.clone()))
}

fn duplicates(running: &Running) -> u64 {
    running.scrape().sum("tapflow_duplicate_frames_total", &[]) as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_counts_the_frames_of_the_stream_and_comes_before_finish() {
    let running = rig().null().start().await;
    let mut sender = Sender::open(&running.at(Socket::Tcp)).await;
    let numbered = Numbered::new();
    sender.send(&batch(1, 10)).await;
    sender.send(&numbered.run(0..10)).await;
    sender.hears_taken(10).await;
    for n in 2..12 {
        sender.send(&batch(n, 5)).await;
        sender.send(&numbered.run(n * 5..(n + 1) * 5)).await;
    }
    sender.send(&frames::stop()).await;
    sender.hears_taken(60).await;
    assert_eq!(sender.hear().await, Said::Finish);
    assert_eq!(sender.hear().await, Said::End);
    let ledger = running.stop().await;
    assert_eq!(
        (ledger.received, ledger.filtered, ledger.lost()),
        (60, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_comes_again_is_taken_where_it_was_cut_and_no_frame_twice() {
    let rig = rig().forward("next", |_| {});
    let collector = Collector::listen(&rig.socket("next"), true);
    let running = rig.start().await;
    let numbered = Numbered::new();
    let mut first = Sender::open(&running.at(Socket::Tcp)).await;
    first.send(&batch(1, 20)).await;
    first.send(&numbered.run(0..8)).await;
    running.wait_received(8).await;
    // The first stream is not known to be dead when the batch comes again.
    let mut again = Sender::open(&running.at(Socket::Unix)).await;
    again.send(&batch(1, 20)).await;
    again.send(&numbered.run(0..20)).await;
    again.hears_taken(20).await;
    first.send(&numbered.run(8..20)).await;
    first.hears_taken(20).await;
    for (mut sender, sequence) in [(first, 2), (again, 2)] {
        sender.send(&batch(sequence, 3)).await;
        sender.send(&numbered.run(20..23)).await;
        sender.hears_taken(23).await;
        sender.send(&frames::stop()).await;
        assert_eq!(sender.hear().await, Said::Finish);
    }
    assert_eq!(duplicates(&running), 8 + 12 + 3);
    let ledger = running.stop().await;
    assert_eq!(
        (ledger.received, ledger.filtered),
        (46, 23),
        "duplicates are filtered"
    );
    let mut arrived = collector.arrived().await;
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..23));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_output_has_not_written_is_not_acknowledged_also_at_the_end() {
    let mut rig = rig().null().forward("nowhere", |_| {});
    rig.config.shutdown_timeout = Span::millis(300);
    let running = rig.start().await;
    let mut sender = Sender::open(&running.at(Socket::Tcp)).await;
    sender.send(&batch(1, 10)).await;
    sender.send(&Numbered::new().run(0..10)).await;
    sender.send(&frames::stop()).await;
    running.wait_received(10).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(200), sender.hear())
            .await
            .is_err(),
        "neither TAKEN nor FINISH"
    );
    let ledger = running.stop().await;
    assert_eq!(sender.hear().await, Said::End, "and none at the end");
    let lost = output(&ledger, "nowhere").dropped;
    assert!(lost.contains(&(OutputDrop::Shutdown, 10)), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_queue_drops_by_its_policy_is_acknowledged_and_in_the_workers_ledger() {
    const FRAMES: u64 = 40_000;
    let rig = rig().forward("next", |o| {
        (o.policy, o.queue_bytes) = (QueuePolicy::DropOldest, ByteSize::kib(64));
    });
    let collector = Collector::listen(&rig.socket("next"), false);
    let running = rig.start().await;
    let mut sender = Sender::open(&running.at(Socket::Tcp)).await;
    let numbered = Numbered::new();
    for n in 0..FRAMES / 100 {
        sender.send(&batch(n, 100)).await;
        sender.send(&numbered.run(n * 100..(n + 1) * 100)).await;
    }
    running.wait_received(FRAMES).await;
    let ledger = running.ledger();
    let dropped = output(&ledger, "next").dropped_total();
    assert!(dropped > FRAMES / 2, "{}", ledger.to_json());
    collector.open();
    sender.hears_taken(FRAMES).await;
    sender.send(&frames::stop()).await;
    assert_eq!(sender.hear().await, Said::Finish);
    let ledger = running.stop().await;
    let next = output(&ledger, "next");
    assert_eq!(next.delivered + next.dropped_total(), FRAMES);
    assert_eq!(collector.arrived().await.len() as u64, next.delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_asks_the_sender_to_stop_and_acknowledges_what_it_gets_until_then() {
    let running = rig().null().start().await;
    let mut sender = Sender::open(&running.at(Socket::Tcp)).await;
    let numbered = Numbered::new();
    sender.send(&batch(1, 10)).await;
    sender.send(&numbered.run(0..5)).await;
    sender.hears_taken(5).await;
    let stop = tokio::spawn(running.stop());
    assert_eq!(sender.hear().await, Said::Leave);
    sender.send(&numbered.run(5..10)).await;
    sender.send(&frames::stop()).await;
    sender.hears_taken(10).await;
    assert_eq!(sender.hear().await, Said::Finish);
    assert_eq!(sender.hear().await, Said::End);
    let ledger = stop.await.unwrap();
    assert_eq!((ledger.received, ledger.lost()), (10, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_not_those_of_the_batch_end_the_stream_by_name() {
    let running = rig().null().start().await;
    let numbered = Numbered::new();
    let wrong: [Vec<u8>; 3] = [
        numbered.run(0..1),
        [batch(1, 1), numbered.run(0..2)].concat(),
        [batch(2, 3), numbered.run(0..2), batch(3, 1)].concat(),
    ];
    for (n, bytes) in (1..).zip(&wrong) {
        let mut sender = Sender::open(&running.at(Socket::Tcp)).await;
        sender.send(bytes).await;
        while let Said::Taken(_) = sender.hear().await {}
        running.wait_closed("batch_mismatch", n).await;
    }
    running.stop().await;
}

/// A foreign receiver's READY handling: who offers plain dnstap alone gets it, and marks mean nothing there.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_knows_no_acknowledgement_gets_none() {
    let running = rig().null().start().await;
    let io = dial(&running.at(Socket::Tcp), PATIENCE).await.unwrap();
    let session = Session::client(io, Config::default());
    let mut stream = session.open().await.unwrap();
    stream.write_all(&frames::ready()).await.unwrap();
    let want = control(ACCEPT, &[frames::DNSTAP]);
    let mut got = vec![0; want.len()];
    within("ACCEPT", stream.read_exact(&mut got)).await.unwrap();
    assert_eq!(got, want);
    let bytes = [
        frames::start(),
        batch(1, 9),
        Numbered::new().run(0..3),
        frames::stop(),
    ];
    stream.write_all(&bytes.concat()).await.unwrap();
    let mut rest = Vec::new();
    within("the end", stream.read_to_end(&mut rest))
        .await
        .unwrap();
    assert_eq!(rest, control(FINISH, &[]));
    eventually("three frames", || {
        (running.ledger().received == 3).then_some(())
    })
    .await;
    running.stop().await;
}
