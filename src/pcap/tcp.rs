//! All TCP streams of a capture: which segment goes to which, what the two directions tell about each other, and how much
//! memory they take together. What happens within one is told in `stream`.

use super::aged::Aged;
use super::counters::Counters;
use super::message::DnsPacket;
use super::packet::Tcp;
use super::stream::{Output, Stream, StreamKey, Sync, TcpLimits, on_octets};

/// All streams.
pub(super) struct Streams {
    table: Aged<StreamKey, Stream>,
    limits: TcpLimits,
    octets: usize,
}

impl Streams {
    pub(super) fn new(limits: TcpLimits) -> Self {
        Self {
            table: Aged::new(limits.streams_max),
            limits,
            octets: 0,
        }
    }

    /// Takes a segment in and gives out the messages that it completes.
    pub(super) fn on_segment<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        time_ns: u64,
        key: StreamKey,
        segment: &Tcp<'_>,
        counters: &mut Counters,
        deliver: &mut F,
    ) {
        if let Some(ack) = segment.ack.filter(|_| !segment.syn) {
            self.on_ack(key.reversed(), ack, counters, deliver);
        }
        if segment.rst {
            // Octets in a reset are a reason for people, not stream data (RFC 9293 section 3.5.3).
            for key in [key, key.reversed()] {
                self.with(key, counters, deliver, |stream, output| {
                    stream.give_up_all(output)
                });
            }
            return;
        }
        let carries = !segment.payload.is_empty() || segment.missing > 0;
        if !carries && !segment.syn {
            return;
        }
        self.ensure(time_ns, key, segment, counters, deliver);
        let limits = self.limits;
        self.with(key, counters, deliver, |stream, output| {
            if segment.syn && stream.isn != Some(segment.seq) {
                stream.close(output);
                *stream = Stream::new(Sync::Message, segment.seq.wrapping_add(1));
                stream.isn = Some(segment.seq);
            }
            if carries {
                on_octets(stream, time_ns, segment, output);
            }
            stream.enforce(&limits, time_ns, output);
        });
        self.table.touch(&key, time_ns);
        while self.octets > self.limits.octets_max && self.table.len() > 0 {
            self.evict(counters, deliver);
        }
    }

    /// The receiver of `key`'s stream has everything before `ack`.
    fn on_ack<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        key: StreamKey,
        ack: u32,
        counters: &mut Counters,
        deliver: &mut F,
    ) {
        self.with(key, counters, deliver, |stream, output| {
            stream.on_acknowledged(ack, output);
        });
    }

    /// Makes sure that there is a stream for the segment.
    fn ensure<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        time_ns: u64,
        key: StreamKey,
        segment: &Tcp<'_>,
        counters: &mut Counters,
        deliver: &mut F,
    ) {
        if self.table.find(&key).is_some() {
            return;
        }
        if self.table.is_full() {
            self.evict(counters, deliver);
        }
        if !segment.syn {
            counters.tcp_streams_midway += 1;
        }
        self.table
            .insert(key, Stream::new(Sync::Lost, segment.seq), time_ns);
    }

    fn evict<F: FnMut(DnsPacket<'_>)>(&mut self, counters: &mut Counters, deliver: &mut F) {
        if let Some((key, mut stream)) = self.table.pop_oldest() {
            self.octets -= stream.memory();
            counters.tcp_streams_evicted += 1;
            stream.close(&mut Output {
                key,
                counters,
                deliver,
            });
        }
    }

    /// Runs `work` on a stream, if it is known, and keeps account of its memory.
    fn with<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        key: StreamKey,
        counters: &mut Counters,
        deliver: &mut F,
        work: impl FnOnce(&mut Stream, &mut Output<'_, F>),
    ) {
        if let Some(stream) = self.table.find(&key) {
            let before = stream.memory();
            work(
                stream,
                &mut Output {
                    key,
                    counters,
                    deliver,
                },
            );
            self.octets = self.octets - before + stream.memory();
        }
    }

    /// The capture is over.
    pub(super) fn finish<F: FnMut(DnsPacket<'_>)>(
        &mut self,
        counters: &mut Counters,
        deliver: &mut F,
    ) {
        while let Some((key, mut stream)) = self.table.pop_oldest() {
            stream.close(&mut Output {
                key,
                counters,
                deliver,
            });
        }
        self.octets = 0;
    }

    pub(super) fn octets_held(&self) -> usize {
        self.octets
    }
}
