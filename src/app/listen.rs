//! A listener's accept loop: decides who may come in, and gives every connection a task of its own at once, so that a
//! sender that says nothing delays nobody. Where connections are sessions, `sessions` accepts their streams, each of
//! which is then a connection like any other.

mod sessions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::fstrm::compress::{Codec, Compression};
use crate::fstrm::{self, BufOptions, BufPool, ContentType, End, Limits};
use crate::ids::{ConnId, DropSlot};
use crate::link::fstrm::{Link, LinkError, Options};
use crate::log_limit::{KeyedLogLimit, LogLimit};
use crate::pipeline::acks::Seen;
use crate::pipeline::batch::Origin;
use crate::pipeline::fan::Fan;
use crate::pipeline::guard::{self, IdentityGuard, RateGuard};
use crate::pipeline::intake::{
    Closed, Duplicates, Intake, ListenerSlots, Pace, REASON_MISMATCH, REASON_NOT_TAKEN,
    REASON_SHUTDOWN, ReadAhead, Shared,
};
use crate::pipeline::lane::Lane;
use crate::pipeline::ledger::Ledger;
use crate::pipeline::stage::{Chain, ReplacedLimit, Stage, StageFactory};
use crate::shutdown::{Phase, Signal};
use crate::telemetry::{self, Telemetry};
use crate::transport::admission::{Admission, PeerKey, Permit, Refusal, Rules};
use crate::transport::options::{
    ListenerMode, ListenerOptions, OverRate, Oversize, ReceiveCompression,
};
use crate::transport::tls::crowd::Crowd;
use crate::transport::tls::rules::Grant;
use crate::transport::tls::server::ServerTls;
use crate::transport::tls::{Fault, HandshakeError};
use crate::transport::{BindError, BindOptions, Bound, Peer, Stream, unix};
use crate::units::{Endpoint, Net};

/// Free read buffers that a listener keeps for its next connections.
const POOL_KEEP: usize = 64;
/// After a failed accept (out of descriptors, say) the loop rests, or it would spin.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Stands for a time that is off: a century, which every sum with the time of day can hold.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Peers that get a line of their own in [`LOG_INTERVAL`] when they are refused.
const LOG_PEERS: usize = 32;
/// At most one log line in this time for what any outsider can cause, for each kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Ordinary ends of connections that get a line each in that time: a fleet that restarts is seen whole, and a sender that
/// connects in a loop does not fill the disk.
const LOG_BURST: u32 = 64;

/// How the configuration's listener is bound.
pub fn bind_options(options: &ListenerOptions) -> BindOptions {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    BindOptions {
        address: options.uri.clone(),
        access: unix::Access {
            mode: options.socket_mode.0,
            owner: some(&options.owner),
            group: some(&options.group),
        },
        receive_buffer: options.receive_buffer.as_usize(),
        keepalive: options.keepalive.get(),
    }
}

/// How the configuration's listener speaks.
pub fn link_options(options: &ListenerOptions) -> Options {
    let codec = match options.compression {
        ReceiveCompression::Auto => Compression::Auto,
        ReceiveCompression::Off => Compression::Off,
        ReceiveCompression::Gzip => Compression::Codec(Codec::Gzip),
        ReceiveCompression::Lz4 => Compression::Codec(Codec::Lz4),
        ReceiveCompression::Snappy => Compression::Codec(Codec::Snappy),
        ReceiveCompression::Zstd => Compression::Codec(Codec::Zstd),
    };
    Options {
        mode: match options.mode {
            ListenerMode::Auto => fstrm::Mode::Auto,
            ListenerMode::Bidirectional => fstrm::Mode::Bidirectional,
            ListenerMode::Unidirectional => fstrm::Mode::Unidirectional,
            ListenerMode::Raw => fstrm::Mode::Raw,
        },
        content_types: if options.uri.is_mux() {
            vec![ContentType::DNSTAP_ACK, ContentType::DNSTAP]
        } else {
            vec![ContentType::DNSTAP]
        },
        limits: Limits {
            control_len_max: options.control_frame_max.as_usize(),
            data_len_max: options.data_frame_max.as_usize(),
            ..Limits::default()
        },
        oversize: match options.oversize {
            Oversize::Skip => fstrm::Oversize::Skip,
            Oversize::Close => fstrm::Oversize::Close,
        },
        compression: codec,
        decompressed_max: options.decompressed_max.as_usize(),
        handshake_timeout: options.handshake_timeout.get().unwrap_or(FOR_EVER),
        idle_timeout: options.idle_timeout.get(),
        read_size: options.read_size.as_usize(),
        buffer: BufOptions {
            initial_capacity: options.initial_buffer.as_usize(),
            growth_limit: usize::try_from(options.buffer_limit()).unwrap_or(usize::MAX),
        },
    }
}

