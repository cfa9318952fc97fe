//! Places on the network and on this machine: endpoints and networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;

use super::UnitError;

/// A place to listen at or to connect to: `unix:/path`, `tcp:host:port` or `tls:host:port`, with an IPv6 address in
/// brackets. With `mux+` before it, the connections are sessions of many streams.
///
/// The path may hold `{data_dir}`, which configuration replaces by the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A Unix stream socket at this path.
    Unix(PathBuf),
    /// A TCP host (address without brackets, or name) and port. Port 0 lets the system choose one to listen on.
    Tcp {
        /// IPv4 address, IPv6 address without brackets, or host name.
        host: String,
        /// Port, 0 to 65535.
        port: u16,
    },
    /// TLS over TCP: as [`Endpoint::Tcp`].
    Tls {
        /// As in [`Endpoint::Tcp`].
        host: String,
        /// Port, 0 to 65535.
        port: u16,
    },
    /// Sessions of many streams (yamux) over connections at this place, which is one of the above.
    Mux(Box<Self>),
}

/// What an [`Endpoint`] looks like, for error messages.
pub(super) const ENDPOINT_EXAMPLE: &str = "write \"unix:/path/to/socket\", \"tcp:host:port\" or \"tls:host:port\", such as \"tcp:127.0.0.1:6000\" or \"tcp:[::1]:6000\"";

impl Endpoint {
    /// A TCP endpoint.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp {
            host: host.into(),
            port,
        }
    }

    /// A TCP endpoint with TLS.
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::Tls {
            host: host.into(),
            port,
        }
    }

    /// Host and port, where it has them.
    pub fn host_port(&self) -> Option<(&str, u16)> {
        match self.carrier() {
            Self::Unix(_) | Self::Mux(_) => None,
            Self::Tcp { host, port } | Self::Tls { host, port } => Some((host, *port)),
        }
    }

    /// A Unix endpoint.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix(path.into())
    }

    /// Sessions over connections at `carrier`.
    pub fn mux(carrier: Self) -> Self {
        match carrier {
            Self::Mux(_) => carrier,
            other => Self::Mux(Box::new(other)),
        }
    }

    /// The word before the colon: `unix`, `tcp` or `tls`; of the carrier, where there are sessions.
    pub fn scheme(&self) -> &'static str {
        match self.carrier() {
            Self::Unix(_) => "unix",
            Self::Tcp { .. } | Self::Mux(_) => "tcp",
            Self::Tls { .. } => "tls",
        }
    }

    /// The place of the connections: what follows `mux+`, or all of it.
    pub fn carrier(&self) -> &Self {
        match self {
            Self::Mux(carrier) => carrier,
            other => other,
        }
    }

    /// As [`carrier`](Self::carrier), to be changed.
    pub fn carrier_mut(&mut self) -> &mut Self {
        match self {
            Self::Mux(carrier) => carrier,
            other => other,
        }
    }

    /// Whether connections are sessions.
    pub const fn is_mux(&self) -> bool {
        matches!(self, Self::Mux(_))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Mux(carrier) => write!(f, "mux+{carrier}"),
            Self::Tcp { host, port } | Self::Tls { host, port } => {
                let (open, close) = if host.contains(':') {
                    ("[", "]")
                } else {
                    ("", "")
                };
                write!(f, "{}:{open}{host}{close}:{port}", self.scheme())
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = |why: String| {
            Err(UnitError::new(format!(
                "\"{text}\" {why}: {ENDPOINT_EXAMPLE}"
            )))
        };
        if text.is_empty() {
            return Err(UnitError::new(format!(
                "no place is given: {ENDPOINT_EXAMPLE}"
            )));
        }
        if text.starts_with('/') || text.starts_with('.') {
            return Err(UnitError::new(format!(
                "\"{text}\" does not say what kind of place it is: write \"unix:{text}\""
            )));
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return bad("does not say what kind of place it is".to_owned());
        };
        match scheme {
            "mux+unix" | "mux+tcp" | "mux+tls" => match text.trim_start_matches("mux+").parse() {
                Ok(carrier) => Ok(Self::mux(carrier)),
                Err(error) => Err(UnitError::new(format!("in \"{text}\": {error}"))),
            },
            "unix" => match unix_path(rest) {
                Ok(path) => Ok(Self::Unix(path)),
                Err(why) => bad(why),
            },
            "tcp" => match host_port(rest) {
                Ok((host, port)) => Ok(Self::Tcp { host, port }),
                Err(why) => bad(why),
            },
            "tls" => match host_port(rest) {
                Ok((host, port)) => Ok(Self::Tls { host, port }),
                Err(why) => bad(why),
            },
            _ if host_port(text).is_ok() => Err(UnitError::new(format!(
                "\"{text}\" does not say what kind of place it is: write \"tcp:{text}\""
            ))),
            _ => bad(format!(
                "begins with \"{scheme}:\", which this version does not know (it knows unix:, tcp: and tls:, and for sessions the same with mux+ before it)"
            )),
        }
    }
}

/// Longest path of a Unix socket in bytes: `sun_path` is 108 bytes on Linux with its closing NUL.
pub const UNIX_PATH_MAX: usize = 107;

fn unix_path(rest: &str) -> Result<PathBuf, String> {
    // "unix:///run/x" is how other programs write "unix:/run/x": a URI whose authority is empty.
    let path = rest
        .strip_prefix("//")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(rest);
    if path.is_empty() {
        return Err("names no path".to_owned());
    }
    if path.contains('\0') {
        return Err("holds a NUL character".to_owned());
    }
    Ok(PathBuf::from(path))
}

fn host_port(rest: &str) -> Result<(String, u16), String> {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        let Some((host, port)) = bracketed.split_once(']') else {
            return Err("opens a bracket and does not close it".to_owned());
        };
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(format!(
                "has \"{host}\" in brackets, which is not an IPv6 address"
            ));
        }
        (host, port.strip_prefix(':').ok_or("has no port")?)
    } else {
        let (host, port) = rest.rsplit_once(':').ok_or("has no port")?;
        if host.contains(':') {
            return Err("holds an IPv6 address, which goes in brackets".to_owned());
        }
        (host, port)
    };
    if host.is_empty() {
        return Err(
            "names no host (0.0.0.0 or [::] stand for every address of this machine)".to_owned(),
        );
    }
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if !host.chars().all(valid) {
        return Err(format!(
            "names the host \"{host}\", which is neither an address nor a name"
        ));
    }
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits => Ok((host.to_owned(), port)),
        _ => Err(format!(
            "has the port \"{port}\", which is not a number from 0 to 65535"
        )),
    }
}

/// A network in CIDR form, or a single address: `"192.0.2.0/24"`, `"2001:db8::/32"`, `"192.0.2.7"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Net(pub IpNet);

impl Net {
    /// Whether `address` is in the network. A v4-mapped IPv6 address counts as the IPv4 address it carries, since a
    /// dual-stack socket shows IPv4 peers so.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether bits beyond the prefix are set, as in `10.1.2.3/8`: allowed, and probably not what was meant.
    pub fn has_host_bits(&self) -> bool {
        self.0.trunc() != self.0
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(f)
        } else {
            self.0.fmt(f)
        }
    }
}

impl FromStr for Net {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(IpNet::from(address)));
        }
        text.parse().map(Self).map_err(|_| {
            UnitError::new(format!(
                "\"{text}\" is not a network: write an address and a prefix length, such as \"192.0.2.0/24\" or \"2001:db8::/32\", or one address"
            ))
        })
    }
}
