//! [`Rate`]: how many records a piece of time, however long the file is and in whatever order the records come.

use std::collections::BTreeMap;

/// Pieces of time that are kept; with more, pieces are made twice as long and joined.
const PIECES: usize = 4096;
/// What a plot leaves out at each end when those times would squeeze all the others: one in so many.
const ODD: u64 = 200;

/// Records over time.
#[derive(Debug)]
pub(super) struct Rate {
    pieces: BTreeMap<u64, u64>,
    /// Length of a piece: 2^shift milliseconds.
    shift: u32,
    total: u64,
}

/// Records over time, for showing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plot {
    /// Records in each column.
    pub(super) columns: Vec<u64>,
    /// Length of a column in milliseconds.
    pub(super) width: u64,
    /// Start of the first column in milliseconds since 1970.
    pub(super) start: u64,
    /// Records before the first or after the last column.
    pub(super) outside: u64,
}

impl Rate {
    pub(super) fn new() -> Self {
        Self {
            pieces: BTreeMap::new(),
            shift: 0,
            total: 0,
        }
    }

    /// Counts a record at `millis` since 1970.
    pub(super) fn add(&mut self, millis: u64) {
        self.total += 1;
        *self.pieces.entry(millis >> self.shift).or_default() += 1;
        while self.pieces.len() > PIECES {
            self.shift += 1;
            let mut joined = BTreeMap::new();
            for (piece, count) in std::mem::take(&mut self.pieces) {
                *joined.entry(piece >> 1).or_default() += count;
            }
            self.pieces = joined;
        }
    }

    /// At most `columns` columns over the time that the records are in; `None` when there is no record. A few records far
    /// from all others (a clock that was set) are left outside, so that the rest can be seen.
    pub(super) fn plot(&self, columns: u64) -> Option<Plot> {
        let (first, last) = self.range()?;
        let span = ((last - first + 1) << self.shift).max(1);
        let width = span.div_ceil(columns.max(1)).max(1 << self.shift);
        let start = first << self.shift;
        let mut counts = vec![0; usize::try_from(span.div_ceil(width)).ok()?];
        let mut outside = self.total;
        for (piece, count) in self.pieces.range(first..=last) {
            let column = ((piece << self.shift) - start) / width;
            if let Some(slot) = usize::try_from(column)
                .ok()
                .and_then(|column| counts.get_mut(column))
            {
                *slot += count;
                outside -= count;
            }
        }
        Some(Plot {
            columns: counts,
            width,
            start,
            outside,
        })
    }

    /// The first and the last piece to show.
    fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = (
            *self.pieces.first_key_value()?.0,
            *self.pieces.last_key_value()?.0,
        );
        let odd = self.total / ODD;
        let inner_first = nth(self.pieces.iter(), odd)?;
        let inner_last = nth(self.pieces.iter().rev(), odd)?;
        let inner = inner_last.saturating_sub(inner_first) + 1;
        if (last - first) / 10 > inner {
            Some((inner_first, inner_last.max(inner_first)))
        } else {
            Some((first, last))
        }
    }
}

/// The piece of the record with this number.
fn nth<'a>(pieces: impl Iterator<Item = (&'a u64, &'a u64)>, number: u64) -> Option<u64> {
    let mut seen = 0;
    for (piece, count) in pieces {
        seen += count;
        if seen > number {
            return Some(*piece);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_in_a_column_or_outside_whatever_the_times() {
        let even: Vec<u64> = (0..100_000).map(|n| 1_700_000_000_000 + n * 37).collect();
        let mut odd = even.clone();
        odd.extend([0, 253_402_300_799_999]);
        let mut reversed = odd.clone();
        reversed.reverse();
        for (name, times, outside) in [
            ("none", vec![], 0),
            ("one", vec![5], 0),
            ("same", vec![7; 50], 0),
            ("even", even, 0),
            ("two far away", odd, 2),
            ("backwards", reversed, 2),
            ("two, far apart", vec![0, 253_402_300_799_999], 0),
        ] {
            let mut rate = Rate::new();
            times.iter().for_each(|time| rate.add(*time));
            assert!(rate.pieces.len() <= PIECES);
            let Some(plot) = rate.plot(60) else {
                assert!(times.is_empty(), "{name}");
                continue;
            };
            assert!((1..=60).contains(&plot.columns.len()), "{name}");
            let shown: u64 = plot.columns.iter().sum();
            assert_eq!(shown + plot.outside, times.len() as u64, "{name}");
            // A joined piece at either edge may hold records from just inside.
            assert!(
                plot.outside >= outside && plot.outside <= outside + times.len() as u64 / 50,
                "{name}: {}",
                plot.outside
            );
        }
    }

    #[test]
    fn records_stand_in_the_column_of_their_time() {
        let mut rate = Rate::new();
        for time in [1000, 1001, 1250, 1999] {
            rate.add(time);
        }
        let plot = rate.plot(4).unwrap();
        assert_eq!(
            (plot.columns, plot.width, plot.start),
            (vec![2, 1, 0, 1], 250, 1000)
        );
    }
}