/// Who may connect to the configuration's listener. A user or group that this machine does not know lets nobody in.
pub fn admission_rules(options: &ListenerOptions) -> Rules {
    let nets = |nets: &[Net]| nets.iter().map(|net| net.0).collect();
    let ids = |names: &[String], id: fn(&str) -> Result<u32, BindError>| {
        let known = |name: &String| {
            id(name).inspect_err(|error| tracing::warn!(%error, listener = options.name, "nobody is let in by this name")).ok()
        };
        let found: Vec<u32> = names.iter().filter_map(known).collect();
        // No user has this number; an empty list would let everyone in.
        if found.is_empty() && !names.is_empty() {
            vec![u32::MAX - 1]
        } else {
            found
        }
    };
    Rules {
        allow: nets(&options.allow),
        deny: nets(&options.deny),
        users: ids(&options.allow_users, unix::user_id),
        groups: ids(&options.allow_groups, unix::group_id),
        max: options.connections_max as usize,
        max_per_peer: options.connections_per_peer_max as usize,
        per_second: options.connects_per_second_max.into(),
        per_peer_second: options.connects_per_peer_second_max.into(),
        frames: options.frames_per_peer_second_max.into(),
        bytes: options.bytes_per_peer_second_max.bytes(),
    }
}

/// One listener.
pub struct Listener {
    name: Arc<str>,
    /// Where connections are sessions: what they may use.
    sessions: Option<sessions::Sessions>,
    link: Options,
    admission: Arc<Admission>,
    pool: BufPool,
    shared: Arc<Shared>,
    stages: Arc<[Box<dyn StageFactory>]>,
    replaced: ReplacedLimit,
    lanes: Vec<Lane>,
    counters: Arc<Counters>,
    tls: Option<Tls>,
    /// Where frames go whose identity the sender's certificate does not permit.
    foreign: Option<DropSlot>,
    handshakes_max: usize,
    /// Where frames go of peers that send more than they may; none: they have to wait.
    over_rate: Option<DropSlot>,
}

/// The TLS of a listener.
struct Tls {
    server: Arc<ServerTls>,
    crowd: Crowd,
    timeout: Duration,
}

struct Counters {
    accepted: Counter,
    active: Gauge,
    ignored: Counter,
    closed: HashMap<&'static str, Counter>,
    logs: HashMap<&'static str, LogLimit>,
    /// One line for each peer and rule.
    refused: KeyedLogLimit<(Refusal, PeerKey)>,
    rate_waits: Counter,
    ends: LogLimit,
}

impl Counters {
    fn new(name: &str, tls_faults: &[Fault], telemetry: &Telemetry) -> Self {
        let reasons = || {
            let ends = End::ALL.iter().map(|e| e.as_str());
            let refusals = Refusal::ALL.iter().map(|r| r.as_str());
            let refusals = refusals.chain(tls_faults.iter().map(|f| f.as_str()));
            ends.chain(refusals).chain(LinkError::OWN_REASONS).chain([
                REASON_SHUTDOWN,
                REASON_MISMATCH,
                REASON_NOT_TAKEN,
                "accept_error",
            ])
        };
        Self {
            accepted: telemetry.counter(telemetry::CONNECTIONS_ACCEPTED, &[name]),
            active: telemetry.gauge(telemetry::CONNECTIONS_ACTIVE, &[name]),
            ignored: telemetry.counter(telemetry::CONTROL_FRAMES_IGNORED, &[name]),
            refused: KeyedLogLimit::new(LOG_INTERVAL, LOG_PEERS),
            rate_waits: telemetry.counter(telemetry::RATE_WAITS, &[name]),
            closed: reasons()
                .map(|r| {
                    (
                        r,
                        telemetry.counter(telemetry::CONNECTIONS_CLOSED, &[name, r]),
                    )
                })
                .collect(),
            logs: reasons()
                .map(|r| (r, LogLimit::new(LOG_INTERVAL)))
                .collect(),
            ends: LogLimit::burst(LOG_INTERVAL, LOG_BURST),
        }
    }

    fn closed(&self, reason: &'static str) {
        if let Some(counter) = self.closed.get(reason) {
            counter.increment(1);
        }
    }

    /// Whether to log an event of this kind now, and how many like it were not logged.
    fn may_log(&self, reason: &'static str) -> Option<u64> {
        self.logs
            .get(reason)
            .map_or(Some(0), |l| l.pass(Instant::now()))
    }
}

/// What an open socket holds; dropped with the socket.
struct OpenGuard {
    permit: Permit,
    counters: Arc<Counters>,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.counters.active.decrement(1.0);
    }
}

