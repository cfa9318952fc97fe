//! What is sent: the frames of the files, cut and compressed as they will go out.
//!
//! ```text
//!   files ─▶ runs ─▶ Shaper (cut for the pace, compress) ─▶ cargo ─▶ one Supply a connection
//! ```
//! Cargo that is small, or that is sent over and over, is kept in memory as shared bytes: a connection takes every n-th
//! piece, so that nothing is copied, locked or handed over while it is sent. Larger cargo flows from a reading thread.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use crate::cli::input::{Ending, Fault, Input, Options, Place, Step, Tally};
use crate::cli::terms::Sieve;
use crate::fstrm::{Codec, Compressor, Frames};
use crate::link::outbox::Layout;

/// Usual length of a piece in bytes; a write takes several.
pub(super) const PIECE_BYTES: usize = 1024 * 1024;
/// Cargo up to this many bytes is loaded before anything is sent, so that reading it costs no time then.
const LOAD_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of frames in one compressed payload; receivers with go-framestream before 1.7 take no more than 64 KiB.
const BULK_BYTES: usize = 60 * 1024;
/// Pieces that wait for each connection when cargo flows.
const WAITING: usize = 4;

/// Bytes as they go out, and the frames they stand for.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) frames: u64,
    pub(super) layout: Layout,
}

/// How cargo is cut and packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Connections it is shared out to.
    pub(super) connections: usize,
    /// How often it is sent; 0: until stopped.
    pub(super) rounds: u64,
    /// Frames in a piece at most, where a pace is kept.
    pub(super) piece_frames: Option<u64>,
    /// How payloads are compressed.
    pub(super) codec: Option<Codec>,
}

/// What the files had that is not sent, and what is odd about them.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifest {
    pub(super) tally: Tally,
    pub(super) damage: Vec<String>,
}

/// All there is to send.
pub(super) struct Cargo {
    /// One for each connection.
    pub(super) supplies: Vec<Supply>,
    /// Bytes in all, where that is known beforehand.
    pub(super) bytes: Option<u64>,
    /// The reading thread, where cargo flows; it ends when the supplies are dropped.
    pub(super) reading: Option<JoinHandle<Result<Manifest, Fault>>>,
    /// What the files had, where they are read already.
    pub(super) manifest: Manifest,
}

/// What one connection sends.
pub(super) enum Supply {
    /// Every `step`-th piece of a sequence that lies in memory.
    Memory(Sequence),
    /// Pieces as they are read.
    Flow(Receiver<Piece>),
}

/// `round` over and over and then `rest` once, of which this connection has every `step`-th piece.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    round: Arc<[Piece]>,
    rest: Arc<[Piece]>,
    /// Pieces of all repetitions of `round`.
    repeated: u64,
    next: u64,
    step: u64,
}

impl Supply {
    /// The next piece; waits for the reading thread where cargo flows.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        match self {
            Self::Memory(sequence) => sequence.next(),
            Self::Flow(pieces) => pieces.recv().await,
        }
    }

    /// The next piece if it is there already.
    pub(super) fn ready(&mut self) -> Option<Piece> {
        match self {
            Self::Memory(sequence) => sequence.next(),
            Self::Flow(pieces) => pieces.try_recv().ok(),
        }
    }
}

impl Sequence {
    fn next(&mut self) -> Option<Piece> {
        let at = self.next;
        let piece = if at < self.repeated {
            self.round
                .get((at % self.round.len().max(1) as u64) as usize)
        } else {
            usize::try_from(at - self.repeated)
                .ok()
                .and_then(|at| self.rest.get(at))
        };
        self.next = at.saturating_add(self.step);
        piece.cloned()
    }
}

/// Reads the files and makes cargo of them.
///
/// # Errors
/// [`Fault`]: a file cannot be read. (One that is damaged or cut is sent as far as it goes; the manifest tells.)
pub(super) fn load(files: &[PathBuf], sieve: Sieve, shape: Shape) -> Result<Cargo, Fault> {
    let mut loader = Loader::new(files, sieve);
    let limit = if shape.rounds == 1 {
        LOAD_BYTES
    } else {
        usize::MAX
    };
    let mut runs = Vec::new();
    let mut bytes = 0;
    while bytes < limit {
        match loader.next()? {
            Some(run) => {
                bytes += run.bytes.len();
                runs.push(run);
            }
            None => return Ok(stow(&runs, bytes, shape, loader.manifest)),
        }
    }
    Ok(flow(runs, loader, shape))
}

