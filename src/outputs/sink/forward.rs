//! Forwarding to another collector over Frame Streams, connecting again as often as it takes.
//!
//! While there is no connection nothing is taken out of the queue but what is in hand already, so the queue's policy decides
//! what happens to the frames that arrive. Between batches the sink listens for the peer's goodbye and connects again at
//! once, so that the next batch does not go into a socket that nobody reads.

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::link::outbox::Outbox;
use crate::link::sender::{Failure, Farewell, SendError, Sender, SenderOptions};
use crate::log_limit::LogLimit;
use crate::outputs::sink::{Ending, Meter, Sink, Step, Wrote};
use crate::telemetry::{self, Telemetry};
use crate::transport::tls::Fault;
use crate::transport::tls::client::ClientTls;
use crate::units::Endpoint;

/// At most one line about a lost connection in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How a [`Forward`] connects.
#[derive(Clone, Debug)]
pub struct ForwardOptions {
    /// The collector.
    pub to: Endpoint,
    /// Whom to trust and what to show where `to` asks for TLS.
    pub tls: Option<Arc<ClientTls>>,
    /// The stream.
    pub sender: SenderOptions,
    /// Time a connection may take to be made.
    pub connect_timeout: Duration,
    /// Delays between attempts.
    pub backoff: Backoff,
}

/// The sink.
pub struct Forward {
    name: String,
    options: ForwardOptions,
    sender: Option<Sender>,
    /// The attempt to connect that is under way.
    attempt: Option<Step<'static, Result<Sender, SendError>>>,
    /// The next one begins not before this.
    connect_at: Option<Instant>,
    /// By the reason's name.
    reconnects: Vec<(&'static str, Counter)>,
    meter: Meter,
    telemetry: Telemetry,
    log: LogLimit,
}

impl Forward {
    /// A forward that is not connected yet.
    pub fn new(name: &str, options: ForwardOptions, telemetry: &Telemetry, meter: Meter) -> Self {
        let tls = options.tls.iter().flat_map(|_| Fault::ALL);
        let reasons = Failure::ALL
            .into_iter()
            .map(Failure::as_str)
            .chain(tls.map(Fault::as_str));
        let reconnects = reasons
            .map(|r| {
                (
                    r,
                    telemetry.counter(telemetry::OUTPUT_RECONNECTS, &[name, r]),
                )
            })
            .collect();
        Self {
            name: name.to_owned(),
            options,
            sender: None,
            attempt: None,
            connect_at: None,
            reconnects,
            meter,
            telemetry: telemetry.clone(),
            log: LogLimit::new(LOG_INTERVAL),
        }
    }

    /// One attempt, when its time has come. Cancel-safe: an attempt that is under way goes on with the next call, so that a
    /// batch that arrives meanwhile does not make the peer see a connection come and go.
    async fn connect(&mut self) {
        let (at, options) = (self.connect_at, &self.options);
        let attempt = self.attempt.get_or_insert_with(|| {
            let ForwardOptions {
                to,
                tls,
                sender,
                connect_timeout,
                ..
            } = options.clone();
            Box::pin(async move {
                if let Some(at) = at {
                    sleep_until(at).await;
                }
                Sender::dial(&to, tls.as_ref(), connect_timeout, sender).await
            })
        });
        let result = attempt.await;
        self.attempt = None;
        match result {
            Ok(sender) => {
                info!(output = self.name, to = %self.options.to, "connected");
                self.sender = Some(sender);
                self.connect_at = None;
                self.meter.connected(true);
                let shown = self.options.tls.as_ref().and_then(|tls| tls.expires());
                if let Some(at) = shown {
                    let place = format!("output:{}", self.name);
                    self.telemetry
                        .gauge(telemetry::TLS_CERTIFICATE_EXPIRY, &[&place])
                        .set(at as f64);
                }
            }
            Err(e) => self.lost(&e),
        }
    }

    fn lost(&mut self, error: &SendError) {
        self.sender = None;
        let delay = self.options.backoff.delay();
        self.connect_at = Some(Instant::now() + delay);
        self.meter.connected(false);
        self.meter.error();
        let (to, reason) = (&self.options.to, error.failure.as_str());
        if let Some((_, counter)) = self.reconnects.iter().find(|(r, _)| *r == reason) {
            counter.increment(1);
        }
        match self.log.pass(std::time::Instant::now()) {
            Some(more) => {
                warn!(output = self.name, %to, reason, suppressed = more, "no connection, trying again in {delay:?}: {error}")
            }
            None => {
                debug!(output = self.name, %to, reason, "no connection, trying again in {delay:?}: {error}")
            }
        }
    }

    async fn write_once(&mut self, outbox: &mut Outbox) -> Wrote {
        match &mut self.sender {
            None => self.connect().await,
            Some(sender) => match sender.write(outbox).await {
                Ok(n) => {
                    self.meter.wrote(n);
                    self.options.backoff.reset();
                }
                Err(e) => self.lost(&e),
            },
        }
        Wrote::Progress
    }

    async fn rest(&mut self) {
        match &mut self.sender {
            None => self.connect().await,
            Some(sender) => {
                let e = sender.closed().await;
                self.lost(&e);
            }
        }
    }

    async fn finish(&mut self, ending: Ending) {
        let Some(sender) = self.sender.take() else {
            return;
        };
        self.meter.connected(false);
        if ending == Ending::Aborted {
            return;
        }
        match sender.stop().await {
            Farewell::Unclear(e) => {
                warn!(output = self.name, to = %self.options.to, "the last frames may not have arrived: {e}")
            }
            farewell => debug!(output = self.name, ?farewell, "stream ended"),
        }
    }
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forward({} to {})", self.name, self.options.to)
    }
}

impl Sink for Forward {
    fn write<'a>(&'a mut self, outbox: &'a mut Outbox) -> Step<'a, Wrote> {
        Box::pin(self.write_once(outbox))
    }

    fn idle(&mut self) -> Step<'_, ()> {
        Box::pin(self.rest())
    }

    fn close(&mut self, ending: Ending) -> Step<'_, ()> {
        Box::pin(self.finish(ending))
    }
}
