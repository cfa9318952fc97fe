//! The summary as text for people and as JSON for programs.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::input::Tally;
use crate::cli::read::stats::Stats;
use crate::cli::read::stats::top::Top;
use crate::digits;
use crate::dns::iana;
use crate::dns::name::is_bare;
use crate::dnstap::{MessageType, Timestamp};

/// Rows of a table.
const ROWS: usize = 10;
/// Columns of the plot.
const COLUMNS: u64 = 60;
/// Column heights, the lowest for anything but zero.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Percentiles, as parts of a thousand.
const PERCENTILES: [(&str, u64); 5] = [
    ("p50", 500),
    ("p90", 900),
    ("p95", 950),
    ("p99", 990),
    ("p99.9", 999),
];

/// A table: its rows by count, then how many rows there are in all.
struct Table {
    rows: Vec<(String, u64)>,
    distinct: usize,
    /// By how much a count may be too low.
    short: u64,
}

impl Table {
    fn of_top(top: &Top, text: impl Fn(&[u8]) -> String) -> Self {
        Self {
            rows: top
                .first(ROWS)
                .into_iter()
                .map(|(key, n)| (text(key), n))
                .collect(),
            distinct: top.distinct(),
            short: top.short(),
        }
    }

    fn of_counts(counts: impl Iterator<Item = (String, u64)>) -> Self {
        let mut rows: Vec<_> = counts.collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Self {
            distinct: rows.len(),
            rows,
            short: 0,
        }
    }

    fn show(&self, out: &mut String, title: &str, of: u64) {
        if self.rows.is_empty() {
            return;
        }
        let shown = self.rows.len().min(ROWS);
        let _ = write!(out, "\n{title}");
        if self.distinct > shown {
            let about = if self.short > 0 { "more than " } else { "" };
            let _ = write!(out, " (first {shown} of {about}{})", self.distinct);
        }
        if self.short > 0 {
            let _ = write!(out, ", each count at most {} too low", self.short);
        }
        out.push('\n');
        for (name, count) in self.rows.iter().take(ROWS) {
            let _ = writeln!(out, "{count:>12} {:>5.1}%  {name}", percent(*count, of));
        }
    }

    fn json(&self) -> Value {
        let rows: Map<String, Value> = self
            .rows
            .iter()
            .take(ROWS)
            .map(|(name, count)| (name.clone(), json!(count)))
            .collect();
        json!({"distinct": self.distinct, "exact": self.short == 0, "short_by_at_most": self.short, "first": rows})
    }
}

