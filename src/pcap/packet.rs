//! From the octets of a captured packet to its IP payload and its UDP or TCP header, as slices of those octets.
//!
//! Nothing is copied and no checksum is looked at: captures taken on the sending host commonly hold packets whose
//! checksums the network card has yet to fill in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::octets::{be16, be32, chunk, u8_at};

/// LINKTYPE numbers that are understood (the tcpdump group's link-layer header type registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// BSD loopback: the address family in the capturing machine's byte order.
    Null,
    /// Ethernet, with 802.1Q and 802.1ad tags, and PPP over Ethernet.
    Ethernet,
    /// FDDI.
    Fddi,
    /// IPv4 or IPv6 without a link header.
    Raw,
    /// OpenBSD loopback: the address family in network byte order.
    Loop,
    /// Linux cooked capture v1.
    LinuxSll,
    /// Linux cooked capture v2.
    LinuxSll2,
}

impl LinkType {
    /// The link type of a LINKTYPE number: 0, 1, 10, 12, 14, 101, 108, 113, 228, 229 and 276 are known. 12 and 14 are raw
    /// IP as the BSDs number it; 228 and 229 are raw IPv4 and IPv6, where the version field is believed all the same.
    pub fn of_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            10 => Self::Fddi,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            _ => return None,
        })
    }
}

/// Why a packet ends in the layers below UDP and TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    LinkUnknown,
    LinkMalformed,
    NotIp,
    IpMalformed,
}

/// Tags on one packet before it counts as malformed: deeper stacks than two are rare, deeper than four are tricks.
const TAGS_MAX: usize = 8;
/// IPv6 extension headers in one packet before it counts as malformed.
const EXTENSIONS_MAX: usize = 16;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;

/// The IP packet within a captured packet.
pub(super) fn ip_octets(link: u32, data: &[u8]) -> Result<&[u8], Refusal> {
    let link = LinkType::of_number(link).ok_or(Refusal::LinkUnknown)?;
    let short = Refusal::LinkMalformed;
    match link {
        LinkType::Raw => Ok(data),
        LinkType::Ethernet => {
            let kind = be16(data, 12).ok_or(short)?;
            by_ether_type(kind, data.get(14..).unwrap_or_default())
        }
        LinkType::Fddi => llc(data.get(13..).ok_or(short)?),
        LinkType::LinuxSll => {
            let kind = be16(data, 14).ok_or(short)?;
            by_ether_type(kind, data.get(16..).unwrap_or_default())
        }
        LinkType::LinuxSll2 => {
            let kind = be16(data, 0).ok_or(short)?;
            by_ether_type(kind, data.get(20..).ok_or(short)?)
        }
        LinkType::Null | LinkType::Loop => {
            let family: [u8; 4] = chunk(data, 0).ok_or(short)?;
            // A family is a small number, so that its one octet that is not 0 tells which order it is written in.
            let family = u32::from_be_bytes(family).min(u32::from_le_bytes(family));
            match family {
                // AF_INET everywhere; AF_INET6 of Linux (10), NetBSD and OpenBSD (24), FreeBSD (28), macOS (30).
                2 | 10 | 24 | 28 | 30 => Ok(data.get(4..).unwrap_or_default()),
                _ => Err(Refusal::NotIp),
            }
        }
    }
}

/// Walks VLAN tags (802.1Q, 802.1ad and the older numbers for stacked tags) down to IP.
fn by_ether_type(kind: u16, data: &[u8]) -> Result<&[u8], Refusal> {
    let (mut kind, mut data) = (kind, data);
    for _ in 0..TAGS_MAX {
        match kind {
            0x0800 | 0x86dd => return Ok(data),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                kind = be16(data, 2).ok_or(Refusal::LinkMalformed)?;
                data = data.get(4..).unwrap_or_default();
            }
            0x8864 => return pppoe(data),
            // A number this small is a length (IEEE 802.3), and an LLC header follows.
            0..=1500 => return llc(data),
            _ => return Err(Refusal::NotIp),
        }
    }
    Err(Refusal::LinkMalformed)
}

/// IP in a PPP session over Ethernet (RFC 2516 section 4): six octets of header, two of protocol.
fn pppoe(data: &[u8]) -> Result<&[u8], Refusal> {
    match (data.get(..2), be16(data, 6)) {
        (Some([0x11, 0]), Some(0x0021 | 0x0057)) => Ok(data.get(8..).unwrap_or_default()),
        _ => Err(Refusal::NotIp),
    }
}

/// IP behind an LLC and SNAP header (RFC 1042).
fn llc(data: &[u8]) -> Result<&[u8], Refusal> {
    match (data.get(..6), be16(data, 6)) {
        (Some([0xaa, 0xaa, 3, 0, 0, 0]), Some(0x0800 | 0x86dd)) => {
            Ok(data.get(8..).unwrap_or_default())
        }
        _ => Err(Refusal::NotIp),
    }
}

/// Place of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) id: u32,
    /// Octets of payload before it.
    pub(super) offset: u32,
    /// Whether more follow.
    pub(super) more: bool,
}

/// An IP packet, extension headers passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip<'a> {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    pub(super) fragment: Option<Fragment>,
    /// What is captured of the payload; no link-layer trailer.
    pub(super) payload: &'a [u8],
    /// Octets of payload on the wire that are not captured.
    pub(super) missing: usize,
}

/// Parses the IP header. `wire_len` is the packet's length on the wire, from here on.
pub(super) fn ip(data: &[u8], wire_len: usize) -> Result<Ip<'_>, Refusal> {
    let parsed = match u8_at(data, 0).map(|octet| octet >> 4) {
        Some(4) => ipv4(data, wire_len),
        Some(6) => ipv6(data, wire_len),
        _ => None,
    };
    parsed.ok_or(Refusal::IpMalformed)
}

