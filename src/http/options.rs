//! Settings of the HTTP server.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// The `[http]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpOptions {
    /// Whether there is an HTTP server at all.
    pub enabled: bool,
    /// Address and port of `/metrics`, `/ledger`, `/healthz` and `/readyz`. They ask for no password, so it is loopback
    /// unless set otherwise.
    pub address: SocketAddr,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9954)),
        }
    }
}
