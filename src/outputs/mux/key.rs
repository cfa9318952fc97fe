//! What frames are told apart by, as a number that is the same on every machine and in every version.

use std::net::IpAddr;

use psl::Psl;

use crate::outputs::options::{HashBy, MuxOptions};
use crate::pipeline::batch::Batch;
use crate::pipeline::stage::Record;

/// Makes the keys of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    by: HashBy,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

/// Labels of a name that the public suffix list is asked about, from its end; no suffix has as many.
const LABELS_MAX: usize = 127;

impl Keys {
    pub(super) const fn new(options: &MuxOptions) -> Self {
        Self {
            by: options.by,
            ipv4_prefix: options.ipv4_prefix,
            ipv6_prefix: options.ipv6_prefix,
        }
    }

    /// The key of all frames of a batch, where they have the same for sure.
    pub(super) fn of_batch(&self, batch: &Batch) -> Option<u64> {
        (self.by == HashBy::Connection).then(|| hash(&batch.origin.conn.number().to_be_bytes()))
    }

    /// The key of one frame. Frames without what they are to be told apart by share one.
    pub(super) fn of_frame(&self, batch: &Batch, payload: &[u8]) -> u64 {
        let mut record = Record::new(payload, &batch.origin, batch.received);
        match self.by {
            HashBy::Connection => hash(&batch.origin.conn.number().to_be_bytes()),
            HashBy::Identity => {
                let view = record.dnstap().as_ref().ok();
                hash(view.and_then(|v| v.identity).unwrap_or_default())
            }
            HashBy::Client => address(&mut record, 32, 128),
            HashBy::ClientNetwork => address(&mut record, self.ipv4_prefix, self.ipv6_prefix),
            HashBy::Qname => name(&mut record, usize::MAX),
            HashBy::RegisteredDomain => name(&mut record, 0),
        }
    }
}

fn address(record: &mut Record<'_>, ipv4_prefix: u8, ipv6_prefix: u8) -> u64 {
    match record.message().ok().and_then(|m| m.client_ip()) {
        Some(IpAddr::V4(ip)) => {
            let host = u32::MAX.checked_shr(ipv4_prefix.into()).unwrap_or(0);
            hash(&(ip.to_bits() & !host).to_be_bytes())
        }
        Some(IpAddr::V6(ip)) => {
            let host = u128::MAX.checked_shr(ipv6_prefix.into()).unwrap_or(0);
            hash(&(ip.to_bits() & !host).to_be_bytes())
        }
        None => hash(&[]),
    }
}

/// The last labels of the query name: `labels` of them, or with 0 those of the registered domain.
fn name(record: &mut Record<'_>, labels: usize) -> u64 {
    let Some(question) = record.dns().and_then(|d| d.question()) else {
        return hash(&[]);
    };
    let count = question.name.labels().count();
    let mut folded = [0u8; 256];
    let mut ends = [0u8; LABELS_MAX + 1];
    let (mut at, mut n) = (0usize, 0usize);
    for label in question.name.labels() {
        for octet in label {
            if let Some(slot) = folded.get_mut(at) {
                *slot = octet.to_ascii_lowercase();
                at += 1;
            }
        }
        n += 1;
        if let Some(end) = ends.get_mut(n) {
            *end = u8::try_from(at).unwrap_or(u8::MAX);
        }
    }
    let label = |i: usize| {
        let (from, to) = (ends.get(i)?, ends.get(i + 1)?);
        folded.get(usize::from(*from)..usize::from(*to))
    };
    let backwards = || (0..count.min(LABELS_MAX)).rev().map_while(label);
    let keep = match labels {
        0 => registered(backwards),
        n => n,
    };
    let skip = count.saturating_sub(keep);
    let hashed = (skip..count.min(LABELS_MAX))
        .filter_map(label)
        .fold(START, |h, label| {
            let h = step(h, u8::try_from(label.len()).unwrap_or(0));
            label.iter().fold(h, |h, octet| step(h, *octet))
        });
    mix(hashed)
}

/// How many labels the registered domain has; all of them where the name is a public suffix itself.
fn registered<'a, I: Iterator<Item = &'a [u8]>>(backwards: impl Fn() -> I) -> usize {
    let suffix = psl::List.find(backwards()).len;
    let (mut octets, mut labels) = (0, 0);
    for label in backwards() {
        labels += 1;
        octets += label.len() + usize::from(labels > 1);
        if octets > suffix {
            break;
        }
    }
    labels
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// One octet of FNV-1a.
fn step(h: u64, octet: u8) -> u64 {
    (h ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// FNV-1a and a finaliser.
pub(super) fn hash(octets: &[u8]) -> u64 {
    mix(octets.iter().fold(START, |h, octet| step(h, *octet)))
}

/// Finaliser of splitmix64: every bit of the input reaches every bit of the output.
pub(super) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
