//! Frames as records of a text format, or any other that stands record by record.

use crate::dnstap::{DecodeReason, DnstapView};
use crate::format::{Entry, Line, Source};
use crate::link::outbox::{Chunk, Layout, Outbox};
use crate::outputs::encode::Encoder;
use crate::pipeline::batch::Batch;

/// Encodes with a [`Line`]. A frame that is no record has none.
pub struct Lines {
    line: Box<dyn Line>,
    /// Bytes a byte of input became in the last batch, in eighths: so that the next buffer is allocated once.
    eighths: usize,
}

impl Lines {
    /// An encoder with this format.
    pub fn new(line: Box<dyn Line>) -> Self {
        Self { line, eighths: 16 }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Encoder for Lines {
    fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64 {
        let source = Source {
            received: Some(batch.received),
            listener: &batch.origin.listener,
            peer: &batch.origin.peer,
        };
        let mut out = Vec::with_capacity(batch.len_bytes() / 8 * self.eighths + 1024);
        let (mut written, mut bad) = (0, 0);
        for payload in batch.payloads() {
            let view = DnstapView::parse(payload).map_err(DecodeReason::from);
            let entry = Entry {
                payload,
                view: view.as_ref().map_err(|reason| *reason),
                source,
            };
            match self.line.write(&mut out, entry) {
                Ok(()) => written += 1,
                Err(_) => bad += 1,
            }
        }
        self.eighths = (out.len() * 8 / batch.len_bytes().max(1) + 1).clamp(1, 256);
        outbox.push(Chunk::new(out.into(), written, Layout::Lines));
        bad
    }
}
