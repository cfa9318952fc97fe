//! The lock and the wakers under every order of steps that loom finds: who waits is woken.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use loom::future::block_on;
use loom::sync::Mutex;
use loom::thread;

use super::super::frame::{Flags, Header, INITIAL_WINDOW, Kind};
use super::super::shared::{Inner, Lock, Shared};
use super::super::{CloseReason, Config, Core, ReadBuffer, Role, StreamError};

struct Explored(Mutex<Inner>);

impl Lock<Inner> for Explored {
    fn new(value: Inner) -> Self {
        Self(Mutex::new(value))
    }

    fn locked<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        work(&mut self.0.lock().expect("no panic"))
    }
}

type Session = Arc<Shared<Explored>>;

fn session(config: Config) -> Session {
    Shared::new(Core::new(Role::Client, config.clone()), config)
}

/// What the reader does with a frame.
fn comes(session: &Session, header: Header, payload: &[u8]) {
    let mut input = ReadBuffer::from(&header.encode()[..]);
    input.extend(payload);
    session.with(|inner| inner.core.receive(&mut input));
}

fn open(session: &Session) -> u32 {
    let id = session.with(|inner| inner.core.open(false)).expect("opens");
    comes(
        session,
        Header::new(Kind::WindowUpdate, Flags::ACK, id, 0),
        &[],
    );
    id
}

/// What the writer does.
fn written(session: &Session) -> usize {
    let mut batch = session.with(|inner| inner.core.take());
    let n = batch.segments.iter().map(|s| s.octets.len()).sum();
    session.with(|inner| inner.core.written(&mut batch));
    n
}

fn explore(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(work);
}

#[test]
fn a_reader_is_woken_by_octets_and_by_the_end() {
    explore(|| {
        let session = session(Config::default());
        let id = open(&session);
        let reader = Arc::clone(&session);
        let reads = thread::spawn(move || {
            block_on(async {
                let mut all = Vec::new();
                while let Some(octets) =
                    poll_fn(|cx| reader.poll_recv(id, cx)).await.expect("reads")
                {
                    all.extend_from_slice(&octets);
                }
                all
            })
        });
        comes(&session, Header::new(Kind::Data, Flags::NONE, id, 2), b"ab");
        comes(&session, Header::new(Kind::Data, Flags::FIN, id, 0), &[]);
        assert_eq!(reads.join().expect("no panic"), b"ab");
    });
}

#[test]
fn a_writer_is_woken_by_credit_and_by_the_write_budget() {
    explore(|| {
        let session = session(Config {
            write_budget: 1,
            ..Config::default()
        });
        let id = open(&session);
        // All credit but one octet is used, and the budget too.
        let mut most = Bytes::from(vec![0; INITIAL_WINDOW as usize - 1]);
        while !most.is_empty() {
            session
                .with(|inner| inner.core.send(id, &mut most))
                .expect("sends");
            if !most.is_empty() {
                written(&session);
            }
        }
        let writer = Arc::clone(&session);
        let writes = thread::spawn(move || {
            let mut data = Bytes::from_static(b"xy");
            block_on(async {
                while !data.is_empty() {
                    poll_fn(|cx| writer.poll_send(id, cx, |core, id| core.send(id, &mut data)))
                        .await
                        .expect("sends");
                }
            });
        });
        written(&session);
        comes(
            &session,
            Header::new(Kind::WindowUpdate, Flags::NONE, id, 1),
            &[],
        );
        // The writer may have used its turn before this or after it.
        written(&session);
        written(&session);
        let waker = Arc::clone(&session);
        let drains = thread::spawn(move || {
            block_on(async {
                while waker.with(|inner| inner.core.wants_write()) {
                    written(&waker);
                }
            });
        });
        drains.join().expect("no panic");
        writes.join().expect("no panic");
    });
}

