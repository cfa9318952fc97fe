//! Runs of frames out of Frame Streams in a file or a pipe.

use std::io::{ErrorKind, Read};

use bytes::Bytes;

use super::tally::Tally;
use super::{Ending, FRAME_MAX, Fault, Step};
use crate::fstrm::BufOptions;
use crate::fstrm::BufPool;
use crate::fstrm::Codec;
use crate::fstrm::Compression;
use crate::fstrm::ContentType;
use crate::fstrm::Control;
use crate::fstrm::ControlKind;
use crate::fstrm::Data;
use crate::fstrm::Decoder;
use crate::fstrm::Decompressor;
use crate::fstrm::End;
use crate::fstrm::FrameBuf;
use crate::fstrm::Frames;
use crate::fstrm::Item;
use crate::fstrm::Limits;
use crate::fstrm::Mode;
use crate::fstrm::Oversize;
use crate::fstrm::Receiver;

/// Largest payload after decompression, in bytes: eight times what a listener takes unasked.
const DECOMPRESSED_MAX: usize = 64 * 1024 * 1024;
/// Storages kept for runs that were taken along.
const STORAGES: usize = 16;

/// Where the frames of the current run are.
#[derive(Debug)]
enum Run {
    None,
    /// The first bytes of the buffer.
    Buffered(usize),
    /// What came out of compressed payloads, plain ones between them.
    Inflated,
}

/// Frame Streams that are read from a file. A file may hold several streams one after another.
pub(super) struct FrameFile {
    reader: Box<dyn Read + Send>,
    read_size: usize,
    buf: FrameBuf,
    decoder: Decoder,
    receiver: Receiver,
    decompressor: Option<Decompressor>,
    inflated: Vec<u8>,
    run: Run,
    /// Whether a run was ever given out.
    begun: bool,
    /// The compressed file around it ends too early.
    cut: bool,
}

impl FrameFile {
    pub(super) fn new(reader: Box<dyn Read + Send>, read_size: usize) -> Self {
        let limits = Limits {
            data_len_max: FRAME_MAX,
            ..Limits::default()
        };
        let buffer = BufOptions {
            initial_capacity: read_size,
            growth_limit: FRAME_MAX + read_size + 4,
        };
        Self {
            reader,
            read_size,
            buf: FrameBuf::new(buffer, BufPool::new(read_size, STORAGES)),
            decoder: Decoder::new(limits, Oversize::Skip),
            receiver: new_receiver(),
            decompressor: None,
            inflated: Vec::new(),
            run: Run::None,
            begun: false,
            cut: false,
        }
    }

    pub(super) fn run(&self) -> &[u8] {
        match self.run {
            Run::None => &[],
            Run::Buffered(len) => self.buf.unread().get(..len).unwrap_or_default(),
            Run::Inflated => &self.inflated,
        }
    }

