//! What became of every packet, in numbers.

macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$meta:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$meta])* pub $field: u64,)* }

        impl $name {
            /// Every counter by name, in the order of declaration.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

counters! {
    /// What an [`Extractor`](super::Extractor) has seen.
    ///
    /// `packets` is the sum of its outcomes: every packet is counted in exactly one of the fields up to and including
    /// `tcp_segments` ([`Counters::outcomes`]). The fields after that describe what the reassemblers did.
    Counters {
        /// Packets given in.
        packets,
        /// Link type unknown here.
        link_unknown,
        /// Link header cut short or contradictory.
        link_malformed,
        /// Neither IPv4 nor IPv6 (ARP, spanning tree and so on).
        not_ip,
        /// IP header cut short or contradictory.
        ip_malformed,
        /// Neither UDP nor TCP.
        not_udp_or_tcp,
        /// IP fragment kept until the others come.
        fragments_held,
        /// IP fragment thrown away: contradictory, overlapping (IPv6) or not captured whole.
        fragments_refused,
        /// UDP or TCP header cut short or contradictory.
        transport_malformed,
        /// Neither port is a DNS port.
        other_port,
        /// UDP datagram without a single octet of payload.
        udp_empty,
        /// UDP datagram given out as a DNS message.
        udp_messages,
        /// TCP segment from or to a DNS port, given to the reassembler.
        tcp_segments,

        /// Octets captured of all packets.
        octets,
        /// Packets of which the capture holds only a part.
        packets_truncated,
        /// DNS messages given out of which only the beginning was captured.
        messages_truncated,
        /// Datagrams put together from fragments.
        datagrams_reassembled,
        /// Datagrams of which some fragment never came in time.
        datagrams_timed_out,
        /// Incomplete datagrams thrown away to make room.
        datagrams_evicted,
        /// Fragments with octets that an earlier one had brought already.
        fragments_overlapping,
        /// DNS messages read from TCP streams.
        tcp_messages,
        /// Messages begun but not completed: their rest was not captured or the stream ended.
        tcp_messages_lost,
        /// Segments that brought nothing new.
        tcp_retransmissions,
        /// Segments that came before an earlier part of their stream, and waited for it.
        tcp_out_of_order,
        /// Parts of a stream declared missing from the capture.
        tcp_gaps,
        /// Octets passed over while it was not known where the next message begins.
        tcp_octets_unsynced,
        /// Length fields of less than a DNS header: such a stream is searched for its next message.
        tcp_bad_lengths,
        /// Streams whose beginning was not captured.
        tcp_streams_midway,
        /// Streams thrown away to make room.
        tcp_streams_evicted,
    }
}

impl Counters {
    /// The counters of which each packet raises exactly one.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.rows()
            .skip(1)
            .take_while(|(name, _)| *name != "octets")
    }
}

counters! {
    /// What a [`Pairer`](super::Pairer) has seen.
    PairCounters {
        /// Queries.
        queries,
        /// Responses.
        responses,
        /// Responses whose query was found.
        paired,
        /// Responses whose query was not found.
        unasked,
        /// Queries given up for their age without a response.
        unanswered,
        /// Queries given up to make room.
        evicted,
        /// Messages of fewer than 12 octets, which have no id and no direction: passed over.
        too_short,
    }
}
