//! From runs of frames to lines on standard output.

use std::io::{self, ErrorKind, Write};

use crate::cli::input::Tally;
use crate::cli::terms::Sieve;
use crate::dnstap::{DecodeReason, DnstapView};
use crate::format::{Entry, Line, Source};
use crate::fstrm::Frames;

/// What is written goes out once it has this many bytes.
const WRITE_BYTES: usize = 128 * 1024;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Go on.
    Go,
    /// The limit is reached.
    Enough,
    /// Nobody reads the output any more.
    Gone,
}

/// Formats records and writes them.
pub(super) struct Printer<'a> {
    line: &'a mut dyn Line,
    sieve: Sieve,
    left: Option<u64>,
    /// Each run is written at once, since somebody waits for it.
    eager: bool,
    out: Vec<u8>,
    tally: Tally,
    peer: String,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        line: &'a mut dyn Line,
        sieve: Sieve,
        limit: Option<u64>,
        eager: bool,
    ) -> Self {
        let mut out = Vec::with_capacity(2 * WRITE_BYTES);
        line.begin(&mut out);
        Self {
            line,
            sieve,
            left: limit,
            eager,
            out,
            tally: Tally::default(),
            peer: String::new(),
        }
    }

    /// Names the file that the next records are from, where the format shows it; empty: it does not.
    pub(super) fn from(&mut self, name: &str) {
        name.clone_into(&mut self.peer);
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Formats the frames of a run.
    pub(super) fn print(&mut self, run: &[u8]) -> io::Result<Flow> {
        if self.left == Some(0) {
            return Ok(Flow::Enough);
        }
        for payload in Frames::new(run) {
            self.tally.frames += 1;
            match self.record(payload) {
                Ok(true) => {
                    self.tally.records += 1;
                    if let Some(left) = &mut self.left {
                        *left -= 1;
                        if *left == 0 {
                            return Ok(Flow::Enough);
                        }
                    }
                    if self.out.len() >= WRITE_BYTES && self.flush()? == Flow::Gone {
                        return Ok(Flow::Gone);
                    }
                }
                Ok(false) => {
                    self.tally.records += 1;
                    self.tally.filtered += 1;
                }
                Err(reason) => self.tally.error(reason.as_str(), 1),
            }
        }
        if self.eager {
            self.flush()
        } else {
            Ok(Flow::Go)
        }
    }

    /// Appends the line of a record; `false` when it is filtered out.
    #[inline]
    fn record(&mut self, payload: &[u8]) -> Result<bool, DecodeReason> {
        let view = DnstapView::parse(payload);
        if !self.sieve.is_open() {
            // What is no record is an error, whatever the filter says of it.
            let view = view.as_ref().map_err(|error| DecodeReason::from(*error))?;
            view.classify()?;
            if !self.sieve.keeps(view, &self.peer) {
                return Ok(false);
            }
        }
        let source = Source {
            peer: &self.peer,
            ..Source::default()
        };
        let entry = Entry {
            payload,
            view: view.as_ref().map_err(|error| (*error).into()),
            source,
        };
        self.line.write(&mut self.out, entry).map(|()| true)
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> io::Result<Flow> {
        if self.out.is_empty() {
            return Ok(Flow::Go);
        }
        let mut stdout = io::stdout().lock();
        let result = stdout.write_all(&self.out).and_then(|()| stdout.flush());
        self.out.clear();
        match result {
            Ok(()) => Ok(Flow::Go),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(Flow::Gone),
            Err(e) => Err(e),
        }
    }
}
