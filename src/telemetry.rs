//! Every metric's name, labels and help in one place, and the registry that renders them.
//!
//! Counters and gauges are those of the `metrics` facade, held by the Prometheus exporter, which also renders them. Handles
//! are taken once, at start, so every series exists from zero and nothing is looked up while frames move.
//!
//! Histograms are our own ([`Histogram`]) and only their rendering is the exporter's: its histograms keep every single
//! observation (value and time, 24 bytes) until the next scrape or upkeep, which at five million frames a second with three
//! observations each would be some 350 MB a second. Ours count into fixed buckets, in plain fields of the connection
//! ([`LocalHistogram`]), and add them up once a batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};
use metrics_exporter_prometheus::{
    LabelSet, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

/// A metric's definition.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name as scraped.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Label names, in order.
    pub labels: &'static [&'static str],
    /// The HELP text.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($ident:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $ident: Metric = Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// Every metric there is, in the order of the reference documentation.
        pub const ALL: &[Metric] = &[$($ident),*];
    };
}

metrics_table! {
    FRAMES_RECEIVED = Counter "tapflow_frames_received_total" ["listener"] "Data frames that arrived, whatever became of them.";
    BYTES_RECEIVED = Counter "tapflow_bytes_received_total" ["listener"] "Bytes of data frames that arrived, length prefixes included, as sent (before decompression).";
    FRAMES_DROPPED = Counter "tapflow_frames_dropped_total" ["at", "reason"] "Data frames lost, by the place that lost them and why.";
    FRAMES_FILTERED = Counter "tapflow_frames_filtered_total" [] "Data frames that filter and sampling stages took out on purpose.";
    FRAMES_DELIVERED = Counter "tapflow_frames_delivered_total" ["output"] "Data frames that an output has written.";
    FRAMES_IN_FLIGHT = Gauge "tapflow_frames_in_flight" ["output"] "Data frames on their way to an output, queued or being written.";
    QUEUE_BYTES = Gauge "tapflow_queue_bytes" ["output"] "Bytes of frames queued for an output.";
    CONNECTIONS_ACTIVE = Gauge "tapflow_connections_active" ["listener"] "Connections open now.";
    CONNECTIONS_ACCEPTED = Counter "tapflow_connections_accepted_total" ["listener"] "Connections accepted, refused ones included.";
    CONNECTIONS_CLOSED = Counter "tapflow_connections_closed_total" ["listener", "reason"] "Connections that ended, by reason.";
    SESSIONS_ACTIVE = Gauge "tapflow_sessions_active" ["listener"] "Sessions of many streams (mux+) open now; each stream is a connection.";
    SESSIONS_ACCEPTED = Counter "tapflow_sessions_accepted_total" ["listener"] "Sessions accepted, refused ones included.";
    SESSIONS_CLOSED = Counter "tapflow_sessions_closed_total" ["listener", "reason"] "Sessions that ended, by reason.";
    STREAMS_REFUSED = Counter "tapflow_streams_refused_total" ["listener"] "Streams that a session's limits refused.";
    DUPLICATE_FRAMES = Counter "tapflow_duplicate_frames_total" ["listener"] "Data frames of acknowledged streams that came again and were not taken twice; the ledger counts them as filtered.";
    RATE_WAITS = Counter "tapflow_rate_waits_total" ["listener"] "How often a connection was not read from for a while because its peer had sent more than it may.";
    CONTROL_FRAMES_IGNORED = Counter "tapflow_control_frames_ignored_total" ["listener"] "Control frames that were out of place or unknown and did no harm.";
    OUTPUT_RECONNECTS = Counter "tapflow_output_reconnects_total" ["output", "reason"] "Connections that an output lost or could not make, by reason.";
    OUTPUT_CONNECTED = Gauge "tapflow_output_connected" ["output"] "Whether an output has its place to write to (1) or not (0).";
    OUTPUT_BYTES = Counter "tapflow_output_bytes_total" ["output"] "Bytes that an output has written, in its own format and compression.";
    OUTPUT_ERRORS = Counter "tapflow_output_errors_total" ["output"] "Errors of an output's place to write to; the log says which.";
    WORKER_UP = Gauge "tapflow_worker_up" ["output", "worker"] "Whether a worker takes frames (1) or not (0).";
    WORKER_UNACKED_BYTES = Gauge "tapflow_worker_unacked_bytes" ["output", "worker"] "Bytes of frames given to a worker and not acknowledged; from a worker that does not acknowledge, not written.";
    WORKER_DELIVERED = Counter "tapflow_worker_delivered_frames_total" ["output", "worker"] "Data frames that a worker has acknowledged; to one that does not acknowledge, written.";
    WORKER_REDELIVERED = Counter "tapflow_worker_redelivered_frames_total" ["output", "worker"] "Data frames that had been sent to a worker whose stream then failed, and were sent again. No more than so many can have arrived twice.";
    WORKER_ROUND_TRIP = Gauge "tapflow_worker_round_trip_seconds" ["output", "worker"] "How long a worker took to answer the last ping.";
    TLS_CERTIFICATE_EXPIRY = Gauge "tapflow_tls_certificate_expiry_timestamp_seconds" ["place"] "Until when the certificate of a listener (listener:NAME), of a forward (output:NAME) or of http is valid.";
    TLS_RELOADS = Counter "tapflow_tls_reloads_total" ["place", "result"] "How often certificate, key and authorities were read again: done, or failed and those from before stay.";
    DECODE_ERRORS = Counter "tapflow_decode_errors_total" ["reason"] "Frames whose dnstap payload or DNS message could not be decoded in full. Those with a dnstap reason are dropped by the decode stage, those with a dns reason are kept.";
    DNSTAP_MESSAGES = Counter "tapflow_dnstap_messages_total" ["type"] "dnstap messages by type.";
    DNS_QUERIES = Counter "tapflow_dns_queries_total" ["qtype"] "DNS queries by QTYPE.";
    DNS_RESPONSES = Counter "tapflow_dns_responses_total" ["rcode"] "DNS responses by RCODE, extended by EDNS.";
    DNS_TRANSPORT = Counter "tapflow_dns_transport_total" ["protocol", "family"] "dnstap messages by transport protocol and address family.";
    DNS_QUERY_BYTES = Histogram "tapflow_dns_query_bytes" [] "Size of DNS queries in bytes.";
    DNS_RESPONSE_BYTES = Histogram "tapflow_dns_response_bytes" [] "Size of DNS responses in bytes.";
    DNS_LATENCY = Histogram "tapflow_dns_latency_seconds" ["type"] "Time from query to response where a message carries both.";
    IDENTITY_LAST_SEEN = Gauge "tapflow_identity_last_seen_timestamp_seconds" ["identity"] "When a frame of this dnstap identity last arrived.";
    BUILD_INFO = Gauge "tapflow_build_info" ["version"] "Always 1; the label tells the version.";
}

