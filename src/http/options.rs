//! Settings of the HTTP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::transport::tls::TlsVersion;
use crate::transport::tls::rules::Rules;
use crate::transport::tls::server::{ClientCertificates, ServerFiles};
use crate::units::Span;

/// The `[http]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpOptions {
    /// Whether there is an HTTP server at all.
    pub enabled: bool,
    /// Address and port of `/metrics`, `/ledger`, `/healthz` and `/readyz`. They ask for no password, so it is loopback
    /// unless set otherwise.
    #[serde(deserialize_with = "socket_addr")]
    pub address: SocketAddr,
    /// Certificate chain in PEM, the server's own first. Empty: HTTP without TLS.
    pub tls_cert: PathBuf,
    /// Its private key in PEM.
    pub tls_key: PathBuf,
    /// Whether clients show certificates.
    pub tls_client: ClientCertificates,
    /// Authorities of clients' certificates in PEM.
    pub tls_client_ca: PathBuf,
    /// Oldest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
    /// How often to see whether certificate, key or authorities have changed. Off: on SIGHUP alone.
    pub tls_reload: Span,
}

impl HttpOptions {
    /// What TLS is made from, where there is a certificate.
    pub fn tls(&self) -> Option<ServerFiles> {
        (!self.tls_cert.as_os_str().is_empty()).then(|| ServerFiles {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client: self.tls_client,
            rules: Rules::default(),
            min_version: self.tls_min_version,
        })
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9954)),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_client: ClientCertificates::Off,
            tls_client_ca: PathBuf::new(),
            tls_min_version: TlsVersion::V12,
            tls_reload: Span::secs(30),
        }
    }
}

/// An address and port, or a word on how to write one: the standard message names no example.
fn socket_addr<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "\"{text}\" is not an IP address and a port: write them as \"127.0.0.1:9954\" or \"[::1]:9954\""
        ))
    })
}
