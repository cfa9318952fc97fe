//! `tapflow read --stats`: a summary of what the files hold.
//!
//! [`Stats`] stands where a format stands and takes the same records; it writes nothing until [`Stats::text`] or
//! [`Stats::json`]. Its memory is bounded whatever the files hold: the tables of names, clients and identities forget
//! their rarest rows when they are full, and say by how much a count may then be short.

mod latency;
mod rate;
mod show;
mod top;

use std::collections::BTreeMap;

use crate::dns::DnsView;
use crate::dnstap::{DecodeReason, DnstapView, Message, Timestamp};
use crate::format::{Entry, Line};

use self::latency::Latencies;
use self::rate::Rate;
use self::top::Top;

/// Rows that a table of an open set keeps: 262,144 names of 40 octets are about 25 MB.
const ROWS: usize = 1 << 18;
/// Octets of an identity that are kept.
const IDENTITY_MAX: usize = 256;

/// Counts over all records.
#[derive(Debug)]
pub(super) struct Stats {
    records: u64,
    octets: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    without_time: u64,
    odd_times: u64,
    rate: Rate,
    identities: Top,
    names: Top,
    clients: Top,
    message_types: BTreeMap<i32, u64>,
    protocols: BTreeMap<&'static str, u64>,
    qtypes: BTreeMap<u16, u64>,
    rcodes: BTreeMap<u16, u64>,
    latencies: Latencies,
    malformed: BTreeMap<&'static str, u64>,
    oddities: BTreeMap<&'static str, u64>,
    key: Vec<u8>,
}

impl Line for Stats {
    fn write(&mut self, _: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let view = entry.view?;
        let message = view.classify()?;
        self.records += 1;
        self.octets += entry.payload.len() as u64;
        self.envelope(view, message);
        self.dns(message);
        Ok(())
    }
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            records: 0,
            octets: 0,
            first: None,
            last: None,
            without_time: 0,
            odd_times: 0,
            rate: Rate::new(),
            identities: Top::new(ROWS),
            names: Top::new(ROWS),
            clients: Top::new(ROWS),
            message_types: BTreeMap::new(),
            protocols: BTreeMap::new(),
            qtypes: BTreeMap::new(),
            rcodes: BTreeMap::new(),
            latencies: Latencies::new(),
            malformed: BTreeMap::new(),
            oddities: BTreeMap::new(),
            key: Vec::new(),
        }
    }

    /// What stands around the DNS message.
    fn envelope(&mut self, view: &DnstapView<'_>, message: &Message<'_>) {
        match message.time() {
            None => self.without_time += 1,
            Some(time) if !time.is_sane() => self.odd_times += 1,
            Some(time) => {
                self.first = Some(self.first.map_or(time, |first| first.min(time)));
                self.last = Some(self.last.map_or(time, |last| last.max(time)));
                self.rate
                    .add(time.seconds * 1000 + u64::from(time.nanos / 1_000_000));
            }
        }
        let identity = view.identity.unwrap_or_default();
        self.identities
            .add(identity.get(..IDENTITY_MAX).unwrap_or(identity));
        if let Some(address) = message.client_ip() {
            match address {
                std::net::IpAddr::V4(v4) => self.clients.add(&v4.octets()),
                std::net::IpAddr::V6(v6) => self.clients.add(&v6.octets()),
            }
        }
        *self
            .message_types
            .entry(message.message_type().number())
            .or_default() += 1;
        let protocol = message.protocol().map_or("absent", |p| p.as_str());
        *self.protocols.entry(protocol).or_default() += 1;
        if let Some(latency) = message.latency() {
            self.latencies.add(latency);
        }
        for oddity in message.oddities().iter() {
            *self.oddities.entry(oddity.as_str()).or_default() += 1;
        }
    }

    /// The DNS message, where there is one.
    fn dns(&mut self, message: &Message<'_>) {
        let Some((octets, is_response)) = message.dns() else {
            return;
        };
        let view = match DnsView::parse(octets) {
            Ok(view) => view,
            Err(error) => {
                *self.malformed.entry(error.reason.as_str()).or_default() += 1;
                return;
            }
        };
        if let Ok(Some(question)) = view.question() {
            // Lower case: 0x20 mixing is not a name of its own.
            self.key.clear();
            question.name.write_text(&mut self.key);
            self.key.make_ascii_lowercase();
            self.names.add(&self.key);
            *self.qtypes.entry(question.qtype).or_default() += 1;
        }
        if is_response {
            *self.rcodes.entry(view.rcode()).or_default() += 1;
        }
        if let Some(error) = view.walk().malformed {
            *self.malformed.entry(error.reason.as_str()).or_default() += 1;
        }
    }
}
