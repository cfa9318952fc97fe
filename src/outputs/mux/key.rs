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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::dnstap::{DnstapView, Message, build};
    use crate::ids::ConnId;
    use crate::pipeline::batch::Origin;

    /// A query for `name` from `client` at `server`.
    fn payload(server: &str, client: &[u8], name: &str) -> Vec<u8> {
        let mut dns = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            dns.push(label.len() as u8);
            dns.extend(label.as_bytes());
        }
        dns.extend([0, 0, 1, 0, 1]);
        let view = DnstapView {
            identity: Some(server.as_bytes()),
            kind: Some(1),
            message: Some(Message {
                kind: Some(5),
                socket_family: Some(if client.len() == 4 { 1 } else { 2 }),
                socket_protocol: Some(1),
                query_address: Some(client),
                query_message: Some(&dns),
                ..Message::default()
            }),
            ..DnstapView::default()
        };
        let mut out = Vec::new();
        build::write(&mut out, &view);
        out
    }

    fn batch() -> Batch {
        let origin = Origin {
            conn: ConnId::next(),
            listener: "t".into(),
            peer: "p".into(),
        };
        Batch::new(
            Arc::new(origin),
            SystemTime::UNIX_EPOCH,
            Vec::new().into(),
            0,
        )
    }

    #[test]
    fn frames_that_belong_together_have_one_key_and_others_another() {
        use HashBy::{Client, ClientNetwork, Identity, Qname, RegisteredDomain};
        let v6 = |last: u8, network: u8| {
            let mut ip = [
                0x20, 1, 0xd, 0xb8, 0, 0, network, 9, 0, 0, 0, 0, 0, 0, 0, last,
            ];
            ip[7] = last;
            ip
        };
        let base = payload("a", &[192, 0, 2, 1], "www.example.co.uk");
        let rows: &[(HashBy, Vec<u8>, Vec<u8>, bool)] = &[
            (
                Identity,
                base.clone(),
                payload("a", &[1, 1, 1, 1], "x.y"),
                true,
            ),
            (
                Identity,
                base.clone(),
                payload("b", &[192, 0, 2, 1], "www.example.co.uk"),
                false,
            ),
            (
                Client,
                base.clone(),
                payload("b", &[192, 0, 2, 1], "x.y"),
                true,
            ),
            (
                Client,
                base.clone(),
                payload("a", &[192, 0, 2, 2], "www.example.co.uk"),
                false,
            ),
            (
                ClientNetwork,
                base.clone(),
                payload("b", &[192, 0, 2, 200], "x"),
                true,
            ),
            (
                ClientNetwork,
                base.clone(),
                payload("b", &[192, 0, 3, 1], "x"),
                false,
            ),
            (
                ClientNetwork,
                payload("b", &v6(1, 7), "x"),
                payload("b", &v6(2, 7), "x"),
                true,
            ),
            (
                ClientNetwork,
                payload("b", &v6(1, 7), "x"),
                payload("b", &v6(1, 8), "x"),
                false,
            ),
            (
                Qname,
                base.clone(),
                payload("b", &[1, 1, 1, 1], "WWW.example.CO.uk"),
                true,
            ),
            (
                Qname,
                base.clone(),
                payload("a", &[192, 0, 2, 1], "ftp.example.co.uk"),
                false,
            ),
            (
                Qname,
                payload("a", &[1; 4], "ab.c"),
                payload("a", &[1; 4], "a.bc"),
                false,
            ),
            (
                RegisteredDomain,
                base.clone(),
                payload("b", &[1; 4], "a.b.EXAMPLE.co.uk"),
                true,
            ),
            (
                RegisteredDomain,
                base.clone(),
                payload("b", &[1; 4], "example.co.uk"),
                true,
            ),
            (
                RegisteredDomain,
                base,
                payload("b", &[1; 4], "other.co.uk"),
                false,
            ),
            (
                RegisteredDomain,
                payload("b", &[1; 4], "co.uk"),
                payload("b", &[1; 4], "org.uk"),
                false,
            ),
        ];
        for (n, (by, a, b, same)) in rows.iter().enumerate() {
            let options = MuxOptions {
                by: *by,
                ..MuxOptions::default()
            };
            let (keys, batch) = (Keys::new(&options), batch());
            let (a, b) = (keys.of_frame(&batch, a), keys.of_frame(&batch, b));
            assert_eq!(a == b, *same, "row {n}, {by:?}");
        }
    }

    #[test]
    fn any_octets_have_a_key() {
        for by in [
            HashBy::Connection,
            HashBy::Identity,
            HashBy::Client,
            HashBy::ClientNetwork,
            HashBy::Qname,
            HashBy::RegisteredDomain,
        ] {
            let options = MuxOptions {
                by,
                ..MuxOptions::default()
            };
            let long = ["a"; 127].join(".");
            let whole = payload("a", &[1; 4], &long);
            for cut in 0..=whole.len() {
                Keys::new(&options).of_frame(&batch(), &whole[..cut]);
            }
        }
    }
}
