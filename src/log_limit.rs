//! A brake on log lines that an outsider can cause: at most one line an interval, which tells how many it stands for.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lets some events an interval through and counts the others.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    burst: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the interval began.
    since: Option<Instant>,
    passed: u32,
    held: u64,
}

impl LogLimit {
    /// One line every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self::burst(interval, 1)
    }

    /// At most `burst` lines every `interval`; for what is worth a line each, as long as it is rare.
    pub fn burst(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            state: Mutex::default(),
        }
    }

    /// `Some(n)`: log this event; `n` events before it were not logged. `None`: do not log.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let goes_on = |since| now.duration_since(since) < self.interval;
        if !state.since.is_some_and(goes_on) {
            (state.since, state.passed) = (Some(now), 0);
        }
        if state.passed >= self.burst {
            state.held += 1;
            return None;
        }
        state.passed += 1;
        Some(std::mem::take(&mut state.held))
    }
}

/// Lets one event an interval through for each key, and at most `keys_max` keys an interval, so that an outsider with many
/// addresses fills neither the log nor memory.
#[derive(Debug)]
pub struct KeyedLogLimit<K> {
    interval: Duration,
    keys_max: usize,
    state: Mutex<Keys<K>>,
}

#[derive(Debug)]
struct Keys<K> {
    since: Option<Instant>,
    seen: HashSet<K>,
    held_back: u64,
}

impl<K: Eq + Hash> KeyedLogLimit<K> {
    /// One line every `interval` for each of at most `keys_max` keys.
    pub fn new(interval: Duration, keys_max: usize) -> Self {
        Self {
            interval,
            keys_max,
            state: Mutex::new(Keys {
                since: None,
                seen: HashSet::new(),
                held_back: 0,
            }),
        }
    }

    /// As [`LogLimit::pass`], for this key.
    pub fn pass(&self, key: K, now: Instant) -> Option<u64> {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let begun = |since: Instant| now.duration_since(since) < self.interval;
        if !state.since.is_some_and(begun) {
            state.since = Some(now);
            state.seen.clear();
        }
        if state.seen.len() < self.keys_max && state.seen.insert(key) {
            return Some(std::mem::take(&mut state.held_back));
        }
        state.held_back += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_gets_its_line_and_many_keys_do_not_get_more_than_a_few() {
        let limit = KeyedLogLimit::new(Duration::from_secs(10), 2);
        let start = Instant::now();
        let pass = |key: u8, at: u64| limit.pass(key, start + Duration::from_secs(at));
        assert_eq!(
            (pass(1, 0), pass(1, 1), pass(2, 2)),
            (Some(0), None, Some(1))
        );
        assert_eq!((pass(3, 3), pass(2, 4)), (None, None));
        assert_eq!((pass(3, 10), pass(1, 11)), (Some(2), Some(0)));
    }

    #[test]
    fn passes_one_event_an_interval_and_tells_how_many_it_held_back() {
        let limit = LogLimit::new(Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(limit.pass(start), Some(0));
        assert_eq!(limit.pass(start + Duration::from_secs(1)), None);
        assert_eq!(limit.pass(start + Duration::from_secs(9)), None);
        assert_eq!(limit.pass(start + Duration::from_secs(10)), Some(2));
        assert_eq!(limit.pass(start + Duration::from_secs(20)), Some(0));
    }

    #[test]
    fn a_burst_passes_whole_and_the_first_after_it_tells_of_the_rest() {
        let limit = LogLimit::burst(Duration::from_secs(10), 3);
        let start = Instant::now();
        let passed: Vec<_> = (0..5).map(|_| limit.pass(start)).collect();
        assert_eq!(passed, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(limit.pass(start + Duration::from_secs(10)), Some(2));
    }
}
