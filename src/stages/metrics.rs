//! The metrics stage: counts what the frames say, for `/metrics`.
//!
//! Each connection counts into plain fields and adds them to the shared series once a batch. Every label value comes from a
//! closed set with an `other`, so the number of series does not depend on what senders put into frames; identities, the
//! one open set, have a bounded number of series.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge};

use crate::dns::{Malformed, iana};
use crate::dnstap::{DecodeReason, MessageType, SocketFamily, SocketProtocol};
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageContext, StageFactory, Verdict};
use crate::stages::options::MetricsOptions;
use crate::telemetry::{self, Histogram, LocalHistogram, Telemetry};

/// Upper bounds in bytes: the classic limit of 512, the flag day's 1232 and Ethernet's 1500 stand out.
const SIZE_BOUNDS: &[u64] = &[32, 64, 128, 256, 512, 1232, 1500, 4096, 16_384, 65_535];
/// Upper bounds in nanoseconds, 100 µs to 10 s.
const LATENCY_BOUNDS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// Query types up to here have a counter of their own if they have a name.
const QTYPES: usize = 272;
/// Response codes up to here have a counter of their own if they have a name.
const RCODES: usize = 32;
/// The label of an identity over the limit.
const OTHER: &str = "other";

/// Makes metrics stages.
#[derive(Debug)]
pub struct Factory(Arc<Shared>);

