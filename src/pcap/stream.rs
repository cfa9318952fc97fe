//! DNS messages out of one TCP stream: each is preceded by its length in two octets (RFC 1035 section 4.2.2).
//!
//! The two directions of a connection are two streams. What is in order and whole within one segment is lent from the
//! packet; only unfinished messages and segments that came early are copied.
//!
//! **Order.** A segment beyond what is expected waits until the part before it comes. The part before is declared missing
//! (a *gap*) when the other side acknowledges octets behind it, so that it must have travelled but was not captured; when
//! it has been waited for longer than the timeout by packet time; when too much waits; and at a reset or the capture's end.
//!
//! **Overlap.** Octets that came first stay. Among segments that wait, the one with the lower sequence number wins.
//!
//! **Finding the next message.** After a gap that lies within one message whose length is known, that message is lost and
//! the stream goes on behind it. Otherwise, and where the beginning of the stream was not captured, and after a length of
//! less than a DNS header, each segment is looked at until one looks like the beginning of a message
//! ([`message::begins`]); what comes before is counted and passed over.
//!
//! **Cut packets.** Where the snapshot length has cut a segment, the message it cuts is given out as far as it goes, marked
//! so, and the stream goes on behind it.
//!
//! **Ends.** FIN and RST end nothing by themselves: the stream's position is kept so that late copies are known for what
//! they are, until the entry is the oldest and room is needed, or a SYN with another sequence number begins anew.

use std::net::SocketAddr;

use super::counters::Counters;
use super::message::{self, DnsPacket, DnsTransport};
use super::packet::Tcp;

/// Limits of TCP reassembly.
#[derive(Clone, Copy, Debug)]
pub struct TcpLimits {
    /// Streams (directions of a connection) remembered at once; 16,384 by default.
    pub streams_max: usize,
    /// Octets held in all; 64 MiB by default.
    pub octets_max: usize,
    /// Octets that one stream may hold of segments that came early; 256 KiB by default. An unfinished message, at most
    /// 65,537 octets, comes on top.
    pub early_octets_max: usize,
    /// Segments that one stream may hold of those that came early; 64 by default.
    pub early_segments_max: usize,
    /// How long, by packet time, a missing part is waited for, in nanoseconds; 5 s by default.
    pub gap_timeout_ns: u64,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self {
            streams_max: 16 * 1024,
            octets_max: 64 * 1024 * 1024,
            early_octets_max: 256 * 1024,
            early_segments_max: 64,
            gap_timeout_ns: 5_000_000_000,
        }
    }
}

/// A sequence number further than this from the expected one belongs to another connection on the same ports.
const NEAR: u32 = 1 << 24;
/// Capacity of the message buffer that a stream keeps between messages.
const KEEP_CAPACITY: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StreamKey {
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
}

impl StreamKey {
    pub(super) fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
        }
    }
}

/// A segment that came before an earlier part of the stream.
struct Early {
    seq: u32,
    octets: Vec<u8>,
    missing: u32,
    time_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// `partial` is empty or begins with the length of a message.
    Message,
    /// This many octets belong to a message that is lost.
    Skip(u32),
    /// It is not known where the next message begins.
    Lost,
}

pub(super) struct Stream {
    sync: Sync,
    /// Sequence number expected next.
    next: u32,
    /// Sequence number of the SYN, where it was seen.
    pub(super) isn: Option<u32>,
    partial: Vec<u8>,
    /// Sorted by sequence number; all of them beyond `next`.
    early: Vec<Early>,
    early_octets: usize,
}

/// Where messages go: the addresses of the stream, the counters and the receiver's function.
pub(super) struct Output<'o, F> {
    pub(super) key: StreamKey,
    pub(super) counters: &'o mut Counters,
    pub(super) deliver: &'o mut F,
}