    pub(super) fn take_run(&mut self) -> Bytes {
        match std::mem::replace(&mut self.run, Run::None) {
            Run::None => Bytes::new(),
            Run::Buffered(len) => self.buf.split_owned(len),
            Run::Inflated => Bytes::from(std::mem::take(&mut self.inflated)),
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.receiver.stopped()
    }

    pub(super) fn next(&mut self, name: &str, tally: &mut Tally) -> Result<Step, Fault> {
        if let Run::Buffered(len) = std::mem::replace(&mut self.run, Run::None) {
            self.buf.consume(len);
        }
        loop {
            let item = self.decoder.next(&mut self.buf);
            match item.map_err(|e| self.fault(name, &e.to_string()))? {
                Some(Item::Run { len, frames }) => {
                    if self.deliver(name)? {
                        let frames = self.take_in(len, frames, tally);
                        if frames > 0 {
                            self.begun = true;
                            return Ok(Step::Run { frames });
                        }
                    } else {
                        tally.after_stop += frames as u64;
                        self.buf.consume(len);
                    }
                }
                Some(Item::Skipped { .. }) => {
                    if self.deliver(name)? {
                        tally.frames += 1;
                        tally.error("oversized", 1);
                    } else {
                        tally.after_stop += 1;
                    }
                }
                Some(Item::Control(control)) => self.on_control(name, &control)?,
                None => {
                    if self.read(name)? == 0 {
                        return Ok(Step::Eof);
                    }
                }
            }
        }
    }

    /// What the end of the file means.
    pub(super) fn ending(&self, name: &str) -> Result<Ending, Fault> {
        if self.cut {
            return Ok(Ending::Cut("the compressed file is cut".to_owned()));
        }
        match self.receiver.on_eof(self.decoder.mid_frame(&self.buf)) {
            End::NoStop => Ok(Ending::NoStop),
            End::Truncated if self.begun || self.receiver.streaming() => Ok(Ending::Cut(format!(
                "it is cut within the frame that begins at byte {}",
                self.buf.position()
            ))),
            End::Truncated | End::HandshakeEof => Err(Fault::Unreadable(format!(
                "{name}: it ends before the first data frame"
            ))),
            _ => Ok(Ending::Clean),
        }
    }

    /// Whether data frames are the stream's.
    fn deliver(&mut self, name: &str) -> Result<bool, Fault> {
        let data = self.receiver.on_data();
        let data = data.map_err(|e| self.fault(name, &e.to_string()))?;
        Ok(data == Data::Deliver)
    }

    fn on_control(&mut self, name: &str, control: &Control) -> Result<(), Fault> {
        // Files are put together with `cat`: after STOP another stream may begin.
        if self.receiver.stopped()
            && matches!(control.kind, ControlKind::Start | ControlKind::Ready)
        {
            self.receiver = new_receiver();
        }
        match self.receiver.on_control(control) {
            // What a receiver would answer is of no interest here: nobody listens.
            Ok(_) => Ok(()),
            Err(e) => Err(self.fault(name, &e.to_string())),
        }
    }

    /// Makes the frames at the front of the buffer the current run, decompressed; returns how many there are.
    fn take_in(&mut self, len: usize, frames: usize, tally: &mut Tally) -> usize {
        let run = self.buf.unread().get(..len).unwrap_or_default();
        if !Frames::new(run).any(|payload| Codec::recognise(payload).is_some()) {
            self.run = Run::Buffered(len);
            return frames;
        }
        let decompressor = self
            .decompressor
            .get_or_insert_with(|| Decompressor::new(DECOMPRESSED_MAX));
        self.inflated.clear();
        let mut count = 0;
        let mut rest = run;
        let mut payloads = Frames::new(run);
        while let Some(payload) = payloads.next() {
            let after = payloads.rest();
            match Compression::Auto.codec_of(payload) {
                None => {
                    let frame = rest.get(..rest.len() - after.len()).unwrap_or_default();
                    self.inflated.extend_from_slice(frame);
                    count += 1;
                }
                Some(codec) => match decompressor.inner(codec, payload, &mut self.inflated) {
                    Ok(inner) => count += inner.frames,
                    Err(error) => {
                        tally.frames += 1;
                        tally.error(error.reason.as_str(), 1);
                    }
                },
            }
            rest = after;
        }
        self.buf.consume(len);
        self.run = Run::Inflated;
        count
    }

    /// One read. 0: nothing more, for now.
    fn read(&mut self, name: &str) -> Result<usize, Fault> {
        if self.cut {
            return Ok(0);
        }
        let want = self.decoder.want(&self.buf).max(self.read_size / 2);
        loop {
            match self.reader.read(self.buf.spare(want)) {
                Ok(n) => {
                    self.buf.filled(n);
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    self.cut = true;
                    return Ok(0);
                }
                Err(e) => return Err(self.fault(name, &format!("cannot be read on: {e}"))),
            }
        }
    }

    fn fault(&self, name: &str, why: &str) -> Fault {
        if self.begun {
            Fault::Damaged(format!("{name}: {why}; what follows is not read"))
        } else {
            Fault::Unreadable(format!("{name}: {why}"))
        }
    }
}

fn new_receiver() -> Receiver {
    Receiver::new(Mode::Auto, vec![ContentType::DNSTAP])
}
