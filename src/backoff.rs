//! Capped exponential delay with jitter. Returns a duration and sleeps nowhere, so that it can be tested without time.

use std::time::Duration;

/// Delays that double from `min` to `max`, each cut by a random part of up to a half, so that a fleet of collectors that
/// lost the same peer does not come back in step.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    seed: u64,
}

impl Backoff {
    /// Starts at `min`, never above `max`; a `max` under `min` counts as `min`. `seed` picks the jitter.
    pub fn new(min: Duration, max: Duration, seed: u64) -> Self {
        let min = min.max(Duration::from_millis(1));
        Self {
            min,
            max: max.max(min),
            next: min,
            seed: seed | 1,
        }
    }

    /// The delay before the next attempt: between half of the step and the whole step.
    pub fn delay(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.max);
        // xorshift64: quality does not matter, only that two senders differ.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let half = step / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(self.seed % nanos)
    }

    /// Back to the first delay: call it after a success.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_keep_within_half_of_the_step() {
        let mut b = Backoff::new(Duration::from_millis(100), Duration::from_millis(500), 7);
        for step in [100, 200, 400, 500, 500] {
            let got = b.delay();
            assert!(
                got >= Duration::from_millis(step / 2) && got <= Duration::from_millis(step),
                "{got:?} for {step}"
            );
        }
        b.reset();
        assert!(b.delay() <= Duration::from_millis(100));
    }

    #[test]
    fn two_seeds_give_different_delays() {
        let mut a = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 1);
        let mut b = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 99);
        assert_ne!(a.delay(), b.delay());
    }
}
