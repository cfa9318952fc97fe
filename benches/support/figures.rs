//! Medians with their spread, and tables.

use std::fmt;

/// The values of several rounds, sorted.
#[derive(Debug, Clone)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    /// Of values in any order. Of none: not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            values.push(f64::NAN);
        }
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The one in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The smallest.
    pub(crate) fn low(&self) -> f64 {
        self.0[0]
    }

    /// The largest.
    pub(crate) fn high(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// `f` of each.
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::of(self.0.iter().map(|v| f(*v)))
    }
}

/// As `5.2 (4.3–5.6)`; the precision is that of the format. One value alone has no spread.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        if self.median().is_nan() {
            return f.write_str("–");
        }
        write!(f, "{:.digits$}", self.median())?;
        if self.0.len() > 1 {
            write!(f, " ({:.digits$}–{:.digits$})", self.low(), self.high())?;
        }
        Ok(())
    }
}

/// A markdown table.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(head.to_vec());
    out += &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        out += &line(row.iter().map(String::as_str).collect());
    }
    out
}