struct Shared {
    telemetry: Telemetry,
    messages: Vec<Counter>,
    transport: Vec<Counter>,
    qtypes: Vec<Counter>,
    rcodes: Vec<Counter>,
    errors: Vec<Counter>,
    query_bytes: Arc<Histogram>,
    response_bytes: Arc<Histogram>,
    latency: Vec<Arc<Histogram>>,
    identities: Mutex<HashMap<Vec<u8>, Gauge>>,
    /// The identities with a series of their own, once there can be no more: then nobody has to wait for the lock.
    all: OnceLock<HashMap<Vec<u8>, Gauge>>,
    /// The series of the identities over the limit.
    other: Gauge,
    identities_max: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Factory {
    /// Makes every series, at zero.
    pub fn new(options: &MetricsOptions, context: &StageContext<'_>) -> Self {
        let t = context.telemetry;
        let kinds = || MessageType::NAMES.iter().copied().chain([OTHER]);
        let protocols = SocketProtocol::NAMES.iter().copied().chain([OTHER]);
        let families = || SocketFamily::NAMES.iter().copied().chain([OTHER]);
        let label = |name: Option<&'static str>| name.unwrap_or(OTHER);
        // One more than the numbers with a name: the last is `other`, which numbers without a name share.
        let numbered = |n: usize| (0..=n).map(move |i| u16::try_from(i).ok().filter(|_| i < n));
        let dnstap_errors = DecodeReason::ALL.iter().map(|r| r.as_str().to_owned());
        let dns_errors = Malformed::ALL.iter().map(|m| format!("dns_{}", m.as_str()));
        // Who will send is not known yet, but the metric is there from the start.
        let other = t.gauge(telemetry::IDENTITY_LAST_SEEN, &[OTHER]);
        Self(Arc::new(Shared {
            messages: kinds()
                .map(|k| t.counter(telemetry::DNSTAP_MESSAGES, &[k]))
                .collect(),
            transport: protocols
                .flat_map(|p| families().map(move |f| (p, f)))
                .map(|(p, f)| t.counter(telemetry::DNS_TRANSPORT, &[p, f]))
                .collect(),
            qtypes: numbered(QTYPES)
                .map(|n| {
                    t.counter(
                        telemetry::DNS_QUERIES,
                        &[label(n.and_then(iana::type_name))],
                    )
                })
                .collect(),
            rcodes: numbered(RCODES)
                .map(|n| {
                    t.counter(
                        telemetry::DNS_RESPONSES,
                        &[label(n.and_then(iana::rcode_name))],
                    )
                })
                .collect(),
            errors: dnstap_errors
                .chain(dns_errors)
                .map(|r| t.counter(telemetry::DECODE_ERRORS, &[&r]))
                .collect(),
            query_bytes: t.histogram(telemetry::DNS_QUERY_BYTES, &[], SIZE_BOUNDS, 1.0),
            response_bytes: t.histogram(telemetry::DNS_RESPONSE_BYTES, &[], SIZE_BOUNDS, 1.0),
            latency: kinds()
                .map(|k| t.histogram(telemetry::DNS_LATENCY, &[k], LATENCY_BOUNDS, 1e-9))
                .collect(),
            identities: Mutex::default(),
            all: OnceLock::new(),
            other,
            identities_max: options.identities_max as usize,
            telemetry: t.clone(),
        }))
    }
}

impl Shared {
    /// The series of an identity; those over the limit share one.
    fn identity(&self, identity: &[u8]) -> Gauge {
        let of_all =
            |all: &HashMap<Vec<u8>, Gauge>| all.get(identity).unwrap_or(&self.other).clone();
        if let Some(all) = self.all.get() {
            return of_all(all);
        }
        let mut known = self
            .identities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Set only with the lock held, so it cannot change from here on.
        if let Some(all) = self.all.get() {
            return of_all(all);
        }
        if let Some(gauge) = known.get(identity) {
            return gauge.clone();
        }
        if known.len() >= self.identities_max {
            return of_all(self.all.get_or_init(|| std::mem::take(&mut *known)));
        }
        let gauge = self
            .telemetry
            .gauge(telemetry::IDENTITY_LAST_SEEN, &[&label_of(identity)]);
        known.insert(identity.to_vec(), gauge.clone());
        gauge
    }
}

/// An identity as a label value: at most 64 octets of it, escaped where they are no printable ASCII.
fn label_of(identity: &[u8]) -> String {
    let octets = identity.get(..64).unwrap_or(identity);
    let mut label = String::with_capacity(octets.len());
    for octet in octets {
        match octet {
            b'\\' => label.push_str("\\\\"),
            b' '..=b'~' => label.push(char::from(*octet)),
            other => {
                let [a, b, c] = crate::dns::name::decimal_digits(*other).map(char::from);
                label.extend(['\\', a, b, c]);
            }
        }
    }
    label
}

impl StageFactory for Factory {
    fn build(&self, origin: &Origin) -> Box<dyn Stage> {
        let shared = self.0.clone();
        let local = |counters: &[Counter]| Tally::new(counters.len());
        Box::new(Metrics {
            messages: local(&shared.messages),
            transport: local(&shared.transport),
            qtypes: local(&shared.qtypes),
            rcodes: local(&shared.rcodes),
            errors: local(&shared.errors),
            query_bytes: LocalHistogram::new(shared.query_bytes.clone()),
            response_bytes: LocalHistogram::new(shared.response_bytes.clone()),
            latency: shared
                .latency
                .iter()
                .map(|h| LocalHistogram::new(h.clone()))
                .collect(),
            identities: Identities {
                peer: peer_label(origin),
                current: None,
            },
            shared,
        })
    }
}

/// What a frame without an identity is shown under: the peer, without its changing port or process number.
fn peer_label(origin: &Origin) -> String {
    match origin.peer.parse::<std::net::SocketAddr>() {
        Ok(address) => format!("peer {}", address.ip().to_canonical()),
        Err(_) => format!("peer {}", origin.peer.split(' ').next().unwrap_or_default()),
    }
}

/// The place of a reason in [`Malformed::ALL`].
fn malformed_index(reason: Malformed) -> usize {
    // The reasons are numbered in the order of `ALL`; a test holds this.
    reason as usize
}

/// Counts by a small dense index, in plain fields.
#[derive(Debug)]
struct Tally {
    counts: Vec<u64>,
    /// Indices that are not zero, so that a flush after a small batch does not look at all of them.
    touched: Vec<usize>,
}

impl Tally {
    fn new(len: usize) -> Self {
        Self {
            counts: vec![0; len],
            touched: Vec::with_capacity(len),
        }
    }

    #[inline]
    fn add(&mut self, index: usize) {
        let last = self.counts.len().saturating_sub(1);
        let index = index.min(last);
        if let Some(count) = self.counts.get_mut(index) {
            if *count == 0 {
                self.touched.push(index);
            }
            *count += 1;
        }
    }

    fn flush(&mut self, shared: &[Counter]) {
        for index in self.touched.drain(..) {
            if let (Some(count), Some(counter)) = (self.counts.get_mut(index), shared.get(index)) {
                counter.increment(std::mem::take(count));
            }
        }
    }
}

/// The identity of the frames at hand. Nearly every connection has one only; one that relays others' frames may change with
/// each frame, so a change costs a look-up in the table of all and no more, however many there are.
struct Identities {
    peer: String,
    current: Option<Seen>,
}

struct Seen {
    /// Empty for frames without one.
    identity: Vec<u8>,
    gauge: Gauge,
    in_batch: bool,
}

impl Identities {
    #[inline]
    fn see(&mut self, identity: Option<&[u8]>, received: SystemTime, shared: &Shared) {
        let identity = identity.unwrap_or_default();
        match &mut self.current {
            Some(current) if current.identity == identity => current.in_batch = true,
            _ => self.change(identity, received, shared),
        }
    }

