//! Two ends and a connection between them that is cut and joined anywhere, under operations in any order, beside a model
//! that knows what was written, ended and reset.

use std::collections::{HashMap, HashSet};

use bytes::BytesMut;
use proptest::prelude::*;

use super::super::{CloseReason, Config, Core, ReadBuffer, Received, Role, StreamError, fuzz_wire};

const BUDGET: usize = 100_000;
const CAP: u64 = 2 << 20;

#[derive(Debug, Clone)]
enum Op {
    Open,
    Accept,
    Write(usize, usize),
    Read(usize, usize),
    Finish(usize),
    Reset(usize, u32),
    Release(usize),
    Window(usize, u32),
    Reserve(usize),
    Unreserve,
    Ping,
    Sweep,
    GoAway,
    Close(u32),
    /// So many octets go over.
    Move(usize),
    /// The connection ends where it is, in both directions.
    Cut,
}

fn op() -> impl Strategy<Value = (bool, Op)> {
    let s = || 0..6usize;
    let op = prop_oneof![
        6 => Just(Op::Open),
        6 => Just(Op::Accept),
        12 => (s(), 0..200_000usize).prop_map(|(s, n)| Op::Write(s, n)),
        12 => (s(), 1..200_000usize).prop_map(|(s, n)| Op::Read(s, n)),
        4 => s().prop_map(Op::Finish),
        2 => (s(), 0..9u32).prop_map(|(s, code)| Op::Reset(s, code)),
        3 => s().prop_map(Op::Release),
        2 => (s(), 0..2_000_000u32).prop_map(|(s, n)| Op::Window(s, n)),
        1 => (0..3usize).prop_map(Op::Reserve),
        1 => Just(Op::Unreserve),
        1 => Just(Op::Ping),
        1 => Just(Op::Sweep),
        16 => (0..300_000usize).prop_map(Op::Move),
    ];
    (any::<bool>(), op)
}

/// How a run ends.
fn last() -> impl Strategy<Value = Vec<(bool, Op)>> {
    prop_oneof![
        3 => Just(Vec::new()),
        1 => any::<bool>().prop_map(|me| vec![(me, Op::GoAway)]),
        1 => (any::<bool>(), 0..3u32).prop_map(|(me, code)| vec![(me, Op::Close(code))]),
        1 => (0..100_000usize).prop_map(|n| vec![(true, Op::Move(n)), (false, Op::Cut)]),
    ]
}

struct End {
    core: Core,
    input: ReadBuffer,
    wire: BytesMut,
    /// Held streams.
    ids: Vec<u32>,
    sent: HashMap<u32, Vec<u8>>,
    got: HashMap<u32, Vec<u8>>,
    finished: HashSet<u32>,
    /// Streams that this end has read to the peer's end.
    ended: HashSet<u32>,
    reset: HashMap<u32, u32>,
    released: HashSet<u32>,
    pings: Vec<u32>,
    reserved: usize,
}

impl End {
    fn new(role: Role) -> Self {
        let config = Config {
            max_streams: 5,
            write_budget: BUDGET,
            receive_cap: CAP,
            accept_backlog: 3,
            ..Config::default()
        };
        Self {
            core: Core::new(role, config),
            input: ReadBuffer::default(),
            wire: BytesMut::new(),
            ids: Vec::new(),
            sent: HashMap::new(),
            got: HashMap::new(),
            finished: HashSet::new(),
            ended: HashSet::new(),
            reset: HashMap::new(),
            released: HashSet::new(),
            pings: Vec::new(),
            reserved: 0,
        }
    }

    fn pick(&self, s: usize) -> Option<u32> {
        self.ids.get(s % self.ids.len().max(1)).copied()
    }
}

struct Model {
    ends: [End; 2],
    cut: bool,
    closing: bool,
    gone: bool,
}

impl Model {
    fn new() -> Self {
        Self {
            ends: [End::new(Role::Client), End::new(Role::Server)],
            cut: false,
            closing: false,
            gone: false,
        }
    }