/// The registry. Cheap to clone.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    histograms: Mutex<IndexMap<&'static str, Family>>,
    process: metrics_process::Collector,
}

struct Family {
    metric: Metric,
    series: Vec<(LabelSet, Arc<Histogram>)>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

const METADATA: Metadata<'static> = Metadata::new("tapflow", Level::INFO, None);

impl Telemetry {
    /// An empty registry of its own; nothing global is touched, so that tests can have many.
    pub fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        for m in ALL {
            match m.kind {
                Kind::Counter => recorder.describe_counter(m.name.into(), None, m.help.into()),
                Kind::Gauge => recorder.describe_gauge(m.name.into(), None, m.help.into()),
                Kind::Histogram => {}
            }
        }
        let process = metrics_process::Collector::default();
        metrics::with_local_recorder(&recorder, || process.describe());
        let this = Self(Arc::new(Inner {
            recorder,
            handle,
            histograms: Mutex::default(),
            process,
        }));
        this.gauge(BUILD_INFO, &[env!("CARGO_PKG_VERSION")])
            .set(1.0);
        this
    }

    fn key(metric: Metric, values: &[&str]) -> Key {
        debug_assert_eq!(
            metric.labels.len(),
            values.len(),
            "labels of {}",
            metric.name
        );
        let labels: Vec<Label> = metric
            .labels
            .iter()
            .zip(values)
            .map(|(name, value)| Label::new(*name, (*value).to_owned()))
            .collect();
        Key::from_parts(metric.name, labels)
    }

    /// The counter with these label values, made at zero if it is new.
    pub fn counter(&self, metric: Metric, values: &[&str]) -> Counter {
        let c = self
            .0
            .recorder
            .register_counter(&Self::key(metric, values), &METADATA);
        c.increment(0);
        c
    }

    /// The gauge with these label values, made at zero if it is new.
    pub fn gauge(&self, metric: Metric, values: &[&str]) -> Gauge {
        let g = self
            .0
            .recorder
            .register_gauge(&Self::key(metric, values), &METADATA);
        g.increment(0.0);
        g
    }

    /// The histogram with these label values, made empty if it is new. `scale` turns the integers that are recorded into
    /// the metric's unit (1 for bytes, 1e-9 for nanoseconds shown as seconds); `bounds` are upper bounds in the integers.
    pub fn histogram(
        &self,
        metric: Metric,
        values: &[&str],
        bounds: &'static [u64],
        scale: f64,
    ) -> Arc<Histogram> {
        let labels = LabelSet::from_key_and_global(&Self::key(metric, values), &IndexMap::new());
        let mut families = self
            .0
            .histograms
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(metric.name).or_insert_with(|| Family {
            metric,
            series: Vec::new(),
        });
        if let Some((_, h)) = family.series.iter().find(|(l, _)| *l == labels) {
            return h.clone();
        }
        let histogram = Arc::new(Histogram::new(bounds, scale));
        family.series.push((labels, histogram.clone()));
        histogram
    }

