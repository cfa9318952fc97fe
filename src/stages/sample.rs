//! The sample stage: one in N, by chance or by key.
//!
//! By key means by a hash of the name, the client or the identity: all frames of a kept key are kept, whatever connection
//! they come over, and two collectors with the same seed keep the same keys. Names are hashed octet by octet with ASCII
//! letters folded, so that case randomisation (DNS 0x20) does not split a name.

use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::options::{SampleBy, SampleOptions};

/// Makes sample stages.
#[derive(Debug)]
pub struct Factory {
    options: SampleOptions,
}

impl Factory {
    /// A factory for these settings.
    pub fn new(options: &SampleOptions) -> Self {
        Self {
            options: options.clone(),
        }
    }
}

impl StageFactory for Factory {
    fn build(&self, origin: &Origin) -> Box<dyn Stage> {
        let seed = self.options.seed;
        // Connections draw different numbers, or the same frame of each would be kept.
        let random = mix(seed ^ origin.conn.number());
        Box::new(Sample {
            one_in: u64::from(self.options.one_in.max(1)),
            by: self.options.by,
            seed,
            random,
        })
    }
}

struct Sample {
    one_in: u64,
    by: SampleBy,
    seed: u64,
    random: u64,
}

impl Stage for Sample {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let hash = match self.by {
            SampleBy::Random => {
                self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(self.random)
            }
            SampleBy::Qname => qname_hash(record, self.seed),
            SampleBy::Client => {
                let client = record.message().ok().and_then(|m| m.client_ip());
                match client {
                    Some(std::net::IpAddr::V4(ip)) => hash(self.seed, &ip.octets()),
                    Some(std::net::IpAddr::V6(ip)) => hash(self.seed, &ip.octets()),
                    None => hash(self.seed, &[]),
                }
            }
            SampleBy::Identity => {
                let identity = record
                    .dnstap()
                    .as_ref()
                    .ok()
                    .and_then(|v| v.identity)
                    .unwrap_or_default();
                hash(self.seed, identity)
            }
        };
        if hash % self.one_in == 0 {
            Verdict::Keep
        } else {
            Verdict::Filter
        }
    }
}

/// Finaliser of splitmix64: every input bit reaches every output bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// FNV-1a and a finaliser: stable over versions and machines, which a sample that several collectors share needs.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let h = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325 ^ mix(seed), |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    mix(h)
}

/// A hash of the query name with ASCII letters folded; frames without a name share one value.
fn qname_hash(record: &mut Record<'_>, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ mix(seed);
    let Some(question) = record.dns().and_then(|d| d.question()) else {
        return mix(start);
    };
    let h = question.name.labels().fold(start, |h, label| {
        let len = u64::try_from(label.len()).unwrap_or(0);
        label
            .iter()
            .fold((h ^ len).wrapping_mul(0x0000_0100_0000_01b3), |h, b| {
                (h ^ u64::from(b.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3)
            })
    });
    mix(h)
}
