//! [`FrameBuf`]: the buffer between a socket and the decoder.
//!
//! ```text
//!   storage  [ consumed | unread ............ | spare ........ ]
//!            0          read                  filled           len
//! ```
//! The reader writes into `spare`, the decoder looks at `unread`, and what has been looked at is either *consumed* (view
//! mode: the frames were borrowed, nothing was copied or allocated) or *split off* (owned mode: the storage itself
//! becomes reference-counted [`Bytes`] and the connection goes on with another one).

use std::mem;

use bytes::Bytes;

use super::pool::BufPool;

/// How much memory one connection's buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufOptions {
    /// Length in bytes of the first storage of a connection that has said little so far. A peer that stalls within a
    /// frame keeps at most this much, not a whole pool storage.
    pub initial_capacity: usize,
    /// Bytes beyond which the storage never grows. A frame longer than this is handled as oversized, so it should be at
    /// least the limit for data frames plus four.
    pub growth_limit: usize,
}

impl Default for BufOptions {
    /// 16 KiB at first, at most the default data frame limit (1 MiB) plus one read (256 KiB).
    fn default() -> Self {
        Self {
            initial_capacity: 16 * 1024,
            growth_limit: (1024 + 256) * 1024,
        }
    }
}

/// A read buffer that lends its frames or gives itself away. It owns no storage until the first [`spare`](Self::spare).
#[derive(Debug)]
pub struct FrameBuf {
    opts: BufOptions,
    pool: BufPool,
    /// All of it initialised; empty while the connection is idle.
    storage: Vec<u8>,
    /// Prefix already handed out. Invariant: `read <= filled <= storage.len()`.
    read: usize,
    filled: usize,
    /// Bytes of the stream consumed so far, which is the stream offset of the first unread byte.
    position: u64,
}

impl FrameBuf {
    /// An empty buffer without storage.
    #[must_use]
    pub fn new(opts: BufOptions, pool: BufPool) -> Self {
        Self {
            opts,
            pool,
            storage: Vec::new(),
            read: 0,
            filled: 0,
            position: 0,
        }
    }

    /// Initialised free space to read into. Follow it with [`filled`](Self::filled).
    ///
    /// `want` is how much the caller would like (a read size, or [`Decoder::want`](super::Decoder::want) where that is
    /// more); the result may be longer or shorter. It is empty only when [`BufOptions::growth_limit`] bytes are unread,
    /// which cannot happen to a caller that drains the decoder first. Moves the unread bytes to the front or to a longer
    /// storage where needed: for a stream of whole reads that is a part of one frame.
    pub fn spare(&mut self, want: usize) -> &mut [u8] {
        let want = want.max(1);
        if self.storage.len().saturating_sub(self.filled) < want {
            self.make_room(want);
        }
        self.storage.get_mut(self.filled..).unwrap_or_default()
    }

    /// Says that the first `n` bytes of [`spare`](Self::spare) have been written. `n` beyond it counts as all of it.
    pub fn filled(&mut self, n: usize) {
        debug_assert!(
            n <= self.storage.len() - self.filled,
            "more bytes filled than there was room for"
        );
        self.filled = self.filled.saturating_add(n).min(self.storage.len());
    }