/// Cargo that is all in memory.
fn stow(runs: &[Piece], bytes: usize, shape: Shape, manifest: Manifest) -> Cargo {
    let connections = shape.connections.max(1) as u64;
    let repeats = Repeats::of(bytes, shape);
    let mut shaper = Shaper::new(
        shape.codec,
        repeats.piece_bytes,
        shape.piece_frames.unwrap_or(u64::MAX),
    );
    let mut shaped = |copies: u64| -> Arc<[Piece]> {
        let runs = gathered(runs, bytes, copies);
        runs.iter().flat_map(|run| shaper.shape(run)).collect()
    };
    let (round, rest) = (shaped(repeats.copies), shaped(repeats.left));
    let total = |pieces: &[Piece]| pieces.iter().map(|p| p.bytes.len() as u64).sum::<u64>();
    let all = repeats
        .rounds
        .map(|rounds| total(&round) * rounds + total(&rest));
    let sequence = Sequence {
        repeated: match repeats.rounds {
            Some(rounds) => round.len() as u64 * rounds,
            // Of nothing there is no end of repetitions to wait for.
            None if round.is_empty() => 0,
            None => u64::MAX,
        },
        round,
        rest,
        next: 0,
        step: connections,
    };
    let supply = |next| {
        Supply::Memory(Sequence {
            next,
            ..sequence.clone()
        })
    };
    Cargo {
        supplies: (0..connections).map(supply).collect(),
        bytes: all,
        reading: None,
        manifest,
    }
}

/// How often what is sent: `rounds` times `copies` copies of all runs, and then `left` copies.
struct Repeats {
    copies: u64,
    /// `None`: until stopped.
    rounds: Option<u64>,
    left: u64,
    /// Longest piece in bytes.
    piece_bytes: usize,
}

impl Repeats {
    /// Each connection is to have something, and no write is to be small because the files are.
    fn of(bytes: usize, shape: Shape) -> Self {
        let endless = shape.rounds == 0;
        let wanted = if endless { u64::MAX } else { shape.rounds };
        let share = (bytes as u64).saturating_mul(wanted) / shape.connections.max(1) as u64;
        let piece_bytes = usize::try_from(share)
            .unwrap_or(PIECE_BYTES)
            .clamp(1, PIECE_BYTES);
        // With a pace pieces are small anyway.
        let copies = match (shape.piece_frames, piece_bytes.checked_div(bytes)) {
            (None, Some(copies)) => (copies as u64).clamp(1, wanted),
            _ => 1,
        };
        Self {
            copies,
            rounds: (!endless).then(|| shape.rounds / copies),
            left: if endless { 0 } else { shape.rounds % copies },
            piece_bytes,
        }
    }
}

/// The runs `copies` times; joined when they are small, since few large pieces are sent faster than many small ones.
fn gathered(runs: &[Piece], bytes: usize, copies: u64) -> Vec<Piece> {
    if copies == 1 && bytes > PIECE_BYTES {
        return runs.to_vec();
    }
    let copies = usize::try_from(copies).unwrap_or(1);
    let mut joined = BytesMut::with_capacity(bytes * copies);
    let mut frames = 0;
    for run in (0..copies).flat_map(|_| runs) {
        joined.extend_from_slice(&run.bytes);
        frames += run.frames;
    }
    if frames == 0 {
        return Vec::new();
    }
    vec![Piece {
        bytes: joined.freeze(),
        frames,
        layout: Layout::Run,
    }]
}

/// Cargo that a thread goes on reading, the first `runs` of it read already.
fn flow(runs: Vec<Piece>, mut loader: Loader, shape: Shape) -> Cargo {
    let (senders, supplies): (Vec<_>, Vec<_>) = (0..shape.connections.max(1))
        .map(|_| channel(WAITING))
        .map(|(sender, receiver)| (sender, Supply::Flow(receiver)))
        .unzip();
    let mut shaper = Shaper::new(
        shape.codec,
        PIECE_BYTES,
        shape.piece_frames.unwrap_or(u64::MAX),
    );
    let reading = std::thread::spawn(move || {
        let mut turn = 0;
        for run in runs {
            if !deal(shaper.shape(&run), &senders, &mut turn) {
                return Ok(loader.manifest);
            }
        }
        while let Some(run) = loader.next()? {
            if !deal(shaper.shape(&run), &senders, &mut turn) {
                break;
            }
        }
        Ok(loader.manifest)
    });
    Cargo {
        supplies,
        bytes: None,
        reading: Some(reading),
        manifest: Manifest::default(),
    }
}

/// Hands pieces out in turn, passing over connections that have enough; `false` when nobody takes any.
fn deal(pieces: Vec<Piece>, to: &[Sender<Piece>], turn: &mut usize) -> bool {
    pieces.into_iter().all(|piece| {
        offer(piece, to, turn).is_ok_and(|left| left.is_none_or(|piece| wait(piece, to, turn)))
    })
}

