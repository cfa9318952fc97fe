//! Sets of names, octets and networks that are asked in time that does not grow with them, or hardly.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::dns::name::WIRE_MAX;
use crate::dns::{Name, NameBuf};

/// A set of this size is looked through one by one.
const FEW: usize = 4;

/// Names, letter case aside.
#[derive(Debug)]
pub(super) enum NameSet {
    /// Few.
    Few(Box<[NameBuf]>),
    /// Many, in wire format and small letters.
    Many {
        /// Which lengths they have: a bit each.
        lengths: [u64; 4],
        names: HashSet<Box<[u8]>>,
    },
}

impl NameSet {
    pub(super) fn new(names: &[NameBuf]) -> Self {
        if names.len() <= FEW {
            return Self::Few(names.into());
        }
        let mut lengths = [0; 4];
        let names = names.iter().map(|name| {
            let wire = name.as_wire().to_ascii_lowercase();
            if let Some(word) = lengths.get_mut(wire.len() / 64) {
                *word |= 1u64 << (wire.len() % 64);
            }
            wire.into_boxed_slice()
        });
        let names = names.collect();
        Self::Many { lengths, names }
    }

    /// Whether the name is one of them.
    pub(super) fn holds(&self, name: &Name<'_>) -> bool {
        match self {
            Self::Few(names) => names.iter().any(|other| name.eq_fold(&other.as_name())),
            Self::Many { .. } => {
                let mut wire = [0; WIRE_MAX];
                fold(name, &mut wire).is_some_and(|wire| self.holds_wire(wire))
            }
        }
    }

    /// Whether the name is one of them, or below one.
    pub(super) fn covers(&self, name: &Name<'_>) -> bool {
        if let Self::Few(names) = self {
            return names.iter().any(|suffix| name.is_within(suffix));
        }
        let mut wire = [0; WIRE_MAX];
        let Some(mut wire) = fold(name, &mut wire) else {
            return false;
        };
        // At most 128 turns: a name has no more labels.
        while let Some((&len, rest)) = wire.split_first() {
            if self.holds_wire(wire) {
                return true;
            }
            wire = rest.get(usize::from(len)..).unwrap_or_default();
        }
        false
    }

    fn holds_wire(&self, wire: &[u8]) -> bool {
        let Self::Many { lengths, names } = self else {
            return false;
        };
        let word = lengths.get(wire.len() / 64).copied().unwrap_or(0);
        word >> (wire.len() % 64) & 1 == 1 && names.contains(wire)
    }
}

/// Writes a name in wire format and small letters. Length octets are below 64 and letters above, so none is taken for the
/// other.
fn fold<'b>(name: &Name<'_>, into: &'b mut [u8; WIRE_MAX]) -> Option<&'b [u8]> {
    let out = into.get_mut(..name.wire_len())?;
    if let Some(wire) = name.as_wire() {
        out.copy_from_slice(wire);
    } else {
        let mut rest = &mut *out;
        for label in name.labels() {
            let (len, after) = rest.split_first_mut()?;
            *len = label.len() as u8;
            let (place, after) = after.split_at_mut_checked(label.len())?;
            place.copy_from_slice(label);
            rest = after;
        }
        *rest.first_mut()? = 0;
    }
    out.make_ascii_lowercase();
    Some(out)
}

/// Strings of octets.
#[derive(Debug)]
pub(super) enum OctetSet {
    Few(Box<[Box<[u8]>]>),
    Many(HashSet<Box<[u8]>>),
}

impl OctetSet {
    pub(super) fn new<'a>(all: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let few = all.len() <= FEW;
        let all = all.map(Box::from);
        match few {
            true => Self::Few(all.collect()),
            false => Self::Many(all.collect()),
        }
    }

    pub(super) fn holds(&self, octets: &[u8]) -> bool {
        match self {
            Self::Few(all) => all.iter().any(|other| **other == *octets),
            Self::Many(all) => all.contains(octets),
        }
    }
}

/// Networks, as ranges of addresses in order, none of which touches the next.
#[derive(Debug)]
pub(super) struct NetSet {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

/// The first and the last address of a network.
#[derive(Clone, Copy)]
enum Range {
    V4(u32, u32),
    V6(u128, u128),
}

impl Range {
    /// Networks of IPv4 addresses in IPv6 (`::ffff:0:0/96`) are IPv4 networks.
    fn of(net: &IpNet) -> Self {
        let (first, last) = (net.network(), net.broadcast());
        match (first.to_canonical(), last.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Self::V4(first.into(), last.into()),
            _ => match (first, last) {
                (IpAddr::V6(first), IpAddr::V6(last)) => Self::V6(first.into(), last.into()),
                (first, _) => Self::one(first),
            },
        }
    }

    fn one(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.into(), address.into()),
            IpAddr::V6(address) => Self::V6(address.into(), address.into()),
        }
    }
}