impl<F: FnMut(DnsPacket<'_>)> Output<'_, F> {
    fn message(&mut self, time_ns: u64, payload: &[u8], truncated: bool) {
        self.counters.tcp_messages += 1;
        (self.deliver)(DnsPacket {
            time_ns,
            src: self.key.src,
            dst: self.key.dst,
            transport: DnsTransport::Tcp,
            payload,
            truncated,
        });
    }
}

impl Stream {
    pub(super) fn new(sync: Sync, next: u32) -> Self {
        Self {
            sync,
            next,
            isn: None,
            partial: Vec::new(),
            early: Vec::new(),
            early_octets: 0,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.partial.capacity() + self.early_octets
    }

    /// Takes octets that begin at or before the expected one; a beginning that is known already is cut off.
    fn take<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        seq: u32,
        octets: &[u8],
        missing: u32,
        time_ns: u64,
        output: &mut Output<'_, F>,
    ) {
        let known = self.next.wrapping_sub(seq) as usize;
        let fresh = octets.get(known..).unwrap_or_default();
        let missing = (missing as usize).saturating_sub(known.saturating_sub(octets.len()));
        if fresh.is_empty() && missing == 0 {
            output.counters.tcp_retransmissions += 1;
            return;
        }
        self.next = self
            .next
            .wrapping_add(u32::try_from(fresh.len()).unwrap_or(0));
        self.feed(fresh, time_ns, output);
        if let Ok(missing @ 1..) = u32::try_from(missing) {
            self.give_beginning(time_ns, output);
            self.gap(missing, output.counters);
        }
    }

    /// Cuts octets that are next in the stream into messages.
    fn feed<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        octets: &[u8],
        time_ns: u64,
        output: &mut Output<'_, F>,
    ) {
        let mut rest = octets;
        if let Sync::Skip(left) = self.sync {
            let skipped = (left as usize).min(rest.len());
            rest = rest.get(skipped..).unwrap_or_default();
            self.sync = match left - u32::try_from(skipped).unwrap_or(left) {
                0 => Sync::Message,
                left => Sync::Skip(left),
            };
        }
        if self.sync == Sync::Lost {
            if !message::begins(rest) {
                output.counters.tcp_octets_unsynced += rest.len() as u64;
                return;
            }
            self.sync = Sync::Message;
        }
        while !rest.is_empty() {
            rest = if self.partial.is_empty() {
                self.whole_messages(rest, time_ns, output)
            } else {
                self.continue_partial(rest, time_ns, output)
            };
        }
    }

    /// Gives out the messages that are whole in `octets`, and keeps what is left over.
    fn whole_messages<'o, F: FnMut(DnsPacket<'_>)>(
        &mut self,
        octets: &'o [u8],
        time_ns: u64,
        output: &mut Output<'_, F>,
    ) -> &'o [u8] {
        let mut rest = octets;
        while let Some((len, body)) = rest.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            if len < message::HEADER_LEN {
                return self.bad_length(rest, output.counters);
            }
            let Some((message, behind)) = body.split_at_checked(len) else {
                break;
            };
            output.message(time_ns, message, false);
            rest = behind;
        }
        self.partial.extend_from_slice(rest);
        &[]
    }

    /// Completes the message begun in `partial`; returns what is behind it.
    fn continue_partial<'o, F: FnMut(DnsPacket<'_>)>(
        &mut self,
        octets: &'o [u8],
        time_ns: u64,
        output: &mut Output<'_, F>,
    ) -> &'o [u8] {
        let mut rest = octets;
        while !self.has_bad_length()
            && let Some(lacking @ 1..) = self.lacking()
        {
            let (taken, behind) = rest.split_at_checked(lacking).unwrap_or((rest, &[]));
            if taken.is_empty() {
                return &[];
            }
            self.partial.extend_from_slice(taken);
            rest = behind;
        }
        if self.has_bad_length() {
            self.partial.clear();
            return self.bad_length(rest, output.counters);
        }
        output.message(time_ns, self.partial.get(2..).unwrap_or_default(), false);
        self.clear_partial();
        rest
    }

    /// Octets still lacking from `partial`: of the length, then of the message; `Some(0)` when it is whole.
    fn lacking(&self) -> Option<usize> {
        match self.partial.first_chunk::<2>() {
            None => Some(2 - self.partial.len()),
            Some(len) => {
                (2 + usize::from(u16::from_be_bytes(*len))).checked_sub(self.partial.len())
            }
        }
    }

    /// Whether `partial` begins with a length of less than a DNS header.
    fn has_bad_length(&self) -> bool {
        let len = self
            .partial
            .first_chunk::<2>()
            .map(|len| usize::from(u16::from_be_bytes(*len)));
        len.is_some_and(|len| len < message::HEADER_LEN)
    }

    /// The snapshot length has cut the message in `partial`: gives out what there is, as for UDP, if that is a header at
    /// least.
    fn give_beginning<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        time_ns: u64,
        output: &mut Output<'_, F>,
    ) {
        let Some(lacking @ 1..) = self
            .lacking()
            .and_then(|lacking| u32::try_from(lacking).ok())
        else {
            return;
        };
        let there = self.partial.get(2..).unwrap_or_default();
        if self.sync == Sync::Message && there.len() >= message::HEADER_LEN {
            output.counters.messages_truncated += 1;
            output.message(time_ns, there, true);
            self.clear_partial();
            self.sync = Sync::Skip(lacking);
        }
    }

    fn bad_length<'o>(&mut self, rest: &[u8], counters: &mut Counters) -> &'o [u8] {
        counters.tcp_bad_lengths += 1;
        counters.tcp_octets_unsynced += rest.len() as u64;
        self.sync = Sync::Lost;
        &[]
    }

    fn clear_partial(&mut self) {
        self.partial.clear();
        if self.partial.capacity() > KEEP_CAPACITY {
            self.partial = Vec::new();
        }
    }

    /// The next `len` octets are not in the capture.
    fn gap(&mut self, len: u32, counters: &mut Counters) {
        self.next = self.next.wrapping_add(len);
        counters.tcp_gaps += 1;
        let left = match self.sync {
            Sync::Lost => return,
            Sync::Skip(left) => left.checked_sub(len),
            Sync::Message if self.partial.is_empty() => None,
            Sync::Message => {
                counters.tcp_messages_lost += 1;
                let lacking = if self.partial.len() < 2 {
                    None
                } else {
                    self.lacking()
                };
                self.clear_partial();
                lacking.and_then(|lacking| u32::try_from(lacking).ok()?.checked_sub(len))
            }
        };
        self.sync = match left {
            None => Sync::Lost,
            Some(0) => Sync::Message,
            Some(left) => Sync::Skip(left),
        };
    }

    /// Keeps a segment until the part before it has come.
    fn hold(&mut self, early: Early, counters: &mut Counters) {
        let distance = |held: &Early| held.seq.wrapping_sub(self.next);
        let place = self
            .early
            .partition_point(|held| distance(held) < distance(&early));
        match self.early.get(place) {
            Some(same) if same.seq == early.seq && same.octets.len() >= early.octets.len() => {
                counters.tcp_retransmissions += 1;
            }
            _ => {
                counters.tcp_out_of_order += 1;
                self.early_octets += early.octets.len();
                self.early.insert(place, early);
            }
        }
    }

    /// Takes in the held segments whose turn has come.
    fn drain<F: FnMut(DnsPacket<'_>)>(&mut self, output: &mut Output<'_, F>) {
        while self
            .early
            .first()
            .is_some_and(|first| !is_after(first.seq, self.next))
        {
            let first = self.early.remove(0);
            self.early_octets -= first.octets.len();
            self.take(
                first.seq,
                &first.octets,
                first.missing,
                first.time_ns,
                output,
            );
        }
        if self.early.is_empty() && self.early.capacity() > 8 {
            self.early = Vec::new();
        }
    }

    /// Declares the part before the first held segment missing.
    fn give_up_gap<F: FnMut(DnsPacket<'_>)>(&mut self, output: &mut Output<'_, F>) {
        if let Some(first) = self.early.first() {
            self.gap(first.seq.wrapping_sub(self.next), output.counters);
            self.drain(output);
        }
    }

    pub(super) fn give_up_all<F: FnMut(DnsPacket<'_>)>(&mut self, output: &mut Output<'_, F>) {
        while !self.early.is_empty() {
            self.give_up_gap(output);
        }
    }

    /// The receiver has everything before `ack`: what is missing before that was not captured.
    pub(super) fn on_acknowledged<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        ack: u32,
        output: &mut Output<'_, F>,
    ) {
        while self
            .early
            .first()
            .is_some_and(|first| is_after(ack, first.seq))
        {
            self.give_up_gap(output);
        }
    }

    /// Nothing more comes: gives out what can be, and counts what cannot.
    pub(super) fn close<F: FnMut(DnsPacket<'_>)>(&mut self, output: &mut Output<'_, F>) {
        self.give_up_all(output);
        if !self.partial.is_empty() {
            output.counters.tcp_messages_lost += 1;
            self.clear_partial();
        }
    }

    /// Declares gaps for time and for room.
    pub(super) fn enforce<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        limits: &TcpLimits,
        now_ns: u64,
        output: &mut Output<'_, F>,
    ) {
        while let Some(first) = self.early.first() {
            let too_old = now_ns > first.time_ns.saturating_add(limits.gap_timeout_ns);
            let too_much = self.early.len() > limits.early_segments_max
                || self.early_octets > limits.early_octets_max;
            if !too_old && !too_much {
                return;
            }
            self.give_up_gap(output);
        }
    }
}

/// Whether sequence number `a` comes after `b`, in the arithmetic of RFC 9293 section 3.4.
fn is_after(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// Takes a segment's octets in, or holds them.
pub(super) fn on_octets<F: FnMut(DnsPacket<'_>)>(
    stream: &mut Stream,
    time_ns: u64,
    segment: &Tcp<'_>,
    output: &mut Output<'_, F>,
) {
    // A SYN takes a sequence number of its own; octets that come with it (RFC 7413) are behind that.
    let seq = segment.seq.wrapping_add(u32::from(segment.syn));
    let missing = u32::try_from(segment.missing).unwrap_or(u32::MAX);
    let ahead = seq.wrapping_sub(stream.next);
    if ahead.min(ahead.wrapping_neg()) > NEAR {
        stream.close(output);
        *stream = Stream::new(Sync::Lost, seq);
        output.counters.tcp_streams_midway += 1;
    }
    if is_after(seq, stream.next) {
        let octets = segment.payload.to_vec();
        stream.hold(
            Early {
                seq,
                octets,
                missing,
                time_ns,
            },
            output.counters,
        );
    } else {
        stream.take(seq, segment.payload, missing, time_ns, output);
        stream.drain(output);
    }
}
