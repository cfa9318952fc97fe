//! A bounded free list of read buffers, shared by the connections of a listener.
//!
//! A connection holds a buffer only while it has bytes to look at, and a batch in a queue holds the very buffer it was
//! read into. Both give it back here, so that steady traffic allocates no buffers at all and ten thousand idle
//! connections hold none. One lock a batch is taken, never one a frame.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// A shared free list of equally long storages. Cloning it gives another handle to the same list.
#[derive(Clone)]
pub struct BufPool(Arc<Shared>);

struct Shared {
    storage_len: usize,
    keep_max: usize,
    list: Mutex<List>,
}

struct List {
    /// Storages nobody uses. Invariant: at most `keep_max`, each exactly `storage_len` long.
    free: Vec<Vec<u8>>,
    /// Storages that exist: those in `free` and those lent out.
    live: usize,
}

impl BufPool {
    /// An empty pool of storages of `storage_len` bytes (at least 1) that keeps up to `keep_max` of them for reuse, so
    /// it holds at most `storage_len * keep_max` bytes that nobody uses. Storages are made on demand.
    #[must_use]
    pub fn new(storage_len: usize, keep_max: usize) -> Self {
        // The list's own room is reserved now, so that giving back never allocates.
        let list = List {
            free: Vec::with_capacity(keep_max),
            live: 0,
        };
        Self(Arc::new(Shared {
            storage_len: storage_len.max(1),
            keep_max,
            list: Mutex::new(list),
        }))
    }

    /// Length of each storage in bytes.
    #[must_use]
    pub fn storage_len(&self) -> usize {
        self.0.storage_len
    }

    /// Storages that wait for reuse.
    #[must_use]
    pub fn free(&self) -> usize {
        self.list().free.len()
    }

    /// Storages of this pool that exist: waiting for reuse, in connections, and in batches not yet dropped.
    #[must_use]
    pub fn live(&self) -> usize {
        self.list().live
    }

    /// A storage of `storage_len` initialised bytes, with whatever its last user left in it.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut list = self.list();
        if let Some(storage) = list.free.pop() {
            return storage;
        }
        list.live += 1;
        drop(list);
        vec![0; self.0.storage_len]
    }

    /// As `take`, but `None` rather than a storage that could not be kept later: a pool at its bound makes no more.
    pub(super) fn take_within_bound(&self) -> Option<Vec<u8>> {
        let mut list = self.list();
        if let Some(storage) = list.free.pop() {
            return Some(storage);
        }
        if list.live >= self.0.keep_max {
            return None;
        }
        list.live += 1;
        drop(list);
        Some(vec![0; self.0.storage_len])
    }

    /// Takes back a storage. One of another length (a buffer grown for a large frame) is freed instead.
    pub(super) fn give(&self, storage: Vec<u8>) {
        if storage.len() != self.0.storage_len {
            return;
        }
        let mut list = self.list();
        if list.free.len() < self.0.keep_max {
            list.free.push(storage);
        } else {
            list.live = list.live.saturating_sub(1);
        }
    }

    /// `storage` as shared bytes that come back to this pool when the last reference is dropped. One allocation.
    pub(super) fn share(&self, storage: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent {
            storage,
            pool: self.clone(),
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // No code that can panic runs under the lock, and a list of buffers cannot be half updated anyway.
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list();
        f.debug_struct("BufPool")
            .field("storage_len", &self.0.storage_len)
            .field("keep_max", &self.0.keep_max)
            .field("free", &list.free.len())
            .field("live", &list.live)
            .finish()
    }
}

/// A storage inside a `Bytes`.
struct Lent {
    storage: Vec<u8>,
    pool: BufPool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.storage
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give(mem::take(&mut self.storage));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_comes_back_when_the_last_reference_is_dropped() {
        let pool = BufPool::new(64, 2);
        let bytes = pool.share(pool.take());
        let part = bytes.slice(3..5);
        drop(bytes);
        assert_eq!((pool.free(), pool.live()), (0, 1));
        drop(part);
        assert_eq!((pool.free(), pool.live()), (1, 1));
    }

    #[test]
    fn keeps_no_more_than_its_bound_and_nothing_of_another_length() {
        let pool = BufPool::new(64, 2);
        let out: Vec<_> = (0..5).map(|_| pool.take()).collect();
        assert_eq!(pool.live(), 5);
        assert!(
            pool.take_within_bound().is_none(),
            "five exist, two may be kept"
        );
        out.into_iter().for_each(|storage| pool.give(storage));
        assert_eq!((pool.free(), pool.live()), (2, 2));
        pool.give(vec![0; 65]);
        assert_eq!((pool.free(), pool.live()), (2, 2));
        assert!(pool.take_within_bound().is_some());
    }
}
