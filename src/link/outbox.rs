//! [`Outbox`]: what waits to be written to one place, and how far the writing has got.
//!
//! Whoever writes takes slices from the front, hands them to the operating system in one call and says how many bytes were
//! taken. Whole frames among them are *delivered*; a frame of which only a part was taken is not, and [`Outbox::rewind`]
//! puts it back to be written again from its first byte, on the next connection or after the file has been truncated. No
//! byte is copied, and a frame is looked at only when a write ended inside of its chunk.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::fstrm::Frames;

/// Slices handed to the operating system in one call. Linux takes 1024, but more than 64 batches never pay: a call that
/// moves megabytes costs nothing beside the move.
pub const SLICES_MAX: usize = 64;

/// Where in a chunk's bytes one frame ends and the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// A run of data frames as on the wire, one frame each.
    Run,
    /// One line a frame, each with its newline.
    Lines,
    /// The frames cannot be told apart (they are compressed together): all are delivered with the last byte, or none.
    Whole,
}

/// Bytes to be written and the frames that they stand for.
#[derive(Clone, Debug)]
pub struct Chunk {
    bytes: Bytes,
    frames: u64,
    layout: Layout,
}

impl Chunk {
    /// `bytes`, which stand for `frames` frames laid out as `layout` says. An empty chunk must stand for no frame.
    pub fn new(bytes: Bytes, frames: u64, layout: Layout) -> Self {
        debug_assert!(
            !bytes.is_empty() || frames == 0,
            "frames without bytes would never be delivered"
        );
        Self {
            bytes,
            frames,
            layout,
        }
    }

    /// Frames that end within `from..to`, and the end of the last of them. `from` is where a frame begins.
    fn whole_within(&self, from: usize, to: usize) -> (usize, u64) {
        let part = self.bytes.get(from..to).unwrap_or_default();
        let (len, frames) = match self.layout {
            Layout::Run => {
                let mut frames = Frames::new(part);
                let count = frames.by_ref().count();
                (part.len() - frames.rest().len(), count)
            }
            Layout::Lines => (
                memchr::memrchr(b'\n', part).map_or(0, |at| at + 1),
                memchr::memchr_iter(b'\n', part).count(),
            ),
            Layout::Whole => (0, 0),
        };
        (from + len, frames as u64)
    }
}

/// Chunks that wait to be written, oldest first.
#[derive(Default, Debug)]
pub struct Outbox {
    chunks: VecDeque<Chunk>,
    /// Bytes of the front chunk that were written. Invariant: less than its length.
    sent: usize,
    /// End of the last frame of the front chunk that is counted in `delivered`. Invariant: `boundary <= sent`.
    boundary: usize,
    /// Bytes not written.
    bytes: usize,
    /// Frames not counted in `delivered`.
    frames: u64,
    delivered: u64,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a chunk at the end. An empty one is ignored.
    pub fn push(&mut self, chunk: Chunk) {
        if chunk.bytes.is_empty() {
            return;
        }
        self.bytes += chunk.bytes.len();
        self.frames += chunk.frames;
        self.chunks.push_back(chunk);
    }

    /// Whether everything has been written.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes not written.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Chunks not wholly written.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Frames that are neither delivered nor given up.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether the last byte written was the last one of a chunk, so that nothing is cut when the next goes elsewhere.
    pub fn at_boundary(&self) -> bool {
        self.sent == 0
    }

