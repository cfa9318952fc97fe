//! Who may connect: networks, local users and groups, and how many connections in all, per peer and per second. Pure
//! decisions; the listener asks and counts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ipnet::IpNet;

use crate::transport::rate::{Bucket, PeerRate};

/// What counts as one peer for the limits per peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerKey {
    /// An IP address (a v4-mapped one as the v4 address).
    Ip(IpAddr),
    /// A local user.
    Uid(u32),
}

/// Why a connection was refused. Label values of `tapflow_connections_closed_total`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// The address is in none of the allowed networks, or in a denied one.
    NotAllowed,
    /// The local user is not among those allowed.
    User,
    /// As many connections are open as the listener may have.
    Full,
    /// As many are open as one peer may have.
    PeerFull,
    /// As many have come in this second as may.
    TooFast,
    /// As many have come from this peer in this second as may.
    PeerTooFast,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 6] = [
        Self::NotAllowed,
        Self::User,
        Self::Full,
        Self::PeerFull,
        Self::TooFast,
        Self::PeerTooFast,
    ];

    /// The name in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "refused_network",
            Self::User => "refused_user",
            Self::Full => "refused_limit",
            Self::PeerFull => "refused_peer_limit",
            Self::TooFast => "refused_rate",
            Self::PeerTooFast => "refused_peer_rate",
        }
    }
}

/// The rules of a listener. Empty lists and zeros: no rule.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Networks that may connect.
    pub allow: Vec<IpNet>,
    /// Networks that may not, whatever `allow` says.
    pub deny: Vec<IpNet>,
    /// Local users that may connect.
    pub users: Vec<u32>,
    /// Local groups whose processes may connect. With `users`, one of the two is enough.
    pub groups: Vec<u32>,
    /// Connections at once.
    pub max: usize,
    /// Connections at once from one peer.
    pub max_per_peer: usize,
    /// New connections a second.
    pub per_second: u64,
    /// New connections a second from one peer.
    pub per_peer_second: u64,
    /// Frames a second from one peer.
    pub frames: u64,
    /// Bytes a second from one peer.
    pub bytes: u64,
}

/// One listener's rules and open connections.
#[derive(Debug)]
pub struct Admission {
    rules: Rules,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    connects: Option<Bucket>,
    peers: HashMap<PeerKey, PeerState>,
    /// When the table has this many entries, those that tell nothing any more are taken out.
    sweep_at: usize,
}

#[derive(Debug)]
struct PeerState {
    open: usize,
    connects: Option<Bucket>,
    rate: Option<Arc<PeerRate>>,
}

impl PeerState {
    /// Whether it says no more than an absent entry would.
    fn is_idle(&mut self, now: Instant) -> bool {
        self.open == 0
            && self.connects.as_mut().is_none_or(|b| b.is_full(now))
            && self.rate.as_ref().is_none_or(|r| r.is_full(now))
    }
}

/// Entries of the table of peers below which it is not looked through.
const SWEEP_MIN: usize = 1024;

impl Admission {
    /// An admission by these rules.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            open: Mutex::new(Open {
                sweep_at: SWEEP_MIN,
                ..Open::default()
            }),
        }
    }

    /// Lets the peer in, or says why not. `group` is a local peer's. The permit counts as long as it lives.
    ///
    /// # Errors
    /// The rule that refused.
    pub fn admit(
        self: &Arc<Self>,
        peer: PeerKey,
        group: Option<u32>,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        self.may(peer, group)?;
        let rules = &self.rules;
        let bucket = |per_second: u64| (per_second > 0).then(|| Bucket::new(per_second, now));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = &mut *open;
        if rules.max > 0 && open.total >= rules.max {
            return Err(Refusal::Full);
        }
        if open.peers.len() >= open.sweep_at {
            open.peers.retain(|_, state| !state.is_idle(now));
            open.sweep_at = open.peers.len().saturating_mul(2).max(SWEEP_MIN);
        }
        let state = open.peers.entry(peer).or_insert_with(|| PeerState {
            open: 0,
            connects: bucket(rules.per_peer_second),
            rate: (rules.frames > 0 || rules.bytes > 0)
                .then(|| Arc::new(PeerRate::new(rules.frames, rules.bytes, now))),
        });
        if rules.max_per_peer > 0 && state.open >= rules.max_per_peer {
            return Err(Refusal::PeerFull);
        }
        // The peer's own limit first, so that one that is over it takes nothing from the others.
        if state.connects.as_mut().is_some_and(|b| !b.take(1, now)) {
            return Err(Refusal::PeerTooFast);
        }
        if open.connects.is_none() {
            open.connects = bucket(rules.per_second);
        }
        if open.connects.as_mut().is_some_and(|b| !b.take(1, now)) {
            return Err(Refusal::TooFast);
        }
        open.total += 1;
        state.open += 1;
        Ok(Permit {
            admission: self.clone(),
            peer,
            rate: state.rate.clone(),
        })
    }

    fn may(&self, peer: PeerKey, group: Option<u32>) -> Result<(), Refusal> {
        let rules = &self.rules;
        match peer {
            PeerKey::Ip(ip) => {
                let within = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&ip));
                if within(&rules.deny) || (!rules.allow.is_empty() && !within(&rules.allow)) {
                    return Err(Refusal::NotAllowed);
                }
            }
            PeerKey::Uid(uid) => {
                let anyone = rules.users.is_empty() && rules.groups.is_empty();
                let known = rules.users.contains(&uid)
                    || group.is_some_and(|group| rules.groups.contains(&group));
                if !anyone && !known {
                    return Err(Refusal::User);
                }
            }
        }
        Ok(())
    }

    /// The rule that refused a peer, for people.
    pub fn rule(&self, refusal: Refusal, peer: PeerKey) -> String {
        let rules = &self.rules;
        match (refusal, peer) {
            (Refusal::NotAllowed, PeerKey::Ip(ip)) => {
                match rules.deny.iter().find(|net| net.contains(&ip)) {
                    Some(net) => format!("deny names {net}"),
                    None => "allow names no network that it is in".to_owned(),
                }
            }
            (Refusal::NotAllowed | Refusal::User, _) => {
                "neither allow_users nor allow_groups names it".to_owned()
            }
            (Refusal::Full, _) => format!("connections_max = {}", rules.max),
            (Refusal::PeerFull, _) => {
                format!("connections_per_peer_max = {}", rules.max_per_peer)
            }
            (Refusal::TooFast, _) => format!("connects_per_second_max = {}", rules.per_second),
            (Refusal::PeerTooFast, _) => {
                format!("connects_per_peer_second_max = {}", rules.per_peer_second)
            }
        }
    }
}