impl Stats {
    fn tables(&self, tally: &Tally) -> [(&'static str, &'static str, Table); 9] {
        let named = |counts: &std::collections::BTreeMap<&'static str, u64>| {
            Table::of_counts(counts.iter().map(|(name, n)| ((*name).to_owned(), *n)))
        };
        let mut malformed = self.malformed.clone();
        for (reason, n) in tally.errors_by_reason() {
            *malformed.entry(reason).or_default() += n;
        }
        [
            (
                "identities",
                "Identities",
                Table::of_top(&self.identities, octets),
            ),
            (
                "message_types",
                "Message types",
                Table::of_counts(self.message_types.iter().map(|(kind, n)| {
                    let kind = MessageType::from_number(*kind);
                    let name = kind
                        .name()
                        .map_or_else(|| format!("unknown {}", kind.number()), ToOwned::to_owned);
                    (name, *n)
                })),
            ),
            ("protocols", "Protocols", named(&self.protocols)),
            (
                "qtypes",
                "Query types",
                Table::of_counts(
                    self.qtypes
                        .iter()
                        .map(|(n, count)| (written(|out| iana::write_type(out, *n)), *count)),
                ),
            ),
            (
                "rcodes",
                "Response codes",
                Table::of_counts(
                    self.rcodes
                        .iter()
                        .map(|(n, count)| (written(|out| iana::write_rcode(out, *n)), *count)),
                ),
            ),
            ("clients", "Clients", Table::of_top(&self.clients, address)),
            ("qnames", "Names", Table::of_top(&self.names, octets)),
            ("malformed", "Malformed, by reason", named(&malformed)),
            ("oddities", "Odd, and kept", named(&self.oddities)),
        ]
    }

    /// For people. `tally` is what became of the frames.
    pub(in crate::cli::read) fn text(&self, tally: &Tally) -> String {
        let mut out = format!("{}\n", tally.text());
        let _ = writeln!(
            out,
            "octets of payload {}, {:.0} a record",
            self.octets,
            self.octets as f64 / self.records.max(1) as f64
        );
        self.show_times(&mut out);
        for (_, title, table) in self.tables(tally) {
            table.show(&mut out, title, self.records);
        }
        if self.latencies.total() > 0 {
            let _ = write!(
                out,
                "\nLatency of the {} records that carry both times\n ",
                self.latencies.total()
            );
            for (name, part) in PERCENTILES {
                let value = self.latencies.per_mille(part).unwrap_or_default();
                let _ = write!(out, " {name} {}  ", short(value));
            }
            let _ = writeln!(out, " longest {}", short(self.latencies.longest()));
        }
        out
    }

    fn show_times(&self, out: &mut String) {
        if let (Some(first), Some(last)) = (self.first, self.last) {
            let span = span(first, last);
            let _ = writeln!(
                out,
                "from {} to {}: {}",
                rfc3339(first),
                rfc3339(last),
                short(span)
            );
            if span > Duration::ZERO {
                let timed = self.records - self.without_time - self.odd_times;
                let _ = writeln!(
                    out,
                    "{:.1} records a second",
                    timed as f64 / span.as_secs_f64()
                );
            }
        }
        for (count, what) in [
            (self.without_time, "without a time"),
            (self.odd_times, "with a time that no calendar has"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "{count} records {what}");
            }
        }
        let Some(plot) = self
            .rate
            .plot(COLUMNS)
            .filter(|plot| plot.columns.len() > 1)
        else {
            return;
        };
        let most = plot.columns.iter().copied().max().unwrap_or(0).max(1);
        out.push_str("\nRecords over time\n  ");
        for count in &plot.columns {
            // In eighths of the highest, rounded up: anything at all shows.
            let height = (u128::from(*count) * 8).div_ceil(u128::from(most));
            let bar = usize::try_from(height).unwrap_or(8).checked_sub(1);
            out.push(bar.and_then(|bar| BARS.get(bar)).copied().unwrap_or(' '));
        }
        let width = Duration::from_millis(plot.width);
        let _ = write!(
            out,
            "\n  a column is {}; the highest {:.1} a second",
            short(width),
            most as f64 / width.as_secs_f64()
        );
        if plot.outside > 0 {
            let _ = write!(out, "; {} records far outside are not shown", plot.outside);
        }
        out.push('\n');
    }

    /// For programs: one object. Durations in seconds.
    pub(in crate::cli::read) fn json(&self, tally: &Tally) -> Value {
        let mut all = Map::new();
        all.insert("frames".into(), tally.json());
        all.insert("records".into(), json!(self.records));
        all.insert("payload_octets".into(), json!(self.octets));
        let seconds = match (self.first, self.last) {
            (Some(first), Some(last)) => Some(span(first, last).as_secs_f64()),
            _ => None,
        };
        all.insert(
            "time".into(),
            json!({
                "first": self.first.map(rfc3339), "last": self.last.map(rfc3339), "seconds": seconds,
                "absent": self.without_time, "odd": self.odd_times,
            }),
        );
        let plot = self.rate.plot(COLUMNS).map(|plot| {
            let start = Timestamp {
                seconds: plot.start / 1000,
                nanos: (plot.start % 1000) as u32 * 1_000_000,
            };
            json!({"start": rfc3339(start), "column_seconds": plot.width as f64 / 1000.0,
                "records": plot.columns, "outside": plot.outside})
        });
        all.insert("rate".into(), json!(plot));
        for (key, _, table) in self.tables(tally) {
            all.insert(key.into(), table.json());
        }
        let mut latency = Map::new();
        latency.insert("records".into(), json!(self.latencies.total()));
        for (name, part) in PERCENTILES {
            let value = self
                .latencies
                .per_mille(part)
                .map(|value| value.as_secs_f64());
            latency.insert(name.into(), json!(value));
        }
        let longest = (self.latencies.total() > 0).then(|| self.latencies.longest().as_secs_f64());
        latency.insert("longest".into(), json!(longest));
        all.insert("latency".into(), Value::Object(latency));
        Value::Object(all)
    }
}

fn percent(part: u64, of: u64) -> f64 {
    part as f64 * 100.0 / of.max(1) as f64
}

fn span(first: Timestamp, last: Timestamp) -> Duration {
    Duration::new(last.seconds, last.nanos)
        .saturating_sub(Duration::new(first.seconds, first.nanos))
}

/// A name or an identity: printable ASCII as it is, the rest escaped as in names.
fn octets(octets: &[u8]) -> String {
    if octets.is_empty() {
        return "(none)".to_owned();
    }
    let mut text = String::with_capacity(octets.len());
    for octet in octets {
        if is_bare(*octet)
            || matches!(
                octet,
                b' ' | b'.' | b'\\' | b'"' | b'$' | b'(' | b')' | b';' | b'@'
            )
        {
            text.push(char::from(*octet));
        } else {
            let [a, b, c] = crate::dns::name::decimal_digits(*octet).map(char::from);
            text.extend(['\\', a, b, c]);
        }
    }
    text
}

fn address(octets: &[u8]) -> String {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Ipv4Addr::from(v4).to_string();
    }
    match <[u8; 16]>::try_from(octets) {
        Ok(v6) => Ipv6Addr::from(v6).to_string(),
        Err(_) => String::new(),
    }
}

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn rfc3339(time: Timestamp) -> String {
    let mut out = Vec::new();
    // Sane, so below 2,932,897 days.
    digits::date(&mut out, (time.seconds / 86_400) as u32);
    out.push(b'T');
    digits::clock(&mut out, (time.seconds % 86_400) as u32);
    out.push(b'.');
    digits::nanos(&mut out, time.nanos);
    out.push(b'Z');
    String::from_utf8_lossy(&out).into_owned()
}

/// A duration in the unit that suits it.
fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration.as_secs() {
        0 if duration < Duration::from_millis(1) => format!("{:.0} µs", seconds * 1e6),
        0 => format!("{:.1} ms", seconds * 1e3),
        1..120 => format!("{seconds:.1} s"),
        120..7200 => format!("{:.1} min", seconds / 60.0),
        7200..172_800 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}
