//! Forwarding: every mode and compression, and a destination that comes and goes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tapflow::fstrm::Mode;
use tapflow::link::sender::Failure;
use tapflow::outputs::options::{
    DnstapOptions, ForwardMode, OutputKind, OutputOptions, SendCompression,
};
use tapflow::units::{Endpoint, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use crate::support::{Got, Habits, Peer, Rig, until};

fn options(to: Endpoint) -> DnstapOptions {
    DnstapOptions {
        to,
        reconnect_min: Span::millis(5),
        reconnect_max: Span::millis(20),
        ..DnstapOptions::default()
    }
}

fn output(options: DnstapOptions) -> OutputOptions {
    OutputOptions::new(OutputKind::Dnstap(options))
}

fn reconnects(rig: &Rig, reason: Failure) -> f64 {
    rig.metric(&format!(
        "tapflow_output_reconnects_total{{output=\"forward\",reason=\"{}\"}}",
        reason.as_str()
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_and_compression_delivers_what_was_sent() {
    let modes = [
        (ForwardMode::Bidirectional, Mode::Bidirectional),
        (ForwardMode::Unidirectional, Mode::Unidirectional),
        (ForwardMode::Raw, Mode::Raw),
    ];
    let codecs = [
        SendCompression::Off,
        SendCompression::Gzip,
        SendCompression::Lz4,
        SendCompression::Snappy,
        SendCompression::Zstd,
    ];
    for (mode, receiver) in modes {
        for compress in codecs {
            for bulk in [false, true] {
                let mut rig = Rig::new();
                let path = rig.path("peer.sock");
                let peer = Peer::listen(
                    &path,
                    Habits {
                        mode: receiver,
                        ..Habits::GOOD
                    },
                );
                let mut out = rig.start(
                    "forward",
                    output(DnstapOptions {
                        mode,
                        compress,
                        bulk,
                        ..options(Endpoint::unix(&path))
                    }),
                );
                rig.send(&[&out], 3_000, 700, 150).await;
                let account = rig.drain(&mut out).await;
                let case = format!("{mode:?} {compress:?} bulk {bulk}");
                assert_eq!(
                    (account.delivered, account.dropped_total()),
                    (3_000, 0),
                    "{case}"
                );
                until("the peer has read everything", || peer.count() == 3_000).await;
                assert_eq!(
                    peer.got.lock().unwrap().all(),
                    (0..3_000).collect::<Vec<_>>(),
                    "{case}"
                );
                until("STOP came", || {
                    peer.got.lock().unwrap().stopped == usize::from(mode != ForwardMode::Raw)
                })
                .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_after_each_of_twenty_restarts_and_loses_nothing_that_was_read() {
    let mut rig = Rig::new();
    let path = rig.path("peer.sock");
    let got: Arc<Mutex<Got>> = Arc::default();
    let mut out = rig.start("forward", output(options(Endpoint::unix(&path))));
    for round in 1..=20u64 {
        let peer = Peer::listen_with(&path, Habits::GOOD, got.clone());
        rig.send(&[&out], 500, 50, 150).await;
        until("the frames of this round have arrived", || {
            peer.count() as u64 == round * 500
        })
        .await;
        drop(peer);
        until("the loss is noticed without traffic", || {
            rig.metric("tapflow_output_connected{output=\"forward\"}") == 0.0
        })
        .await;
    }
    assert_eq!(
        got.lock().unwrap().all(),
        (0..10_000).collect::<Vec<_>>(),
        "none lost, none twice, in order"
    );
    assert_eq!(
        reconnects(&rig, Failure::Closed) + reconnects(&rig, Failure::Reset),
        20.0
    );
    assert_eq!(rig.drain(&mut out).await.delivered, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_dies_under_load_gets_no_frame_twice_and_loses_only_what_its_socket_held() {
    let mut rig = Rig::new();
    let path = rig.path("peer.sock");
    let peer = Peer::listen(
        &path,
        Habits {
            dies_after: 5_000,
            ..Habits::GOOD
        },
    );
    let mut out = rig.start("forward", output(options(Endpoint::unix(&path))));
    let total = 400_000;
    rig.send(&[&out], total, 100, 150).await;
    let account = rig.drain(&mut out).await;
    assert_eq!((account.delivered, account.dropped_total()), (total, 0));
    let got = peer.got.lock().unwrap();
    assert!(
        got.connections.len() > 20,
        "{} connections",
        got.connections.len()
    );
    let all = got.all();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "no frame came twice");
    for connection in &got.connections {
        assert!(
            connection.windows(2).all(|w| w[0] + 1 == w[1]),
            "a connection has no hole in it"
        );
    }
    // Between two connections is what lay in the socket's buffers (some 200 KiB and what the peer had read) when it died.
    for pair in got.connections.windows(2) {
        if let (Some(last), Some(first)) = (pair[0].last(), pair[1].first()) {
            assert!(first > last && first - last < 10_000, "{last} then {first}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_is_counted_under_its_name() {
    // Every reason exists from zero.
    let rig = Rig::new();
    let mut out = rig.start(
        "forward",
        output(options(Endpoint::unix(rig.path("nobody.sock")))),
    );
    for reason in Failure::ALL {
        assert!(reconnects(&rig, reason) >= 0.0);
    }
    until("no socket file", || {
        reconnects(&rig, Failure::Unreachable) > 0.0
    })
    .await;
    rig.abort(&mut out).await;

    let rig = Rig::new();
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut out = rig.start("forward", output(options(Endpoint::tcp("127.0.0.1", port))));
    until("nobody listens", || {
        reconnects(&rig, Failure::Refused) > 0.0
    })
    .await;
    rig.abort(&mut out).await;

    let foreign = b"\0\0\0\0\0\0\0\x0f\0\0\0\x01\0\0\0\x01\0\0\0\x03abc";
    for (name, answer, reason) in [
        (
            "an ACCEPT of another content type",
            &foreign[..],
            Failure::Handshake,
        ),
        (
            "another protocol",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            Failure::Handshake,
        ),
        ("goodbye", b"", Failure::Closed),
    ] {
        let rig = Rig::new();
        let path = rig.path("odd.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let peer = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut ready = [0; 42];
                stream.read_exact(&mut ready).await.unwrap();
                let _ = stream.write_all(answer).await;
            }
        });
        let mut out = rig.start("forward", output(options(Endpoint::unix(&path))));
        until(name, || reconnects(&rig, reason) > 0.0).await;
        rig.abort(&mut out).await;
        peer.abort();
    }

    let rig = Rig::new();
    let path = rig.path("silent.sock");
    let _silent = UnixListener::bind(&path).unwrap();
    let mut out = rig.start(
        "forward",
        output(DnstapOptions {
            handshake_timeout: Span::millis(30),
            ..options(Endpoint::unix(&path))
        }),
    );
    until("no answer to READY", || {
        reconnects(&rig, Failure::HandshakeTimeout) > 0.0
    })
    .await;
    rig.abort(&mut out).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_nothing_for_too_long_is_given_up() {
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
        output(DnstapOptions {
            write_timeout: Span::millis(50),
            ..options(Endpoint::unix(&path))
        }),
    );
    rig.send(&[&out], 20_000, 100, 150).await;
    until("the write times out", || {
        reconnects(&rig, Failure::WriteTimeout) > 0.0
    })
    .await;
    peer.go.send_replace(true);
    let account = rig.drain(&mut out).await;
    assert_eq!(account.delivered, 20_000);
    // The peer reads a connection to its end before the next, so what was written before the time-out is not lost either.
    until("everything is read", || peer.count() == 20_000).await;
    assert_eq!(
        peer.got.lock().unwrap().all(),
        (0..20_000).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_out_of_turn_means_that_the_peer_wants_no_more() {
    let mut rig = Rig::new();
    let path = rig.path("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut out = rig.start("forward", output(options(Endpoint::unix(&path))));
    let (mut stream, _) = listener.accept().await.unwrap();
    shake_hands(&mut stream).await;
    stream
        .write_all(b"\0\0\0\0\0\0\0\x04\0\0\0\x05")
        .await
        .unwrap();
    until("it is noticed without traffic", || {
        reconnects(&rig, Failure::Closed) == 1.0
    })
    .await;
    // The old connection is still open, and gets nothing any more.
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    let peer = Peer::listen(&path, Habits::GOOD);
    rig.send(&[&out], 100, 10, 150).await;
    assert_eq!(rig.drain(&mut out).await.delivered, 100);
    assert_eq!(peer.count(), 100);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_that_does_not_come_delays_the_end_only_by_its_timeout() {
    for (compress, closes) in [(SendCompression::Off, false), (SendCompression::Zstd, true)] {
        let rig = Rig::new();
        let path = rig.path("peer.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let finish_timeout = if closes {
            Span::secs(60)
        } else {
            Span::millis(100)
        };
        let mut out = rig.start(
            "forward",
            output(DnstapOptions {
                compress,
                finish_timeout,
                ..options(Endpoint::unix(&path))
            }),
        );
        let (mut stream, _) = listener.accept().await.unwrap();
        shake_hands(&mut stream).await;
        until("it is connected", || {
            rig.metric("tapflow_output_connected{output=\"forward\"}") == 1.0
        })
        .await;
        let peer = tokio::spawn(async move {
            let mut stop = [0; 12];
            stream.read_exact(&mut stop).await.unwrap();
            if !closes {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
        });
        rig.drain(&mut out).await;
        peer.abort();
    }
}

async fn shake_hands(stream: &mut tokio::net::UnixStream) {
    let mut ready = [0; 42];
    stream.read_exact(&mut ready).await.unwrap();
    stream
        .write_all(
            &[
                &b"\0\0\0\0\0\0\0\x22\0\0\0\x01\0\0\0\x01\0\0\0\x16"[..],
                b"protobuf:dnstap.Dnstap",
            ]
            .concat(),
        )
        .await
        .unwrap();
    let mut start = [0; 42];
    stream.read_exact(&mut start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tcp_destination_works_like_a_unix_one() {
    let mut rig = Rig::new();
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut out = rig.start(
        "forward",
        output(DnstapOptions {
            mode: ForwardMode::Raw,
            ..options(Endpoint::tcp("::1", port))
        }),
    );
    let reader = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    rig.send(&[&out], 1_000, 33, 150).await;
    assert_eq!(rig.drain(&mut out).await.delivered, 1_000);
    assert!(reader.await.unwrap() == crate::support::run(0..1_000, 150));
}
