//! Writes DNS messages as packets in a classic pcap file, in nanoseconds, with valid checksums.
//!
//! The writer appends octets to a vector and does no I/O: the caller writes the vector out and clears it when it likes.
//! It keeps no streams and allocates nothing but in that vector. Each message over TCP is a connection of its own: a SYN
//! from either side, the message in one segment or more, and sequence numbers that no connection shortly before had. So
//! a reader finds each message whatever was written before it, to this file or another one.
//! Nothing is fragmented: an IP packet can be as long as its length field says.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use super::message::DnsTransport;

/// How a packet begins in the file written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteLink {
    /// IP without a link header (LINKTYPE_RAW, 101).
    Raw,
    /// Ethernet (LINKTYPE_ETHERNET, 1), between two locally administered addresses.
    Ethernet,
}

/// Why a message cannot be written as a packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    /// One address is IPv4 and the other IPv6.
    #[error("the sender and the receiver have addresses of different families")]
    MixedFamilies,
    /// The message does not fit into a UDP datagram (65,507 octets over IPv4, 65,527 over IPv6) or behind a TCP length
    /// field (65,535).
    #[error("the message of {len} octets is longer than the {max} that fit")]
    TooLong {
        /// Its length.
        len: usize,
        /// The most that fits.
        max: usize,
    },
}

/// Octets of stream in one TCP segment at most: well within an IPv4 packet.
const SEGMENT_LEN: usize = 32 * 1024;
/// From one connection's first sequence number to the next one's: more than a message and its length take.
const SEQUENCE_STEP: u32 = 128 * 1024;
const SNAP_LEN: u32 = 256 * 1024;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const PUSH_ACK: u8 = 0x18;

/// Turns DNS messages into packet records.
#[derive(Clone, Debug)]
pub struct Writer {
    link: WriteLink,
    /// First sequence number of the next connection. The first of all follows from its time, so that files put together
    /// differ.
    sequence: Option<u32>,
}

/// What every segment of a message has in common.
#[derive(Clone, Copy)]
struct Flow {
    time_ns: u64,
    src: SocketAddr,
    dst: SocketAddr,
}

impl Flow {
    const fn reversed(self) -> Self {
        Self {
            time_ns: self.time_ns,
            src: self.dst,
            dst: self.src,
        }
    }
}

impl Writer {
    /// A writer of packets that begin as `link` says.
    pub const fn new(link: WriteLink) -> Self {
        Self {
            link,
            sequence: None,
        }
    }

