//! A scrape of `/metrics`, parted into series.

use std::collections::BTreeMap;

/// Series to value.
#[derive(Clone, Debug)]
pub(crate) struct Scrape(pub(crate) BTreeMap<String, f64>);

impl Scrape {
    pub(crate) fn of(text: &str) -> Self {
        let series = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(
            text.lines()
                .filter(|l| !l.starts_with('#') && !l.is_empty())
                .map(|l| series(l).unwrap_or_else(|| panic!("no sample: {l}")))
                .collect(),
        )
    }

    /// The value of a series, which has to exist.
    pub(crate) fn value(&self, series: &str) -> f64 {
        *self
            .0
            .get(series)
            .unwrap_or_else(|| panic!("no series {series}"))
    }

    /// The sum over the series of a metric that have all these label pairs, such as `reason="clean"`.
    pub(crate) fn sum(&self, metric: &str, labels: &[&str]) -> f64 {
        let of_metric = |name: &str| name.split('{').next() == Some(metric);
        self.0
            .iter()
            .filter(|(n, _)| of_metric(n) && labels.iter().all(|l| n.contains(l)))
            .map(|(_, v)| v)
            .sum()
    }

    /// The series of a metric that are not zero, without the metric's name.
    pub(crate) fn nonzero(&self, metric: &str) -> BTreeMap<String, f64> {
        let of_metric = |name: &str| {
            name.strip_prefix(metric)
                .filter(|rest| rest.is_empty() || rest.starts_with('{'))
                .map(str::to_owned)
        };
        self.0
            .iter()
            .filter(|(_, v)| **v != 0.0)
            .filter_map(|(n, v)| Some((of_metric(n)?, *v)))
            .collect()
    }
}
