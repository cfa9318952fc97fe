//! Every future is dropped at every point where it waits, and nothing is lost.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::super::{Config, Session};
use super::{half, pair, stream, within};

/// Polls `work` at most `polls` times; `None` where it is given up.
async fn at_most<F: Future>(polls: usize, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let result = work.as_mut().poll(cx).map(Some);
        if result.is_pending() && left == 0 {
            return Poll::Ready(None);
        }
        result
    })
    .await
}

/// Small limits, so that everything waits often.
fn narrow() -> (Session, Session) {
    let config = Config {
        write_budget: 4096,
        ..Config::default()
    };
    let (a, b) = duplex(512);
    (
        Session::client(a, config.clone()),
        Session::server(b, config),
    )
}

fn content(length: u32) -> Bytes {
    (0..length).map(|n| (n / 3 % 253) as u8).collect()
}

#[tokio::test]
async fn a_send_that_is_dropped_leaves_what_was_not_queued() {
    for polls in 1..6 {
        let (a, b) = narrow();
        let (mut out, mut into) = stream(&a, &b).await;
        let reads = tokio::spawn(async move {
            let mut all = Vec::new();
            into.read_to_end(&mut all).await.expect("reads");
            all
        });
        let all = content(400_000);
        let mut left = all.clone();
        while !left.is_empty() {
            if let Some(sent) = at_most(polls, out.send(&mut left)).await {
                sent.expect("sends");
            }
            tokio::task::yield_now().await;
        }
        out.shutdown().await.expect("ends");
        assert!(within(reads).await.expect("no panic") == all);
    }
}

#[tokio::test]
async fn a_write_that_is_dropped_has_written_nothing() {
    for polls in 1..4 {
        let (a, b) = narrow();
        let (mut out, mut into) = stream(&a, &b).await;
        let reads = tokio::spawn(async move {
            let mut all = Vec::new();
            into.read_to_end(&mut all).await.expect("reads");
            all
        });
        let all = content(300_000);
        let mut sent = 0;
        while sent < all.len() {
            let piece = &all[sent..all.len().min(sent + 10_000)];
            if let Some(n) = at_most(polls, out.write(piece)).await {
                sent += n.expect("writes");
            }
            tokio::task::yield_now().await;
        }
        drop(out);
        assert!(within(reads).await.expect("no panic") == all);
    }
}

#[tokio::test]
async fn reads_of_every_kind_that_are_dropped_lose_nothing() {
    for polls in 1..4 {
        let (a, b) = narrow();
        let (mut out, mut into) = stream(&a, &b).await;
        let all = content(300_000);
        let mut left = all.clone();
        tokio::spawn(async move {
            out.send(&mut left).await.expect("sends");
        });
        let mut got = Vec::new();
        for n in 0.. {
            if n % 2 == 0 {
                match at_most(polls, into.recv()).await {
                    Some(Ok(None)) => break,
                    Some(octets) => got.extend_from_slice(&octets.expect("reads").expect("octets")),
                    None => {}
                }
            } else {
                let mut some = [0; 100];
                if let Some(n) = at_most(polls, into.read(&mut some)).await {
                    got.extend_from_slice(&some[..n.expect("reads")]);
                }
            }
            tokio::task::yield_now().await;
        }
        assert!(got == all);
    }
}

#[tokio::test]
async fn a_copy_that_is_dropped_goes_on_where_the_writer_stopped() {
    for polls in 1..4 {
        let (a, b) = narrow();
        let (mut out, mut into) = stream(&a, &b).await;
        let all = content(100_000);
        let mut left = all.clone();
        tokio::spawn(async move {
            out.send(&mut left).await.expect("sends");
        });
        let (mut to, mut from) = duplex(300);
        let reads = tokio::spawn(async move {
            let mut all = Vec::new();
            from.read_to_end(&mut all).await.expect("reads");
            all
        });
        while at_most(polls, into.copy_to(&mut to)).await.is_none() {
            tokio::task::yield_now().await;
        }
        drop(to);
        assert!(within(reads).await.expect("no panic") == all);
    }
}

#[tokio::test]
async fn no_stream_is_lost_where_open_and_accept_are_dropped() {
    for polls in 1..4 {
        let config = Config {
            max_streams: 3,
            accept_backlog: 2,
            ..Config::default()
        };
        let (a, b) = pair(&config);
        let (mut opened, mut accepted) = (Vec::new(), Vec::new());
        while accepted.len() < 60 {
            if opened.len() < 60
                && let Some(out) = at_most(polls, a.open()).await
            {
                opened.push(out.expect("opens").id());
            }
            if let Some(into) = at_most(polls, b.accept()).await {
                accepted.push(into.expect("a stream").id());
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(opened, accepted);
        assert_eq!(b.status().refused, 0);
    }
}

#[tokio::test]
async fn pings_and_waits_for_the_end_that_are_dropped_leave_nothing_behind() {
    let (a, _peer) = half(Config::default(), 64 * 1024);
    for _ in 0..100 {
        assert!(at_most(1, a.ping()).await.is_none());
        assert!(at_most(1, a.closed()).await.is_none());
    }
    assert_eq!(a.waiting_pings(), 0);
}