/// One open connection.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    peer: PeerKey,
    rate: Option<Arc<PeerRate>>,
}

impl Permit {
    /// What the peer may send, together with its other connections; `None`: as much as it likes.
    pub fn rate(&self) -> Option<Arc<PeerRate>> {
        self.rate.clone()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self
            .admission
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total = open.total.saturating_sub(1);
        if let Some(state) = open.peers.get_mut(&self.peer) {
            state.open = state.open.saturating_sub(1);
            // With limits a second the entry stays until it tells nothing any more: who comes and goes in a loop is known.
            let limited = state.connects.is_some() || state.rate.is_some();
            if state.open == 0 && !limited {
                open.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn ip(text: &str) -> PeerKey {
        PeerKey::Ip(text.parse().unwrap())
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    #[test]
    fn networks_and_limits_decide_and_a_closed_connection_gives_its_place_back() {
        let rules = Rules {
            allow: nets(&["192.0.2.0/24"]),
            deny: nets(&["192.0.2.128/25"]),
            max: 3,
            max_per_peer: 2,
            ..Rules::default()
        };
        let a = Arc::new(Admission::new(rules));
        let admit = |peer| a.admit(peer, None, Instant::now());
        for (peer, rule) in [
            ("198.51.100.1", "allow names no network"),
            ("192.0.2.200", "deny names 192.0.2.128/25"),
        ] {
            assert_eq!(admit(ip(peer)).unwrap_err(), Refusal::NotAllowed);
            assert!(a.rule(Refusal::NotAllowed, ip(peer)).contains(rule));
        }
        let first = admit(ip("192.0.2.1")).unwrap();
        let _second = admit(ip("192.0.2.1")).unwrap();
        assert_eq!(admit(ip("192.0.2.1")).unwrap_err(), Refusal::PeerFull);
        let _other = admit(ip("192.0.2.2")).unwrap();
        assert_eq!(admit(ip("192.0.2.3")).unwrap_err(), Refusal::Full);
        drop(first);
        let _again = admit(ip("192.0.2.3")).unwrap();
    }

    #[test]
    fn without_rules_everybody_may_and_the_table_of_peers_does_not_grow() {
        let a = Arc::new(Admission::new(Rules::default()));
        for n in 0..1000u32 {
            drop(a.admit(PeerKey::Uid(n), None, Instant::now()).unwrap());
        }
        assert!(a.open.lock().unwrap().peers.is_empty());
    }

    #[test]
    fn users_and_groups_may_each_let_a_local_process_in() {
        let rules = Rules {
            users: vec![53],
            groups: vec![7],
            ..Rules::default()
        };
        let a = Arc::new(Admission::new(rules));
        let admit = |uid, gid| a.admit(PeerKey::Uid(uid), gid, Instant::now()).map(drop);
        assert_eq!(admit(53, Some(1)), Ok(()));
        assert_eq!(admit(1, Some(7)), Ok(()));
        assert_eq!(admit(1, Some(1)), Err(Refusal::User));
        assert_eq!(admit(1, None), Err(Refusal::User));
    }

    #[test]
    fn who_connects_in_a_loop_is_refused_and_takes_nothing_from_the_others() {
        let rules = Rules {
            per_second: 10,
            per_peer_second: 3,
            ..Rules::default()
        };
        let a = Arc::new(Admission::new(rules));
        let start = Instant::now();
        let tries = |peer: &str, at: u64| {
            let now = start + Duration::from_millis(at);
            (0..50)
                .filter(|_| a.admit(ip(peer), None, now).is_ok())
                .count()
        };
        assert_eq!((tries("192.0.2.1", 0), tries("192.0.2.2", 0)), (3, 3));
        assert_eq!((tries("192.0.2.3", 0), tries("192.0.2.4", 0)), (3, 1));
        assert_eq!(tries("192.0.2.1", 2000), 3);
    }

    #[test]
    fn peers_that_come_once_are_forgotten() {
        let rules = Rules {
            per_peer_second: 1,
            ..Rules::default()
        };
        let a = Arc::new(Admission::new(rules));
        let start = Instant::now();
        for n in 0..100_000u32 {
            let now = start + Duration::from_millis(u64::from(n));
            drop(
                a.admit(PeerKey::Ip(Ipv4Addr::from(n).into()), None, now)
                    .unwrap(),
            );
        }
        let table = a.open.lock().unwrap().peers.len();
        assert!(table <= 2 * SWEEP_MIN + 2000, "{table} entries");
    }
}
