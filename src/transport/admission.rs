//! Who may connect: networks, and how many connections in all and per peer. Pure decisions; the listener asks and counts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;

/// What counts as one peer for the limit per peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerKey {
    /// An IP address (a v4-mapped one as the v4 address).
    Ip(IpAddr),
    /// A local user.
    Uid(u32),
}

/// Why a connection was refused. Label values of `tapflow_connections_closed_total`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The address is in none of the allowed networks.
    NotAllowed,
    /// As many connections are open as the listener may have.
    Full,
    /// As many are open as one peer may have.
    PeerFull,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 3] = [Self::NotAllowed, Self::Full, Self::PeerFull];

    /// The name in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "refused_network",
            Self::Full => "refused_limit",
            Self::PeerFull => "refused_peer_limit",
        }
    }
}

/// One listener's rules and open connections.
#[derive(Debug)]
pub struct Admission {
    allow: Vec<IpNet>,
    max: usize,
    max_per_peer: usize,
    open: Mutex<Open>,
}

#[derive(Default, Debug)]
struct Open {
    total: usize,
    peers: HashMap<PeerKey, usize>,
}

impl Admission {
    /// `allow` empty: everybody; `max` and `max_per_peer` 0: no limit.
    pub fn new(allow: Vec<IpNet>, max: usize, max_per_peer: usize) -> Self {
        Self {
            allow,
            max,
            max_per_peer,
            open: Mutex::default(),
        }
    }

    /// Lets the peer in, or says why not. The permit counts as long as it lives.
    ///
    /// # Errors
    /// The rule that refused.
    pub fn admit(self: &Arc<Self>, peer: PeerKey) -> Result<Permit, Refusal> {
        if let PeerKey::Ip(ip) = peer
            && !self.allow.is_empty()
            && !self.allow.iter().any(|net| net.contains(&ip))
        {
            return Err(Refusal::NotAllowed);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if self.max > 0 && open.total >= self.max {
            return Err(Refusal::Full);
        }
        let of_peer = open.peers.get(&peer).copied().unwrap_or(0);
        if self.max_per_peer > 0 && of_peer >= self.max_per_peer {
            return Err(Refusal::PeerFull);
        }
        open.total += 1;
        open.peers.insert(peer, of_peer + 1);
        Ok(Permit {
            admission: self.clone(),
            peer,
        })
    }
}

/// One open connection.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    peer: PeerKey,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self
            .admission
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total = open.total.saturating_sub(1);
        if let Some(n) = open.peers.get_mut(&self.peer) {
            *n = n.saturating_sub(1);
            if *n == 0 {
                open.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> PeerKey {
        PeerKey::Ip(text.parse().unwrap())
    }

    #[test]
    fn networks_and_limits_decide_and_a_closed_connection_gives_its_place_back() {
        let a = Arc::new(Admission::new(vec!["192.0.2.0/24".parse().unwrap()], 3, 2));
        assert_eq!(
            a.admit(ip("198.51.100.1")).unwrap_err(),
            Refusal::NotAllowed
        );
        let first = a.admit(ip("192.0.2.1")).unwrap();
        let _second = a.admit(ip("192.0.2.1")).unwrap();
        assert_eq!(a.admit(ip("192.0.2.1")).unwrap_err(), Refusal::PeerFull);
        let _other = a.admit(ip("192.0.2.2")).unwrap();
        assert_eq!(a.admit(ip("192.0.2.3")).unwrap_err(), Refusal::Full);
        drop(first);
        let _again = a.admit(ip("192.0.2.3")).unwrap();
    }

    #[test]
    fn without_rules_everybody_may_and_the_table_of_peers_does_not_grow() {
        let a = Arc::new(Admission::new(vec![], 0, 0));
        for n in 0..1000u32 {
            drop(a.admit(PeerKey::Uid(n)).unwrap());
        }
        assert!(a.open.lock().unwrap().peers.is_empty());
    }
}
