//! A map bounded by count whose oldest entries can be found: the one store behind fragments, flows and queries.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Queue entries kept beyond twice the number of live ones before the queue is swept.
const SLACK: usize = 64;

/// Keys to values, ordered by the (packet) time they were last touched in the order of touching.
///
/// The map is keyed with a random hash, so that addresses chosen by a stranger cannot make it slow.
pub(super) struct Aged<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// Touches in order. One whose stamp is not its slot's is stale and passed over.
    order: VecDeque<(u64, K)>,
    next_stamp: u64,
    len_max: usize,
}

struct Slot<V> {
    stamp: u64,
    time_ns: u64,
    value: V,
}

impl<K: Eq + Hash + Copy, V> Aged<K, V> {
    /// Holds at most `len_max` entries, at least one.
    pub(super) fn new(len_max: usize) -> Self {
        Self {
            slots: HashMap::new(),
            order: VecDeque::new(),
            next_stamp: 0,
            len_max: len_max.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= self.len_max
    }

    pub(super) fn find(&mut self, key: &K) -> Option<&mut V> {
        self.slots.get_mut(key).map(|slot| &mut slot.value)
    }

    /// Puts `value` in as the youngest entry. The caller makes room first: see [`Aged::is_full`].
    pub(super) fn insert(&mut self, key: K, value: V, time_ns: u64) {
        let stamp = self.stamp(key);
        self.slots.insert(
            key,
            Slot {
                stamp,
                time_ns,
                value,
            },
        );
    }

    /// Makes the entry the youngest.
    pub(super) fn touch(&mut self, key: &K, time_ns: u64) {
        if self.slots.contains_key(key) {
            let stamp = self.stamp(*key);
            if let Some(slot) = self.slots.get_mut(key) {
                slot.stamp = stamp;
                slot.time_ns = time_ns;
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.slots.remove(key).map(|slot| slot.value)
    }

    /// Takes the oldest entry out.
    pub(super) fn pop_oldest(&mut self) -> Option<(K, V)> {
        while let Some((stamp, key)) = self.order.pop_front() {
            if self.slots.get(&key).is_some_and(|slot| slot.stamp == stamp) {
                return self.remove(&key).map(|value| (key, value));
            }
        }
        None
    }

    /// Takes the oldest entry out if it was touched more than `age_ns` before `now_ns`.
    pub(super) fn pop_expired(&mut self, now_ns: u64, age_ns: u64) -> Option<(K, V)> {
        while let Some((stamp, key)) = self.order.front() {
            match self.slots.get(key) {
                Some(slot) if slot.stamp == *stamp => {
                    if now_ns <= slot.time_ns.saturating_add(age_ns) {
                        return None;
                    }
                    return self.pop_oldest();
                }
                _ => self.order.pop_front(),
            };
        }
        None
    }

    fn stamp(&mut self, key: K) -> u64 {
        if self.order.len() > 2 * self.slots.len() + SLACK {
            let slots = &self.slots;
            self.order
                .retain(|(stamp, key)| slots.get(key).is_some_and(|slot| slot.stamp == *stamp));
        }
        self.next_stamp = self.next_stamp.wrapping_add(1);
        self.order.push_back((self.next_stamp, key));
        self.next_stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_oldest_first_and_keeps_the_queue_short() {
        let mut map = Aged::new(3);
        map.insert('a', 1, 10);
        map.insert('b', 2, 20);
        map.insert('c', 3, 30);
        assert!(map.is_full());
        for now in 40..10_000 {
            map.touch(&'a', now);
        }
        assert!(
            map.order.len() <= 2 * 3 + SLACK + 1,
            "{} stale touches kept",
            map.order.len()
        );
        assert_eq!(map.pop_expired(29, 10), None, "b is 9 old");
        assert_eq!(map.pop_expired(31, 10), Some(('b', 2)));
        assert_eq!(map.remove(&'c'), Some(3));
        assert_eq!(map.pop_oldest(), Some(('a', 1)));
        assert_eq!(map.pop_oldest(), None);
        assert_eq!(map.len(), 0);
    }
}