impl Listener {
    /// A listener with these settings, stages and outputs.
    pub fn new(
        options: &ListenerOptions,
        ledger: &Ledger,
        telemetry: &Telemetry,
        stages: &Arc<[Box<dyn StageFactory>]>,
        lanes: &[Lane],
        read_ahead: Arc<ReadAhead>,
        seen: Seen,
    ) -> Self {
        let shared = Shared {
            ledger: ledger.clone(),
            listener: ledger.register_listener(&options.name),
            slots: ListenerSlots::register(ledger, &options.name),
            read_ahead,
            seen,
            duplicates: Duplicates(
                telemetry.counter(telemetry::DUPLICATE_FRAMES, &[&options.name]),
            ),
        };
        let replaced = if stages.iter().any(|stage| stage.replaces()) {
            ReplacedLimit::register(ledger, options.data_frame_max.as_usize())
        } else {
            ReplacedLimit::NONE
        };
        let faults: &[Fault] = match options.uri {
            Endpoint::Tls { .. } => &Fault::ALL,
            _ => &[],
        };
        Self {
            name: options.name.as_str().into(),
            sessions: options
                .uri
                .is_mux()
                .then(|| sessions::Sessions::new(options, telemetry)),
            link: link_options(options),
            admission: Arc::new(Admission::new(admission_rules(options))),
            pool: BufPool::new(options.read_size.as_usize(), POOL_KEEP),
            shared: Arc::new(shared),
            stages: stages.clone(),
            replaced,
            lanes: lanes.to_vec(),
            counters: Arc::new(Counters::new(&options.name, faults, telemetry)),
            tls: None,
            foreign: (!options.tls_clients.is_empty())
                .then(|| guard::register(ledger, &options.name, guard::FOREIGN_IDENTITY)),
            over_rate: (options.over_rate == OverRate::Drop)
                .then(|| guard::register(ledger, &options.name, guard::OVER_RATE)),
            handshakes_max: options.tls_handshakes_max as usize,
        }
    }

    /// The same listener with TLS in front of every connection.
    pub fn with_tls(mut self, server: Option<Arc<ServerTls>>) -> Self {
        self.tls = server.map(|server| Tls {
            server,
            crowd: Crowd::new(self.handshakes_max),
            timeout: self.link.handshake_timeout,
        });
        self
    }

