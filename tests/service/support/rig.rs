//! The service in this process, on sockets of its own in a temporary folder.

use std::path::PathBuf;
use std::sync::Arc;

use tapflow::app::Service;
use tapflow::config::Config;
use tapflow::config::resolve::Surroundings;
use tapflow::http::options::HttpOptions;
use tapflow::outputs::options::{DnstapOptions, NullOptions, OutputKind, OutputOptions};
use tapflow::pipeline::ledger::{OutputSnapshot, Snapshot};
use tapflow::stages::options::{DecodeOptions, MetricsOptions, StageOptions};
use tapflow::transport::options::ListenerOptions;
use tapflow::units::{Endpoint, Span};
use tempfile::TempDir;
use tokio::sync::RwLock;

use crate::support::peer::Peer;
use crate::support::scrape::Scrape;
use crate::support::{PATIENCE, eventually, frames, raise_open_files};

/// Tests run beside each other, but those that measure run alone.
static MACHINE: RwLock<()> = RwLock::const_new(());

/// What the test holds of the machine.
#[derive(Debug)]
enum Hold {
    Shared {
        _guard: tokio::sync::RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: tokio::sync::RwLockWriteGuard<'static, ()>,
    },
}

/// Kinds of socket to listen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Socket {
    Unix,
    Tcp,
}

impl Socket {
    pub(crate) const BOTH: [Self; 2] = [Self::Unix, Self::Tcp];

    /// The listener's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// A service to be: a listener on a Unix socket and one on loopback TCP, no stages, no outputs.
#[derive(Debug)]
pub(crate) struct Rig {
    /// Hold a clone to look at the files after the stop.
    pub(crate) folder: Arc<TempDir>,
    pub(crate) config: Config,
    alone: bool,
}

impl Rig {
    pub(crate) fn new() -> Self {
        raise_open_files();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = |socket: Socket| ListenerOptions {
            name: socket.name().to_owned(),
            uri: match socket {
                Socket::Unix => Endpoint::unix(folder.path().join("in.sock")),
                Socket::Tcp => Endpoint::tcp("127.0.0.1", 0),
            },
            ..ListenerOptions::default()
        };
        let config = Config {
            data_dir: folder.path().join("data"),
            http: HttpOptions {
                enabled: true,
                address: ([127, 0, 0, 1], 0).into(),
                ..HttpOptions::default()
            },
            shutdown_timeout: Span(PATIENCE),
            listener: Socket::BOTH.map(listener).into(),
            stage: Vec::new(),
            output: Vec::new(),
            ..Config::default()
        };
        Self {
            folder: Arc::new(folder),
            config,
            alone: false,
        }
    }

    /// With nothing else running.
    pub(crate) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Changes the settings of both listeners.
    pub(crate) fn listeners(mut self, change: impl Fn(&mut ListenerOptions)) -> Self {
        self.config.listener.iter_mut().for_each(change);
        self
    }

    /// One more stage.
    pub(crate) fn stage(mut self, stage: StageOptions) -> Self {
        self.config.stage.push(stage);
        self
    }

    /// The stages of the main job.
    pub(crate) fn decoding(self) -> Self {
        self.stage(StageOptions::Decode(DecodeOptions::default()))
            .stage(StageOptions::Metrics(MetricsOptions::default()))
    }

    /// One more output.
    pub(crate) fn output(
        mut self,
        name: &str,
        kind: OutputKind,
        change: impl FnOnce(&mut OutputOptions),
    ) -> Self {
        let mut options = OutputOptions {
            name: name.to_owned(),
            ..OutputOptions::new(kind)
        };
        change(&mut options);
        self.config.output.push(options);
        self
    }

    /// An output that takes everything at once, named `null`.
    pub(crate) fn null(self) -> Self {
        self.output("null", OutputKind::Null(NullOptions::default()), |_| {})
    }

    /// An output that forwards to the Unix socket NAME.sock in the folder.
    pub(crate) fn forward(self, name: &str, change: impl FnOnce(&mut OutputOptions)) -> Self {
        let options = DnstapOptions {
            to: self.socket(name),
            reconnect_max: Span::millis(200),
            ..DnstapOptions::default()
        };
        self.output(name, OutputKind::Dnstap(options), change)
    }

