//! Sessions: connections of many streams, each of which is a connection of its own to everything behind it.
//!
//! A session that breaks the protocol, floods or falls silent ends alone, for a reason that has a name; its streams end with
//! it and the others know nothing of it. When the process stops, each session says that it takes no more streams and ends
//! with its last one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::{LOG_INTERVAL, LOG_PEERS, Listener, admission_rules, suppressed};
use crate::log_limit::{KeyedLogLimit, LogLimit};
use crate::mux::frame::INITIAL_WINDOW;
use crate::mux::{CloseReason, Config, MuxStream, Session};
use crate::shutdown::{Phase, Signal};
use crate::telemetry::{self, Telemetry};
use crate::transport::admission::{Admission, PeerKey, Refusal, Rules};
use crate::transport::options::ListenerOptions;
use crate::transport::tls::Fault;
use crate::transport::tls::rules::Grant;
use crate::transport::{Peer, Stream};
use crate::units::Endpoint;

/// A session without a stream for so long ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a silent peer may take to answer a ping, at most.
const PING_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// Every name that [`CloseReason::name`] gives.
const REASONS: [&str; 14] = [
    "local",
    "go_away",
    "peer_closed",
    "cut",
    "foreign_protocol",
    "wrong_version",
    "bad_frame",
    "protocol",
    "window_overrun",
    "stream_flood",
    "control_flood",
    "keepalive_timeout",
    "idle_timeout",
    "io",
];

/// What the sessions of a listener may use, and what is counted of them.
pub(super) struct Sessions {
    config: Config,
    max: u32,
    admission: Arc<Admission>,
    counters: Arc<Counters>,
}

struct Counters {
    accepted: Counter,
    active: Gauge,
    refused: Counter,
    closed: HashMap<&'static str, Counter>,
    logs: HashMap<&'static str, LogLimit>,
    /// One line for each peer and rule.
    refusals: KeyedLogLimit<(Refusal, PeerKey)>,
}

impl Counters {
    fn closed(&self, reason: &'static str) {
        if let Some(counter) = self.closed.get(reason) {
            counter.increment(1);
        }
    }

    fn may_log(&self, reason: &'static str) -> Option<u64> {
        self.logs
            .get(reason)
            .map_or(Some(0), |l| l.pass(Instant::now()))
    }
}

impl Sessions {
    pub(super) fn new(options: &ListenerOptions, telemetry: &Telemetry) -> Self {
        let name = &options.name;
        let faults: &[Fault] = match options.uri.carrier() {
            Endpoint::Tls { .. } => &Fault::ALL,
            _ => &[],
        };
        let reasons = || {
            let refusals = Refusal::ALL.iter().map(|r| r.as_str());
            REASONS
                .into_iter()
                .chain(refusals)
                .chain(faults.iter().map(|f| f.as_str()))
        };
        let counters = Counters {
            accepted: telemetry.counter(telemetry::SESSIONS_ACCEPTED, &[name]),
            active: telemetry.gauge(telemetry::SESSIONS_ACTIVE, &[name]),
            refused: telemetry.counter(telemetry::STREAMS_REFUSED, &[name]),
            closed: reasons()
                .map(|r| (r, telemetry.counter(telemetry::SESSIONS_CLOSED, &[name, r])))
                .collect(),
            logs: reasons()
                .map(|r| (r, LogLimit::new(LOG_INTERVAL)))
                .collect(),
            refusals: KeyedLogLimit::new(LOG_INTERVAL, LOG_PEERS),
        };
        // What a peer may send is counted where its streams are let in.
        let rules = Rules {
            max: options.sessions_max as usize,
            max_per_peer: 0,
            frames: 0,
            bytes: 0,
            ..admission_rules(options)
        };
        Self {
            config: config(options),
            max: options.sessions_max,
            admission: Arc::new(Admission::new(rules)),
            counters: Arc::new(counters),
        }
    }
}

fn config(options: &ListenerOptions) -> Config {
    let room = options.session_buffer.bytes() / u64::from(INITIAL_WINDOW);
    let streams = usize::try_from(room)
        .unwrap_or(usize::MAX)
        .min(options.connections_max as usize)
        .max(1);
    let keepalive = options.keepalive.get();
    Config {
        receive_cap: options.session_buffer.bytes(),
        read_buffer: options.read_size.as_usize(),
        keepalive_interval: keepalive,
        keepalive_timeout: keepalive.unwrap_or(PING_TIMEOUT_MAX).min(PING_TIMEOUT_MAX),
        idle_timeout: Some(IDLE_TIMEOUT),
        max_streams: streams,
        accept_backlog: streams.min(256),
        ..Config::default()
    }
}

