//! Which stream a batch goes to.

use bytes::{Bytes, BytesMut};

use crate::outputs::mux::board::{Board, Stream, StreamKey, Unit};
use crate::outputs::mux::key::{Keys, mix};
use crate::outputs::options::{MuxOptions, Strategy};

/// The streams that there are, as hashing sees them: each key goes to the worker whose number, mixed with the key, is the
/// highest (rendezvous hashing), and among its streams likewise. A worker that comes takes an even share from each of the
/// others, one that goes leaves its share to them evenly, and nothing else moves.
#[derive(Default, Debug)]
pub(super) struct Ring {
    workers: Vec<(u64, Vec<(u64, StreamKey)>)>,
}

impl Ring {
    fn of(streams: &mut dyn Iterator<Item = (StreamKey, &Stream)>) -> Self {
        let mut ring = Self::default();
        for (key, stream) in streams {
            ring.add(stream.worker.hash, stream.slot, key);
        }
        ring
    }

    fn add(&mut self, worker: u64, slot: u32, key: StreamKey) {
        let stream = (mix(u64::from(slot) + 1), key);
        match self.workers.iter_mut().find(|w| w.0 == worker) {
            Some(known) => known.1.push(stream),
            None => self.workers.push((worker, vec![stream])),
        }
    }

    /// The stream of a key; `None` when there is no stream.
    fn stream_of(&self, key: u64) -> Option<StreamKey> {
        let (_, streams) = self.workers.iter().max_by_key(|w| mix(w.0 ^ key))?;
        let stream = streams.iter().max_by_key(|s| mix(s.0 ^ key))?;
        Some(stream.1)
    }
}

/// Gives batches out by one strategy.
pub(super) struct Picker {
    strategy: Strategy,
    keys: Keys,
    budget: usize,
    /// The stream that had the last turn.
    last: StreamKey,
    ring: Ring,
    version: Option<u64>,
}

impl Picker {
    pub(super) fn new(options: &MuxOptions) -> Self {
        Self {
            strategy: options.strategy,
            keys: Keys::new(options),
            budget: options.unacked_bytes.as_usize(),
            last: 0,
            ring: Ring::default(),
            version: None,
        }
    }

    /// Gives `unit` out. It comes back, or the parts of it that found no stream, when it has to wait. `again`: it is given
    /// out once more, so it is in the budget already.
    pub(super) fn give(&mut self, board: &Board, unit: Unit, again: bool) -> Vec<Unit> {
        match self.strategy {
            Strategy::Hash => self.by_hash(board, unit),
            _ => {
                let len = if again { 0 } else { unit.batch.len_bytes() };
                match self.by_turn_or_load(board, len) {
                    Some(key) => board.give(key, unit).into_iter().collect(),
                    None => vec![unit],
                }
            }
        }
    }

    fn by_turn_or_load(&mut self, board: &Board, len: usize) -> Option<StreamKey> {
        let (last, budget) = (self.last, self.budget);
        let least_loaded = self.strategy == Strategy::LeastLoaded;
        let picked = board.look(|streams| {
            let streams: Vec<_> = streams.collect();
            // One stream may not take the whole budget, or a worker that stands still would hold up the others.
            let share = budget / streams.len().max(1);
            let fits = |s: &Stream| {
                let load = s.waiting_bytes + s.sent_bytes;
                load == 0 || load + len <= share
            };
            let fitting = streams.iter().filter(|(_, s)| len == 0 || fits(s));
            let rank = |key: StreamKey, s: &Stream| {
                let turn = key.wrapping_sub(last).wrapping_sub(1);
                if least_loaded {
                    // Unwritten bytes are those that the worker has given no credit for.
                    (s.waiting_bytes, s.sent_bytes, turn)
                } else {
                    (0, 0, turn)
                }
            };
            fitting.min_by_key(|(key, s)| rank(*key, s)).map(|s| s.0)
        })?;
        self.last = picked;
        Some(picked)
    }

