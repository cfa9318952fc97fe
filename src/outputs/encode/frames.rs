//! Frames as they came: the batch's own bytes, not copied.

use crate::link::outbox::{Chunk, Layout, Outbox};
use crate::outputs::encode::Encoder;
use crate::pipeline::batch::Batch;

/// Writes the run again.
#[derive(Debug)]
pub struct Passthrough;

impl Encoder for Passthrough {
    fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64 {
        outbox.push(Chunk::new(
            batch.bytes().clone(),
            batch.frame_count() as u64,
            Layout::Run,
        ));
        0
    }
}
