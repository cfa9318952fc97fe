//! Encoders: what an output writes for a batch.
//!
//! An encoder turns a batch into [chunks](crate::link::outbox::Chunk) and knows nothing of where they go. A new format is one
//! file in [`format`](mod@crate::format) and needs nothing here.

use crate::format::{Format, FormatError, Settings};
use crate::link::outbox::Outbox;
use crate::outputs::options::SendCompression;
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

/// The encoder of a format that goes to files and standard output.
///
/// # Errors
/// A field that there is not.
pub fn build(format: &Format, settings: &Settings) -> Result<Box<dyn Encoder>, FormatError> {
    Ok(match format.line(settings)? {
        None => Box::new(frames::Passthrough),
        Some(line) => Box::new(lines::Lines::new(line, format.shape())),
    })
}

/// The encoder of a Frame Streams connection.
pub fn build_stream(compression: SendCompression, bulk: bool) -> Box<dyn Encoder> {
    match compressed::codec(compression) {
        None => Box::new(frames::Passthrough),
        Some(codec) => Box::new(compressed::Compressed::new(codec, bulk)),
    }
}
