//! A service with a TLS listener, and senders to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tapflow::app::Service;
use tapflow::config::Config;
use tapflow::config::resolve::Surroundings;
use tapflow::dnstap::{DnstapView, Message, build};
use tapflow::http::options::HttpOptions;
use tapflow::link::outbox::{Chunk, Layout, Outbox};
use tapflow::link::sender::{SendError, Sender, SenderOptions};
use tapflow::outputs::options::{NullOptions, OutputKind, OutputOptions};
use tapflow::transport::options::ListenerOptions;
use tapflow::transport::tls::client::{ClientFiles, ClientTls};
use tapflow::transport::tls::server::ClientCertificates;
use tapflow::units::{Endpoint, Span};
use tempfile::TempDir;

use crate::pki::{Authority, Pair};

/// Longest wait for what has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` finds what it looks for.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A folder with an authority and a certificate for `localhost` and 127.0.0.1.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) ca: Authority,
    pub(crate) server: Pair,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ca = Authority::new(folder.path(), "ca");
        let server = ca.sign("server", &["localhost", "127.0.0.1"]);
        Self { folder, ca, server }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A configuration with a TLS listener `tls`, no stages and an output that keeps nothing.
    pub(crate) fn config(&self, change: impl FnOnce(&mut ListenerOptions)) -> Config {
        let mut listener = ListenerOptions {
            name: "tls".to_owned(),
            uri: Endpoint::tls("127.0.0.1", 0),
            tls_cert: self.server.cert.clone(),
            tls_key: self.server.key.clone(),
            ..ListenerOptions::default()
        };
        change(&mut listener);
        Config {
            data_dir: self.path().join("data"),
            http: HttpOptions {
                address: ([127, 0, 0, 1], 0).into(),
                ..HttpOptions::default()
            },
            shutdown_timeout: Span::secs(30),
            listener: vec![listener],
            stage: Vec::new(),
            output: vec![OutputOptions::new(OutputKind::Null(NullOptions::default()))],
            ..Config::default()
        }
    }

    /// A service whose senders have to show certificates of this authority.
    pub(crate) async fn strict(&self, rules: &[&str]) -> Running {
        let config = self.config(|o| {
            o.tls_client = ClientCertificates::Required;
            o.tls_client_ca = self.ca.file.clone();
            o.tls_clients = rules.iter().map(|r| r.parse().expect("a rule")).collect();
        });
        Running::start(&config).await
    }

    /// A sender that trusts this authority and shows `pair`.
    pub(crate) fn client(&self, pair: Option<&Pair>) -> ClientFiles {
        let file = |pick: fn(&Pair) -> &std::path::PathBuf| pair.map(pick).cloned();
        ClientFiles {
            ca: self.ca.file.clone(),
            cert: file(|p| &p.cert).unwrap_or_default(),
            key: file(|p| &p.key).unwrap_or_default(),
            ..ClientFiles::default()
        }
    }
}

/// A service that runs.
pub(crate) struct Running {
    pub(crate) service: Service,
}

impl Running {
    pub(crate) async fn start(config: &Config) -> Self {
        let resolved = config.resolve(&Surroundings::default());
        let wrong: Vec<_> = config
            .check()
            .into_iter()
            .filter(|p| p.is_error())
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        Self {
            service: Service::start(&resolved).await.expect("it starts"),
        }
    }

    pub(crate) fn at(&self) -> Endpoint {
        self.service.listeners()[0].endpoint.clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.at().host_port().expect("a port").1
    }

    /// The value of a series.
    pub(crate) fn value(&self, series: &str) -> f64 {
        let text = self.service.pages().metrics();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|v| v.parse().ok())
            .unwrap_or_else(|| panic!("no series {series} in\n{text}"))
    }

    /// Connections that ended for this reason.
    pub(crate) fn closed(&self, reason: &str) -> f64 {
        self.value(&format!(
            "tapflow_connections_closed_total{{listener=\"tls\",reason=\"{reason}\"}}"
        ))
    }

    pub(crate) async fn wait_closed(&self, reason: &str, n: u64) {
        let what = format!("{n} connections end as {reason}");
        eventually(&what, || (self.closed(reason) >= n as f64).then_some(())).await;
    }

    pub(crate) async fn wait_received(&self, n: u64) {
        let received = || self.service.ledger().snapshot().received;
        let what = format!("{n} frames are received");
        eventually(&what, || (received() >= n).then_some(())).await;
        assert_eq!(received(), n);
    }

    /// Frames dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let ledger = self.service.ledger().snapshot();
        assert!(ledger.closes(), "{}", ledger.to_json());
        let of = ledger.dropped.iter().filter(|d| d.1 == reason);
        of.map(|d| d.2).sum()
    }

    /// A stream over TLS, after both handshakes.
    pub(crate) async fn connect(&self, files: ClientFiles) -> Result<Sender, SendError> {
        let tls = Arc::new(ClientTls::new(files));
        let options = SenderOptions::default();
        Sender::dial(&self.at(), Some(&tls), PATIENCE, options).await
    }
}

/// `n` frames of an identity, to be sent.
pub(crate) fn frames(identity: Option<&str>, n: u64) -> Outbox {
    let message = Message {
        kind: Some(5),
        ..Message::default()
    };
    let view = DnstapView {
        identity: identity.map(str::as_bytes),
        kind: Some(1),
        message: Some(message),
        ..DnstapView::default()
    };
    let mut payload = Vec::new();
    build::write(&mut payload, &view);
    let frame = [&(payload.len() as u32).to_be_bytes()[..], &payload].concat();
    let mut outbox = Outbox::new();
    outbox.push(Chunk::new(
        Bytes::from(frame.repeat(n as usize)),
        n,
        Layout::Run,
    ));
    outbox
}

/// Sends `n` frames of an identity and ends the stream in order.
pub(crate) async fn send(mut sender: Sender, identity: Option<&str>, n: u64) {
    let mut outbox = frames(identity, n);
    sender.write_all(&mut outbox).await.expect("it is taken");
    let end = sender.stop().await;
    assert!(end.is_clean(), "{end:?}");
}
