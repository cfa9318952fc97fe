//! A brake on log lines that an outsider can cause: at most one line an interval, which tells how many it stands for.

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

#[cfg(test)]
mod tests {
    use super::*;

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
