//! Peers that are broken or mean no good: each ends its session for a reason that has a name, takes no more memory than the
//! configuration gives, and no other session notices.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::super::frame::{Flags, HEADER_LEN, Header, Kind};
use super::super::{CloseReason, Config, Core, OpenError, ReadBuffer, Received, Role, Session};
use super::{echo, pair, stream, within};

fn feed(role: Role, config: Config, octets: &[u8]) -> Core {
    let mut core = Core::new(role, config);
    core.receive(&mut ReadBuffer::from(octets));
    core
}

/// What a bad peer of a server says, and the reason that it gives.
fn bad_peers() -> Vec<(Vec<u8>, &'static str)> {
    let syn = Header::new(Kind::WindowUpdate, Flags::SYN, 1, 0).encode();
    let over = Header::new(Kind::Data, Flags::NONE, 1, 256 * 1024 + 9).encode();
    let ping = Header::new(Kind::Ping, Flags::SYN, 0, 1).encode();
    let even = Header::new(Kind::Data, Flags::SYN, 2, 0).encode();
    let zero = Header::new(Kind::Data, Flags::SYN, 0, 0).encode();
    let fin = Header::new(Kind::Data, Flags::FIN, 1, 0).encode();
    let data = Header::new(Kind::Data, Flags::NONE, 1, 1).encode();
    let credit = Header::new(Kind::WindowUpdate, Flags::NONE, 1, u32::MAX).encode();
    let away = Header::new(Kind::GoAway, Flags::NONE, 0, 1).encode();
    let tls = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0];
    let mut version = syn;
    version[0] = 2;
    let mut kind = syn;
    kind[1] = 9;
    let flood: Vec<u8> = (0..3000u32)
        .flat_map(|n| Header::new(Kind::Data, Flags::SYN, 2 * n + 1, 0).encode())
        .collect();
    vec![
        (b"GET / HTTP/1.1\r\n".to_vec(), "foreign_protocol"),
        (tls.to_vec(), "foreign_protocol"),
        (version.to_vec(), "wrong_version"),
        (kind.to_vec(), "bad_frame"),
        ([syn, over].concat(), "window_overrun"),
        (flood, "stream_flood"),
        (ping.repeat(100_000), "control_flood"),
        (even.to_vec(), "protocol"),
        (zero.to_vec(), "protocol"),
        ([syn, syn].concat(), "protocol"),
        ([syn, fin, data].concat(), "protocol"),
        ([syn, credit].concat(), "protocol"),
        ([ping.as_slice(), b"GET / HTTP/1"].concat(), "bad_frame"),
        (away.to_vec(), "go_away"),
        (syn[..7].to_vec(), "cut"),
        ([&syn[..], &data].concat(), "cut"),
        (ping.to_vec(), "peer_closed"),
    ]
}

#[test]
fn bad_peers_are_told_by_name() {
    for (octets, name) in bad_peers() {
        let mut core = feed(Role::Server, Config::default(), &octets);
        if core.closed().is_none() {
            core.end_of_input(match name {
                "cut" if octets.len() < HEADER_LEN => octets.len(),
                _ => 0,
            });
        }
        assert_eq!(core.closed().map(CloseReason::name), Some(name));
    }
}

#[tokio::test]
async fn a_bad_peer_ends_its_own_session_and_no_other() {
    let (a, b) = pair(&Config::default());
    tokio::spawn(echo(b));
    let mut other = a.open().await.expect("opens");
    for (octets, name) in bad_peers() {
        let (io, mut peer) = duplex(4096);
        let session = Session::server(io, Config::default());
        let feeds = tokio::spawn(async move {
            // It reads nothing, so that answers pile up.
            let _ = peer.write_all(&octets).await;
            if ["cut", "peer_closed"].contains(&name) {
                let _ = peer.shutdown().await;
            }
            let _ = tokio::io::copy(&mut peer, &mut tokio::io::sink()).await;
        });
        let mut back = [0; 4];
        other.write_all(b"well").await.expect("writes");
        within(other.read_exact(&mut back)).await.expect("reads");
        assert_eq!(within(session.closed()).await.name(), name);
        within(feeds).await.expect("no panic");
        other.write_all(b"well").await.expect("writes");
        within(other.read_exact(&mut back)).await.expect("reads");
    }
}