/// An open session, for the gauge.
struct Open(Arc<Counters>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.active.decrement(1.0);
    }
}

/// Gives a session a task of its own, if it may come in.
pub(super) fn admit(
    listener: &Arc<Listener>,
    stream: Stream,
    peer: Peer,
    signal: &Signal,
    running: &mpsc::Sender<()>,
) {
    let Some(sessions) = &listener.sessions else {
        return;
    };
    let counters = sessions.counters.clone();
    counters.accepted.increment(1);
    let admitted = sessions
        .admission
        .admit(peer.key, peer.group, Instant::now());
    let permit = match admitted {
        Ok(permit) => permit,
        Err(refusal) => {
            let reason = refusal.as_str();
            counters.closed(reason);
            let key = (refusal, peer.key);
            if let Some(more) = counters.refusals.pass(key, Instant::now()) {
                let rule = match refusal {
                    Refusal::Full => format!("sessions_max = {}", sessions.max),
                    other => sessions.admission.rule(other, peer.key),
                };
                tracing::warn!(
                    listener = &*listener.name,
                    peer = peer.text,
                    reason,
                    rule,
                    suppressed = suppressed(more),
                    "refused a session"
                );
            }
            return;
        }
    };
    counters.active.increment(1.0);
    let config = sessions.config.clone();
    let span = tracing::error_span!("session", listener = &*listener.name, peer = peer.text);
    let (listener, mut signal, running) = (listener.clone(), signal.clone(), running.clone());
    let task = async move {
        // Held until the session's socket is closed.
        let _held = (permit, running);
        let _open = Open(counters.clone());
        let shaken = tokio::select! {
            biased;
            () = signal.reached(Phase::Draining) => {
                counters.closed("local");
                return;
            }
            shaken = listener.shake_hands(stream) => shaken,
        };
        match shaken {
            Ok((stream, grant)) => {
                tracing::info!("session begun");
                let session = Session::server(stream, config);
                let reason = serve(&listener, session, grant, &peer, signal).await;
                counters.closed(reason.name());
                log_end(&reason, &counters);
            }
            Err(error) => {
                let reason = error.fault.as_str();
                counters.closed(reason);
                if let Some(more) = counters.may_log(reason) {
                    tracing::warn!(reason, suppressed = suppressed(more), "{error}");
                }
            }
        }
    };
    tokio::spawn(task.instrument(span));
}

/// Accepts streams until the session or the process ends, and waits for what was accepted.
async fn serve(
    listener: &Listener,
    session: Session,
    grant: Grant,
    peer: &Peer,
    mut signal: Signal,
) -> CloseReason {
    let (running, mut connections) = mpsc::channel(1);
    let mut refused = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = signal.reached(Phase::Draining) => None,
            accepted = session.accept() => accepted,
        };
        let now = session.status().refused;
        if let Some(sessions) = &listener.sessions {
            let counter = &sessions.counters.refused;
            counter.increment(now.saturating_sub(refused));
        }
        refused = now;
        let Some(stream) = accepted else { break };
        let peer = Peer {
            text: format!("{} stream {}", peer.text, stream.id()),
            key: peer.key,
            group: peer.group,
        };
        // There is no way to tell the other end of a stream to send no more.
        let refuse_more: fn(&MuxStream) -> bool = |_| false;
        // A stream is accepted within the session's span, but a connection has a span of its own.
        let grant = grant.clone();
        tracing::Span::none().in_scope(|| {
            if let Some(guard) = listener.let_in(&peer) {
                listener.begin(stream, refuse_more, grant, peer, guard, &signal, &running);
            }
        });
    }
    session.go_away();
    drop(running);
    // Returns nothing once the last connection has dropped its sender; what they wrote last is written before the close.
    let _ = connections.recv().await;
    session.close();
    session.closed().await
}

fn log_end(reason: &CloseReason, counters: &Counters) {
    let name = reason.name();
    match reason {
        CloseReason::Local(_) | CloseReason::GoAway(0) | CloseReason::PeerClosed => {
            tracing::info!(reason = name, "session ended");
        }
        other => {
            if let Some(more) = counters.may_log(name) {
                tracing::warn!(
                    reason = name,
                    suppressed = suppressed(more),
                    "session ended: {other}"
                );
            }
        }
    }
}