    fn by_hash(&mut self, board: &Board, unit: Unit) -> Vec<Unit> {
        let version = board.version();
        if self.version != Some(version) {
            self.ring = board.look(Ring::of);
            self.version = Some(version);
        }
        let batch = &unit.batch;
        if let Some(key) = self.keys.of_batch(batch) {
            return match self.ring.stream_of(key) {
                Some(stream) => board.give(stream, unit).into_iter().collect(),
                None => vec![unit],
            };
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0;
        for payload in batch.payloads() {
            let end = at + 4 + payload.len();
            let Some(stream) = self.ring.stream_of(self.keys.of_frame(batch, payload)) else {
                return vec![unit];
            };
            let run = batch.bytes().get(at..end).unwrap_or_default();
            match parts.iter_mut().find(|p| p.stream == stream) {
                Some(part) => part.add(run),
                None => parts.push(Part::begin(stream, run, batch.len_bytes())),
            }
            at = end;
        }
        if let [whole] = parts.as_slice() {
            return board.give(whole.stream, unit).into_iter().collect();
        }
        // Parts have names of their own: who gets one again must not take it for the whole.
        let give = |part: Part| {
            let unit = board.name(batch.part(Bytes::from(part.bytes), part.frames));
            board.give(part.stream, unit)
        };
        parts.into_iter().filter_map(give).collect()
    }
}

/// The frames of a batch that go to one stream.
struct Part {
    stream: StreamKey,
    bytes: BytesMut,
    frames: usize,
}

impl Part {
    fn begin(stream: StreamKey, run: &[u8], of: usize) -> Self {
        let mut bytes = BytesMut::with_capacity(of / 2);
        bytes.extend_from_slice(run);
        Self {
            stream,
            bytes,
            frames: 1,
        }
    }

    fn add(&mut self, run: &[u8]) {
        self.bytes.extend_from_slice(run);
        self.frames += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::mux::key::hash;

    fn ring(workers: &[&str], streams: u32) -> Ring {
        let mut ring = Ring::default();
        for (w, name) in (0..).zip(workers) {
            for slot in 0..streams {
                ring.add(hash(name.as_bytes()), slot, w * 100 + u64::from(slot));
            }
        }
        ring
    }

    #[test]
    fn a_worker_that_joins_or_leaves_moves_its_share_and_nothing_else() {
        const KEYS: u64 = 40_000;
        let names: Vec<String> = (1..=6).map(|n| format!("tcp:192.0.2.{n}:6001")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for n in 2..=6u64 {
            let (few, many) = (
                ring(&names[..n as usize - 1], 3),
                ring(&names[..n as usize], 3),
            );
            let mut moved = 0u64;
            let mut shares = vec![0u64; n as usize];
            for key in (0..KEYS).map(|k| hash(&k.to_be_bytes())) {
                let (before, after) = (few.stream_of(key).unwrap(), many.stream_of(key).unwrap());
                shares[(after / 100) as usize] += 1;
                if before != after {
                    assert_eq!(
                        after / 100,
                        n - 1,
                        "a key moves to the worker that joined, or not at all"
                    );
                    moved += 1;
                }
            }
            let share = KEYS / n;
            assert!(
                moved.abs_diff(share) < share / 10,
                "{n} workers: {moved} of {KEYS} moved"
            );
            assert!(
                shares.iter().all(|s| s.abs_diff(share) < share / 10),
                "{shares:?}"
            );
        }
    }

    #[test]
    fn the_streams_of_a_worker_share_its_keys_evenly_and_one_that_ends_moves_its_own() {
        let (three, mut two) = (ring(&["a"], 3), ring(&["a"], 3));
        two.workers[0].1.pop();
        let mut shares = [0u64; 3];
        for key in (0..30_000u64).map(|k| hash(&k.to_be_bytes())) {
            let (before, after) = (three.stream_of(key).unwrap(), two.stream_of(key).unwrap());
            shares[before as usize] += 1;
            assert!(before == after || before == 2);
        }
        assert!(
            shares.iter().all(|s| s.abs_diff(10_000) < 1000),
            "{shares:?}"
        );
    }
}
