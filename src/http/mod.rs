//! The HTTP side: `/metrics`, `/ledger`, `/healthz`, `/readyz`.
//!
//! Everything it shows is read when it is asked for; serving it costs the data path nothing but the ledger's lock. A further
//! page is one more route in [`router`].

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics::{Counter, Gauge};
use tokio::net::TcpListener;

use crate::pipeline::lane::Lane;
use crate::pipeline::ledger::{Ledger, Snapshot};
use crate::shutdown::{Phase, Signal};
use crate::telemetry::{self, Telemetry};
use crate::transport::tls::server::ServerTls;

pub mod options;
mod tls;

/// Media type of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages show. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pages(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    telemetry: Telemetry,
    ledger: Ledger,
    lanes: Vec<Lane>,
    signal: Signal,
    published: Mutex<Published>,
}

/// Handles of the series that are copied from the ledger at each scrape, kept so that they are looked up once.
#[derive(Default, Debug)]
struct Published {
    counters: HashMap<String, CounterHandle>,
    gauges: HashMap<String, GaugeHandle>,
}

#[derive(Clone)]
struct CounterHandle(Counter);
#[derive(Clone)]
struct GaugeHandle(Gauge);

impl std::fmt::Debug for CounterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counter")
    }
}

impl std::fmt::Debug for GaugeHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gauge")
    }
}

impl Pages {
    /// Pages over these sources.
    pub fn new(telemetry: Telemetry, ledger: Ledger, lanes: Vec<Lane>, signal: Signal) -> Self {
        Self(Arc::new(Inner {
            telemetry,
            ledger,
            lanes,
            signal,
            published: Mutex::default(),
        }))
    }

    /// The scrape: the ledger's counts are copied into their series first, so they are of one moment.
    pub fn metrics(&self) -> String {
        let snapshot = self.0.ledger.snapshot();
        self.publish(&snapshot);
        self.0.telemetry.render()
    }

    fn publish(&self, snapshot: &Snapshot) {
        let mut published = self
            .0
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let t = &self.0.telemetry;
        let mut counter = |metric: telemetry::Metric, labels: &[&str], value: u64| {
            let key = format!("{}\0{}", metric.name, labels.join("\0"));
            let handle = published
                .counters
                .entry(key)
                .or_insert_with(|| CounterHandle(t.counter(metric, labels)));
            handle.0.absolute(value);
        };
        for (name, frames, bytes) in &snapshot.listeners {
            counter(telemetry::FRAMES_RECEIVED, &[name], *frames);
            counter(telemetry::BYTES_RECEIVED, &[name], *bytes);
        }
        for (at, reason, frames) in &snapshot.dropped {
            counter(telemetry::FRAMES_DROPPED, &[at, reason], *frames);
        }
        counter(telemetry::FRAMES_FILTERED, &[], snapshot.filtered);
        for output in &snapshot.outputs {
            counter(
                telemetry::FRAMES_DELIVERED,
                &[&output.name],
                output.delivered,
            );
            let at = format!("output:{}", output.name);
            for (reason, frames) in &output.dropped {
                counter(telemetry::FRAMES_DROPPED, &[&at, reason.as_str()], *frames);
            }
        }
        let mut gauge = |metric: telemetry::Metric, labels: &[&str], value: f64| {
            let key = format!("{}\0{}", metric.name, labels.join("\0"));
            let handle = published
                .gauges
                .entry(key)
                .or_insert_with(|| GaugeHandle(t.gauge(metric, labels)));
            handle.0.set(value);
        };
        for output in &snapshot.outputs {
            gauge(
                telemetry::FRAMES_IN_FLIGHT,
                &[&output.name],
                output.in_flight as f64,
            );
        }
        for lane in &self.0.lanes {
            let bytes = lane.queue().map_or(0, |q| q.depth().1);
            gauge(telemetry::QUEUE_BYTES, &[&lane.name], bytes as f64);
        }
    }

    /// The ledger page.
    pub fn ledger(&self) -> String {
        let mut text = self.0.ledger.snapshot().to_json().to_string();
        text.push('\n');
        text
    }

    /// What keeps outputs from their work, a line each.
    pub fn notes(&self) -> String {
        let line = |lane: &Lane, note| format!("output {}: {note}\n", lane.name);
        let lanes = self.0.lanes.iter();
        lanes
            .flat_map(|lane| {
                lane.health()
                    .lines()
                    .into_iter()
                    .map(move |n| line(lane, n))
            })
            .collect()
    }

    /// Whether frames are taken: every listener is bound (the pages exist only then) and we are not stopping.
    pub fn ready(&self) -> bool {
        self.0.signal.phase() == Phase::Running
    }
}

/// All routes.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/", get(index))
        .route(
            "/metrics",
            get(|State(p): State<Pages>| async move {
                ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], p.metrics())
            }),
        )
        .route(
            "/ledger",
            get(|State(p): State<Pages>| async move {
                ([(header::CONTENT_TYPE, "application/json")], p.ledger())
            }),
        )
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(pages)
}

async fn index() -> impl IntoResponse {
    "tapflow\n\n/metrics  Prometheus metrics\n/ledger   what became of every frame (JSON)\n/healthz  the process works\n/readyz   frames are taken\n"
}

async fn readyz(State(pages): State<Pages>) -> impl IntoResponse {
    if pages.ready() {
        (StatusCode::OK, format!("ready\n{}", pages.notes()))
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("draining\n{}", pages.notes()),
        )
    }
}

/// Binds the HTTP server.
///
/// # Errors
/// The address is in use or not ours.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until the process aborts: while it drains, the pages tell how it gets on.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    pages: Pages,
    mut signal: Signal,
) {
    let stop = async move { signal.reached(Phase::Aborting).await };
    let app = router(pages);
    let served = match tls {
        None => {
            axum::serve(listener, app)
                .with_graceful_shutdown(stop)
                .await
        }
        Some(tls) => {
            let listener = tls::TlsListener::new(listener, tls);
            axum::serve(listener, app)
                .with_graceful_shutdown(stop)
                .await
        }
    };
    if let Err(error) = served {
        tracing::error!(%error, "the HTTP server ended");
    }
}
