//! The side that makes TLS connections: whom it trusts, the name it asks for, and the certificate it shows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{
    Fault, FileError, HandshakeError, TlsVersion, authorities, certificates, key_pair_error,
    private_key, provider, validity,
};

/// Where distributions keep the authorities that the machine trusts.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What a client side is made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientFiles {
    /// Authorities of the server's certificate in PEM; empty: those that the machine trusts.
    pub ca: PathBuf,
    /// The name that the server's certificate must have; empty: the host that is connected to.
    pub server_name: String,
    /// Certificate chain to show, in PEM; empty: none.
    pub cert: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
    /// The oldest version spoken.
    pub min_version: TlsVersion,
}

impl ClientFiles {
    fn ca(&self) -> Result<&Path, FileError> {
        if !self.ca.as_os_str().is_empty() {
            return Ok(&self.ca);
        }
        let mut known = SYSTEM_AUTHORITIES.iter().map(Path::new);
        known.find(|path| path.is_file()).ok_or_else(|| {
            let [first, ..] = SYSTEM_AUTHORITIES;
            FileError::absent(
                Path::new(first),
                "this machine has no list of authorities (package ca-certificates); name one in tls_ca",
            )
        })
    }

    fn load(&self) -> Result<Loaded, FileError> {
        let roots = authorities(self.ca()?)?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(self.min_version.versions())
            .map_err(|e| FileError::new(&self.ca, e.to_string()))?
            .with_root_certificates(roots);
        let mut expires = None;
        let mut config = if self.cert.as_os_str().is_empty() {
            builder.with_no_client_auth()
        } else {
            let chain = certificates(&self.cert)?;
            expires = chain
                .first()
                .and_then(|own| validity::of(own))
                .map(|v| v.not_after);
            builder
                .with_client_auth_cert(chain, private_key(&self.key)?)
                .map_err(|e| key_pair_error(&self.cert, &self.key, &e))?
        };
        config.resumption = Resumption::disabled();
        Ok(Loaded {
            config: Arc::new(config),
            expires,
        })
    }

    /// Whether everything can be used, and until when the client's certificate is valid, in seconds since 1970.
    ///
    /// # Errors
    /// The first file that cannot.
    pub fn check(&self) -> Result<Option<i64>, FileError> {
        self.load().map(|loaded| loaded.expires)
    }
}

#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ClientConfig>,
    expires: Option<i64>,
}

/// A client side. It reads its files for every connection, which are few: so a change holds from the next one on, and files
/// that are broken meanwhile leave it with what it read last.
#[derive(Debug)]
pub struct ClientTls {
    files: ClientFiles,
    last: Mutex<Option<Loaded>>,
}

impl ClientTls {
    /// A client side that has read nothing yet.
    pub fn new(files: ClientFiles) -> Self {
        Self {
            files,
            last: Mutex::new(None),
        }
    }

    /// Until when the certificate that was shown last is valid, in seconds since 1970; `None`: none was.
    pub fn expires(&self) -> Option<i64> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().and_then(|loaded| loaded.expires)
    }

    /// The handshake with the server at `host`.
    ///
    /// # Errors
    /// [`HandshakeError`], also when the files cannot be used and never could.
    pub async fn connect(
        self: &Arc<Self>,
        tcp: TcpStream,
        host: &str,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HandshakeError> {
        let this = self.clone();
        let config = tokio::task::spawn_blocking(move || this.config())
            .await
            .map_err(|e| HandshakeError::new(Fault::Other, e.to_string()))??;
        let name = match self.files.server_name.as_str() {
            "" => host,
            name => name,
        };
        let server = ServerName::try_from(name.to_owned()).map_err(|_| {
            HandshakeError::new(
                Fault::WrongName,
                format!("\"{name}\" is no name that a certificate can have; set tls_server_name"),
            )
        })?;
        Ok(TlsConnector::from(config).connect(server, tcp).await?)
    }

    fn config(&self) -> Result<Arc<ClientConfig>, HandshakeError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.files.load() {
            Ok(loaded) => {
                let config = loaded.config.clone();
                *last = Some(loaded);
                Ok(config)
            }
            Err(error) => match &*last {
                Some(loaded) => {
                    tracing::warn!(%error, "cannot read the TLS files again; what was read before is used");
                    Ok(loaded.config.clone())
                }
                None => Err(HandshakeError::new(Fault::Other, error.to_string())),
            },
        }
    }
}