/// Nobody is there any more.
struct AllGone;

/// Gives a piece to the next connection that has room; back comes the piece when none has.
fn offer(
    mut piece: Piece,
    to: &[Sender<Piece>],
    turn: &mut usize,
) -> Result<Option<Piece>, AllGone> {
    let mut open = false;
    for _ in to {
        let Some(sender) = to.get(*turn % to.len()) else {
            break;
        };
        *turn += 1;
        piece = match sender.try_send(piece) {
            Ok(()) => return Ok(None),
            Err(TrySendError::Full(back)) => {
                open = true;
                back
            }
            Err(TrySendError::Closed(back)) => back,
        };
    }
    if open { Ok(Some(piece)) } else { Err(AllGone) }
}

/// All are busy: waits for the one whose turn it is, or for the next that is still there.
fn wait(piece: Piece, to: &[Sender<Piece>], turn: &mut usize) -> bool {
    let mut turns = (0..to.len()).filter_map(|i| to.get((*turn + i) % to.len()));
    let Some(sender) = turns.find(|sender| !sender.is_closed()) else {
        return false;
    };
    *turn += 1;
    // Should it go just now, its piece goes with it: a connection that breaks loses more than that.
    sender.blocking_send(piece).is_ok() || to.iter().any(|sender| !sender.is_closed())
}

/// Reads the files one after another.
struct Loader {
    files: VecDeque<PathBuf>,
    input: Option<(String, Input)>,
    sieve: Sieve,
    manifest: Manifest,
}

impl Loader {
    fn new(files: &[PathBuf], sieve: Sieve) -> Self {
        Self {
            files: VecDeque::from_iter(files.iter().cloned()),
            input: None,
            sieve,
            manifest: Manifest::default(),
        }
    }

