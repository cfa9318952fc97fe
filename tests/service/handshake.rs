//! Beginnings of every kind: slow, silent, cut, one octet at a time, and those of other protocols.

use std::time::{Duration, Instant};

use tapflow::units::Span;

use crate::support::frames::{self, ACCEPT, DNSTAP, Numbered, control};
use crate::support::peer::Peer;
use crate::support::program::Program;
use crate::support::rig::{Rig, Socket};
use crate::support::{eventually, eventually_blocking, testdata};

/// A handshake that takes no longer than this did not wait for anybody. It is generous because the machine may be busy;
/// the silent clients of these tests hold out for a minute.
const UNDELAYED: Duration = Duration::from_secs(3);

fn framing(name: &str) -> Vec<u8> {
    std::fs::read(testdata(&format!("corpus/framing/{name}.fstrm"))).expect("a file of the corpus")
}

/// B015: handshakes do not run in the accept path.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_silent_clients_delay_nobody() {
    let running = Rig::new()
        .listeners(|l| l.handshake_timeout = Span::secs(600))
        .null()
        .start()
        .await;
    let mut silent = Vec::new();
    for socket in Socket::BOTH {
        for n in 0..250 {
            let mut peer = Peer::connect(&running.at(socket)).await;
            if n % 2 == 0 {
                peer.send(&frames::ready()[..13]).await;
            }
            silent.push(peer);
        }
    }
    for socket in Socket::BOTH {
        let began = Instant::now();
        running.serves_well(socket, 100).await;
        println!(
            "{socket:?}: served within {:?} beside 500 silent clients",
            began.elapsed()
        );
        assert!(began.elapsed() < UNDELAYED, "{:?}", began.elapsed());
    }
    assert_eq!(
        running.scrape().sum("tapflow_connections_active", &[]),
        500.0
    );
    drop(silent);
    running.wait_closed("handshake_eof", 250).await;
    running.wait_closed("truncated", 250).await;
    assert_eq!(running.stop().await.received, 200);
}

/// B015: whatever a peer holds back, it is closed after the handshake time, and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_not_complete_in_time_is_closed_and_counted() {
    let running = Rig::new()
        .listeners(|l| l.handshake_timeout = Span::millis(300))
        .null()
        .start()
        .await;
    let ready = frames::ready();
    let beginnings: [&[u8]; 5] = [
        &[],
        &ready[..4],
        &ready[..ready.len() - 1],
        &ready,
        &frames::start()[..20],
    ];
    for socket in Socket::BOTH {
        let mut peers = Vec::new();
        for beginning in beginnings {
            let mut peer = Peer::connect(&running.at(socket)).await;
            peer.send(beginning).await;
            peers.push((peer, Instant::now()));
        }
        for (mut peer, began) in peers {
            peer.read_to_end().await;
            assert!(
                began.elapsed() >= Duration::from_millis(200),
                "the time is given: {:?}",
                began.elapsed()
            );
        }
    }
    running.wait_closed("handshake_timeout", 10).await;
    eventually("no connection is open", || {
        (running.scrape().sum("tapflow_connections_active", &[]) == 0.0).then_some(())
    })
    .await;
    running.serves_well(Socket::Unix, 10).await;
    running.stop().await;
}

/// B015: READY is answered each time, but saying it for ever is no way to stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_repeats_ready_for_ever_is_closed() {
    let running = Rig::new()
        .listeners(|l| l.handshake_timeout = Span::millis(300))
        .null()
        .start()
        .await;
    for socket in Socket::BOTH {
        // One that reads the answers, and one that does not, so that they fill the socket.
        for reads in [true, false] {
            let mut peer = Peer::connect(&running.at(socket)).await;
            let accept = control(ACCEPT, &[DNSTAP]);
            let many = frames::ready().repeat(if reads { 1 } else { 1000 });
            while peer.send_what_goes(&many).await.is_ok() {
                if reads && peer.read_or_end(accept.len()).await.is_none() {
                    break;
                }
            }
        }
    }
    eventually("all four are closed", || {
        let scrape = running.scrape();
        let closed = scrape.sum("tapflow_connections_closed_total", &[]);
        (closed == 4.0 && scrape.sum("tapflow_connections_active", &[]) == 0.0).then_some(())
    })
    .await;
    running.serves_well(Socket::Unix, 10).await;
    running.stop().await;
}

/// B014: nothing is assumed about how frames arrive: one octet at a time, all together, or anything between.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_the_same_in_pieces_of_any_size() {
    let running = Rig::new().decoding().null().start().await;
    let stream = [
        frames::ready(),
        frames::start(),
        Numbered::new().run(0..5),
        frames::stop(),
    ]
    .concat();
    let mut sent = 0;
    for socket in Socket::BOTH {
        for piece in [1, 2, 3, 7, 64, stream.len()] {
            let mut peer = Peer::connect(&running.at(socket)).await;
            for bytes in stream.chunks(piece) {
                peer.send(bytes).await;
                // Lets the other side see this piece alone, most of the time.
                tokio::task::yield_now().await;
            }
            let answers = frames::part_all(&peer.read_to_end().await);
            assert_eq!(
                answers.controls,
                [ACCEPT, frames::FINISH],
                "in pieces of {piece}"
            );
            sent += 5;
        }
    }
    running.wait_closed("clean", 12).await;
    assert_eq!(running.wait_settled(sent).await.lost(), 0);
    running.stop().await;
}

