//! How much a peer may send in a second: pure arithmetic on a time that the caller tells.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bucket that fills with `per_second` and holds one second's worth. It may be overdrawn; then nothing is in it until the
/// debt is paid off.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    per_second: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// A full one.
    pub fn new(per_second: u64, now: Instant) -> Self {
        let per_second = per_second as f64;
        Self {
            per_second,
            level: per_second,
            at: now,
        }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.per_second);
        self.at = now;
    }

    /// Takes `n` if at least that much is there.
    pub fn take(&mut self, n: u64, now: Instant) -> bool {
        self.fill(now);
        let enough = self.level >= n as f64;
        if enough {
            self.level -= n as f64;
        }
        enough
    }

    /// Takes up to `n`, and returns how much.
    fn take_some(&mut self, n: u64, now: Instant) -> u64 {
        self.fill(now);
        let some = (self.level.max(0.0) as u64).min(n);
        self.level -= some as f64;
        some
    }

    /// Takes `n`, whether it is there or not.
    fn overdraw(&mut self, n: u64, now: Instant) {
        self.fill(now);
        self.level -= n as f64;
    }

    /// Time until the debt is paid off; `None`: there is none.
    fn debt(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let seconds = -self.level / self.per_second;
        // A pause of less than a millisecond is not worth a timer.
        (seconds > 0.001).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Whether it is as full as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.level >= self.per_second
    }
}

/// What all connections of one peer may send together.
#[derive(Debug)]
pub struct PeerRate(Mutex<Rates>);

#[derive(Debug, Clone, Copy)]
struct Rates {
    frames: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl PeerRate {
    /// At most so many frames and bytes a second; 0: no limit.
    pub fn new(frames: u64, bytes: u64, now: Instant) -> Self {
        let bucket = |n: u64| (n > 0).then(|| Bucket::new(n, now));
        Self(Mutex::new(Rates {
            frames: bucket(frames),
            bytes: bucket(bytes),
        }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Rates) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Frames and bytes that have come, whether there was room for them or not.
    pub fn spend(&self, frames: u64, bytes: u64, now: Instant) {
        self.with(|rates| {
            if let Some(bucket) = &mut rates.frames {
                bucket.overdraw(frames, now);
            }
            if let Some(bucket) = &mut rates.bytes {
                bucket.overdraw(bytes, now);
            }
        });
    }

    /// How long to read nothing; `None`: go on.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let debt = |bucket: &mut Option<Bucket>| bucket.as_mut().and_then(|b| b.debt(now));
        self.with(|rates| debt(&mut rates.frames).max(debt(&mut rates.bytes)))
    }

    /// Reserves room for some frames and bytes: up to what is asked, less when there is less.
    pub fn reserve(&self, frames: u64, bytes: u64, now: Instant) -> (u64, u64) {
        let take = |bucket: &mut Option<Bucket>, n: u64| match bucket {
            Some(bucket) => bucket.take_some(n, now),
            None => n,
        };
        self.with(|rates| {
            (
                take(&mut rates.frames, frames),
                take(&mut rates.bytes, bytes),
            )
        })
    }

    /// Gives back what was reserved and not used.
    pub fn give_back(&self, frames: u64, bytes: u64) {
        self.with(|rates| {
            if let Some(bucket) = &mut rates.frames {
                bucket.level = (bucket.level + frames as f64).min(bucket.per_second);
            }
            if let Some(bucket) = &mut rates.bytes {
                bucket.level = (bucket.level + bytes as f64).min(bucket.per_second);
            }
        });
    }

    /// Whether the peer has used nothing lately.
    pub fn is_full(&self, now: Instant) -> bool {
        let full = |bucket: &mut Option<Bucket>| bucket.as_mut().is_none_or(|b| b.is_full(now));
        self.with(|rates| full(&mut rates.frames) && full(&mut rates.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_may_come_at_once_and_then_as_much_as_time_brings() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut bucket = Bucket::new(10, start);
        assert_eq!((0..20).filter(|_| bucket.take(1, at(0))).count(), 10);
        assert_eq!((0..20).filter(|_| bucket.take(1, at(500))).count(), 5);
        assert!(!bucket.is_full(at(1400)) && bucket.is_full(at(1500)));
    }

    #[test]
    fn who_overdraws_waits_until_it_is_paid_off_by_the_scarcer_of_frames_and_bytes() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let rate = PeerRate::new(100, 1000, start);
        assert_eq!(rate.pause(at(0)), None);
        rate.spend(150, 3000, at(0));
        assert_eq!(rate.pause(at(0)), Some(Duration::from_secs(2)));
        assert_eq!(rate.pause(at(2001)), None);
        assert!(PeerRate::new(0, 0, start).pause(at(0)).is_none());
    }

    #[test]
    fn reserved_room_that_is_not_used_comes_back() {
        let start = Instant::now();
        let rate = PeerRate::new(100, 0, start);
        assert_eq!(rate.reserve(80, 10_000, start), (80, 10_000));
        assert_eq!(rate.reserve(80, 10_000, start), (20, 10_000));
        rate.give_back(50, 10_000);
        assert_eq!(rate.reserve(80, 1, start), (50, 1));
    }
}