    /// Copies `bytes` in, as one read would have: for files in memory and tests. Returns how many fitted.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let spare = self.spare(rest.len());
            let n = spare.len().min(rest.len());
            if n == 0 {
                break;
            }
            spare
                .iter_mut()
                .zip(rest)
                .for_each(|(to, from)| *to = *from);
            self.filled(n);
            done += n;
        }
        done
    }

    /// The bytes that arrived and were neither consumed nor split off.
    #[inline]
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        self.storage.get(self.read..self.filled).unwrap_or_default()
    }

    /// Stream offset of the first unread byte: how many bytes have been consumed or split off in all.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// View mode: the first `n` unread bytes are done with. `n` beyond the unread bytes counts as all of them.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        debug_assert!(
            n <= self.filled - self.read,
            "more bytes consumed than were unread"
        );
        let n = n.min(self.filled - self.read);
        self.position += n as u64;
        self.read += n;
        if self.read == self.filled {
            // Starting at the front again saves the move in `spare`.
            self.read = 0;
            self.filled = 0;
        }
    }

    /// Lends the first `n` unread bytes and consumes them: they stay valid until the next call on this buffer.
    #[inline]
    pub(super) fn lend(&mut self, n: usize) -> &[u8] {
        let start = self.read;
        let n = n.min(self.filled - start);
        self.consume(n);
        self.storage.get(start..start + n).unwrap_or_default()
    }

    /// Owned mode: takes the first `n` unread bytes off as shared bytes that stay valid. `n` beyond the unread bytes
    /// counts as all of them.
    ///
    /// At most one allocation. Normally the storage itself is handed over (it returns to the pool when the last
    /// reference is dropped) and the unread tail moves into another storage of the pool. The bytes are copied out
    /// instead, also in one allocation, when they are less than a quarter of the storage, so that a queue limited to
    /// some number of bytes holds at most four times as much memory; when the storage is a small one that is not the
    /// pool's; and when the pool is at its bound with none free. Until the pool has reached its bound this also makes
    /// the storages it will keep, each once.
    pub fn split_owned(&mut self, n: usize) -> Bytes {
        let n = n.min(self.filled - self.read);
        let tail = self.filled - self.read - n;
        if n == 0 {
            return Bytes::new();
        }
        let (len, pooled) = (self.storage.len(), self.pool.storage_len());
        if n < len / 4 || len < pooled || tail > pooled {
            return self.copy_out(n);
        }
        // Taken now even where there is no tail: the next read would need it, and then it might cost an allocation.
        let Some(mut fresh) = self.pool.take_within_bound() else {
            return self.copy_out(n);
        };
        let (start, end) = (self.read, self.read + n);
        if let (Some(to), Some(from)) = (fresh.get_mut(..tail), self.storage.get(end..self.filled))
        {
            to.copy_from_slice(from);
        }
        let full = mem::replace(&mut self.storage, fresh);
        self.read = 0;
        self.filled = tail;
        self.position += n as u64;
        self.pool.share(full).slice(start..end)
    }

    fn copy_out(&mut self, n: usize) -> Bytes {
        // `Bytes::from` a vector that is exactly full allocates nothing more.
        let copy: Vec<u8> = self.unread().get(..n).unwrap_or_default().to_vec();
        self.consume(n);
        Bytes::from(copy)
    }

    /// Gives the storage back to the pool if nothing is unread: call it when the socket has no more to say for now.
    pub fn release_if_empty(&mut self) {
        if self.read == self.filled {
            self.read = 0;
            self.filled = 0;
            self.pool.give(mem::take(&mut self.storage));
        }
    }

    /// Bytes of the storage held now; 0 for an idle connection.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.storage.len()
    }

    /// Bytes beyond which the storage never grows.
    #[must_use]
    pub const fn growth_limit(&self) -> usize {
        self.opts.growth_limit
    }

    /// Compacts, and moves to a longer storage where compacting does not give enough.
    fn make_room(&mut self, want: usize) {
        let (unread, len) = (self.filled - self.read, self.storage.len());
        let free = len - unread;
        // A storage of the pool's length that is half free is good enough for any read: growing it for the sake of
        // the part of a frame left over from the last read would take every busy connection out of the pool.
        let pooled = self.pool.storage_len();
        if free >= want || len >= self.opts.growth_limit || (len >= pooled && free >= len / 2) {
            self.storage.copy_within(self.read..self.filled, 0);
        } else {
            let mut fresh = self.longer_storage(unread, want);
            if let (Some(to), Some(from)) = (
                fresh.get_mut(..unread),
                self.storage.get(self.read..self.filled),
            ) {
                to.copy_from_slice(from);
            }
            self.pool.give(mem::replace(&mut self.storage, fresh));
        }
        self.read = 0;
        self.filled = unread;
    }

    fn longer_storage(&self, unread: usize, want: usize) -> Vec<u8> {
        let (len, limit, pooled) = (
            self.storage.len(),
            self.opts.growth_limit,
            self.pool.storage_len(),
        );
        let initial = self.opts.initial_capacity.min(limit);
        let need = unread.saturating_add(want);
        if need <= initial && initial < pooled {
            vec![0; initial]
        } else if len < pooled && unread <= pooled / 2 && pooled <= limit {
            self.pool.take()
        } else {
            // Doubling keeps the copying linear for callers that ask for a byte at a time.
            match need.max(len.saturating_mul(2)).max(initial).min(limit) {
                len if len == pooled => self.pool.take(),
                len => vec![0; len],
            }
        }
    }
}

