//! Two ends against each other.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::frame::{Flags, Header, Kind};
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

fn pair(config: &Config) -> (Session, Session) {
    let (a, b) = duplex(64 * 1024);
    (
        Session::client(a, config.clone()),
        Session::server(b, config.clone()),
    )
}

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.expect("it hangs")
}

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
async fn sixteen_streams_echo_ten_mebibytes_each() {
    let (a, b) = pair(&Config::default());
    tokio::spawn(async move {
        while let Some(stream) = b.accept().await {
            tokio::spawn(async move {
                let (mut r, mut w) = tokio::io::split(stream);
                let _ = tokio::io::copy(&mut r, &mut w).await;
                let _ = w.shutdown().await;
            });
        }
    });
    let mut tasks = Vec::new();
    for n in 0..16u8 {
        let stream = a.open().await.expect("opens");
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
        tokio::time::timeout(Duration::from_secs(120), task)
            .await
            .expect("it hangs")
            .expect("no panic");
    }
}

#[tokio::test]
async fn the_limit_of_concurrent_streams_is_enforced_at_both_ends() {
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
async fn a_session_with_reservations_closes() {
    let (a, b) = pair(&Config::default());
    let _held = a.reserve(10).expect("reserves");
    a.close_with(0);
    assert_eq!(within(a.closed()).await, CloseReason::Local(0));
    assert_eq!(within(b.closed()).await, CloseReason::GoAway(0));
}

#[tokio::test(start_paused = true)]
async fn close_does_not_hang_behind_a_blocked_writer() {
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
async fn closing_a_stream_while_data_arrives_leaves_the_session_alive() {
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
async fn closing_stream_and_session_at_once_does_not_deadlock() {
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
async fn copying_out_gives_the_error_of_the_writer() {
    let (a, b) = pair(&Config::default());
    let mut out = a.open().await.expect("opens");
    out.write_all(&[1; 100]).await.expect("writes");
    let mut stream = within(b.accept()).await.expect("a stream");
    let (mut w, r) = duplex(10);
    drop(r);
    let e = within(stream.copy_to(&mut w)).await.expect_err("broken");
    assert_eq!(e.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn streams_nobody_accepts_block_no_other() {
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

#[tokio::test]
async fn a_stream_that_is_opened_and_never_written_is_seen_by_the_peer() {
    let (a, b) = pair(&Config::default());
    let stream = a.open().await.expect("opens");
    assert_eq!(within(b.accept()).await.expect("seen").id(), stream.id());
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_found_out() {
    let (io, _peer) = duplex(64 * 1024);
    let a = Session::client(io, Config::default());
    let began = tokio::time::Instant::now();
    assert_eq!(a.closed().await, CloseReason::KeepaliveTimeout);
    // Interval and timeout, and the close timeout at most.
    assert!(
        began.elapsed() >= Duration::from_secs(40) && began.elapsed() <= Duration::from_secs(46)
    );
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

fn feed(role: Role, config: Config, octets: &[u8]) -> Core {
    let mut core = Core::new(role, config);
    core.receive(&mut ReadBuffer::from(octets));
    core
}

#[test]
fn bad_peers_are_told_by_name() {
    let syn = Header::new(Kind::WindowUpdate, Flags::SYN, 1, 0).encode();
    let over = Header::new(Kind::Data, Flags::NONE, 1, 256 * 1024 + 9).encode();
    let ping = Header::new(Kind::Ping, Flags::SYN, 0, 1).encode();
    let even = Header::new(Kind::Data, Flags::SYN, 2, 0).encode();
    let mut version = syn;
    version[0] = 2;
    let mut flood = Vec::new();
    for n in 0..3000u32 {
        flood.extend(Header::new(Kind::Data, Flags::SYN, 2 * n + 1, 0).encode());
    }
    let table: Vec<(Vec<u8>, &str)> = vec![
        (b"GET / HTTP/1.1\r\n".to_vec(), "foreign_protocol"),
        (version.to_vec(), "wrong_version"),
        ([syn, over].concat(), "window_overrun"),
        (flood, "stream_flood"),
        (ping.repeat(100_000), "control_flood"),
        (even.to_vec(), "protocol"),
        ([syn, syn].concat(), "protocol"),
        ([ping.as_slice(), b"GET / HTTP/1"].concat(), "bad_frame"),
    ];
    for (octets, name) in table {
        let core = feed(Role::Server, Config::default(), &octets);
        assert_eq!(core.closed().map(CloseReason::name), Some(name));
    }
}

#[test]
fn a_connection_cut_at_any_octet_has_its_reason() {
    let mut wire = Header::new(Kind::Data, Flags::SYN, 1, 5).encode().to_vec();
    wire.extend(b"frame");
    for cut in 0..=wire.len() {
        let mut core = Core::new(Role::Server, Config::default());
        let mut buf = ReadBuffer::from(&wire[..cut]);
        core.receive(&mut buf);
        core.end_of_input(buf.len());
        let name = core.closed().map(CloseReason::name);
        let whole = cut == 0 || cut == 12 + 5;
        assert_eq!(
            name,
            Some(if whole { "peer_closed" } else { "cut" }),
            "{cut}"
        );
    }
}

#[test]
fn what_all_streams_hold_stays_under_the_receive_cap() {
    let config = Config {
        receive_cap: 1 << 20,
        ..Config::default()
    };
    let mut wire = Vec::new();
    for n in 0..10u32 {
        wire.extend(Header::new(Kind::Data, Flags::SYN, 2 * n + 1, 200_000).encode());
        wire.extend(vec![0; 200_000]);
    }
    let core = feed(Role::Server, config, &wire);
    let status = core.status();
    assert_eq!((status.remote_streams, status.refused), (4, 6));
    assert!(status.promised <= 1 << 20, "{status:?}");
}

#[derive(Debug, Clone)]
enum Op {
    Open,
    Write(usize, usize),
    Read(usize, usize),
    Finish(usize),
    Move(usize),
}

fn op() -> impl Strategy<Value = (bool, Op)> {
    let op = prop_oneof![
        Just(Op::Open),
        (0..4usize, 0..200_000usize).prop_map(|(s, n)| Op::Write(s, n)),
        (0..4usize, 1..200_000usize).prop_map(|(s, n)| Op::Read(s, n)),
        (0..4usize).prop_map(Op::Finish),
        (0..300_000usize).prop_map(Op::Move),
    ];
    (any::<bool>(), op)
}

#[derive(Default)]
struct End {
    ids: Vec<u32>,
    wire: BytesMut,
    rest: ReadBuffer,
    sent: std::collections::HashMap<u32, Vec<u8>>,
    got: std::collections::HashMap<u32, Vec<u8>>,
    ended: std::collections::HashSet<u32>,
}

fn step(cores: &mut [Core; 2], ends: &mut [End; 2], me: usize, op: &Op, seed: u8) {
    let (core, end) = (&mut cores[me], &mut ends[me]);
    let pick = |end: &End, s: usize| end.ids.get(s % end.ids.len().max(1)).copied();
    match *op {
        Op::Open => end.ids.extend(core.open(false).ok()),
        Op::Write(s, n) => {
            if let Some(id) = pick(end, s) {
                let data = vec![seed; n];
                let n = core.send_slice(id, &data).unwrap_or(0);
                end.sent.entry(id).or_default().extend(&data[..n]);
            }
        }
        Op::Read(s, n) => {
            if let Some(id) = pick(end, s) {
                match core.recv(id, n) {
                    Ok(Received::Octets(o)) => end.got.entry(id).or_default().extend(&o),
                    Ok(Received::End) => {
                        end.ended.insert(id);
                    }
                    _ => {}
                }
            }
        }
        Op::Finish(s) => {
            if let Some(id) = pick(end, s) {
                core.finish(id);
            }
        }
        Op::Move(n) => {
            let mut batch = core.take();
            for segment in &batch.segments {
                end.wire.extend_from_slice(&segment.octets);
            }
            core.written(&mut batch);
            let n = n.min(end.wire.len());
            let piece = end.wire.split_to(n);
            ends[1 - me].rest.extend(&piece);
            cores[1 - me].receive(&mut ends[1 - me].rest);
            ends[1 - me].ids.extend(cores[1 - me].accept());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_ends_agree_whatever_the_order_and_the_cuts(ops in proptest::collection::vec(op(), 1..120)) {
        let config = Config { max_streams: 5, write_budget: 100_000, ..Config::default() };
        let mut cores = [Core::new(Role::Client, config.clone()), Core::new(Role::Server, config)];
        let mut ends = [End::default(), End::default()];
        for (n, (me, op)) in ops.iter().enumerate() {
            step(&mut cores, &mut ends, usize::from(*me), op, n as u8);
            prop_assert!(cores.iter().all(|c| c.closed().is_none()), "{:?}", cores.each_ref().map(Core::closed));
        }
        for me in [0, 1] {
            for s in 0..ends[me].ids.len() {
                step(&mut cores, &mut ends, me, &Op::Finish(s), 0);
            }
        }
        for _ in 0..60 {
            for me in [0, 1] {
                step(&mut cores, &mut ends, me, &Op::Move(usize::MAX), 0);
                for s in 0..ends[me].ids.len() {
                    step(&mut cores, &mut ends, me, &Op::Finish(s), 0);
                    step(&mut cores, &mut ends, me, &Op::Read(s, usize::MAX), 0);
                }
            }
        }
        for me in [0, 1] {
            for (id, sent) in &ends[me].sent {
                let got = ends[1 - me].got.get(id).map_or(&[][..], Vec::as_slice);
                prop_assert!(sent == got, "stream {} sent {} got {}", id, sent.len(), got.len());
            }
            let status = cores[me].status();
            prop_assert_eq!((status.local_streams, status.remote_streams), (0, 0));
        }
    }

    #[test]
    fn no_octets_of_a_peer_break_a_bound(octets in proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..3000)) {
        fuzz_wire(&octets);
    }
}
