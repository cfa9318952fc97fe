//! Puts IP fragments together again, in bounded memory.
//!
//! - Fragments belong together by addresses, identification and, in IPv4, protocol (RFC 791 section 3.2, RFC 8200
//!   section 4.5).
//! - A fragment that brings exactly octets that are there already, the same ones, is a copy and ignored.
//! - Overlap with other octets: in IPv4 the octets that came first stay; in IPv6 the datagram is thrown away, as RFC 8200
//!   demands.
//! - A datagram is given up when its first fragment is older than the timeout by packet time, and when room is needed the
//!   oldest goes.

use std::net::IpAddr;

use super::aged::Aged;
use super::counters::Counters;
use super::packet::{Fragment, Ip};

/// Limits of fragment reassembly.
#[derive(Clone, Copy, Debug)]
pub struct FragmentLimits {
    /// Incomplete datagrams held at once; 1,024 by default.
    pub datagrams_max: usize,
    /// Octets held in all; 16 MiB by default.
    pub octets_max: usize,
    /// How long, by packet time, a datagram waits from its first fragment on, in nanoseconds; 30 s by default.
    pub timeout_ns: u64,
}

impl Default for FragmentLimits {
    fn default() -> Self {
        Self {
            datagrams_max: 1024,
            octets_max: 16 * 1024 * 1024,
            timeout_ns: 30_000_000_000,
        }
    }
}

/// The longest payload an IP datagram can have; a fragment beyond it is a trick ("ping of death").
const DATAGRAM_LEN_MAX: u32 = 65_535;
/// Separate pieces of one datagram at a time. Real ones come nearly in order and have one or two.
const PIECES_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    /// 0 for IPv6, where the fragments may differ in it.
    protocol: u8,
}

/// A datagram being put together.
#[derive(Default)]
struct Partial {
    octets: Vec<u8>,
    /// Which ranges of `octets` have come: sorted, apart from each other.
    pieces: Vec<(u32, u32)>,
    /// Known once the last fragment has come.
    len: Option<u32>,
    /// Of the fragment at offset 0.
    protocol: Option<u8>,
}

/// What became of a fragment.
pub(super) enum Put {
    Held,
    Refused,
    Whole { protocol: u8, octets: Vec<u8> },
}

enum Added {
    Kept,
    Conflict,
}

impl Partial {
    /// Takes a fragment's octets in. `keep_first` is the rule for overlap.
    fn add(
        &mut self,
        fragment: Fragment,
        payload: &[u8],
        keep_first: bool,
        overlapping: &mut u64,
    ) -> Added {
        let Ok(payload_len) = u32::try_from(payload.len()) else {
            return Added::Conflict;
        };
        let (begin, end) = (fragment.offset, fragment.offset.saturating_add(payload_len));
        let past_end = self
            .len
            .is_some_and(|len| end > len || (!fragment.more && end != len));
        let reached = self.pieces.last().map_or(0, |&(_, end)| end);
        if end > DATAGRAM_LEN_MAX || past_end || (!fragment.more && reached > end) {
            return Added::Conflict;
        }
        if !fragment.more {
            self.len = Some(end);
        }
        if self.octets.len() < end as usize {
            self.octets.resize(end as usize, 0);
        }
        let overlaps = self
            .pieces
            .iter()
            .any(|&(from, to)| from < end && begin < to);
        if overlaps {
            *overlapping += 1;
            let copy = self
                .pieces
                .iter()
                .any(|&(from, to)| from <= begin && end <= to)
                && self.octets.get(begin as usize..end as usize) == Some(payload);
            if copy {
                return Added::Kept;
            }
            if !keep_first {
                return Added::Conflict;
            }
        }
        self.fill_holes(begin, end, payload);
        if self.pieces.len() > PIECES_MAX {
            Added::Conflict
        } else {
            Added::Kept
        }
    }

    /// Writes the parts of `begin..end` that have not come yet, and notes the range as there.
    fn fill_holes(&mut self, begin: u32, end: u32, payload: &[u8]) {
        let mut at = begin;
        let mut merged = (begin, end);
        for &(from, to) in &self.pieces {
            if to < begin || from > end {
                continue;
            }
            write(&mut self.octets, at, from.min(end), begin, payload);
            at = at.max(to);
            merged = (merged.0.min(from), merged.1.max(to));
        }
        write(&mut self.octets, at, end, begin, payload);
        self.pieces
            .retain(|&(from, to)| to < merged.0 || from > merged.1);
        let place = self.pieces.partition_point(|&(from, _)| from < merged.0);
        self.pieces.insert(place, merged);
    }

