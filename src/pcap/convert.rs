//! Packets in, the contents of dnstap messages out.
//!
//! An [`Event`] has every field of the dnstap message that stands for one DNS message seen on the wire. Writing it as
//! octets is the business of the dnstap module, which is a sibling of this one and is joined to it by the caller.

use std::net::IpAddr;

use super::counters::{Counters, PairCounters};
use super::extract::{ExtractOptions, Extractor};
use super::message::{DnsPacket, DnsTransport};
use super::pairer::{PairLimits, Pairer, Role};
use super::reader::Packet;

/// From whose point of view the packets are told: the kind of dnstap message to make of them. A capture does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Perspective {
    /// An authoritative server (`AUTH_QUERY`, `AUTH_RESPONSE`).
    Auth,
    /// A resolver asking authoritative servers (`RESOLVER_*`).
    Resolver,
    /// A server of clients (`CLIENT_*`).
    #[default]
    Client,
    /// A forwarder asking the next resolver (`FORWARDER_*`).
    Forwarder,
    /// A stub resolver (`STUB_*`).
    Stub,
    /// A tool such as dig (`TOOL_*`).
    Tool,
    /// A server taking updates (`UPDATE_*`).
    Update,
}

impl Perspective {
    /// Number of the query's type in dnstap.proto's `Message.Type`; the response's is one more.
    pub fn query_type(self) -> u32 {
        match self {
            Self::Auth => 1,
            Self::Resolver => 3,
            Self::Client => 5,
            Self::Forwarder => 7,
            Self::Stub => 9,
            Self::Tool => 11,
            Self::Update => 13,
        }
    }
}

/// The contents of one dnstap message, in the schema's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// `identity`; empty means absent.
    pub identity: &'a [u8],
    /// `version`; empty means absent.
    pub version: &'a [u8],
    /// `Message.type`: see [`Perspective::query_type`].
    pub message_type: u32,
    /// Whether `message` is a response, to go into `response_message`; else it goes into `query_message`.
    pub is_response: bool,
    /// `socket_protocol`.
    pub transport: DnsTransport,
    /// `query_address`, and by its kind `socket_family`.
    pub query_address: IpAddr,
    /// `query_port`.
    pub query_port: u16,
    /// `response_address`.
    pub response_address: IpAddr,
    /// `response_port`.
    pub response_port: u16,
    /// `query_time_sec` and `query_time_nsec`, in nanoseconds since the start of 1970 (see [`split_time`]). Absent in a
    /// response whose query was not seen.
    pub query_time_ns: Option<u64>,
    /// `response_time_sec` and `response_time_nsec`, likewise. Absent in a query.
    pub response_time_ns: Option<u64>,
    /// The DNS message, without the length that TCP puts before it.
    pub message: &'a [u8],
    /// Whether the capture holds only the beginning of the message.
    pub truncated: bool,
}

impl Event<'_> {
    /// `socket_family`: 1 for INET, 2 for INET6.
    pub fn socket_family(&self) -> u32 {
        if self.query_address.is_ipv4() { 1 } else { 2 }
    }

    /// `socket_protocol`: 1 for UDP, 2 for TCP.
    pub fn socket_protocol(&self) -> u32 {
        match self.transport {
            DnsTransport::Udp => 1,
            DnsTransport::Tcp => 2,
        }
    }
}

/// Nanoseconds as dnstap has them: seconds, and nanoseconds below one second.
pub fn split_time(ns: u64) -> (u64, u32) {
    const SECOND: u64 = 1_000_000_000;
    (ns / SECOND, u32::try_from(ns % SECOND).unwrap_or(0))
}

/// How packets become dnstap.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The kind of messages to make.
    pub perspective: Perspective,
    /// `identity` of each, empty for none.
    pub identity: Vec<u8>,
    /// `version` of each, empty for none.
    pub version: Vec<u8>,
    /// What counts as DNS, and limits.
    pub extract: ExtractOptions,
    /// Limits of pairing.
    pub pair: PairLimits,
}

/// Turns packets into events, in the order in which messages become complete.
///
/// A message of fewer than 12 octets has neither id nor direction, so that no event can be made of it: it is counted in
/// [`PairCounters::too_short`]. Events and `too_short` together are all messages found.
pub struct Converter {
    extractor: Extractor,
    maker: Maker,
}

/// The part that works on messages, apart from the part that finds them so that both can be borrowed at once.
struct Maker {
    pairer: Pairer,
    perspective: Perspective,
    identity: Vec<u8>,
    version: Vec<u8>,
}

impl Converter {
    /// With the given options.
    pub fn new(options: ConvertOptions) -> Self {
        Self {
            extractor: Extractor::new(options.extract),
            maker: Maker {
                pairer: Pairer::new(options.pair),
                perspective: options.perspective,
                identity: options.identity,
                version: options.version,
            },
        }
    }

    /// Takes a packet in and hands the events that it completes to `deliver`.
    pub fn push<F: FnMut(&Event<'_>)>(&mut self, packet: &Packet<'_>, deliver: &mut F) {
        let Self { extractor, maker } = self;
        extractor.push(packet, &mut |message: DnsPacket<'_>| {
            maker.make(&message, deliver)
        });
    }

    /// The capture is over: hands out what waited behind gaps in TCP streams.
    pub fn finish<F: FnMut(&Event<'_>)>(&mut self, deliver: &mut F) {
        let Self { extractor, maker } = self;
        extractor.finish(&mut |message: DnsPacket<'_>| maker.make(&message, deliver));
        maker.pairer.finish();
    }

    /// Octets held of fragments and streams.
    pub fn octets_held(&self) -> usize {
        self.extractor.octets_held()
    }

    /// What became of the packets.
    pub fn counters(&self) -> &Counters {
        self.extractor.counters()
    }

    /// What became of the messages.
    pub fn pair_counters(&self) -> &PairCounters {
        self.maker.pairer.counters()
    }
}

impl Maker {
    fn make<F: FnMut(&Event<'_>)>(&mut self, packet: &DnsPacket<'_>, deliver: &mut F) {
        let Some(role) = self.pairer.push(packet) else {
            return;
        };
        let (client, server, is_response, query_time_ns, response_time_ns) = match role {
            Role::Query => (packet.src, packet.dst, false, Some(packet.time_ns), None),
            Role::Response { query_time_ns } => (
                packet.dst,
                packet.src,
                true,
                query_time_ns,
                Some(packet.time_ns),
            ),
        };
        deliver(&Event {
            identity: &self.identity,
            version: &self.version,
            message_type: self.perspective.query_type() + u32::from(is_response),
            is_response,
            transport: packet.transport,
            query_address: client.ip(),
            query_port: client.port(),
            response_address: server.ip(),
            response_port: server.port(),
            query_time_ns,
            response_time_ns,
            message: packet.payload,
            truncated: packet.truncated,
        });
    }
}
