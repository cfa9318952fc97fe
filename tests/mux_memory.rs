//! What sessions and streams cost in memory, counted at the allocator.

use std::time::Duration;

use allocation_counter::measure;
use tapflow::mux::frame::{Flags, Header, Kind};
use tapflow::mux::{Config, Core, ReadBuffer, Received, Role, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::{Builder, Runtime};

/// Everything on this thread, where the counter counts; time passes when nothing else does.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

#[test]
fn a_session_idle_for_long_costs_less_than_20_kib() {
    const PAIRS: usize = 50;
    const PIPE: usize = 1024;
    let runtime = runtime();
    let mut sessions = Vec::new();
    let info = measure(|| {
        runtime.block_on(async {
            for _ in 0..PAIRS {
                let (a, b) = duplex(PIPE);
                let a = Session::client(a, Config::default());
                let b = Session::server(b, Config::default());
                // It has had its day.
                for _ in 0..20 {
                    let mut out = a.open().await.unwrap();
                    let mut into = b.accept().await.unwrap();
                    let writes = async {
                        out.write_all(&[1; 300_000]).await.unwrap();
                        out.shutdown().await.unwrap();
                    };
                    let mut all = Vec::new();
                    tokio::join!(writes, async { into.read_to_end(&mut all).await.unwrap() });
                }
                sessions.push((a, b));
            }
            tokio::time::sleep(Duration::from_secs(300)).await;
        });
    });
    let each = info.bytes_current / (2 * PAIRS as i64);
    println!("a session idle for long: {each} octets, with its half of the pipe");
    assert!(each < 20 * 1024, "{each}");
    assert!(
        sessions
            .iter()
            .all(|(a, b)| a.close_reason().is_none() && b.close_reason().is_none())
    );
    runtime.block_on(async { drop(sessions) });
}

#[test]
fn ten_thousand_streams_on_one_session_cost_less_than_100_mib() {
    const STREAMS: usize = 10_000;
    let config = Config {
        max_streams: STREAMS,
        accept_backlog: STREAMS,
        // Half of it is for the initial windows.
        receive_cap: STREAMS as u64 * 512 * 1024,
        ..Config::default()
    };
    let runtime = runtime();
    let info = measure(|| {
        runtime.block_on(async {
            let (a, b) = duplex(64 * 1024);
            let a = Session::client(a, config.clone());
            let b = Session::server(b, config);
            let mut streams = Vec::new();
            for _ in 0..STREAMS {
                let mut out = a.open().await.unwrap();
                out.write_all(b"some octets").await.unwrap();
                streams.push((out, b.accept().await.unwrap()));
            }
            for (out, into) in &mut streams {
                let mut text = [0; 11];
                into.read_exact(&mut text).await.unwrap();
                into.write_all(&text).await.unwrap();
                out.read_exact(&mut text).await.unwrap();
            }
            assert_eq!(b.status().remote_streams, STREAMS);
        });
    });
    let most = info.bytes_max;
    println!("{STREAMS} streams, both ends: {most} octets");
    assert!(most < 100 << 20, "{most}");
}

/// A peer that sends little to a stream nobody reads, in each buffer that is full of something else, and all it may.
#[test]
fn what_a_session_holds_stays_at_the_configured_cap() {
    const CAP: u64 = 8 << 20;
    const BUFFER: usize = 256 * 1024;
    let config = Config {
        receive_cap: CAP,
        ..Config::default()
    };
    let mut kept = Vec::new();
    let info = measure(|| {
        let mut core = Core::new(Role::Server, config);
        let mut input = ReadBuffer::default();
        let streams: Vec<u32> = (0..16).map(|n| 2 * n + 1).collect();
        for id in &streams {
            input.extend(&Header::new(Kind::Data, Flags::SYN, *id, 0).encode());
        }
        core.receive(&mut input);
        while core.accept().is_some() {}
        let frame = vec![7; 20 * 1024];
        let fast = streams[0];
        let mut credit = vec![256 * 1024usize; streams.len()];
        for round in 0..400 {
            input.make_room(BUFFER);
            let slow = 1 + round % (streams.len() - 1);
            let send = |n: usize, input: &mut ReadBuffer| {
                let length = u32::try_from(frame.len()).unwrap();
                input.extend(&Header::new(Kind::Data, Flags::NONE, streams[n], length).encode());
                input.extend(&frame);
            };
            if credit[slow] >= frame.len() {
                credit[slow] -= frame.len();
                send(slow, &mut input);
            }
            for _ in 0..9 {
                send(0, &mut input);
            }
            core.receive(&mut input);
            assert_eq!(core.closed(), None);
            while let Ok(Received::Octets(octets)) = core.recv(fast, usize::MAX) {
                // Users keep some of it too.
                if round % 7 == 0 && kept.is_empty() {
                    kept.push(octets);
                }
            }
            core.take();
            while core.poll_event().is_some() {}
            assert!(core.status().promised <= CAP);
        }
        assert!(core.status().buffered > 3 << 20, "{:?}", core.status());
    });
    let most = info.bytes_max;
    println!("under a receive cap of {CAP}: {most} octets at most");
    // Beside the cap: one read buffer and the next, and what is small.
    assert!(most < CAP + 3 * BUFFER as u64, "{most}");
}
