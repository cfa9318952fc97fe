//! What stands before the stages of a connection: [`IdentityGuard`], and [`RateGuard`] for peers that may send only so much.
//!
//! The first is for a connection whose certificate may send as certain dnstap identities only.
//!
//! A frame of another identity is dropped and counted, and the connection goes on: what a relay sends for others is not lost
//! with it, the ledger says how many there were, and no sender that is set up wrongly connects again and again. A frame whose
//! identity cannot be read has the empty one.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::ids::DropSlot;
use crate::pipeline::ledger::Ledger;
use crate::pipeline::stage::{Record, Stage, Verdict};
use crate::transport::rate::PeerRate;
use crate::transport::tls::rules::Grant;

/// The reason in the ledger, at the listener.
pub const FOREIGN_IDENTITY: &str = "foreign_identity";

/// The reason of frames of a peer that has sent more than it may.
pub const OVER_RATE: &str = "over_rate";

/// Registers where the listener `name` counts frames dropped for one of these two.
pub fn register(ledger: &Ledger, name: &str, reason: &'static str) -> DropSlot {
    ledger.register_drop(&format!("listener:{name}"), reason)
}

/// The stage.
#[derive(Debug)]
pub struct IdentityGuard {
    grant: Grant,
    slot: DropSlot,
}

impl IdentityGuard {
    /// A guard that lets through what `grant` permits and counts the rest at `slot`.
    pub fn new(grant: Grant, slot: DropSlot) -> Self {
        Self { grant, slot }
    }
}

impl Stage for IdentityGuard {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let identity = match record.dnstap() {
            Ok(view) => view.identity.unwrap_or_default(),
            Err(_) => &[],
        };
        if self.grant.permits(identity) {
            Verdict::Keep
        } else {
            Verdict::Drop(self.slot)
        }
    }
}

/// Room that a [`RateGuard`] reserves at a time: enough for one lock a batch, little enough for several connections of a peer.
const RESERVE_FRAMES: u64 = 256;
const RESERVE_BYTES: u64 = 64 * 1024;

/// Drops the frames of a peer that are more than it may send, and counts them.
#[derive(Debug)]
pub struct RateGuard {
    rate: Arc<PeerRate>,
    slot: DropSlot,
    frames: u64,
    bytes: u64,
    /// There was no more room in this batch; not asked again until the next.
    exhausted: bool,
}

impl RateGuard {
    /// A guard on `rate`, which the peer's connections share; it counts at `slot`.
    pub fn new(rate: Arc<PeerRate>, slot: DropSlot) -> Self {
        Self {
            rate,
            slot,
            frames: 0,
            bytes: 0,
            exhausted: false,
        }
    }

    fn has_room(&mut self, len: u64) -> bool {
        if self.exhausted {
            return false;
        }
        if self.frames == 0 || self.bytes < len {
            let now = Instant::now();
            let (frames, bytes) = self
                .rate
                .reserve(RESERVE_FRAMES, RESERVE_BYTES.max(len), now);
            self.frames += frames;
            self.bytes += bytes;
        }
        self.exhausted = self.frames == 0 || self.bytes < len;
        !self.exhausted
    }
}

impl Stage for RateGuard {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let len = record.payload().len() as u64 + 4;
        if !self.has_room(len) {
            return Verdict::Drop(self.slot);
        }
        self.frames -= 1;
        self.bytes -= len;
        Verdict::Keep
    }

    fn end_batch(&mut self, _received: SystemTime) {
        self.rate.give_back(
            std::mem::take(&mut self.frames),
            std::mem::take(&mut self.bytes),
        );
        self.exhausted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConnId;
    use crate::pipeline::batch::Origin;
    use std::time::Duration;

    #[test]
    fn a_peer_gets_what_it_may_over_all_its_connections_and_the_rest_is_dropped() {
        let ledger = Ledger::new();
        let slot = register(&ledger, "x", OVER_RATE);
        // A day's allowance at once, so that time does not matter.
        let rate = Arc::new(PeerRate::new(
            1000,
            0,
            Instant::now() + Duration::from_secs(3600),
        ));
        let origin = Origin {
            conn: ConnId::next(),
            listener: "x".into(),
            peer: String::new(),
        };
        let mut guards = [(); 2].map(|()| RateGuard::new(rate.clone(), slot));
        let mut kept = 0;
        for _ in 0..10 {
            for guard in &mut guards {
                for _ in 0..100 {
                    let mut record = Record::new(b"payload", &origin, SystemTime::now());
                    kept += usize::from(guard.on_record(&mut record) == Verdict::Keep);
                }
                guard.end_batch(SystemTime::now());
            }
        }
        assert_eq!(kept, 1000);
    }
}
