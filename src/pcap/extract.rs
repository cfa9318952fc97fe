//! Packets in, DNS messages out.

use std::net::{IpAddr, SocketAddr};

use super::counters::Counters;
use super::fragments::{FragmentLimits, Fragments, Put};
use super::message::{DnsPacket, DnsTransport};
use super::packet::{self, Ip, Refusal, Transport};
use super::reader::Packet;
use super::stream::{StreamKey, TcpLimits};
use super::tcp::Streams;

/// What counts as DNS, and how much memory finding it may take.
#[derive(Clone, Debug)]
pub struct ExtractOptions {
    /// A packet is DNS when its source or destination port is one of these; 53 by default. Multicast DNS (5353), LLMNR
    /// (5355) and NetBIOS (137) are protocols of their own, and DNS over TLS, HTTPS or QUIC cannot be read.
    pub ports: Vec<u16>,
    /// Limits of fragment reassembly.
    pub fragments: FragmentLimits,
    /// Limits of TCP reassembly.
    pub tcp: TcpLimits,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            ports: vec![super::DNS_PORT],
            fragments: FragmentLimits::default(),
            tcp: TcpLimits::default(),
        }
    }
}

/// Finds the DNS messages in packets. A UDP datagram that is not fragmented costs no allocation and no copy.
pub struct Extractor {
    ports: Vec<u16>,
    fragments: Fragments,
    streams: Streams,
    counters: Counters,
}

impl Default for Extractor {
    fn default() -> Self {
        Self::new(ExtractOptions::default())
    }
}

impl Extractor {
    /// With the given ports and limits.
    pub fn new(options: ExtractOptions) -> Self {
        Self {
            ports: options.ports,
            fragments: Fragments::new(options.fragments),
            streams: Streams::new(options.tcp),
            counters: Counters::default(),
        }
    }

    /// What has been seen so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets held of fragments and streams.
    pub fn octets_held(&self) -> usize {
        self.fragments.octets_held() + self.streams.octets_held()
    }

    /// Takes a packet in and hands the messages that it completes to `deliver`.
    pub fn push<F: FnMut(DnsPacket<'_>)>(&mut self, packet: &Packet<'_>, deliver: &mut F) {
        self.counters.packets += 1;
        self.counters.octets += packet.data.len() as u64;
        self.counters.packets_truncated += u64::from(packet.is_truncated());
        let ip = match find_ip(packet) {
            Ok(ip) => ip,
            Err(refusal) => {
                *match refusal {
                    Refusal::LinkUnknown => &mut self.counters.link_unknown,
                    Refusal::LinkMalformed => &mut self.counters.link_malformed,
                    Refusal::NotIp => &mut self.counters.not_ip,
                    Refusal::IpMalformed => &mut self.counters.ip_malformed,
                } += 1;
                return;
            }
        };
        let addresses = (ip.src, ip.dst);
        let Some(fragment) = ip.fragment else {
            let transport = packet::transport(ip.protocol, ip.payload, ip.missing);
            return self.on_transport(packet.time_ns, addresses, transport, deliver);
        };
        if let Some(first) = cut_first_fragment(&ip) {
            return self.on_transport(packet.time_ns, addresses, first, deliver);
        }
        match self
            .fragments
            .put(packet.time_ns, &ip, fragment, &mut self.counters)
        {
            Put::Held => self.counters.fragments_held += 1,
            Put::Refused => self.counters.fragments_refused += 1,
            Put::Whole { protocol, octets } => {
                self.counters.datagrams_reassembled += 1;
                let transport = match packet::extensions(protocol, &octets) {
                    _ if ip.src.is_ipv4() => packet::transport(protocol, &octets, 0),
                    Some((protocol, None, payload)) => packet::transport(protocol, payload, 0),
                    // Fragments within fragments: nothing that a stack would send.
                    Some((_, Some(_), _)) | None => Transport::Malformed,
                };
                self.on_transport(packet.time_ns, addresses, transport, deliver);
            }
        }
    }

    fn on_transport<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        time_ns: u64,
        (src, dst): (IpAddr, IpAddr),
        transport: Transport<'_>,
        deliver: &mut F,
    ) {
        let outcome = match transport {
            Transport::Malformed => &mut self.counters.transport_malformed,
            Transport::Other => &mut self.counters.not_udp_or_tcp,
            Transport::Udp(udp) if !is_dns(&self.ports, udp.src_port, udp.dst_port) => {
                &mut self.counters.other_port
            }
            Transport::Tcp(tcp) if !is_dns(&self.ports, tcp.src_port, tcp.dst_port) => {
                &mut self.counters.other_port
            }
            Transport::Udp(udp) if udp.payload.is_empty() => &mut self.counters.udp_empty,
            Transport::Udp(udp) => {
                self.counters.messages_truncated += u64::from(udp.truncated);
                deliver(DnsPacket {
                    time_ns,
                    src: SocketAddr::new(src, udp.src_port),
                    dst: SocketAddr::new(dst, udp.dst_port),
                    transport: DnsTransport::Udp,
                    payload: udp.payload,
                    truncated: udp.truncated,
                });
                &mut self.counters.udp_messages
            }
            Transport::Tcp(tcp) => {
                let src = SocketAddr::new(src, tcp.src_port);
                let dst = SocketAddr::new(dst, tcp.dst_port);
                self.streams.on_segment(
                    time_ns,
                    StreamKey { src, dst },
                    &tcp,
                    &mut self.counters,
                    deliver,
                );
                &mut self.counters.tcp_segments
            }
        };
        *outcome += 1;
    }

    /// The capture is over: hands out what waited behind gaps, and counts what stays incomplete.
    pub fn finish<F: FnMut(DnsPacket<'_>)>(&mut self, deliver: &mut F) {
        self.fragments.finish(&mut self.counters);
        self.streams.finish(&mut self.counters, deliver);
    }
}

fn is_dns(ports: &[u16], src: u16, dst: u16) -> bool {
    ports.iter().any(|&port| port == src || port == dst)
}

/// A first fragment that the snapshot length has cut can never become a whole datagram; it holds the beginning of one.
fn cut_first_fragment<'a>(ip: &Ip<'a>) -> Option<Transport<'a>> {
    const DATAGRAM_LEN_MAX: usize = 65_535;
    if ip.missing == 0 || ip.fragment.is_none_or(|fragment| fragment.offset != 0) {
        return None;
    }
    // How much the other fragments hold is not known, so that any length in the UDP header is believed.
    match packet::transport(ip.protocol, ip.payload, DATAGRAM_LEN_MAX) {
        udp @ Transport::Udp(_) => Some(udp),
        _ => None,
    }
}

fn find_ip<'a>(packet: &Packet<'a>) -> Result<Ip<'a>, Refusal> {
    let octets = packet::ip_octets(packet.link, packet.data)?;
    let link_len = packet.data.len() - octets.len();
    packet::ip(octets, (packet.wire_len as usize).saturating_sub(link_len))
}