    /// The whole scrape in the Prometheus text format.
    pub fn render(&self) -> String {
        metrics::with_local_recorder(&self.0.recorder, || self.0.process.collect());
        let mut out = self.0.handle.render();
        let families = self
            .0
            .histograms
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for family in families.values() {
            let name = family.metric.name;
            write_help_line(&mut out, name, None, None, family.metric.help);
            write_type_line(&mut out, name, None, None, "histogram");
            for (labels, histogram) in &family.series {
                histogram.render(&mut out, name, labels);
            }
            out.push('\n');
        }
        out
    }
}

/// A shared histogram with fixed buckets over integers.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    scale: f64,
    /// One more than `bounds`: the last is everything above.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64], scale: f64) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default)
            .take(bounds.len() + 1)
            .collect();
        Self {
            bounds,
            scale,
            counts,
            sum: AtomicU64::new(0),
        }
    }

    fn render(&self, out: &mut String, name: &str, labels: &LabelSet) {
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let le = trim_float(*bound as f64 * self.scale);
            write_metric_line(
                out,
                name,
                Some("bucket"),
                labels,
                Some(("le", le)),
                total,
                None,
            );
        }
        total += self.counts.last().map_or(0, |c| c.load(Ordering::Relaxed));
        write_metric_line(
            out,
            name,
            Some("bucket"),
            labels,
            Some(("le", "+Inf")),
            total,
            None,
        );
        let sum = self.sum.load(Ordering::Relaxed) as f64 * self.scale;
        write_metric_line::<&str, f64>(out, name, Some("sum"), labels, None, sum, None);
        write_metric_line::<&str, u64>(out, name, Some("count"), labels, None, total, None);
    }
}

/// `0.005` rather than `0.0050000000000000001`.
fn trim_float(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One connection's share of a [`Histogram`], in plain fields.
#[derive(Debug)]
pub struct LocalHistogram {
    shared: Arc<Histogram>,
    counts: Vec<u64>,
    sum: u64,
    dirty: bool,
}

impl LocalHistogram {
    /// An empty share of `shared`.
    pub fn new(shared: Arc<Histogram>) -> Self {
        let counts = vec![0; shared.counts.len()];
        Self {
            shared,
            counts,
            sum: 0,
            dirty: false,
        }
    }

    /// Counts one observation.
    pub fn record(&mut self, value: u64) {
        let i = self.shared.bounds.partition_point(|b| *b < value);
        if let Some(c) = self.counts.get_mut(i) {
            *c += 1;
        }
        self.sum = self.sum.wrapping_add(value);
        self.dirty = true;
    }

    /// Adds what was counted to the shared histogram.
    pub fn flush(&mut self) {
        if !self.dirty {
            return;
        }
        self.dirty = false;
        for (local, shared) in self.counts.iter_mut().zip(&self.shared.counts) {
            if *local > 0 {
                shared.fetch_add(std::mem::take(local), Ordering::Relaxed);
            }
        }
        self.shared
            .sum
            .fetch_add(std::mem::take(&mut self.sum), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_exists_from_zero_and_counts() {
        let t = Telemetry::new();
        let c = t.counter(FRAMES_RECEIVED, &["unix"]);
        assert!(
            t.render()
                .contains("tapflow_frames_received_total{listener=\"unix\"} 0\n")
        );
        c.increment(3);
        t.counter(FRAMES_RECEIVED, &["unix"]).increment(1);
        assert!(
            t.render()
                .contains("tapflow_frames_received_total{listener=\"unix\"} 4\n")
        );
    }

    #[test]
    fn histogram_buckets_are_cumulative_and_inclusive() {
        let t = Telemetry::new();
        let mut local = LocalHistogram::new(t.histogram(DNS_QUERY_BYTES, &[], &[10, 20], 1.0));
        for v in [10, 11, 20, 21] {
            local.record(v);
        }
        assert!(
            t.render().contains("tapflow_dns_query_bytes_count 0\n"),
            "nothing is published before the flush"
        );
        local.flush();
        let text = t.render();
        for line in [
            "# TYPE tapflow_dns_query_bytes histogram",
            "tapflow_dns_query_bytes_bucket{le=\"10\"} 1",
            "tapflow_dns_query_bytes_bucket{le=\"20\"} 3",
            "tapflow_dns_query_bytes_bucket{le=\"+Inf\"} 4",
            "tapflow_dns_query_bytes_sum 62",
            "tapflow_dns_query_bytes_count 4",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn process_metrics_and_build_info_are_part_of_the_scrape() {
        let text = Telemetry::new().render();
        assert!(text.contains("process_resident_memory_bytes "));
        assert!(text.contains("tapflow_build_info{version=\""));
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for m in ALL {
            assert!(m.name.starts_with("tapflow_"), "{}", m.name);
            assert_eq!(
                m.kind == Kind::Counter,
                m.name.ends_with("_total"),
                "{}",
                m.name
            );
            assert!(m.help.ends_with('.'), "{}", m.name);
        }
    }
}
