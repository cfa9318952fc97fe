//! [`Top`]: the keys that occur most, in bounded memory.

use std::collections::HashMap;

/// Counts keys. Exact up to a number of distinct keys; past that the rarest are forgotten, and [`Top::short`] says by how
/// much any count may be too low.
#[derive(Debug)]
pub(super) struct Top {
    counts: HashMap<Box<[u8]>, u64>,
    limit: usize,
    short: u64,
}

impl Top {
    /// Keeps at most `limit` distinct keys.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            counts: HashMap::new(),
            limit: limit.max(2),
            short: 0,
        }
    }

    /// Counts `key` once.
    pub(super) fn add(&mut self, key: &[u8]) {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
            return;
        }
        if self.counts.len() >= self.limit {
            self.forget();
        }
        self.counts.insert(key.into(), 1);
    }

    /// Forgets the rarest keys, half of all at least.
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, floor, _) = counts.select_nth_unstable(middle);
        let floor = *floor;
        self.counts.retain(|_, count| *count > floor);
        self.short += floor;
    }

    /// The `n` most frequent keys, the most frequent first, equal ones in the order of their octets.
    pub(super) fn first(&self, n: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self
            .counts
            .iter()
            .map(|(key, count)| (&**key, *count))
            .collect();
        let order = |a: &(&[u8], u64), b: &(&[u8], u64)| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0));
        if n < all.len() {
            all.select_nth_unstable_by(n, order);
            all.truncate(n);
        }
        all.sort_unstable_by(order);
        all
    }

    /// Distinct keys, as far as they are remembered.
    pub(super) fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// By how much a count may be too low. Zero: every count, and the number of keys, is exact.
    pub(super) fn short(&self) -> u64 {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_until_there_are_more_keys_than_may_be_kept() {
        let mut top = Top::new(10);
        for key in [b"b", b"a", b"b", b"c", b"a", b"b"] {
            top.add(key);
        }
        let want: Vec<(&[u8], u64)> = vec![(b"b", 3), (b"a", 2), (b"c", 1)];
        assert_eq!(top.first(10), want);
        assert_eq!(top.first(2), want[..2]);
        assert_eq!((top.distinct(), top.short()), (3, 0));
    }

    #[test]
    fn a_flood_of_distinct_keys_neither_grows_the_table_nor_hides_the_frequent_one() {
        let mut top = Top::new(100);
        for n in 0..100_000u32 {
            top.add(&n.to_be_bytes());
            if n % 10 == 0 {
                top.add(b"often");
            }
            assert!(top.distinct() <= 100);
        }
        let (key, count) = top.first(1)[0];
        assert_eq!(key, b"often");
        assert!(
            count <= 10_000 && count + top.short() >= 10_000,
            "{count}, short by {} at most",
            top.short()
        );
    }
}