    fn step(&mut self, me: usize, op: &Op, seed: u8) {
        let end = &mut self.ends[me];
        match *op {
            Op::Open => end.ids.extend(end.core.open(false).ok()),
            Op::Accept => end.ids.extend(end.core.accept()),
            Op::Write(s, n) => {
                if let Some(id) = end.pick(s) {
                    let n = end.core.send_slice(id, &vec![seed; n]).unwrap_or(0);
                    assert!(
                        n == 0 || !end.finished.contains(&id),
                        "written after the end"
                    );
                    let sent = end.sent.entry(id).or_default();
                    sent.resize(sent.len() + n, seed);
                }
            }
            Op::Read(s, n) => {
                if let Some(id) = end.pick(s) {
                    self.read(me, id, n);
                }
            }
            Op::Finish(s) => {
                if let Some(id) = end.pick(s) {
                    end.core.finish(id);
                    end.finished.insert(id);
                }
            }
            Op::Reset(s, code) => {
                if let Some(id) = end.pick(s) {
                    end.core.reset(id, code);
                    end.reset.entry(id).or_insert(code);
                    assert_eq!(end.core.recv(id, 1), Err(StreamError::Closed));
                }
            }
            Op::Release(s) => {
                if let Some(id) = end.pick(s) {
                    end.core.release(id);
                    end.finished.insert(id);
                    end.released.insert(id);
                    end.ids.retain(|held| *held != id);
                }
            }
            Op::Window(s, n) => {
                if let Some(id) = end.pick(s) {
                    end.core.set_receive_window(id, n);
                }
            }
            Op::Reserve(n) => {
                if end.core.reserve(n) {
                    end.reserved += n;
                }
            }
            Op::Unreserve => end.core.unreserve(std::mem::take(&mut end.reserved)),
            Op::Ping if end.core.closed().is_none() => end.pings.push(end.core.ping()),
            Op::Ping => {}
            Op::Sweep => end.core.sweep(),
            Op::GoAway => {
                end.core.go_away();
                self.gone = true;
            }
            Op::Close(code) => {
                end.core.close(CloseReason::Local(code));
                self.closing = true;
            }
            Op::Move(n) => self.carry(me, n),
            Op::Cut => {
                self.cut = true;
                for end in &mut self.ends {
                    end.wire.clear();
                    end.core.end_of_input(end.input.len());
                }
            }
        }
        self.check();
    }

    fn read(&mut self, me: usize, id: u32, max: usize) {
        let codes: Vec<_> = self.ends[1 - me]
            .reset
            .get(&id)
            .copied()
            .into_iter()
            .collect();
        let dropped = self.ends[1 - me].released.contains(&id);
        let end = &mut self.ends[me];
        match end.core.recv(id, max) {
            Ok(Received::Octets(octets)) => {
                assert!(!octets.is_empty() && octets.len() <= max);
                end.got.entry(id).or_default().extend_from_slice(&octets);
            }
            Ok(Received::End) => {
                end.ended.insert(id);
            }
            Ok(Received::Nothing) => assert!(!end.ended.contains(&id)),
            Err(StreamError::Reset(code)) => {
                // By the user of the other end, or by the other end because nobody takes it there.
                assert!(codes.contains(&code) || code == 0, "{code}, not {codes:?}");
                assert!(!codes.is_empty() || dropped || id > 0);
            }
            Err(StreamError::Closed) => assert!(end.reset.contains_key(&id)),
            Err(StreamError::Session(_)) => assert!(end.core.closed().is_some()),
            Err(e) => panic!("{e}"),
        }
    }

    /// Carries octets from one end to the other.
    fn carry(&mut self, from: usize, n: usize) {
        if self.cut {
            return;
        }
        let [client, server] = &mut self.ends;
        let (from, to) = if from == 0 {
            (client, server)
        } else {
            (server, client)
        };
        let mut batch = from.core.take();
        for segment in &batch.segments {
            from.wire.extend_from_slice(&segment.octets);
        }
        from.core.written(&mut batch);
        let piece = from.wire.split_to(n.min(from.wire.len()));
        to.input.extend(&piece);
        to.core.receive(&mut to.input);
    }

