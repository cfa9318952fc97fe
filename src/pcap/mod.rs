//! Packet captures in and out: from a pcap or pcapng file to the DNS messages in it, and back.
//!
//! ```text
//!  file, plain / gzip / zstd
//!    │ Reader        classic pcap, pcapng           one packet at a time, lent
//!    ▼
//!  Packet ─▶ Extractor   link layer ▸ IP ▸ fragments ▸ UDP
//!                                                  ▸ TCP streams    DNS messages, lent
//!    ▼
//!  DnsPacket ─▶ Pairer   which query a response answers
//!    ▼
//!  Event     what a dnstap message holds            (Converter is the last two in one)
//! ```
//!
//! The input is read as a stream and every table has a limit and a rule for what goes when it is reached, so that memory
//! is bounded whatever the file holds. Nothing here panics on any octets. A packet that is not understood costs that
//! packet: it is counted by reason in [`Counters`], whose outcomes add up to the packets read. Only damage to the file's
//! own structure ends the reading, with a [`PcapError`] that names the place; what came before it stands.
//!
//! What counts as DNS is said by [`ExtractOptions::ports`]. Packets in tunnels (GRE, VXLAN, MPLS, IP in IP) and
//! those quoted in ICMP errors are not looked into.
//!
//! This is deliberately no general packet analyser, and it decodes nothing of DNS beyond what finding and pairing needs.
//! Start reading at [`Converter`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod aged;
mod convert;
mod counters;
mod error;
mod extract;
mod fragments;
mod message;
mod octets;
mod packet;
mod pairer;
mod pcapng;
mod reader;
mod stream;
mod tcp;
mod window;
mod write;

pub use convert::{ConvertOptions, Converter, Event, Perspective, split_time};
pub use counters::{Counters, PairCounters};
pub use error::PcapError;
pub use extract::{ExtractOptions, Extractor};
pub use fragments::FragmentLimits;
pub use message::{DnsPacket, DnsTransport};
pub use octets::ByteOrder;
pub use packet::LinkType;
pub use pairer::{PairLimits, Pairer, Role};
pub use reader::{Format, Packet, ReadLimits, Reader};
pub use stream::TcpLimits;
pub use window::Packing;
pub use write::{WriteError, WriteLink, Writer};

/// The port of DNS over UDP and TCP (RFC 1035 section 4.2).
pub const DNS_PORT: u16 = 53;

/// Runs the whole chain on arbitrary octets with small limits, and checks what must hold whatever they are: an entry for
/// fuzzers.
///
/// # Panics
/// When an invariant is broken: outcomes not adding up to packets, messages lost between the parts, memory over a limit.
#[doc(hidden)]
pub fn fuzz_pcap(octets: &[u8]) {
    const HELD_MAX: usize = 256 * 1024;
    // A compressed input may be small and stand for terabytes; what is tested here needs no more than this.
    const PACKETS_MAX: usize = 4096;
    let Ok(mut reader) = Reader::new(octets) else {
        return;
    };
    let mut converter = Converter::new(ConvertOptions {
        extract: ExtractOptions {
            fragments: FragmentLimits {
                datagrams_max: 8,
                octets_max: 128 * 1024,
                ..FragmentLimits::default()
            },
            tcp: TcpLimits {
                streams_max: 8,
                octets_max: 96 * 1024,
                early_octets_max: 8 * 1024,
                early_segments_max: 4,
                ..TcpLimits::default()
            },
            ..ExtractOptions::default()
        },
        pair: PairLimits {
            queries_max: 8,
            ..PairLimits::default()
        },
        ..ConvertOptions::default()
    });
    let mut events = 0;
    let mut deliver = |event: &Event<'_>| {
        events += 1;
        assert!(
            event.message.len() >= message::HEADER_LEN,
            "an event without a DNS header"
        );
    };
    for _ in 0..PACKETS_MAX {
        let Ok(Some(packet)) = reader.next() else {
            break;
        };
        converter.push(&packet, &mut deliver);
        let held = converter.octets_held();
        assert!(held <= HELD_MAX, "{held} octets held");
    }
    converter.finish(&mut deliver);
    let counters = converter.counters();
    assert_eq!(
        counters.outcomes().map(|(_, n)| n).sum::<u64>(),
        counters.packets,
        "outcomes do not add up"
    );
    let messages = counters.udp_messages + counters.tcp_messages;
    assert_eq!(
        events + converter.pair_counters().too_short,
        messages,
        "a message was lost"
    );
}