    /// The Unix socket NAME.sock in the folder.
    pub(crate) fn socket(&self, name: &str) -> Endpoint {
        Endpoint::unix(self.path(&format!("{name}.sock")))
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it.
    pub(crate) async fn start(self) -> Running {
        let hold = match self.alone {
            false => Hold::Shared {
                _guard: MACHINE.read().await,
            },
            true => Hold::Alone {
                _guard: MACHINE.write().await,
            },
        };
        let problems: Vec<String> = self
            .config
            .check()
            .iter()
            .map(ToString::to_string)
            .collect();
        println!("{}", problems.join("\n"));
        let service = Service::start(&self.config.resolve(&Surroundings::default()))
            .await
            .expect("the service starts");
        Running {
            service,
            _folder: self.folder,
            _hold: hold,
        }
    }
}

/// A service that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) service: Service,
    /// Its sockets and files are here.
    _folder: Arc<TempDir>,
    _hold: Hold,
}

impl Running {
    /// Where the listener is.
    pub(crate) fn at(&self, socket: Socket) -> Endpoint {
        let listener = self
            .service
            .listeners()
            .iter()
            .find(|l| l.name == socket.name());
        listener.expect("a listener of this kind").endpoint.clone()
    }

    /// The ledger now; it always closes.
    pub(crate) fn ledger(&self) -> Snapshot {
        let ledger = self.service.ledger().snapshot();
        assert!(ledger.closes(), "{}", ledger.to_json());
        ledger
    }

    /// `/metrics` now.
    pub(crate) fn scrape(&self) -> Scrape {
        Scrape::of(&self.service.pages().metrics())
    }

    /// Connections that ended for this reason, over all listeners.
    pub(crate) fn closed(&self, reason: &str) -> u64 {
        self.scrape().sum(
            "tapflow_connections_closed_total",
            &[&format!("reason=\"{reason}\"")],
        ) as u64
    }

    /// Waits until so many connections have ended for this reason.
    pub(crate) async fn wait_closed(&self, reason: &str, n: u64) {
        eventually(
            &format!(
                "{n} connections end as {reason}: {:?}",
                self.scrape().nonzero("tapflow_connections_closed_total")
            ),
            || (self.closed(reason) >= n).then_some(()),
        )
        .await;
        assert_eq!(self.closed(reason), n, "connections that ended as {reason}");
    }

    /// Waits until `n` frames have come in.
    pub(crate) async fn wait_received(&self, n: u64) {
        eventually(&format!("{n} frames are received"), || {
            (self.ledger().received >= n).then_some(())
        })
        .await;
        assert_eq!(self.ledger().received, n, "frames received");
    }

    /// Waits until `n` frames have come in and none is on its way.
    pub(crate) async fn wait_settled(&self, n: u64) -> Snapshot {
        self.wait_received(n).await;
        eventually("nothing is in flight", || {
            let ledger = self.ledger();
            ledger
                .outputs
                .iter()
                .all(|o| o.in_flight == 0)
                .then_some(ledger)
        })
        .await
    }

    /// A sender that says what it should over this kind of socket is served: `n` frames more are received, none is lost.
    pub(crate) async fn serves_well(&self, socket: Socket, n: u64) {
        let (before, clean) = (self.ledger(), self.closed("clean"));
        let mut peer = Peer::bidirectional(&self.at(socket)).await;
        peer.send(&frames::Numbered::new().run(0..n)).await;
        peer.stop().await;
        let after = self.wait_settled(before.received + n).await;
        assert_eq!(
            after.lost(),
            before.lost(),
            "frames of a good sender are lost"
        );
        eventually("the end of a good sender is counted", || {
            (self.closed("clean") > clean).then_some(())
        })
        .await;
    }

    /// Stops it; the ledger closes and nothing is in flight.
    pub(crate) async fn stop(self) -> Snapshot {
        let ledger = self.service.stop().await;
        assert!(ledger.closes(), "{}", ledger.to_json());
        assert!(
            ledger.outputs.iter().all(|o| o.in_flight == 0),
            "{}",
            ledger.to_json()
        );
        ledger
    }
}

/// One output's account.
pub(crate) fn output<'a>(ledger: &'a Snapshot, name: &str) -> &'a OutputSnapshot {
    ledger
        .outputs
        .iter()
        .find(|o| &*o.name == name)
        .expect("an output of this name")
}

/// Drops before the outputs that are not zero, as `AT/REASON`.
pub(crate) fn drops(ledger: &Snapshot) -> Vec<(String, u64)> {
    ledger
        .dropped
        .iter()
        .filter(|d| d.2 > 0)
        .map(|(at, reason, n)| (format!("{at}/{reason}"), *n))
        .collect()
}