    fn is_whole(&self) -> bool {
        matches!((self.len, self.pieces.as_slice()), (Some(len), [(0, end)]) if *end == len)
    }
}

/// Copies the part `from..to` of a datagram out of the payload that begins at `begin` in it.
fn write(octets: &mut [u8], from: u32, to: u32, begin: u32, payload: &[u8]) {
    let Some(source) = to
        .checked_sub(begin)
        .and_then(|end| payload.get((from - begin) as usize..end as usize))
    else {
        return;
    };
    if let Some(target) = octets.get_mut(from as usize..to as usize) {
        target.copy_from_slice(source);
    }
}

/// The table of incomplete datagrams.
pub(super) struct Fragments {
    table: Aged<Key, Partial>,
    limits: FragmentLimits,
    octets: usize,
}

impl Fragments {
    pub(super) fn new(limits: FragmentLimits) -> Self {
        Self {
            table: Aged::new(limits.datagrams_max),
            limits,
            octets: 0,
        }
    }

    /// Takes a fragment in; gives the datagram out when this completes it.
    pub(super) fn put(
        &mut self,
        time_ns: u64,
        ip: &Ip<'_>,
        fragment: Fragment,
        counters: &mut Counters,
    ) -> Put {
        while let Some((_, old)) = self.table.pop_expired(time_ns, self.limits.timeout_ns) {
            self.octets -= old.octets.len();
            counters.datagrams_timed_out += 1;
        }
        // All fragments but the last carry a multiple of 8 octets, and at least 8.
        if ip.missing > 0
            || (fragment.more && (ip.payload.is_empty() || !ip.payload.len().is_multiple_of(8)))
        {
            return Put::Refused;
        }
        let v4 = ip.src.is_ipv4();
        let key = Key {
            src: ip.src,
            dst: ip.dst,
            id: fragment.id,
            protocol: if v4 { ip.protocol } else { 0 },
        };
        // Room for whatever this fragment may bring, so that the limit holds at every moment.
        while self.octets > 0 && self.octets + DATAGRAM_LEN_MAX as usize > self.limits.octets_max {
            self.evict(counters);
        }
        if self.table.find(&key).is_none() {
            if self.table.is_full() {
                self.evict(counters);
            }
            self.table.insert(key, Partial::default(), time_ns);
        }
        let Some(partial) = self.table.find(&key) else {
            return Put::Refused;
        };
        let before = partial.octets.len();
        let added = partial.add(
            fragment,
            ip.payload,
            v4,
            &mut counters.fragments_overlapping,
        );
        self.octets = self.octets + partial.octets.len() - before;
        if fragment.offset == 0 {
            partial.protocol = partial.protocol.or(Some(ip.protocol));
        }
        let done = match added {
            Added::Kept if !partial.is_whole() => return Put::Held,
            Added::Kept => self.table.remove(&key),
            Added::Conflict => {
                self.remove(&key);
                return Put::Refused;
            }
        };
        match done {
            Some(Partial {
                octets,
                protocol: Some(protocol),
                ..
            }) => {
                self.octets -= octets.len();
                Put::Whole { protocol, octets }
            }
            _ => Put::Refused,
        }
    }

    fn evict(&mut self, counters: &mut Counters) {
        match self.table.pop_oldest() {
            Some((_, old)) => {
                self.octets -= old.octets.len();
                counters.datagrams_evicted += 1;
            }
            None => self.octets = 0,
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(partial) = self.table.remove(key) {
            self.octets -= partial.octets.len();
        }
    }

    /// The capture is over: what is incomplete stays so.
    pub(super) fn finish(&mut self, counters: &mut Counters) {
        while self.table.pop_oldest().is_some() {
            counters.datagrams_timed_out += 1;
        }
        self.octets = 0;
    }

    pub(super) fn octets_held(&self) -> usize {
        self.octets
    }
}
