//! The side that takes TLS connections: its certificate, whom it trusts, and the handshake.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::pins::Pinned;
use super::rules::{Grant, Rules};
use super::{
    Fault, FileError, HandshakeError, Stamp, TlsVersion, authorities, certificates, key_pair_error,
    private_key, provider, stamps, validity,
};
use crate::transport::tls::crowd::Crowd;

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCertificates {
    /// They are not asked for one.
    #[default]
    Off,
    /// They are asked for one; one that is shown must be good.
    Optional,
    /// Without a good one nobody comes in.
    Required,
}

/// What a server side is made from.
#[derive(Debug, Clone, Default)]
pub struct ServerFiles {
    /// Certificate chain in PEM, the server's own first.
    pub cert: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
    /// Authorities of client certificates in PEM; empty: none, so that only fingerprints count.
    pub client_ca: PathBuf,
    /// Whether clients show certificates.
    pub client: ClientCertificates,
    /// Which clients may come, and as whom they may send.
    pub rules: Rules,
    /// The oldest version spoken.
    pub min_version: TlsVersion,
}

impl ServerFiles {
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.cert, &self.key, &self.client_ca]
            .into_iter()
            .filter(|file| !file.as_os_str().is_empty())
    }

    fn load(&self) -> Result<Loaded, FileError> {
        let provider = provider();
        let chain = certificates(&self.cert)?;
        let key = private_key(&self.key)?;
        let expires = chain
            .first()
            .and_then(|own| validity::of(own))
            .map(|v| v.not_after);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(self.min_version.versions())
            .map_err(|e| FileError::new(&self.cert, e.to_string()))?;
        let builder = if self.client == ClientCertificates::Off {
            builder.with_no_client_auth()
        } else {
            let inner = if self.client_ca.as_os_str().is_empty() {
                None
            } else {
                let roots = Arc::new(authorities(&self.client_ca)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
                Some(verifier.map_err(|e| FileError::new(&self.client_ca, e.to_string()))?)
            };
            builder.with_client_cert_verifier(Arc::new(Pinned {
                inner,
                pins: self.rules.pins(),
                required: self.client == ClientCertificates::Required,
                provider,
            }))
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| key_pair_error(&self.cert, &self.key, &e))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Loaded {
            config: Arc::new(config),
            expires,
        })
    }

    /// Whether everything can be used, and until when the certificate is valid, in seconds since 1970.
    ///
    /// # Errors
    /// The first file that cannot.
    pub fn check(&self) -> Result<Option<i64>, FileError> {
        self.load().map(|loaded| loaded.expires)
    }
}

#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    expires: Option<i64>,
}

/// What a look at the files found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// They are what they were.
    Same,
    /// They were read again, and hold for the connections from now on.
    Done,
    /// They cannot be used; what was read before stays.
    Failed(FileError),
}

/// A server side. Connections that are open keep what they were made with when the files change.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerFiles,
    current: RwLock<Loaded>,
    seen: Mutex<Vec<Stamp>>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used, and what to do.
    pub fn load(files: ServerFiles) -> Result<Self, FileError> {
        let seen = stamps(files.files());
        Ok(Self {
            current: RwLock::new(files.load()?),
            seen: Mutex::new(seen),
            files,
        })
    }

    /// Reads the files again if they have changed, or when `forced` whatever they look like. It reads from disk: not for a
    /// thread that carries connections.
    pub fn reload(&self, forced: bool) -> Reload {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(self.files.files());
        if !forced && *seen == now {
            return Reload::Same;
        }
        // Remembered also when they are broken: they are tried and complained about once a change.
        *seen = now;
        match self.files.load() {
            Ok(loaded) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                Reload::Done
            }
            Err(error) => Reload::Failed(error),
        }
    }

    /// Until when the certificate in use is valid, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.expires
    }

    /// The handshake with a client: within `limit`, and with a place in the crowd.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client has been told by an alert, where there was a way to.
    pub async fn accept(
        &self,
        tcp: TcpStream,
        limit: Duration,
        crowd: &Crowd,
    ) -> Result<Accepted, HandshakeError> {
        let place = crowd.enter();
        let config = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .config
            .clone();
        let handshake = timeout(limit, TlsAcceptor::from(config).accept(tcp));
        let stream = tokio::select! {
            done = handshake => match done {
                Ok(stream) => stream?,
                Err(_) => {
                    let text = format!("no complete TLS handshake within {limit:?}");
                    return Err(HandshakeError::new(Fault::Timeout, text));
                }
            },
            () = place.crowded_out() => {
                let text = "too many TLS handshakes were under way, and this was the oldest";
                return Err(HandshakeError::new(Fault::CrowdedOut, text));
            }
        };
        let shown = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first);
        match self.files.rules.grant(shown) {
            Some(grant) => Ok(Accepted { stream, grant }),
            None => Err(HandshakeError::new(
                Fault::UnknownClient,
                "the client's certificate is good, and no rule in tls_clients names it",
            )),
        }
    }
}

/// A client that came in.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: tokio_rustls::server::TlsStream<TcpStream>,
    /// As whom it may send.
    pub grant: Grant,
}

/// Whether a certificate that is valid until `expires` is valid now.
pub fn is_expired(expires: i64) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    i64::try_from(now).is_ok_and(|now| now > expires)
}
