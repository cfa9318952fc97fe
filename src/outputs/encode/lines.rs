//! Frames as records of a text format, or any other that stands record by record.

use crate::dnstap::{DecodeReason, DnstapView};
use crate::format::{Entry, Line, Shape, Source};
use crate::link::outbox::{Chunk, Layout, Outbox};
use crate::outputs::encode::Encoder;
use crate::pipeline::batch::Batch;

/// Encodes with a [`Line`]. A frame that is no record, or of which the format shows nothing, has none.
pub struct Lines {
    line: Box<dyn Line>,
    layout: Layout,
    /// Bytes a byte of input became in the last batch, in eighths: so that the next buffer is allocated once.
    eighths: usize,
}

impl Lines {
    /// An encoder with this format, whose records stand as `shape` says.
    pub fn new(line: Box<dyn Line>, shape: Shape) -> Self {
        let layout = match shape {
            Shape::Lines => Layout::Lines,
            // A frame can be several packets, or none.
            Shape::Pcap | Shape::Fstrm => Layout::Whole,
        };
        Self {
            line,
            layout,
            eighths: 16,
        }
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
            let before = out.len();
            match self.line.write(&mut out, entry) {
                Ok(()) if out.len() > before => written += 1,
                Ok(()) | Err(_) => bad += 1,
            }
        }
        self.eighths = (out.len() * 8 / batch.len_bytes().max(1) + 1).clamp(1, 256);
        outbox.push(Chunk::new(out.into(), written, self.layout));
        bad
    }
}