    fn check(&mut self) {
        for (me, end) in self.ends.iter_mut().enumerate() {
            while let Some(event) = end.core.poll_event() {
                if let super::super::Event::Pong(value) = event {
                    assert_eq!(value, end.pings.remove(0), "answers come in order");
                }
            }
            let status = end.core.status();
            assert!(status.promised <= CAP, "{me}: {status:?}");
            assert!(status.queued <= 2 * BUDGET + 65_536, "{me}: {status:?}");
            assert!(
                status.local_streams + status.reserved <= 5,
                "{me}: {status:?}"
            );
            assert!(status.remote_streams <= 5 && status.backlog <= 3);
            match end.core.closed() {
                None => {}
                Some(CloseReason::Local(_) | CloseReason::GoAway(_)) if self.closing => {}
                Some(CloseReason::PeerClosed | CloseReason::Cut { .. }) if self.cut => {}
                Some(CloseReason::GoAway(0)) if self.cut && self.gone => {}
                other => panic!("{me}: {other:?}"),
            }
        }
        for me in [0, 1] {
            for (id, got) in &self.ends[me].got {
                let sent = self.ends[1 - me]
                    .sent
                    .get(id)
                    .map_or(&[][..], Vec::as_slice);
                assert!(
                    sent.starts_with(got),
                    "{me}: stream {id} gives what was not written"
                );
                if self.ends[me].ended.contains(id) {
                    assert!(sent.len() == got.len(), "{me}: stream {id} ends early");
                }
            }
        }
    }

    /// Lets everything go over and reads it.
    fn settle(&mut self) {
        for _ in 0..80 {
            for me in [0, 1] {
                self.carry(me, usize::MAX);
                while let Some(id) = self.ends[me].core.accept() {
                    self.ends[me].ids.push(id);
                }
                for id in self.ends[me].ids.clone() {
                    self.ends[me].core.finish(id);
                    self.ends[me].finished.insert(id);
                    self.read(me, id, usize::MAX);
                }
                self.check();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn two_ends_agree_whatever_the_order_and_the_cuts(
        ops in proptest::collection::vec(op(), 1..150),
        last in last(),
        after in proptest::collection::vec(op(), 0..20),
    ) {
        let mut model = Model::new();
        let all = ops.iter().chain(&last).chain(&after);
        for (n, (me, op)) in all.enumerate() {
            model.step(usize::from(*me), op, n as u8);
        }
        model.settle();
        let broken = model.cut || model.closing;
        for me in [0, 1] {
            let end = &model.ends[me];
            prop_assert!(broken || end.core.closed().is_none());
            for id in &end.ids {
                let other = &model.ends[1 - me];
                let whole = !broken
                    && ![end, other].iter().any(|e| e.reset.contains_key(id) || e.released.contains(id))
                    && other.ids.contains(id);
                if whole {
                    let sent = other.sent.get(id).map_or(0, Vec::len);
                    let got = end.got.get(id).map_or(0, Vec::len);
                    prop_assert_eq!(sent, got, "stream {}", id);
                    prop_assert!(end.ended.contains(id));
                }
            }
        }
        // Nobody holds anything any more: nothing is left.
        for me in [0, 1] {
            for id in std::mem::take(&mut model.ends[me].ids) {
                model.ends[me].core.release(id);
            }
        }
        for _ in 0..4 {
            model.settle();
            for end in &mut model.ends {
                end.core.sweep();
            }
        }
        for end in &model.ends {
            let status = end.core.status();
            if !broken {
                prop_assert_eq!((status.local_streams, status.remote_streams), (0, 0));
            }
            prop_assert_eq!((status.buffered, status.promised), (0, 0), "{:?}", status);
        }
    }

    #[test]
    fn no_octets_of_a_peer_break_a_bound(octets in proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..3000)) {
        fuzz_wire(&octets);
    }
}