    /// Puts the bytes to write next into `slices`, whole chunks until `bytes_max` is reached or passed, but one at least.
    /// Returns how many slices were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> usize {
        let mut skip = self.sent;
        let mut bytes = 0usize;
        let mut filled = 0;
        for (slot, chunk) in slices.iter_mut().zip(&self.chunks) {
            if bytes >= bytes_max && filled > 0 {
                break;
            }
            let rest = chunk.bytes.get(skip..).unwrap_or_default();
            *slot = IoSlice::new(rest);
            bytes = bytes.saturating_add(rest.len());
            skip = 0;
            filled += 1;
        }
        filled
    }

    /// The first `n` unwritten bytes have been written. `n` beyond what there is counts as all of it.
    pub fn advance(&mut self, n: usize) {
        debug_assert!(n <= self.bytes, "more bytes written than there were");
        let mut n = n.min(self.bytes);
        self.bytes -= n;
        while let Some(front) = self.chunks.front() {
            let rest = front.bytes.len() - self.sent;
            if n < rest {
                self.sent += n;
                return;
            }
            n -= rest;
            self.frames -= front.frames;
            self.delivered += front.frames;
            self.chunks.pop_front();
            self.sent = 0;
            self.boundary = 0;
        }
    }

    /// Counts the frames of the front chunk that were wholly written.
    fn count_partial(&mut self) {
        let (from, to) = (self.boundary, self.sent);
        if let Some(front) = self.chunks.front_mut()
            && to > from
        {
            let (boundary, frames) = front.whole_within(from, to);
            // A chunk that stands for fewer frames than its bytes show cannot make the count wrap.
            let frames = frames.min(front.frames);
            front.frames -= frames;
            self.boundary = boundary;
            self.frames -= frames;
            self.delivered += frames;
        }
    }

    /// Puts back the frame that was written in part, so that it is written again from its first byte. Returns how many of
    /// its bytes were written.
    pub fn rewind(&mut self) -> usize {
        self.count_partial();
        let back = self.sent - self.boundary;
        if let Some(front) = self.chunks.front_mut() {
            front.bytes.advance(self.boundary);
        }
        self.bytes += back;
        self.sent = 0;
        self.boundary = 0;
        back
    }

    /// Frames delivered since the last call, those before the place where the writing has got to included.
    pub fn take_delivered(&mut self) -> u64 {
        self.count_partial();
        std::mem::take(&mut self.delivered)
    }

    /// Gives up everything that is not delivered and returns how many frames that were.
    pub fn give_up(&mut self) -> u64 {
        self.count_partial();
        self.chunks.clear();
        self.sent = 0;
        self.boundary = 0;
        self.bytes = 0;
        std::mem::take(&mut self.frames)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Payload lengths to a run.
    fn run(lens: &[usize]) -> Vec<u8> {
        lens.iter()
            .flat_map(|n| {
                (*n as u32)
                    .to_be_bytes()
                    .into_iter()
                    .chain(std::iter::repeat_n(7, *n))
            })
            .collect()
    }

    fn chunk(lens: &[usize]) -> Chunk {
        Chunk::new(run(lens).into(), lens.len() as u64, Layout::Run)
    }

    fn unwritten(outbox: &Outbox) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let n = outbox.slices(&mut slices, usize::MAX);
        slices[..n].iter().flat_map(|s| s.to_vec()).collect()
    }

    #[test]
    fn a_frame_counts_when_its_last_byte_is_written_whatever_the_layout() {
        for (layout, bytes, want) in [
            (
                Layout::Run,
                run(&[1, 2]),
                vec![0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2],
            ),
            (Layout::Lines, b"a\nbc\n".to_vec(), vec![0, 0, 1, 1, 1, 2]),
            (Layout::Whole, b"xyz".to_vec(), vec![0, 0, 0, 2]),
        ] {
            for (n, want) in want.into_iter().enumerate() {
                let mut outbox = Outbox::new();
                outbox.push(Chunk::new(bytes.clone().into(), 2, layout));
                outbox.advance(n);
                assert_eq!(outbox.take_delivered(), want, "{layout:?} cut at {n}");
                assert_eq!(outbox.frames(), 2 - want, "{layout:?} cut at {n}");
                assert_eq!(outbox.give_up(), 2 - want);
                assert!(outbox.is_empty() && outbox.len_bytes() == 0);
            }
        }
    }

    #[test]
    fn rewind_puts_back_exactly_the_frame_that_was_cut() {
        let mut outbox = Outbox::new();
        outbox.push(chunk(&[1, 2]));
        outbox.push(chunk(&[3]));
        outbox.advance(5 + 4);
        assert_eq!(outbox.rewind(), 4);
        assert_eq!(unwritten(&outbox), run(&[2, 3]));
        assert_eq!(
            (outbox.take_delivered(), outbox.frames(), outbox.len_bytes()),
            (1, 2, 13)
        );
        outbox.advance(13);
        assert_eq!((outbox.take_delivered(), outbox.frames()), (2, 0));
    }

    #[test]
    fn slices_end_at_the_chunk_that_reaches_the_limit() {
        let mut outbox = Outbox::new();
        (0..3).for_each(|_| outbox.push(chunk(&[6])));
        for (limit, want) in [(0, 1), (1, 1), (10, 1), (11, 2), (usize::MAX, 3)] {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            assert_eq!(outbox.slices(&mut slices, limit), want, "limit {limit}");
        }
    }

    proptest! {
        #[test]
        fn any_writes_and_rewinds_deliver_every_frame_once(
            chunks in proptest::collection::vec(proptest::collection::vec(1usize..9, 1..5), 1..6),
            steps in proptest::collection::vec((0usize..20, any::<bool>()), 0..60),
        ) {
            let mut outbox = Outbox::new();
            let mut want = Vec::new();
            for lens in &chunks {
                outbox.push(chunk(lens));
                want.extend(run(lens));
            }
            // What the places hold that were written to: at a cut the last one keeps its whole frames only.
            let mut place: Vec<u8> = Vec::new();
            let mut delivered = 0;
            for (n, cut) in steps.into_iter().chain([(usize::MAX, false)]) {
                let rest = unwritten(&outbox);
                let n = n.min(rest.len());
                place.extend(&rest[..n]);
                outbox.advance(n);
                if cut {
                    let back = outbox.rewind();
                    place.truncate(place.len() - back);
                    prop_assert_eq!(Frames::count_of(&place).unwrap() as u64, delivered + outbox.take_delivered());
                    delivered = Frames::count_of(&place).unwrap() as u64;
                }
            }
            delivered += outbox.take_delivered();
            prop_assert_eq!(&place, &want);
            prop_assert_eq!(delivered, chunks.iter().map(|c| c.len() as u64).sum::<u64>());
        }
    }
}
