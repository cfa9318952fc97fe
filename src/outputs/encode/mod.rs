//! Encoders: what an output writes for a batch.
//!
//! An encoder turns a batch into [chunks](crate::link::outbox::Chunk) and knows nothing of where they go. A new format is one
//! file here and one line in [`build`].

use crate::link::outbox::Outbox;
use crate::outputs::options::{Format, SendCompression};
use crate::pipeline::batch::Batch;

pub mod compressed;
pub mod frames;
pub mod lines;

/// Turns batches into bytes to write.
pub trait Encoder: Send {
    /// Puts what is to be written for `batch` at the end of `outbox`, and returns how many of its frames cannot be written in
    /// this format. The frames in the outbox and these together are the frames of the batch.
    fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64;
}

/// The encoder of a format that goes to files and standard output. `utc`: times in UTC where the format is for people.
pub fn build(format: Format, utc: bool) -> Box<dyn Encoder> {
    match format {
        Format::Fstrm => Box::new(frames::Passthrough),
        Format::Text => Box::new(lines::Lines::new(lines::Quiet { utc })),
        Format::Json => Box::new(lines::Lines::new(lines::Json)),
    }
}

/// The encoder of a Frame Streams connection.
pub fn build_stream(compression: SendCompression, bulk: bool) -> Box<dyn Encoder> {
    match compressed::codec(compression) {
        None => Box::new(frames::Passthrough),
        Some(codec) => Box::new(compressed::Compressed::new(codec, bulk)),
    }
}