    #[cold]
    fn change(&mut self, identity: &[u8], received: SystemTime, shared: &Shared) {
        self.end_batch(received);
        let gauge = match identity {
            [] => shared.identity(self.peer.as_bytes()),
            identity => shared.identity(identity),
        };
        let mut of_it = self.current.take().map(|s| s.identity).unwrap_or_default();
        of_it.clear();
        of_it.extend_from_slice(identity);
        self.current = Some(Seen {
            identity: of_it,
            gauge,
            in_batch: true,
        });
    }

    fn end_batch(&mut self, received: SystemTime) {
        if let Some(seen) = &mut self.current
            && std::mem::take(&mut seen.in_batch)
        {
            seen.gauge.set(unix_seconds(received));
        }
    }
}

fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}

struct Metrics {
    shared: Arc<Shared>,
    messages: Tally,
    transport: Tally,
    qtypes: Tally,
    rcodes: Tally,
    errors: Tally,
    query_bytes: LocalHistogram,
    response_bytes: LocalHistogram,
    latency: Vec<LocalHistogram>,
    identities: Identities,
}

impl Stage for Metrics {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let received = record.received();
        let identity = record.dnstap().as_ref().ok().and_then(|v| v.identity);
        let message = match record.message() {
            Ok(message) => message,
            Err(reason) => {
                self.errors.add(reason.index());
                return Verdict::Keep;
            }
        };
        let kind = message.message_type().index();
        let protocol = message
            .protocol()
            .map_or(SocketProtocol::NAMES.len(), SocketProtocol::index);
        let family = message
            .family()
            .map_or(SocketFamily::NAMES.len(), SocketFamily::index);
        if let Some(latency) = message.latency()
            && let Some(histogram) = self.latency.get_mut(kind)
        {
            histogram.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
        self.messages.add(kind);
        self.transport
            .add(protocol * (SocketFamily::NAMES.len() + 1) + family);
        self.identities.see(identity, received, &self.shared);
        let Some(dns) = record.dns() else {
            return Verdict::Keep;
        };
        let (sizes, size) = match dns.is_response {
            true => (&mut self.response_bytes, dns.message.len()),
            false => (&mut self.query_bytes, dns.message.len()),
        };
        sizes.record(size as u64);
        match dns.view {
            Ok(view) => {
                match view.question() {
                    Ok(Some(question)) if !dns.is_response => {
                        self.qtypes.add(usize::from(question.qtype))
                    }
                    Ok(_) => {}
                    Err(error) => self
                        .errors
                        .add(DecodeReason::ALL.len() + malformed_index(error.reason)),
                }
                if dns.is_response {
                    self.rcodes.add(usize::from(view.rcode()));
                }
            }
            Err(error) => self
                .errors
                .add(DecodeReason::ALL.len() + malformed_index(error.reason)),
        }
        Verdict::Keep
    }

    fn end_batch(&mut self, received: SystemTime) {
        let s = &self.shared;
        self.messages.flush(&s.messages);
        self.transport.flush(&s.transport);
        self.qtypes.flush(&s.qtypes);
        self.rcodes.flush(&s.rcodes);
        self.errors.flush(&s.errors);
        self.query_bytes.flush();
        self.response_bytes.flush();
        for histogram in &mut self.latency {
            histogram.flush();
        }
        self.identities.end_batch(received);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_in_the_order_of_their_list() {
        for (i, reason) in Malformed::ALL.iter().enumerate() {
            assert_eq!(malformed_index(*reason), i);
        }
        for (i, reason) in DecodeReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
        }
    }

    #[test]
    fn identities_beyond_the_limit_share_one_series_and_odd_octets_are_escaped() {
        let telemetry = Telemetry::new();
        let ledger = crate::pipeline::ledger::Ledger::new();
        let context = StageContext {
            ledger: &ledger,
            telemetry: &telemetry,
        };
        let factory = Factory::new(&MetricsOptions { identities_max: 2 }, &context);
        // Twice, since those within the limit keep their series once it is reached.
        for identity in [&b"ns1"[..], b"a\0\xff\"", b"third", b"fourth", b"ns1"] {
            factory.0.identity(identity).increment(1.0);
        }
        let text = telemetry.render();
        let lines: Vec<&str> = text
            .lines()
            .filter(|l| l.starts_with("tapflow_identity_last_seen"))
            .collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(text.contains("{identity=\"other\"} 2"));
        assert!(text.contains("{identity=\"ns1\"} 2"), "{lines:?}");
        assert!(text.contains("a\\\\000\\\\255"), "{lines:?}");
    }
}
