//! Settings of the HTTP server.

use std::net::{Ipv4Addr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

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
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9954)),
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
