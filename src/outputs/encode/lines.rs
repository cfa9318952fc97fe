//! Formats of one line a frame.

use crate::dnstap::{DecodeReason, DnstapView};
use crate::format::{Source, json, quiet};
use crate::link::outbox::{Chunk, Layout, Outbox};
use crate::outputs::encode::Encoder;
use crate::pipeline::batch::Batch;

/// One format that gives a line, with its newline, for each record.
pub trait Line: Send {
    /// Appends the line, or says why the frame is no record; nothing is appended then.
    fn write(
        &self,
        out: &mut Vec<u8>,
        view: &DnstapView<'_>,
        source: Source<'_>,
    ) -> Result<(), DecodeReason>;
}

/// The short text form.
#[derive(Debug)]
pub struct Quiet {
    /// Times in UTC rather than in the machine's time zone.
    pub utc: bool,
}

impl Line for Quiet {
    fn write(
        &self,
        out: &mut Vec<u8>,
        view: &DnstapView<'_>,
        _source: Source<'_>,
    ) -> Result<(), DecodeReason> {
        quiet::write(out, view, self.utc)
    }
}

/// One JSON object a line.
#[derive(Debug)]
pub struct Json;

impl Line for Json {
    fn write(
        &self,
        out: &mut Vec<u8>,
        view: &DnstapView<'_>,
        source: Source<'_>,
    ) -> Result<(), DecodeReason> {
        json::write(out, view, &source)
    }
}

/// Encodes with a [`Line`]. A frame whose payload is not dnstap at all has no line.
#[derive(Debug)]
pub struct Lines<L> {
    line: L,
    /// Bytes a byte of input became in the last batch, in eighths: so that the next buffer is allocated once.
    eighths: usize,
}

impl<L: Line> Lines<L> {
    /// An encoder with this format.
    pub fn new(line: L) -> Self {
        Self { line, eighths: 16 }
    }
}

impl<L: Line> Encoder for Lines<L> {
    fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64 {
        let source = Source {
            received: Some(batch.received),
            listener: &batch.origin.listener,
            peer: &batch.origin.peer,
        };
        let mut out = Vec::with_capacity(batch.len_bytes() / 8 * self.eighths + 1024);
        let (mut written, mut bad) = (0, 0);
        for payload in batch.payloads() {
            let line = DnstapView::parse(payload).map_err(DecodeReason::from);
            match line.and_then(|view| self.line.write(&mut out, &view, source)) {
                Ok(()) => written += 1,
                Err(_) => bad += 1,
            }
        }
        self.eighths = (out.len() * 8 / batch.len_bytes().max(1) + 1).clamp(1, 256);
        outbox.push(Chunk::new(out.into(), written, Layout::Lines));
        bad
    }
}