#[tokio::test]
async fn the_peer_is_told_the_code_before_the_connection_ends() {
    let (io, mut peer) = duplex(1 << 20);
    let session = Session::server(io, Config::default());
    let version = [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    peer.write_all(&version).await.expect("writes");
    let mut told = Vec::new();
    within(peer.read_to_end(&mut told)).await.expect("reads");
    let away = Header::new(Kind::GoAway, Flags::NONE, 0, 1).encode();
    assert_eq!(told, away);
    drop(peer);
    assert_eq!(within(session.closed()).await, CloseReason::WrongVersion(1));
}

#[tokio::test]
async fn what_waits_for_a_peer_that_does_not_read_stays_within_the_write_budget() {
    let config = Config {
        write_budget: 256 * 1024,
        keepalive_interval: None,
        ..Config::default()
    };
    let (io, peer) = duplex(1000);
    let session = Session::client(io, config);
    let mut writers = Vec::new();
    for _ in 0..100 {
        let mut out = session.open().await.expect("opens");
        writers.push(tokio::spawn(async move {
            let _ = out.write_all(&[0; 1 << 20]).await;
        }));
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
        let status = session.status();
        assert!(status.queued <= 2 * 256 * 1024 + 64 * 1024, "{status:?}");
    }
    for writer in writers {
        writer.abort();
    }
    drop(peer);
    let reason = within(session.closed()).await;
    assert!(matches!(reason.name(), "peer_closed" | "io"), "{reason:?}");
}

#[tokio::test]
async fn a_peer_that_reads_no_stream_holds_up_only_that_stream() {
    let (a, b) = pair(&Config::default());
    let (mut unread, _held) = stream(&a, &b).await;
    let writes = tokio::spawn(async move { unread.write_all(&[0; 4 << 20]).await });
    let (mut out, mut into) = stream(&a, &b).await;
    let reads = tokio::spawn(async move { into.read_to_end(&mut Vec::new()).await });
    within(out.write_all(&[1; 4 << 20])).await.expect("writes");
    out.shutdown().await.expect("ends");
    let all = within(reads).await.expect("no panic").expect("reads");
    assert_eq!(all, 4 << 20);
    writes.abort();
}

#[tokio::test(start_paused = true)]
async fn a_half_open_peer_is_found_out_and_one_that_says_anything_is_not() {
    let (io, mut peer) = duplex(64 * 1024);
    let session = Session::client(io, Config::default());
    let pong = Header::new(Kind::Ping, Flags::ACK, 0, 99).encode();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(25)).await;
        peer.write_all(&pong).await.expect("taken");
    }
    assert_eq!(session.close_reason(), None);
    let reason = session.closed().await;
    assert_eq!(reason, CloseReason::KeepaliveTimeout);
}

#[tokio::test]
async fn go_away_refuses_new_streams_and_leaves_the_open_ones() {
    let (a, b) = pair(&Config::default());
    let (mut out, mut into) = stream(&a, &b).await;
    b.go_away();
    b.ping().await.expect("alive");
    assert_eq!(a.try_open().err(), Some(OpenError::GoneAway));
    assert_eq!(a.open().await.err(), Some(OpenError::GoneAway));
    assert_eq!(b.try_open().err(), Some(OpenError::GoneAway));
    out.write_all(b"goes on").await.expect("writes");
    out.shutdown().await.expect("ends");
    let mut text = String::new();
    within(into.read_to_string(&mut text)).await.expect("reads");
    assert_eq!(text, "goes on");
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

#[test]
fn payload_that_stays_in_read_buffers_counts_with_the_whole_buffer() {
    let cap = 16 << 20;
    let config = Config {
        receive_cap: cap,
        stream_window: 4 << 20,
        ..Config::default()
    };
    let mut core = Core::new(Role::Server, config);
    let mut input = ReadBuffer::default();
    let syn = |id| Header::new(Kind::Data, Flags::SYN, id, 0).encode();
    input.extend(&[syn(1), syn(3)].concat());
    core.receive(&mut input);
    let (slow, fast) = (core.accept().expect("one"), core.accept().expect("other"));
    // The user keeps what the slow stream gives, 16 KiB of each buffer of 256 KiB.
    let mut kept = Vec::new();
    for _ in 0..400 {
        input.make_room(256 * 1024);
        for (id, length) in [(slow, 16 * 1024), (fast, 200 * 1024)] {
            input.extend(&Header::new(Kind::Data, Flags::NONE, id, length).encode());
            input.extend(&vec![7; length as usize]);
        }
        core.receive(&mut input);
        assert_eq!(core.closed(), None);
        while let Ok(Received::Octets(_)) = core.recv(fast, usize::MAX) {}
        while let Ok(Received::Octets(octets)) = core.recv(slow, usize::MAX) {
            kept.push(octets);
        }
        core.take();
        let status = core.status();
        assert!(status.promised <= cap, "{status:?}");
    }
    assert_eq!(kept.iter().map(|o| o.len()).sum::<usize>(), 400 * 16 * 1024);
    let with = core.status().promised;
    drop(kept);
    assert!(core.status().promised < with, "it is given back");
}