impl NetSet {
    pub(super) fn new<'a>(nets: impl Iterator<Item = &'a IpNet>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for net in nets {
            match Range::of(net) {
                Range::V4(first, last) => v4.push((first, last)),
                Range::V6(first, last) => v6.push((first, last)),
            }
        }
        Self {
            v4: joined(v4, |last| last.checked_add(1)),
            v6: joined(v6, |last| last.checked_add(1)),
        }
    }

    /// Whether the address is in one of them; that of an IPv4 address in IPv6 is the IPv4 address.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.holds_range(Range::one(address))
    }

    /// Whether all addresses of the network are in them.
    pub(super) fn covers(&self, net: &IpNet) -> bool {
        self.holds_range(Range::of(net))
    }

    fn holds_range(&self, range: Range) -> bool {
        match range {
            Range::V4(first, last) => is_within(&self.v4, first, last),
            Range::V6(first, last) => is_within(&self.v6, first, last),
        }
    }
}

/// The ranges in order, those joined that overlap or touch.
fn joined<T: Copy + Ord>(mut ranges: Vec<(T, T)>, after: impl Fn(T) -> Option<T>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut joined: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if after(before.1).is_none_or(|next| first <= next) => {
                before.1 = before.1.max(last);
            }
            _ => joined.push((first, last)),
        }
    }
    joined.into()
}

fn is_within<T: Copy + Ord>(ranges: &[(T, T)], first: T, last: T) -> bool {
    let after = ranges.partition_point(|range| range.0 <= first);
    let before = after.checked_sub(1).and_then(|at| ranges.get(at));
    before.is_some_and(|range| last <= range.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(texts: &[&str]) -> Vec<NameBuf> {
        texts.iter().map(|t| NameBuf::parse(t).unwrap()).collect()
    }

    #[test]
    fn few_and_many_names_hold_and_cover_the_same() {
        let some = names(&["example.com", r"a\.b.test", "WWW.Example.NET", "com.x"]);
        let mut more = some.clone();
        more.extend(names(&["n1.invalid", "n2.invalid"]));
        for set in [NameSet::new(&some), NameSet::new(&more)] {
            for (name, holds, covers) in [
                ("EXAMPLE.com", true, true),
                ("www.example.com", false, true),
                ("xexample.com", false, false),
                (r"a\.b.TEST", true, true),
                ("a.b.test", false, false),
                ("www.example.net", true, true),
                ("example.net", false, false),
                ("com", false, false),
                (".", false, false),
            ] {
                let name = names(&[name]).remove(0);
                let got = (set.holds(&name.as_name()), set.covers(&name.as_name()));
                assert_eq!(got, (holds, covers), "{name} {set:?}");
            }
        }
        let mut root = more;
        root.push(names(&["."]).remove(0));
        let root = NameSet::new(&root);
        assert!(root.covers(&names(&["anything"])[0].as_name()));
        assert!(!root.holds(&names(&["anything"])[0].as_name()));
    }

    #[test]
    fn a_compressed_name_is_folded_like_a_flat_one() {
        let message = [&[0; 12][..], b"\x03WWW\x07Example\0\x01A\xc0\x10"].concat();
        let (name, _) = Name::parse(&message, 25).unwrap();
        let set = names(&["a.example", "b", "c", "d", "e"]);
        assert!(NameSet::new(&set).holds(&name));
        let set = names(&["example", "b", "c", "d", "e"]);
        assert!(NameSet::new(&set).covers(&name));
    }

    #[test]
    fn networks_of_ipv4_in_ipv6_are_ipv4_and_what_touches_is_joined() {
        let nets: Vec<IpNet> = [
            "192.0.2.0/25",
            "192.0.2.128/25",
            "::ffff:198.51.100.0/120",
            "2001:db8::/32",
            "255.255.255.255/32",
            "255.255.255.254/32",
        ]
        .iter()
        .map(|net| net.parse().unwrap())
        .collect();
        let set = NetSet::new(nets.iter());
        assert_eq!((set.v4.len(), set.v6.len()), (3, 1));
        for (net, want) in [
            ("192.0.2.0/24", true),
            ("192.0.2.0/23", false),
            ("198.51.100.7/32", true),
            ("::ffff:192.0.2.9/128", true),
            ("2001:db8::/31", false),
            ("2001:db8:1::/48", true),
            ("::/0", false),
            ("255.255.255.255/32", true),
        ] {
            assert_eq!(set.covers(&net.parse().unwrap()), want, "{net}");
        }
    }

    proptest! {
        #[test]
        fn a_set_of_networks_holds_what_one_of_them_contains(
            nets in prop::collection::vec((0u32..64, 26u8..=32), 0..12),
            address in 0u32..64,
        ) {
            let nets: Vec<IpNet> = nets
                .iter()
                .map(|(address, prefix)| IpNet::new(IpAddr::V4((*address).into()), *prefix).unwrap())
                .collect();
            let address = IpAddr::V4(address.into());
            let want = nets.iter().any(|net| net.contains(&address));
            prop_assert_eq!(NetSet::new(nets.iter()).holds(address), want);
        }
    }
}
