//! Thousands of connections one after another: nothing piles up.

use tapflow::units::Endpoint;

use crate::support::frames::{self, Numbered, control};
use crate::support::peer::Peer;
use crate::support::program::Program;
use crate::support::rig::{Rig, Socket};
use crate::support::{eventually, eventually_blocking};

/// B008: after ten thousand bad connections a good sender is served as at the start.
#[tokio::test(flavor = "multi_thread")]
async fn after_ten_thousand_bad_connections_a_good_sender_is_served_as_at_the_start() {
    const EACH: usize = 2500;
    let running = Rig::new()
        .listeners(|l| l.data_frame_max = tapflow::units::ByteSize(70_000))
        .null()
        .start()
        .await;
    let bad: [Vec<u8>; 4] = [
        // The row's own: an impossible length after a good start.
        [frames::start(), Numbered::new().run(0..1), vec![0xff; 20]].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        control(frames::READY, &[b"foreign"]),
        frames::start()[..10].to_vec(),
    ];
    let reasons = ["lost_framing", "http", "content_type_mismatch", "truncated"];
    let workers: Vec<_> = bad
        .into_iter()
        .zip(Socket::BOTH.into_iter().cycle())
        .map(|(bytes, socket)| {
            let at = running.at(socket);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let mut peer = Peer::connect(&at).await;
                    let _ = peer.send_what_goes(&bytes).await;
                    peer.half_close().await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a bad sender is closed");
    }
    for reason in reasons {
        running.wait_closed(reason, EACH as u64).await;
    }
    running.wait_settled(EACH as u64).await;
    for socket in Socket::BOTH {
        running.serves_well(socket, 1000).await;
    }
    eventually("no connection is open", || {
        (running.scrape().sum("tapflow_connections_active", &[]) == 0.0).then_some(())
    })
    .await;
    running.stop().await;
}

/// Sockets in CLOSE_WAIT whose local port is this.
fn close_wait(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
    let here = format!(":{port:04X}");
    let waits = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&here)) && words.nth(1) == Some("08")
    };
    table.lines().filter(waits).count()
}

/// B023, B024: five thousand rounds of connect and close, in every way a sender may end, leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_rounds_leave_no_socket_behind() {
    const WORKERS: usize = 10;
    const ROUNDS: usize = 500;
    let running = Rig::new().null().start().await;
    let at = running.at(Socket::Tcp);
    let Endpoint::Tcp { port, .. } = at else {
        panic!("a TCP listener")
    };
    let run = Numbered::new().run(0..3);
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (at, run) = (at.clone(), run.clone());
            tokio::spawn(async move {
                for n in 0..ROUNDS {
                    let mut peer = Peer::bidirectional(&at).await;
                    peer.send(&run).await;
                    match n % 3 {
                        0 => peer.stop().await,
                        1 => drop(peer),
                        _ => assert!(peer.half_close().await.is_empty()),
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a sender is served");
    }
    let ledger = running.wait_settled((WORKERS * ROUNDS * 3) as u64).await;
    assert_eq!(ledger.lost(), 0);
    eventually("no connection is open", || {
        (running.scrape().sum("tapflow_connections_active", &[]) == 0.0).then_some(())
    })
    .await;
    eventually("no socket is in CLOSE_WAIT", || {
        (close_wait(port) == 0).then_some(())
    })
    .await;
    assert_eq!(
        running.closed("clean") + running.closed("no_stop"),
        (WORKERS * ROUNDS) as u64
    );
    running.serves_well(Socket::Tcp, 1000).await;
    running.stop().await;
}

/// B015, B025: after the first thousand short connections memory stays level, and no file stays open.
#[test]
fn memory_and_open_files_stay_level_over_twenty_thousand_connections() {
    let program = Program::new()
        .log("error")
        .unix()
        .arg("--output")
        .arg("null:")
        .start();
    let Endpoint::Unix(path) = program.unix() else {
        panic!("a Unix listener")
    };
    let stream = [frames::start(), Numbered::new().run(0..20), frames::stop()].concat();
    let idle_files = program.open_files();
    let mut sent = 0u64;
    let mut connect = |n: u64| {
        for i in 0..n {
            let mut peer = std::os::unix::net::UnixStream::connect(&path).expect("a connection");
            // Some say nothing, some stop within a frame.
            let bytes = [&stream[..], &stream[..50], &[]][(i % 3) as usize];
            let _ = std::io::Write::write_all(&mut peer, bytes);
            let _ = peer.shutdown(std::net::Shutdown::Write);
            let _ = std::io::Read::read_to_end(&mut peer, &mut Vec::new());
        }
        sent += n;
        let closed = || {
            program
                .scrape()
                .sum("tapflow_connections_closed_total", &[]) as u64
        };
        eventually_blocking(
            || format!("{sent} closes, {} now", closed()),
            || (closed() == sent).then_some(()),
        );
        program.resident()
    };
    let first = connect(1000);
    let last = connect(19_000);
    println!("resident: {first} bytes after 1,000 connections, {last} after 20,000");
    assert!(
        last < first + 8 * 1024 * 1024,
        "memory grows: {first} to {last} bytes"
    );
    eventually_blocking(
        || format!("{idle_files} open files, {} now", program.open_files()),
        || (program.open_files() <= idle_files).then_some(()),
    );
    let ledger = program.ledger();
    assert_eq!(program.exit_code_of_stop(), Some(0), "{ledger}");
    let whole = (1000u64.div_ceil(3) + 19_000u64.div_ceil(3)) * 20;
    assert_eq!(
        (ledger["received"].as_u64(), ledger["closes"].as_bool()),
        (Some(whole), Some(true)),
        "{ledger}"
    );
}