    /// Appends what stands once at the beginning of the file: 24 octets, the same for every writer with this link.
    pub fn header(&self, out: &mut Vec<u8>) {
        let link_number: u32 = match self.link {
            WriteLink::Raw => 101,
            WriteLink::Ethernet => 1,
        };
        out.extend_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&2_u16.to_le_bytes());
        out.extend_from_slice(&4_u16.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&SNAP_LEN.to_le_bytes());
        out.extend_from_slice(&link_number.to_le_bytes());
    }

    /// Appends the packets of one DNS message. `time_ns` counts nanoseconds since the start of 1970; the format ends in
    /// the year 2106, and later times are written as that.
    ///
    /// # Errors
    /// When the message cannot be a packet; nothing is appended then.
    pub fn message(
        &mut self,
        time_ns: u64,
        src: SocketAddr,
        dst: SocketAddr,
        transport: DnsTransport,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(WriteError::MixedFamilies);
        }
        let max = match transport {
            DnsTransport::Tcp => 65_535,
            DnsTransport::Udp if src.is_ipv4() => 65_507,
            DnsTransport::Udp => 65_527,
        };
        if message.len() > max {
            return Err(WriteError::TooLong {
                len: message.len(),
                max,
            });
        }
        match transport {
            DnsTransport::Udp => self.udp(Flow { time_ns, src, dst }, message, out),
            DnsTransport::Tcp => self.tcp(Flow { time_ns, src, dst }, message, out),
        }
        Ok(())
    }

    fn udp(&self, flow: Flow, message: &[u8], out: &mut Vec<u8>) {
        let len = len16(8 + message.len());
        self.packet(flow, UDP, out, |packet| {
            packet.extend_from_slice(&flow.src.port().to_be_bytes());
            packet.extend_from_slice(&flow.dst.port().to_be_bytes());
            packet.extend_from_slice(&len.to_be_bytes());
            packet.extend_from_slice(&[0, 0]);
            packet.extend_from_slice(message);
            6
        });
    }

    fn tcp(&mut self, flow: Flow, message: &[u8], out: &mut Vec<u8>) {
        // The low 32 bits of a time differ enough.
        let sequence = self.sequence.unwrap_or(flow.time_ns as u32);
        self.sequence = Some(sequence.wrapping_add(SEQUENCE_STEP));
        // Half the numbers away, so that the two sides are never taken for each other.
        let (mut seq, ack) = (sequence, sequence ^ 0x8000_0000);
        self.segment(flow, (seq, 0), SYN, &[&[]], out);
        seq = seq.wrapping_add(1);
        self.segment(flow.reversed(), (ack, seq), SYN_ACK, &[&[]], out);
        let ack = ack.wrapping_add(1);
        let (first, rest) = message
            .split_at_checked(SEGMENT_LEN)
            .unwrap_or((message, &[]));
        let len = len16(message.len()).to_be_bytes();
        self.segment(flow, (seq, ack), PUSH_ACK, &[&len, first], out);
        seq = seq.wrapping_add(2 + u32::from(len16(first.len())));
        for octets in rest.chunks(SEGMENT_LEN) {
            self.segment(flow, (seq, ack), PUSH_ACK, &[octets], out);
            seq = seq.wrapping_add(u32::from(len16(octets.len())));
        }
    }

    fn segment(
        &self,
        flow: Flow,
        (seq, ack): (u32, u32),
        flags: u8,
        parts: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        self.packet(flow, TCP, out, |packet| {
            packet.extend_from_slice(&flow.src.port().to_be_bytes());
            packet.extend_from_slice(&flow.dst.port().to_be_bytes());
            packet.extend_from_slice(&seq.to_be_bytes());
            packet.extend_from_slice(&ack.to_be_bytes());
            // A header of five words, the flags, the largest window; checksum and urgent pointer 0.
            packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            for octets in parts {
                packet.extend_from_slice(octets);
            }
            16
        });
    }

    /// Appends one packet record. `write_transport` appends header and payload and says where in the header the checksum
    /// is.
    fn packet(
        &self,
        flow: Flow,
        protocol: u8,
        out: &mut Vec<u8>,
        write_transport: impl FnOnce(&mut Vec<u8>) -> usize,
    ) {
        let (src, dst) = (flow.src.ip(), flow.dst.ip());
        let record = out.len();
        out.extend_from_slice(&[0; 16]);
        let packet = out.len();
        if self.link == WriteLink::Ethernet {
            out.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            out.extend_from_slice(if src.is_ipv4() {
                &[0x08, 0x00]
            } else {
                &[0x86, 0xdd]
            });
        }
        let ip = out.len();
        write_ip_header(out, src, dst, protocol);
        let transport = out.len();
        let checksum_at = transport + write_transport(out);
        let transport_len = out.len() - transport;
        finish_ip_header(out, ip, src.is_ipv4(), transport_len);
        let mut sum = pseudo_header_sum(src, dst, protocol, transport_len);
        sum = add(sum, out.get(transport..).unwrap_or_default());
        // 0 stands for "no checksum" in UDP, so that a sum of 0 is written as its other form (RFC 768).
        let checksum = match fold(sum) {
            0 if protocol == UDP => 0xffff,
            checksum => checksum,
        };
        patch(out, checksum_at, &checksum.to_be_bytes());
        let seconds = u32::try_from(flow.time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = u32::try_from(flow.time_ns % 1_000_000_000).unwrap_or(0);
        let len = u32::try_from(out.len() - packet).unwrap_or(u32::MAX);
        for (at, field) in [seconds, fraction, len, len].into_iter().enumerate() {
            patch(out, record + 4 * at, &field.to_le_bytes());
        }
    }
}

fn len16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Everything but the lengths and the header checksum.
fn write_ip_header(out: &mut Vec<u8>, src: IpAddr, dst: IpAddr, protocol: u8) {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            // Version and header length; service, length, id 0; "don't fragment"; time to live 64.
            out.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
            out.extend_from_slice(&src.octets());
            out.extend_from_slice(&dst.octets());
        }
        (src, dst) => {
            out.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, protocol, 64]);
            for address in [src, dst] {
                match address {
                    IpAddr::V4(v4) => out.extend_from_slice(&v4.to_ipv6_mapped().octets()),
                    IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
                }
            }
        }
    }
}

fn finish_ip_header(out: &mut [u8], ip: usize, is_v4: bool, transport_len: usize) {
    if is_v4 {
        patch(out, ip + 2, &len16(20 + transport_len).to_be_bytes());
        let checksum = fold(add(0, out.get(ip..ip + 20).unwrap_or_default()));
        patch(out, ip + 10, &checksum.to_be_bytes());
    } else {
        patch(out, ip + 4, &len16(transport_len).to_be_bytes());
    }
}

fn patch(out: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(target) = out.get_mut(at..at + octets.len()) {
        target.copy_from_slice(octets);
    }
}

/// RFC 9293 section 3.1 and RFC 8200 section 8.1: both pseudo headers give the same sum for the same numbers.
fn pseudo_header_sum(src: IpAddr, dst: IpAddr, protocol: u8, transport_len: usize) -> u64 {
    let mut sum = u64::from(protocol) + transport_len as u64;
    for address in [src, dst] {
        sum = match address {
            IpAddr::V4(v4) => add(sum, &v4.octets()),
            IpAddr::V6(v6) => add(sum, &v6.octets()),
        };
    }
    sum
}

/// Adds octets as 16-bit numbers (RFC 1071).
fn add(sum: u64, octets: &[u8]) -> u64 {
    let (pairs, odd) = octets.as_chunks::<2>();
    let sum = pairs
        .iter()
        .fold(sum, |sum, pair| sum + u64::from(u16::from_be_bytes(*pair)));
    odd.first()
        .map_or(sum, |&octet| sum + (u64::from(octet) << 8))
}

/// The Internet checksum of a sum.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}