#[test]
fn the_two_halves_of_a_stream_wake_each_its_own_task() {
    explore(|| {
        let session = session(Config::default());
        let id = open(&session);
        let mut all = Bytes::from(vec![0; INITIAL_WINDOW as usize]);
        while !all.is_empty() {
            session
                .with(|inner| inner.core.send(id, &mut all))
                .expect("sends");
            written(&session);
        }
        let reader = Arc::clone(&session);
        let reads = thread::spawn(move || block_on(poll_fn(|cx| reader.poll_recv(id, cx))));
        let writer = Arc::clone(&session);
        let writes = thread::spawn(move || {
            let mut data = Bytes::from_static(b"x");
            block_on(poll_fn(|cx| {
                writer.poll_send(id, cx, |core, id| core.send(id, &mut data))
            }))
        });
        comes(
            &session,
            Header::new(Kind::WindowUpdate, Flags::NONE, id, 1),
            &[],
        );
        comes(&session, Header::new(Kind::Data, Flags::NONE, id, 1), b"a");
        let read = reads.join().expect("no panic");
        assert_eq!(read, Ok(Some(Bytes::from_static(b"a"))));
        assert_eq!(writes.join().expect("no panic"), Ok(1));
    });
}

#[test]
fn every_acceptor_is_woken_by_a_stream_or_by_the_end() {
    explore(|| {
        let session = session(Config::default());
        let acceptors: Vec<_> = (0..2)
            .map(|_| {
                let session = Arc::clone(&session);
                thread::spawn(move || block_on(session.accept()))
            })
            .collect();
        comes(&session, Header::new(Kind::Data, Flags::SYN, 2, 0), &[]);
        session.close(CloseReason::Local(0));
        let mut got: Vec<_> = acceptors
            .into_iter()
            .map(|acceptor| acceptor.join().expect("no panic"))
            .collect();
        got.sort();
        assert_eq!(got, [None, Some(2)]);
    });
}

#[test]
fn who_waits_to_open_is_woken_by_each_place_that_comes_free() {
    explore(|| {
        let session = session(Config {
            max_streams: 2,
            ..Config::default()
        });
        let (one, two) = (open(&session), open(&session));
        let openers: Vec<_> = (0..2)
            .map(|_| {
                let session = Arc::clone(&session);
                thread::spawn(move || block_on(session.open()))
            })
            .collect();
        session.with(|inner| {
            inner.core.reset(one, 0);
            inner.core.reset(two, 0);
        });
        session.release(one);
        session.release(two);
        for opener in openers {
            assert!(opener.join().expect("no panic").is_ok());
        }
    });
}

#[test]
fn the_end_of_a_session_wakes_whoever_waits_for_a_stream() {
    explore(|| {
        let session = session(Config::default());
        let id = open(&session);
        let reader = Arc::clone(&session);
        let reads = thread::spawn(move || block_on(poll_fn(|cx| reader.poll_recv(id, cx))));
        let waiter = Arc::clone(&session);
        let waits = thread::spawn(move || block_on(waiter.closing()));
        session.close(CloseReason::Local(3));
        let over = StreamError::Session(CloseReason::Local(3));
        assert_eq!(reads.join().expect("no panic"), Err(over));
        waits.join().expect("no panic");
    });
}

#[test]
fn the_writer_hears_of_whatever_is_queued() {
    explore(|| {
        let session = session(Config::default());
        let id = open(&session);
        written(&session);
        let user = Arc::clone(&session);
        let uses = thread::spawn(move || {
            let mut data = Bytes::from_static(b"octets");
            let sent = user.with(|inner| inner.core.send(id, &mut data));
            assert_eq!(sent, Ok(6));
        });
        // A header and the octets.
        block_on(async {
            let mut left = 12 + 6;
            while left > 0 {
                match written(&session) {
                    0 => session.write.notified().await,
                    n => left -= n,
                }
            }
        });
        uses.join().expect("no panic");
    });
}
