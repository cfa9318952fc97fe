//! [`Latencies`]: percentiles of durations in bounded memory.

use std::time::Duration;

/// Steps a power of two is cut into, as a power of two: a percentile is at most 1/32 above the truth.
const STEPS: u32 = 5;
/// Places for all 64-bit numbers.
const PLACES: usize = (64 - STEPS as usize + 1) << STEPS;

/// Durations by size.
#[derive(Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; PLACES],
            total: 0,
            longest: 0,
        }
    }

    /// Counts one.
    pub(super) fn add(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.total += 1;
        self.longest = self.longest.max(nanos);
        if let Some(count) = self.counts.get_mut(place(nanos)) {
            *count += 1;
        }
    }

    /// How many there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// What so many in a thousand do not exceed; `None` when there is none.
    pub(super) fn per_mille(&self, part: u64) -> Option<Duration> {
        let wanted = (u128::from(self.total) * u128::from(part)).div_ceil(1000);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted.max(1) {
                return Some(Duration::from_nanos(highest(place).min(self.longest)));
            }
        }
        None
    }
}

/// Where a number is counted: exact below 2^STEPS, then by its power of two and the STEPS bits below the highest.
fn place(nanos: u64) -> usize {
    let power = 63 - (nanos | 1).leading_zeros();
    if power < STEPS {
        return nanos as usize;
    }
    let step = (nanos >> (power - STEPS)) & ((1 << STEPS) - 1);
    (((power - STEPS + 1) as usize) << STEPS) + step as usize
}

/// The largest number that is counted there.
fn highest(place: usize) -> u64 {
    let (power, step) = (place >> STEPS, (place & ((1 << STEPS) - 1)) as u128);
    if power == 0 {
        return step as u64;
    }
    let next = ((1u128 << STEPS) + step + 1) << (power - 1);
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_whose_highest_is_within_a_thirty_second() {
        let mut numbers: Vec<u64> = (0..64).flat_map(|p| [1 << p, (1 << p) + 1]).collect();
        numbers.extend([0, 31, 32, 33, 63, 64, 1_234_567, u64::MAX]);
        numbers.sort_unstable();
        let mut before = 0;
        for number in numbers {
            let place = place(number);
            assert!(place < PLACES && place >= before, "{number}");
            before = place;
            let highest = highest(place);
            assert!(highest >= number, "{number} {highest}");
            assert!(highest - number <= number / 32, "{number} {highest}");
        }
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.per_mille(500), None);
        for millis in (1..=1000).rev() {
            latencies.add(Duration::from_millis(millis));
        }
        for (part, millis) in [(500, 500), (900, 900), (990, 990), (999, 999), (1000, 1000)] {
            let got = latencies.per_mille(part).unwrap();
            let want = Duration::from_millis(millis);
            assert!(got >= want && got <= want + want / 32, "{part}: {got:?}");
        }
        assert_eq!(latencies.longest(), Duration::from_secs(1));
        assert_eq!(latencies.per_mille(1000), Some(Duration::from_secs(1)));
    }
}
