//! The decode stage: a frame whose payload is no dnstap message goes no further, and is counted by reason.
//!
//! The DNS message inside is not a reason to drop: a record whose DNS part is malformed keeps its dnstap fields.

use crate::dnstap::DecodeReason;
use crate::ids::DropSlot;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageContext, StageFactory, Verdict};

/// The name of this place in the ledger.
pub const AT: &str = "stage:decode";

/// Makes decode stages.
#[derive(Debug)]
pub struct Factory {
    slots: Vec<(DecodeReason, DropSlot)>,
}

impl Factory {
    /// Registers every reason, so that each is there from zero.
    pub fn new(context: &StageContext<'_>) -> Self {
        let slots = DecodeReason::ALL
            .iter()
            .map(|r| (*r, context.ledger.register_drop(AT, r.as_str())))
            .collect();
        Self { slots }
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Decode {
            slots: self.slots.clone(),
        })
    }
}

struct Decode {
    slots: Vec<(DecodeReason, DropSlot)>,
}

impl Stage for Decode {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Err(reason) = record.message() else {
            return Verdict::Keep;
        };
        // Rare, so a search of the short list is cheaper than a map that every connection would have to carry.
        self.slots
            .iter()
            .find(|s| s.0 == reason)
            .map_or(Verdict::Keep, |s| Verdict::Drop(s.1))
    }
}
