//! The guard before the stages of a connection whose certificate may send as certain dnstap identities only.
//!
//! A frame of another identity is dropped and counted, and the connection goes on: what a relay sends for others is not lost
//! with it, the ledger says how many there were, and no sender that is set up wrongly connects again and again. A frame whose
//! identity cannot be read has the empty one.

use crate::ids::DropSlot;
use crate::pipeline::ledger::Ledger;
use crate::pipeline::stage::{Record, Stage, Verdict};
use crate::transport::tls::rules::Grant;

/// The reason in the ledger, at the listener.
pub const FOREIGN_IDENTITY: &str = "foreign_identity";

/// Registers where the listener `name` counts such frames.
pub fn register(ledger: &Ledger, name: &str) -> DropSlot {
    ledger.register_drop(&format!("listener:{name}"), FOREIGN_IDENTITY)
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