    fn next(&mut self) -> Result<Option<Piece>, Fault> {
        let options = Options {
            read_size: PIECE_BYTES,
            ..Options::default()
        };
        let Manifest { tally, damage } = &mut self.manifest;
        loop {
            let Some((name, input)) = &mut self.input else {
                let Some(file) = self.files.pop_front() else {
                    return Ok(None);
                };
                let place = Place::of(&file);
                self.input = Some((place.name(), Input::open(&place, &options)?));
                continue;
            };
            match input.next(tally) {
                Ok(Step::Run { .. }) if !self.sieve.is_open() => {
                    let mut kept = Vec::new();
                    let frames = self.sieve.sift(input.run(), &mut kept, tally);
                    if frames > 0 {
                        return Ok(Some(Piece {
                            bytes: kept.into(),
                            frames,
                            layout: Layout::Run,
                        }));
                    }
                }
                Ok(Step::Run { frames }) => {
                    tally.frames += frames as u64;
                    tally.records += frames as u64;
                    return Ok(Some(Piece {
                        bytes: input.take_run(),
                        frames: frames as u64,
                        layout: Layout::Run,
                    }));
                }
                Ok(Step::Eof) => {
                    if let Ending::Cut(how) = input.ending()? {
                        damage.push(format!("{name}: {how}"));
                    }
                    self.input = None;
                }
                Err(Fault::Damaged(why)) => {
                    damage.push(why);
                    self.input = None;
                }
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// Cuts runs into pieces and compresses them.
struct Shaper {
    compressor: Option<Compressor>,
    bytes_max: usize,
    frames_max: u64,
}

impl Shaper {
    fn new(codec: Option<Codec>, bytes_max: usize, frames_max: u64) -> Self {
        Self {
            compressor: codec.map(Compressor::new),
            bytes_max: if codec.is_some() {
                bytes_max.min(BULK_BYTES)
            } else {
                bytes_max
            },
            frames_max: frames_max.max(1),
        }
    }

    fn shape(&mut self, run: &Piece) -> Vec<Piece> {
        let mut rest = run.bytes.clone();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (len, frames) = self.cut(&rest);
            if len == 0 {
                break;
            }
            let plain = rest.split_to(len);
            pieces.push(self.pack(plain, frames));
        }
        pieces
    }

    /// The longest prefix within both limits, but at least one frame.
    fn cut(&self, run: &[u8]) -> (usize, u64) {
        let mut frames = Frames::new(run);
        let (mut len, mut count) = (0, 0);
        while count < self.frames_max && frames.next().is_some() {
            let end = run.len() - frames.rest().len();
            if end > self.bytes_max && count > 0 {
                break;
            }
            (len, count) = (end, count + 1);
        }
        (len, count)
    }

    fn pack(&mut self, plain: Bytes, frames: u64) -> Piece {
        let run = |bytes| Piece {
            bytes,
            frames,
            layout: Layout::Run,
        };
        let Some(compressor) = &mut self.compressor else {
            return run(plain);
        };
        let mut out = Vec::with_capacity(plain.len() / 2 + 64);
        match compressor.bulk(&plain, &mut out) {
            Ok(()) => Piece {
                bytes: out.into(),
                frames,
                layout: Layout::Whole,
            },
            // Only a run of 4 GiB is refused, and there are none; plain frames are understood just as well.
            Err(_) => run(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(frames: std::ops::Range<u32>) -> Piece {
        let bytes: Vec<u8> = frames
            .clone()
            .flat_map(|i| [4u32.to_be_bytes(), i.to_be_bytes()].concat())
            .collect();
        Piece {
            bytes: bytes.into(),
            frames: u64::from(frames.end - frames.start),
            layout: Layout::Run,
        }
    }

    fn sent(cargo: Cargo, take_max: usize) -> Vec<Vec<u32>> {
        let take = |mut supply: Supply| {
            let mut got = Vec::new();
            for _ in 0..take_max {
                let Some(piece) = supply.ready() else { break };
                let frames =
                    Frames::new(&piece.bytes).map(|p| u32::from_be_bytes(p.try_into().unwrap()));
                let before = got.len();
                got.extend(frames);
                assert_eq!((got.len() - before) as u64, piece.frames);
            }
            got
        };
        cargo.supplies.into_iter().map(take).collect()
    }

    #[test]
    fn every_frame_is_sent_as_often_as_asked_whatever_the_number_of_connections() {
        for frames in [0, 1, 3, 1000, 150_000] {
            for connections in [1, 2, 7, 100] {
                for rounds in [1, 2, 5, 400] {
                    if u64::from(frames) * rounds > 1_000_000 {
                        continue;
                    }
                    for piece_frames in [None, Some(3)] {
                        let shape = Shape {
                            connections,
                            rounds,
                            piece_frames,
                            codec: None,
                        };
                        let runs = [run(0..frames / 3), run(frames / 3..frames)];
                        let runs: Vec<_> = runs.into_iter().filter(|r| r.frames > 0).collect();
                        let bytes = runs.iter().map(|r| r.bytes.len()).sum();
                        let cargo = stow(&runs, bytes, shape, Manifest::default());
                        assert_eq!(cargo.bytes, Some(u64::from(frames) * rounds * 8));
                        let got = sent(cargo, usize::MAX);
                        assert_eq!(got.len(), connections);
                        let mut all: Vec<u32> = got.concat();
                        all.sort_unstable();
                        let want: Vec<u32> = (0..frames)
                            .flat_map(|i| std::iter::repeat_n(i, rounds as usize))
                            .collect();
                        assert!(all == want, "{frames} frames, {shape:?}: {}", all.len());
                        let total = u64::from(frames) * rounds;
                        if total >= connections as u64 * 8 && piece_frames.is_none() {
                            assert!(got.iter().all(|g| !g.is_empty()), "{frames} {shape:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn small_files_sent_over_and_over_still_give_large_pieces() {
        let shape = Shape {
            connections: 1,
            rounds: 0,
            piece_frames: None,
            codec: None,
        };
        let runs = [run(0..10)];
        let cargo = stow(&runs, 80, shape, Manifest::default());
        assert_eq!(cargo.bytes, None);
        let got = sent(cargo, 3).concat();
        assert_eq!(got.len(), 3 * 10 * (PIECE_BYTES / 80));
    }

    #[test]
    fn cargo_that_flows_is_dealt_to_all_and_stops_when_nobody_takes_it() {
        let shape = Shape {
            connections: 3,
            rounds: 1,
            piece_frames: Some(10),
            codec: None,
        };
        let cargo = flow(vec![run(0..1000)], Loader::new(&[], Sieve::new(&[])), shape);
        let reading = cargo.reading.unwrap();
        let mut supplies = cargo.supplies;
        let mut got = Vec::new();
        while !supplies.is_empty() {
            supplies.retain_mut(|supply| {
                let Supply::Flow(pieces) = supply else {
                    panic!("it flows")
                };
                let piece = pieces.blocking_recv();
                got.extend(piece.iter().flat_map(|p| p.bytes.to_vec()));
                piece.is_some()
            });
        }
        assert_eq!(Frames::count_of(&got), Ok(1000));
        reading.join().unwrap().unwrap();

        let cargo = flow(
            vec![run(0..100_000)],
            Loader::new(&[], Sieve::new(&[])),
            shape,
        );
        drop(cargo.supplies);
        cargo.reading.unwrap().join().unwrap().unwrap();
    }
}
