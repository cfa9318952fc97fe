//! Runs of dnstap frames out of a packet capture.

use std::io::{ErrorKind, Read};
use std::net::IpAddr;

use bytes::Bytes;

use super::tally::Tally;
use super::{Ending, Fault, Step};
use crate::dnstap::build;
use crate::dnstap::{DnstapView, Message};
use crate::fstrm::encode::length_word;
use crate::pcap::{
    ConvertOptions, Converter, Counters, Event, PairCounters, PcapError, Reader, split_time,
};

/// A run is given out once it has this many bytes.
const RUN_BYTES: usize = 256 * 1024;

/// A capture that is read as dnstap.
pub struct Capture {
    reader: Reader<Box<dyn Read + Send>>,
    converter: Converter,
    run: Vec<u8>,
    ended: bool,
    cut: Option<String>,
}

impl Capture {
    pub(super) fn open(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: ConvertOptions,
    ) -> Result<Self, Fault> {
        let reader = Reader::new(reader).map_err(|e| Fault::Unreadable(format!("{name}: {e}")))?;
        Ok(Self {
            reader,
            converter: Converter::new(options),
            run: Vec::with_capacity(RUN_BYTES + 64 * 1024),
            ended: false,
            cut: None,
        })
    }

    /// What became of the packets.
    pub fn counters(&self) -> &Counters {
        self.converter.counters()
    }

    /// What became of the messages.
    pub fn pair_counters(&self) -> &PairCounters {
        self.converter.pair_counters()
    }

    /// Packets and messages that should have given a record and did not, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        const LOSSES: [&str; 8] = [
            "link_unknown",
            "link_malformed",
            "ip_malformed",
            "transport_malformed",
            "fragments_refused",
            "datagrams_timed_out",
            "datagrams_evicted",
            "tcp_messages_lost",
        ];
        let of_packets = self
            .counters()
            .rows()
            .filter(|(name, n)| *n > 0 && LOSSES.contains(name));
        let of_messages = self
            .pair_counters()
            .rows()
            .filter(|(name, n)| *n > 0 && *name == "too_short");
        of_packets.chain(of_messages)
    }

    pub(super) fn run(&self) -> &[u8] {
        &self.run
    }

    pub(super) fn take_run(&mut self) -> Bytes {
        let next = Vec::with_capacity(self.run.capacity());
        Bytes::from(std::mem::replace(&mut self.run, next))
    }

    pub(super) fn next(&mut self, name: &str, tally: &mut Tally) -> Result<Step, Fault> {
        self.run.clear();
        let mut frames = 0;
        let run = &mut self.run;
        let mut deliver = |event: &Event<'_>| {
            if append(run, event) {
                frames += 1;
            } else {
                tally.frames += 1;
                tally.error("message_too_long", 1);
            }
            run.len()
        };
        let mut full = false;
        let failed = loop {
            if self.ended || full {
                break None;
            }
            match self.reader.next() {
                Ok(Some(packet)) => {
                    self.converter.push(&packet, &mut |event: &Event<'_>| {
                        full |= deliver(event) >= RUN_BYTES
                    });
                }
                Ok(None) => {
                    self.ended = true;
                    self.converter.finish(&mut |event: &Event<'_>| {
                        deliver(event);
                    });
                }
                Err(e) => {
                    self.ended = true;
                    self.converter.finish(&mut |event: &Event<'_>| {
                        deliver(event);
                    });
                    break Some(e);
                }
            }
        };
        match failed {
            Some(error) if is_cut(&error) => self.cut = Some(error.to_string()),
            // The frames that were complete are given out first; the reader is at its end, so the fault is kept as a cut.
            Some(error) if frames > 0 || self.converter.counters().packets > 0 => {
                self.cut = Some(format!("{error}; what follows is not read"));
            }
            Some(error) => return Err(Fault::Unreadable(format!("{name}: {error}"))),
            None => {}
        }
        Ok(if frames > 0 {
            Step::Run { frames }
        } else {
            Step::Eof
        })
    }

    pub(super) fn ending(&self, _tally: &mut Tally) -> Ending {
        self.cut.clone().map_or(Ending::Clean, Ending::Cut)
    }
}

fn is_cut(error: &PcapError) -> bool {
    match error {
        PcapError::Truncated { .. } => true,
        PcapError::Io { source, .. } => source.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Appends the dnstap frame of an event; `false` when it is longer than a length word can say.
fn append(run: &mut Vec<u8>, event: &Event<'_>) -> bool {
    let (mut client, mut server) = ([0; 16], [0; 16]);
    let client = octets(event.query_address, &mut client);
    let server = octets(event.response_address, &mut server);
    let view = view(event, client, server);
    let Ok(word) = length_word(build::encoded_len(&view)) else {
        return false;
    };
    run.extend_from_slice(&word);
    build::write(run, &view);
    true
}

fn view<'a>(event: &Event<'a>, client: &'a [u8], server: &'a [u8]) -> DnstapView<'a> {
    let some = |octets: &'a [u8]| (!octets.is_empty()).then_some(octets);
    let number = |number: u32| i32::try_from(number).ok();
    let (asked, answered) = (
        event.query_time_ns.map(split_time),
        event.response_time_ns.map(split_time),
    );
    let (query, response) = if event.is_response {
        (None, Some(event.message))
    } else {
        (Some(event.message), None)
    };
    DnstapView {
        identity: some(event.identity),
        version: some(event.version),
        kind: Some(DnstapView::KIND_MESSAGE),
        message: Some(Message {
            kind: number(event.message_type),
            socket_family: number(event.socket_family()),
            socket_protocol: number(event.socket_protocol()),
            query_address: Some(client),
            response_address: Some(server),
            query_port: Some(u32::from(event.query_port)),
            response_port: Some(u32::from(event.response_port)),
            query_time_sec: asked.map(|time| time.0),
            query_time_nsec: asked.map(|time| time.1),
            query_message: query,
            response_time_sec: answered.map(|time| time.0),
            response_time_nsec: answered.map(|time| time.1),
            response_message: response,
            ..Message::default()
        }),
        ..DnstapView::default()
    }
}

/// The address's 4 or 16 octets, in `storage`.
fn octets(address: IpAddr, storage: &mut [u8; 16]) -> &[u8] {
    match address {
        IpAddr::V4(v4) => {
            let (four, _) = storage.split_at_mut(4);
            four.copy_from_slice(&v4.octets());
            four
        }
        IpAddr::V6(v6) => {
            *storage = v6.octets();
            storage
        }
    }
}
