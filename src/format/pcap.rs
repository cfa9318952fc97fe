//! `pcap`: each DNS message as the packet that it was, or could have been, for tcpdump, Wireshark and whatever else
//! reads captures. `tapflow convert` makes dnstap of it again, with the same DNS messages.
//!
//! A classic pcap file with times in nanoseconds, of IP packets without link header (LINKTYPE_RAW). `query_message` goes
//! from the query address to the response address, `response_message` the other way, each at its own time; a frame with
//! both gives both, the query first. Old BIND puts one and the same message into both: that is one packet. Over TCP each
//! message is a connection of its own (see [`Writer`]), so that it can be read whatever file the rotation puts it into.
//!
//! What a frame does not say has to be made up, since a packet without it cannot be:
//!
//! | the frame | the packet |
//! |---|---|
//! | TCP, DoT, DoH, DNSCrypt over TCP | TCP |
//! | UDP, DoQ, DNSCrypt over UDP, no or an unknown protocol | UDP; TCP when the message is too long for a datagram |
//! | a port of 1 to 65,535 | as it is, but for the next row |
//! | the server's port under DoT, DoH, DoQ and DNSCrypt, or none | 53: the packet holds the message in clear, which readers take for TLS or QUIC at 853 and 443 |
//! | no client's port | 0 |
//! | no address | `0.0.0.0`, or `::` beside an IPv6 address or where the family is INET6 |
//! | one address IPv4 and the other IPv6 | IPv6, the former as `::ffff:192.0.2.1` |
//! | no time of this message | that of the other one, else when the frame was received, else 1970 |
//! | a time after 2106 | 2106: the file has 32 bits of seconds |
//! | no DNS message, or one longer than 65,535 octets | none |
//!
//! Identity, version, extra, policy and query zone have no place in a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::UNIX_EPOCH;

use crate::dnstap::{DecodeReason, Message, SocketFamily, SocketProtocol, Timestamp};
use crate::format::{Entry, Kind, Line, Shape};
use crate::pcap::{DNS_PORT, DnsTransport, WriteError, WriteLink, Writer};

/// The format.
pub static KIND: Kind = Kind {
    name: "pcap",
    aliases: &[],
    about: "a packet capture: each DNS message as a packet again",
    extension: "pcap",
    shape: Shape::Pcap,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Packets(Writer::new(WriteLink::Raw)))),
};

struct Packets(Writer);

impl Line for Packets {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.0.header(out);
    }

    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let message = entry.view?.classify()?;
        let (client, server) = ends(message);
        let received = || {
            let since = entry.source.received?.duration_since(UNIX_EPOCH).ok()?;
            u64::try_from(since.as_nanos()).ok()
        };
        let time = |first: Option<Timestamp>, second: Option<Timestamp>| {
            let sent = first.or(second).map(nanos);
            sent.or_else(received).unwrap_or(0)
        };
        let (asked, answered) = (message.query_time(), message.response_time());
        let (mut query, mut response) = (message.query_message, message.response_message);
        if query == response {
            match message.dns() {
                Some((_, false)) => response = None,
                _ => query = None,
            }
        }
        let transport = transport(message);
        if let Some(octets) = query {
            self.packet(
                time(asked, answered),
                (client, server),
                transport,
                octets,
                out,
            );
        }
        if let Some(octets) = response {
            self.packet(
                time(answered, asked),
                (server, client),
                transport,
                octets,
                out,
            );
        }
        Ok(())
    }
}

impl Packets {
    /// Appends a message as a packet, if any can hold it.
    fn packet(
        &mut self,
        time: u64,
        (src, dst): (SocketAddr, SocketAddr),
        transport: DnsTransport,
        octets: &[u8],
        out: &mut Vec<u8>,
    ) {
        let written = self.0.message(time, src, dst, transport, octets, out);
        if let (DnsTransport::Udp, Err(WriteError::TooLong { .. })) = (transport, written) {
            let _ = self
                .0
                .message(time, src, dst, DnsTransport::Tcp, octets, out);
        }
    }
}

fn transport(message: &Message<'_>) -> DnsTransport {
    use SocketProtocol::{DnsCryptTcp, Doh, Dot, Tcp};
    match message.protocol() {
        Some(Tcp | Dot | Doh | DnsCryptTcp) => DnsTransport::Tcp,
        _ => DnsTransport::Udp,
    }
}

/// Client and server, of one family.
fn ends(message: &Message<'_>) -> (SocketAddr, SocketAddr) {
    let (client, server) = match (message.query_ip(), message.response_ip()) {
        (Some(client), Some(server)) if client.is_ipv4() != server.is_ipv4() => {
            (as_v6(client), as_v6(server))
        }
        (Some(client), Some(server)) => (client, server),
        (Some(client), None) => (client, unspecified(client.is_ipv6())),
        (None, Some(server)) => (unspecified(server.is_ipv6()), server),
        (None, None) => {
            let is_v6 = message.family() == Some(SocketFamily::Inet6);
            (unspecified(is_v6), unspecified(is_v6))
        }
    };
    let port = |port: Option<u32>| u16::try_from(port?).ok().filter(|port| *port > 0);
    let is_clear = matches!(
        message.protocol(),
        None | Some(SocketProtocol::Udp | SocketProtocol::Tcp | SocketProtocol::Unknown(_))
    );
    let server_port = port(message.response_port).filter(|_| is_clear);
    (
        SocketAddr::new(client, port(message.query_port).unwrap_or(0)),
        SocketAddr::new(server, server_port.unwrap_or(DNS_PORT)),
    )
}

fn as_v6(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 => v6,
    }
}

fn unspecified(is_v6: bool) -> IpAddr {
    if is_v6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

/// Nanoseconds since 1970, as many as fit.
fn nanos(time: Timestamp) -> u64 {
    let seconds = time.seconds.saturating_mul(1_000_000_000);
    seconds.saturating_add(time.nanos.into())
}
