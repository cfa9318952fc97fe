//! A brake on log lines that an outsider can cause: at most one line an interval, which tells how many it stands for.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lets one event an interval through and counts the others.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl LogLimit {
    /// One line every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            state: Mutex::new((None, 0)),
        }
    }

    /// `Some(n)`: log this event; `n` events before it were not logged. `None`: do not log.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match state.0 {
            Some(last) if now.duration_since(last) < self.interval => {
                state.1 += 1;
                None
            }
            _ => {
                state.0 = Some(now);
                Some(std::mem::take(&mut state.1))
            }
        }
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
}
