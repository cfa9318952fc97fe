//! [`Tally`]: what became of the frames of the inputs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Counts of frames. Each is counted where it happens; [`Tally::adds_up`] compares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Data frames found, also those that could not be taken.
    pub frames: u64,
    /// Frames that are records, filtered ones included.
    pub records: u64,
    /// Records that a filter left out.
    pub filtered: u64,
    /// Frames after STOP, which are nobody's: not among `frames`.
    pub after_stop: u64,
    /// Frames that gave no record, by reason.
    errors: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Frames of which nothing came.
    pub fn error(&mut self, reason: &'static str, frames: u64) {
        if frames > 0 {
            *self.errors.entry(reason).or_default() += frames;
        }
    }

    /// Frames of which nothing came, for whatever reason.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Frames of which nothing came, by reason.
    pub fn errors_by_reason(&self) -> &BTreeMap<&'static str, u64> {
        &self.errors
    }

    /// Whether records and errors are all frames.
    pub fn adds_up(&self) -> bool {
        self.records + self.errors() == self.frames
    }

    /// `frames 5, records 3, errors 2 (protobuf_truncated 1, oversized 1)`.
    pub fn text(&self) -> String {
        let mut text = format!("frames {}, records {}", self.frames, self.records);
        if self.filtered > 0 {
            text.push_str(&format!(" ({} filtered out)", self.filtered));
        }
        text.push_str(&format!(", errors {}", self.errors()));
        if !self.errors.is_empty() {
            text.push_str(&format!(" ({})", self.errors_text()));
        }
        if self.after_stop > 0 {
            text.push_str(&format!(", after STOP {}", self.after_stop));
        }
        text
    }

    /// `protobuf_truncated 1, oversized 1`.
    pub fn errors_text(&self) -> String {
        let rows = self
            .errors
            .iter()
            .map(|(reason, n)| format!("{reason} {n}"));
        rows.collect::<Vec<_>>().join(", ")
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        json!({
            "frames": self.frames,
            "records": self.records,
            "filtered": self.filtered,
            "errors": self.errors,
            "after_stop": self.after_stop,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_what_there_is() {
        let mut tally = Tally {
            frames: 5,
            records: 3,
            ..Tally::default()
        };
        assert_eq!(tally.text(), "frames 5, records 3, errors 0");
        assert!(!tally.adds_up());
        tally.error("oversized", 1);
        tally.error("truncated", 1);
        tally.error("bad_key", 0);
        tally.filtered = 2;
        assert!(tally.adds_up());
        assert_eq!(
            tally.text(),
            "frames 5, records 3 (2 filtered out), errors 2 (oversized 1, truncated 1)"
        );
    }
}