impl Drop for FrameBuf {
    fn drop(&mut self) {
        self.pool.give(mem::take(&mut self.storage));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOLED: usize = 1024;

    fn buffer(initial_capacity: usize, growth_limit: usize) -> (FrameBuf, BufPool) {
        let pool = BufPool::new(POOLED, 4);
        (
            FrameBuf::new(
                BufOptions {
                    initial_capacity,
                    growth_limit,
                },
                pool.clone(),
            ),
            pool,
        )
    }

    #[test]
    fn holds_no_storage_until_asked_and_none_once_released() {
        let (mut buf, pool) = buffer(16, 4096);
        assert_eq!(buf.capacity(), 0);
        assert_eq!(buf.spare(POOLED).len(), POOLED);
        buf.filled(3);
        buf.release_if_empty();
        assert_eq!(buf.capacity(), POOLED, "three bytes are unread");
        buf.consume(3);
        buf.release_if_empty();
        assert_eq!((buf.capacity(), pool.free()), (0, 1));
        drop(buf);
        assert_eq!(pool.live(), 1);
    }

    #[test]
    fn starts_small_then_takes_a_pool_storage_then_grows_to_its_limit() {
        let (mut buf, pool) = buffer(16, 4000);
        assert_eq!(buf.spare(10).len(), 16, "the initial capacity");
        buf.filled(16);
        assert_eq!(buf.spare(10).len(), POOLED - 16);
        assert_eq!(pool.live(), 1);
        buf.filled(POOLED - 16);
        assert!(buf.spare(1).len() >= POOLED, "doubled");
        buf.filled(POOLED);
        let spare = buf.spare(1).len();
        buf.filled(spare);
        assert_eq!(buf.unread().len(), 4000);
        assert_eq!(buf.spare(1).len(), 0, "the growth limit is reached");
        buf.consume(1);
        assert_eq!(buf.spare(1).len(), 1, "consuming makes room again");
    }

    #[test]
    fn the_part_of_a_frame_left_over_keeps_a_busy_buffer_in_its_pool() {
        let (mut buf, _pool) = buffer(16, 1 << 20);
        for round in 0..100 {
            let n = buf.spare(POOLED).len();
            buf.filled(n);
            buf.consume(buf.unread().len() - 100);
            assert_eq!(buf.capacity(), POOLED, "round {round}");
        }
    }

    #[test]
    fn one_request_for_a_large_frame_grows_the_buffer_once() {
        let (mut buf, _pool) = buffer(16, 1 << 20);
        buf.extend(&[7; 600]);
        assert!(buf.spare(500_000).len() >= 500_000);
        assert_eq!(buf.unread(), [7; 600]);
    }

    #[test]
    fn split_bytes_stay_valid_while_the_buffer_goes_on() {
        for n in [1, 200, 256, 600, 1000] {
            let (mut buf, _pool) = buffer(0, 4096);
            let stream: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
            buf.extend(&stream);
            let first = buf.split_owned(n);
            assert_eq!(buf.unread(), &stream[n..], "the tail is carried over");
            assert_eq!(buf.position(), n as u64);
            buf.extend(&[0xee; 3000]);
            buf.consume(500);
            assert_eq!(first, stream[..n], "n = {n}");
        }
    }

    #[test]
    fn a_small_run_is_copied_out_and_a_large_one_takes_the_storage_along() {
        let (mut buf, pool) = buffer(0, 4096);
        buf.extend(&[1; 1000]);
        let small = buf.split_owned(POOLED / 4 - 1);
        assert_eq!(pool.live(), 1, "still the connection's own");
        let large = buf.split_owned(POOLED / 4);
        assert_eq!(pool.live(), 2, "one in the batch, one in the connection");
        drop(small);
        assert_eq!(pool.free(), 0);
        drop(large);
        assert_eq!(pool.free(), 1, "the batch gave it back");
    }

    #[test]
    fn a_pool_at_its_bound_is_not_made_larger_by_batches_that_wait() {
        let (mut buf, pool) = buffer(0, 4096);
        let mut queue = Vec::new();
        for _ in 0..50 {
            buf.extend(&[1; 1000]);
            queue.push(buf.split_owned(900));
            buf.consume(100);
        }
        assert!(queue.iter().all(|bytes| *bytes == [1; 900][..]));
        assert!(pool.live() <= 5, "{} live", pool.live());
    }

    #[test]
    fn more_than_there_is_counts_as_all() {
        let (mut buf, _pool) = buffer(0, 4096);
        assert_eq!(buf.split_owned(5), Bytes::new());
        buf.extend(b"abc");
        assert_eq!(buf.split_owned(usize::MAX), &b"abc"[..]);
        assert_eq!((buf.unread().len(), buf.position()), (0, 3));
        assert_eq!(buf.lend(9), b"");
    }

    #[test]
    fn a_growth_limit_below_the_pools_storage_is_kept() {
        let (mut buf, pool) = buffer(0, 100);
        assert_eq!(buf.extend(&[1; 300]), 100);
        assert_eq!((buf.capacity(), pool.live()), (100, 0));
        assert_eq!(buf.split_owned(60), [1; 60][..]);
        assert_eq!(buf.unread(), [1; 40]);
    }
}