    /// Accepts until the process stops. Every connection's task holds a clone of `running`.
    pub async fn run(
        self,
        socket: Bound,
        bind: BindOptions,
        mut signal: Signal,
        running: mpsc::Sender<()>,
    ) {
        let this = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                biased;
                () = signal.reached(Phase::Draining) => break,
                accepted = socket.accept(&bind) => accepted,
            };
            match accepted {
                Ok((stream, peer)) if this.sessions.is_some() => {
                    sessions::admit(&this, stream, peer, &signal, &running);
                }
                Ok((stream, peer)) => this.admit(stream, peer, &signal, &running),
                Err(error) => {
                    this.counters.closed("accept_error");
                    if let Some(more) = this.counters.may_log("accept_error") {
                        tracing::warn!(listener = &*this.name, %error, suppressed = suppressed(more), "cannot accept a connection; is the limit of open files too low?");
                    }
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    /// Gives a connection a task of its own, if it may come in.
    fn admit(
        self: &Arc<Self>,
        stream: Stream,
        peer: Peer,
        signal: &Signal,
        running: &mpsc::Sender<()>,
    ) {
        let Some(guard) = self.let_in(&peer) else {
            return;
        };
        if self.tls.is_none() {
            let refuse_more = Stream::refuse_more;
            self.begin(
                stream,
                refuse_more,
                Grant::Any,
                peer,
                guard,
                signal,
                running,
            );
            return;
        }
        let (this, mut signal, running) = (self.clone(), signal.clone(), running.clone());
        tokio::spawn(async move {
            let shaken = tokio::select! {
                biased;
                () = signal.reached(Phase::Draining) => {
                    this.counters.closed(REASON_SHUTDOWN);
                    return;
                }
                shaken = this.shake_hands(stream) => shaken,
            };
            match shaken {
                Ok((stream, grant)) => {
                    let refuse_more = Stream::refuse_more;
                    this.begin(stream, refuse_more, grant, peer, guard, &signal, &running);
                }
                Err(error) => {
                    let reason = error.fault.as_str();
                    this.counters.closed(reason);
                    if let Some(more) = this.counters.may_log(reason) {
                        tracing::warn!(
                            listener = &*this.name,
                            peer = peer.text,
                            reason,
                            suppressed = suppressed(more),
                            "{error}"
                        );
                    }
                }
            }
        });
    }

    /// Counts a connection, and lets it in where the rules do.
    fn let_in(&self, peer: &Peer) -> Option<OpenGuard> {
        self.counters.accepted.increment(1);
        let admitted = self.admission.admit(peer.key, peer.group, Instant::now());
        match admitted {
            Ok(permit) => {
                self.counters.active.increment(1.0);
                Some(OpenGuard {
                    permit,
                    counters: self.counters.clone(),
                })
            }
            Err(refusal) => {
                let reason = refusal.as_str();
                self.counters.closed(reason);
                let key = (refusal, peer.key);
                if let Some(more) = self.counters.refused.pass(key, Instant::now()) {
                    tracing::warn!(
                        listener = &*self.name,
                        peer = peer.text,
                        reason,
                        rule = self.admission.rule(refusal, peer.key),
                        suppressed = suppressed(more),
                        "refused a connection"
                    );
                }
                None
            }
        }
    }

    /// The TLS handshake of one connection, where the listener has TLS.
    async fn shake_hands(&self, stream: Stream) -> Result<(Stream, Grant), HandshakeError> {
        match (&self.tls, stream) {
            (Some(tls), Stream::Tcp(tcp)) => {
                let accepted = tls.server.accept(tcp, tls.timeout, &tls.crowd).await?;
                let stream = Stream::Tls(Box::new(accepted.stream.into()));
                Ok((stream, accepted.grant))
            }
            (_, stream) => Ok((stream, Grant::Any)),
        }
    }

    /// Begins to take frames from a connection that is let in.
    /// `refuse_more` is that of its kind of socket.
    #[allow(clippy::too_many_arguments)]
    fn begin<S>(
        &self,
        stream: S,
        refuse_more: fn(&S) -> bool,
        grant: Grant,
        peer: Peer,
        guard: OpenGuard,
        signal: &Signal,
        running: &mpsc::Sender<()>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let origin = Arc::new(Origin {
            conn: ConnId::next(),
            listener: self.name.clone(),
            peer: peer.text,
        });
        // Of the highest level, so that a warning names the peer also where only warnings are logged.
        let span = tracing::error_span!("conn", n = %origin.conn, listener = &*self.name, peer = origin.peer, identity = tracing::field::Empty);
        let guarded = self.foreign.filter(|_| grant != Grant::Any);
        let first = guarded.map(|slot| Box::new(IdentityGuard::new(grant, slot)) as Box<dyn Stage>);
        let rate = guard.permit.rate();
        let limit = self.over_rate.zip(rate.clone());
        let limit =
            limit.map(|(slot, rate)| Box::new(RateGuard::new(rate, slot)) as Box<dyn Stage>);
        let pace = rate.filter(|_| self.over_rate.is_none()).map(|rate| Pace {
            rate,
            waits: self.counters.rate_waits.clone(),
        });
        let others = self.stages.iter().map(|f| f.build(&origin));
        let stages = limit.into_iter().chain(first).chain(others).collect();
        let chain = Chain::with_limit(stages, self.replaced);
        let link = Link::new(stream, self.link.clone(), self.pool.clone());
        let intake = Intake::new(
            link,
            guard,
            chain,
            Fan::new(&self.lanes),
            self.shared.clone(),
            origin,
        )
        .paced(pace);
        let (signal, running, counters) = (signal.clone(), running.clone(), self.counters.clone());
        let task = async move {
            tracing::debug!("connected");
            let closed = intake.run(signal, refuse_more).await;
            counters.closed(closed.reason);
            counters.ignored.increment(closed.ignored);
            log_close(&closed, &counters);
            drop(running);
        };
        tokio::spawn(task.instrument(span));
    }
}

/// How many lines like this one were held back, where there were any.
fn suppressed(lines: u64) -> Option<u64> {
    (lines > 0).then_some(lines)
}

fn log_close(closed: &Closed, counters: &Counters) {
    let (reason, frames, bytes) = (closed.reason, closed.frames, closed.bytes);
    let pass = match &closed.error {
        None => counters.ends.pass(Instant::now()),
        Some(_) => counters.may_log(reason),
    };
    let Some(more) = pass else { return };
    let suppressed = suppressed(more);
    match &closed.error {
        None if closed.dropped > 0 => {
            let dropped = closed.dropped;
            tracing::warn!(
                reason,
                frames,
                bytes,
                dropped,
                suppressed,
                "closed, and frames were dropped: the ledger says why"
            );
        }
        None => tracing::info!(reason, frames, bytes, suppressed, "closed"),
        Some(error) => tracing::warn!(reason, frames, bytes, %error, suppressed, "closed"),
    }
}
