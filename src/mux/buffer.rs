//! Read buffers, and how much memory the payload that stays in them really holds.
//!
//! Large payloads are handed on where they were read: a slice of 16 KiB then keeps a buffer of 256 KiB alive, in the session
//! or wherever the user puts it. So the unit of account is the whole buffer, from its first slice to the last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::Notify;

/// Octets of the buffers that slices keep alive; shared by a session and its slices.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned(Arc<Total>);

#[derive(Debug, Default)]
struct Total {
    octets: AtomicU64,
    freed: Notify,
}

impl Pinned {
    /// Octets at this moment.
    pub(super) fn octets(&self) -> u64 {
        self.0.octets.load(Ordering::Relaxed)
    }

    /// Resolves when a buffer has gone since, or may have.
    pub(super) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

/// One buffer while slices of it live.
#[derive(Debug)]
struct Block {
    octets: u64,
    total: Arc<Total>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.total.octets.fetch_sub(self.octets, Ordering::Relaxed);
        self.total.freed.notify_one();
    }
}

struct Slice {
    octets: Bytes,
    _block: Arc<Block>,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

/// Where a connection is read into.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    octets: BytesMut,
    allocated: usize,
    block: Weak<Block>,
}

impl ReadBuffer {
    /// Octets that are there and were not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Makes room for a quarter of `size` octets at least. Slices that live keep the old memory.
    pub fn make_room(&mut self, size: usize) {
        if self.octets.capacity() - self.octets.len() >= size / 4
            || (self.allocated >= size && self.octets.try_reclaim(size / 2))
        {
            return;
        }
        let mut fresh = BytesMut::with_capacity(size.max(self.octets.len() + size / 4));
        fresh.extend_from_slice(&self.octets);
        self.allocated = fresh.capacity();
        self.octets = fresh;
        self.block = Weak::new();
    }

    /// Gives up the memory, if nothing waits in it.
    pub fn shrink(&mut self) {
        if self.octets.is_empty() {
            *self = Self::default();
        }
    }

    /// Appends octets, as if they had been read.
    pub fn extend(&mut self, octets: &[u8]) {
        self.make_room(octets.len().saturating_mul(4));
        self.octets.extend_from_slice(octets);
    }

    /// What is read into; its room is that of [`make_room`](Self::make_room).
    pub(super) const fn spare(&mut self) -> &mut BytesMut {
        &mut self.octets
    }

    /// The beginning, as an array.
    pub(super) fn first<const N: usize>(&self) -> Option<[u8; N]> {
        self.octets.first_chunk().copied()
    }

    /// The next octets, at most `n`.
    pub(super) fn peek(&self, n: usize) -> &[u8] {
        self.octets.get(..n).unwrap_or(&self.octets)
    }

    /// Drops the next `n` octets.
    pub(super) fn skip(&mut self, n: usize) {
        let n = n.min(self.octets.len());
        self.octets.advance(n);
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
    }

    /// What keeping a slice would add to the memory held: nothing where another slice keeps the buffer already.
    pub(super) fn cost_of_keeping(&self) -> u64 {
        if self.block.strong_count() > 0 {
            0
        } else {
            self.allocated as u64
        }
    }

    /// The next `n` octets without copying, counted in `pinned`.
    pub(super) fn keep(&mut self, n: usize, pinned: &Pinned) -> Bytes {
        let block = self.block.upgrade().unwrap_or_else(|| {
            let octets = self.allocated as u64;
            pinned.0.octets.fetch_add(octets, Ordering::Relaxed);
            let block = Arc::new(Block {
                octets,
                total: Arc::clone(&pinned.0),
            });
            self.block = Arc::downgrade(&block);
            block
        });
        let n = n.min(self.octets.len());
        Bytes::from_owner(Slice {
            octets: self.octets.split_to(n).freeze(),
            _block: block,
        })
    }
}

impl From<&[u8]> for ReadBuffer {
    fn from(octets: &[u8]) -> Self {
        let mut buffer = Self::default();
        buffer.extend(octets);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_counts_its_whole_buffer_until_the_last_one_is_gone() {
        let pinned = Pinned::default();
        let mut buffer = ReadBuffer::default();
        buffer.make_room(1000);
        buffer.extend(&[1; 100]);
        assert_eq!(pinned.octets(), 0);
        let one = buffer.keep(40, &pinned);
        let two = buffer.keep(40, &pinned);
        assert_eq!((&one[..], buffer.len()), (&[1; 40][..], 20));
        assert_eq!(pinned.octets(), buffer.allocated as u64);
        let whole = pinned.octets();
        buffer.make_room(5000);
        let three = buffer.keep(20, &pinned);
        assert_eq!(pinned.octets(), whole + buffer.allocated as u64);
        drop(one);
        let copy = two.clone();
        drop((two, three));
        assert_eq!(pinned.octets(), whole, "a clone keeps it");
        drop(copy);
        assert_eq!(pinned.octets(), 0);
    }

    #[test]
    fn memory_is_used_again_when_no_slice_keeps_it() {
        let pinned = Pinned::default();
        let mut buffer = ReadBuffer::default();
        buffer.make_room(1000);
        let before = buffer.octets.as_ptr();
        buffer.extend(&[1; 900]);
        drop(buffer.keep(900, &pinned));
        buffer.make_room(1000);
        assert_eq!(buffer.octets.as_ptr(), before);
        buffer.extend(&[1; 900]);
        let kept = buffer.keep(900, &pinned);
        buffer.make_room(1000);
        buffer.extend(&[2; 900]);
        assert_eq!(kept, vec![1; 900]);
    }
}