/// B013, and what libfstrm senders do after a negotiation that failed: READY again.
#[tokio::test(flavor = "multi_thread")]
async fn accept_names_one_offered_type_and_ready_may_be_repeated() {
    let running = Rig::new().null().start().await;
    let accept = control(ACCEPT, &[DNSTAP]);
    for ready in [
        frames::ready(),
        control(frames::READY, &[]),
        control(frames::READY, &[b"other", DNSTAP]),
    ] {
        let mut peer = Peer::connect(&running.at(Socket::Unix)).await;
        for _ in 0..3 {
            peer.send(&ready).await;
            assert_eq!(peer.read(accept.len()).await, accept);
        }
        peer.send(&[frames::start(), Numbered::new().run(0..1)].concat())
            .await;
        peer.stop().await;
    }
    let foreign = Peer::pour(
        &running.at(Socket::Unix),
        &control(frames::READY, &[b"other"]),
    )
    .await;
    assert!(foreign.controls.is_empty(), "no answer to foreign types");
    running.wait_closed("clean", 3).await;
    running.wait_closed("content_type_mismatch", 1).await;
    running.wait_settled(3).await;
    running.stop().await;
}

/// A sender that writes its whole stream and is gone before ACCEPT can be written has sent it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_gone_before_accept_keeps_its_frames() {
    let running = Rig::new().null().start().await;
    let stream = [
        frames::ready(),
        frames::start(),
        Numbered::new().run(0..5),
        frames::stop(),
    ]
    .concat();
    for n in 1..=50u64 {
        for socket in Socket::BOTH {
            let mut peer = Peer::connect(&running.at(socket)).await;
            peer.send(&stream).await;
            drop(peer);
        }
        running.wait_received(n * 10).await;
    }
    running.wait_closed("clean", 100).await;
    running.stop().await;
}

/// B006, B007: a wrong protocol is closed at once and not after the handshake time, and has its own reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_protocol_is_closed_at_once_with_its_reason() {
    let running = Rig::new()
        .listeners(|l| l.handshake_timeout = Span::secs(600))
        .null()
        .start()
        .await;
    let rows = [
        ("f32-tls-hello", "tls"),
        ("f33-http-get", "http"),
        ("f34-two-octet-length", "powerdns_protobuf"),
        ("f35-syslog", "wrong_protocol"),
        ("f46-gzip", "wrong_protocol"),
    ];
    for (n, socket) in (1..).zip(Socket::BOTH) {
        for (file, reason) in rows {
            let mut peer = Peer::connect(&running.at(socket)).await;
            let began = Instant::now();
            let _ = peer.send_what_goes(&framing(file)).await;
            assert!(
                peer.read_to_end().await.is_empty(),
                "{file}: nothing is answered"
            );
            assert!(
                began.elapsed() < UNDELAYED,
                "{file}: closed after {:?}",
                began.elapsed()
            );
            let want = if reason == "wrong_protocol" { 1 } else { n };
            eventually(&format!("{file} is counted as {reason}"), || {
                (running.closed(reason) >= want).then_some(())
            })
            .await;
        }
        running.wait_closed("wrong_protocol", 2 * n).await;
        running.serves_well(socket, 10).await;
    }
    running.stop().await;
}

/// B001, B006, B007: the log line names peer, place and the likely mix-up, also where only warnings are logged.
#[test]
fn the_log_names_the_mix_up_and_the_peer() {
    let program = Program::new()
        .log("warn")
        .arg("--listen")
        .arg("tcp:127.0.0.1:0")
        .arg("--output")
        .arg("null:")
        .start();
    let tapflow::units::Endpoint::Tcp { host, port } = program.endpoint("tcp:") else {
        panic!("a TCP listener")
    };
    let lost_framing = [
        &frames::start()[..],
        &Numbered::new().run(0..2),
        b"\xde\xad\xbe\xef and so on",
    ]
    .concat();
    let rows: [(Vec<u8>, &[&str]); 6] = [
        (framing("f32-tls-hello"), &["reason=\"tls\"", "TLS"]),
        (framing("f33-http-get"), &["reason=\"http\"", "HTTP"]),
        (
            framing("f34-two-octet-length"),
            &["reason=\"powerdns_protobuf\"", "PowerDNS"],
        ),
        (
            framing("f35-syslog"),
            &["reason=\"wrong_protocol\"", "syslog"],
        ),
        (
            framing("f04-start-wrong-type"),
            &["reason=\"content_type_mismatch\"", "protobuf:other.Thing"],
        ),
        // B001: byte offset, the length that was read, and the first octets.
        (
            lost_framing,
            &["reason=\"lost_framing\"", "3735928559", "deadbeef"],
        ),
    ];
    for (bytes, words) in rows {
        let mut stream = std::net::TcpStream::connect((host.as_str(), port)).expect("a connection");
        let peer = stream.local_addr().expect("an address").to_string();
        std::io::Write::write_all(&mut stream, &bytes).expect("the bytes are taken");
        let line = program.wait_line(words[0]);
        for word in words.iter().copied().chain([peer.as_str()]) {
            assert!(line.contains(word), "{word:?} is not in {line}");
        }
    }
    let offset = (frames::start().len() + Numbered::new().run(0..2).len()).to_string();
    assert!(
        program
            .wait_line("lost_framing")
            .contains(&format!("byte {offset}")),
        "{:?}",
        program.lines()
    );
    eventually_blocking(
        || "all are closed".to_owned(),
        || {
            (program
                .scrape()
                .sum("tapflow_connections_closed_total", &[])
                == 6.0)
                .then_some(())
        },
    );
    let ledger = program.ledger();
    assert_eq!(
        (ledger["received"].as_u64(), ledger["closes"].as_bool()),
        (Some(2), Some(true))
    );
    assert_eq!(program.exit_code_of_stop(), Some(0));
}