/// RFC 791 section 3.1. Options are passed over.
fn ipv4(data: &[u8], wire_len: usize) -> Option<Ip<'_>> {
    let header_len = usize::from(u8_at(data, 0)? & 0x0f) * 4;
    if header_len < 20 {
        return None;
    }
    let total_len = match usize::from(be16(data, 2)?) {
        // Captured before the network card cut a large send into packets and filled the field in.
        0 => wire_len.max(data.len()),
        len => len,
    };
    let payload_len = total_len.checked_sub(header_len)?;
    let flags = be16(data, 6)?;
    let (offset, more) = (u32::from(flags & 0x1fff) * 8, flags & 0x2000 != 0);
    let fragment = (offset != 0 || more).then_some(Fragment {
        id: be16(data, 4)?.into(),
        offset,
        more,
    });
    let captured = data.get(header_len..)?;
    let payload = captured.get(..payload_len).unwrap_or(captured);
    Some(Ip {
        src: Ipv4Addr::from(chunk(data, 12)?).into(),
        dst: Ipv4Addr::from(chunk(data, 16)?).into(),
        protocol: u8_at(data, 9)?,
        fragment,
        payload,
        missing: payload_len - payload.len(),
    })
}

/// RFC 8200 section 3.
fn ipv6(data: &[u8], wire_len: usize) -> Option<Ip<'_>> {
    let captured = data.get(40..)?;
    let payload_len = match usize::from(be16(data, 4)?) {
        // A jumbogram (RFC 2675), or a large send that the network card has yet to cut.
        0 => wire_len.max(data.len()).saturating_sub(40),
        len => len,
    };
    let payload = captured.get(..payload_len).unwrap_or(captured);
    let missing = payload_len - payload.len();
    let (protocol, fragment, payload) = extensions(u8_at(data, 6)?, payload)?;
    Some(Ip {
        src: Ipv6Addr::from(chunk::<16>(data, 8)?).into(),
        dst: Ipv6Addr::from(chunk::<16>(data, 24)?).into(),
        protocol,
        fragment,
        payload,
        missing,
    })
}

/// Passes IPv6 extension headers (RFC 8200 section 4) up to a fragment header or the upper layer. Also used on a datagram
/// put together from fragments, whose first octets may be further extension headers.
pub(super) fn extensions(first: u8, data: &[u8]) -> Option<(u8, Option<Fragment>, &[u8])> {
    let (mut next, mut data) = (first, data);
    for _ in 0..EXTENSIONS_MAX {
        let len = match next {
            // Hop-by-hop, routing, destination options, mobility, HIP, shim6: units of 8 octets beyond the first.
            0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(u8_at(data, 1)?),
            // Authentication header: units of 4 octets, minus 2 (RFC 4302 section 2.2).
            51 => 8 + 4 * usize::from(u8_at(data, 1)?),
            IPV6_FRAGMENT => {
                let field = be16(data, 2)?;
                let (offset, more) = (u32::from(field & 0xfff8), field & 1 != 0);
                let id = be32(data, 4)?;
                next = u8_at(data, 0)?;
                data = data.get(8..)?;
                if offset != 0 || more {
                    return Some((next, Some(Fragment { id, offset, more }), data));
                }
                continue; // An atomic fragment (RFC 6946) is a whole datagram.
            }
            _ => return Some((next, None, data)),
        };
        next = u8_at(data, 0)?;
        data = data.get(len..)?;
    }
    None
}

/// The UDP or TCP layer of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport<'a> {
    Udp(Udp<'a>),
    Tcp(Tcp<'a>),
    /// Another protocol.
    Other,
    /// A header that is cut short or contradicts the packet.
    Malformed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Udp<'a> {
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) payload: &'a [u8],
    /// Whether a part of the payload was not captured.
    pub(super) truncated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp<'a> {
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) seq: u32,
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) rst: bool,
    pub(super) payload: &'a [u8],
    /// Octets of payload on the wire that are not captured.
    pub(super) missing: usize,
}

pub(super) fn transport(protocol: u8, data: &[u8], missing: usize) -> Transport<'_> {
    match protocol {
        UDP => udp(data, missing).map_or(Transport::Malformed, Transport::Udp),
        TCP => tcp(data, missing).map_or(Transport::Malformed, Transport::Tcp),
        _ => Transport::Other,
    }
}

/// RFC 768. Octets after the length given are not part of the datagram.
fn udp(data: &[u8], missing: usize) -> Option<Udp<'_>> {
    let there = data.len().checked_sub(8)?;
    let announced = match usize::from(be16(data, 4)?) {
        0 => there + missing, // Longer than the field can say (RFC 2675 section 4).
        len => len.checked_sub(8)?,
    };
    if announced > there + missing {
        return None;
    }
    let payload = data.get(8..8 + announced.min(there))?;
    let truncated = payload.len() < announced;
    Some(Udp {
        src_port: be16(data, 0)?,
        dst_port: be16(data, 2)?,
        payload,
        truncated,
    })
}

/// RFC 9293 section 3.1.
fn tcp(data: &[u8], missing: usize) -> Option<Tcp<'_>> {
    let header_len = usize::from(u8_at(data, 12)? >> 4) * 4;
    if header_len < 20 {
        return None;
    }
    let flags = u8_at(data, 13)?;
    Some(Tcp {
        src_port: be16(data, 0)?,
        dst_port: be16(data, 2)?,
        seq: be32(data, 4)?,
        ack: if flags & 0x10 != 0 {
            be32(data, 8)
        } else {
            None
        },
        syn: flags & 0x02 != 0,
        rst: flags & 0x04 != 0,
        payload: data.get(header_len..)?,
        missing,
    })
}
