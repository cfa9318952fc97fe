//! The receiving link: a socket on one side, the Frame Streams machines on the other, runs of frames out.
//!
//! [`Link::next`] is the whole interface: it reads when the buffer holds nothing more, answers the handshake, and returns
//! what happened. After [`Event::Run`] the frames are looked at in place ([`Link::run`]) and then either left
//! ([`Link::next`] again) or taken along ([`Link::take_run`]). It is cancel-safe: nothing is lost when the future is dropped
//! while it waits, so it can stand in a `select!`.
//!
//! Reads adapt: an idle connection holds no buffer or a small one, a busy one reads [`Options::read_size`] at a time.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::fstrm::compress::{CompressError, Compression, Decompressor};
use crate::fstrm::{
    Action, BatchId, BufOptions, BufPool, ContentType, Control, ControlKind, Data, DecodeError,
    Decoder, Dialect, End, FrameBuf, Frames, HandshakeError, Item, Limits, Mark, Mode, Oversize,
    Receiver, View,
};

/// Reads that came back nearly empty before a connection goes back to its small buffer.
const QUIET_READS: u8 = 8;

/// What a link is made with. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which handshakes are taken.
    pub mode: Mode,
    /// Content types that are taken.
    pub content_types: Vec<ContentType>,
    /// Frame limits.
    pub limits: Limits,
    /// What an oversized data frame does.
    pub oversize: Oversize,
    /// Whether payloads are compressed. `Auto` is settled once, by the first payload of the stream, so that a plain
    /// stream pays nothing for it.
    pub compression: Compression,
    /// Largest payload after decompression.
    pub decompressed_max: usize,
    /// From the accept to START.
    pub handshake_timeout: Duration,
    /// Longest silence, where there is a limit.
    pub idle_timeout: Option<Duration>,
    /// Most that one read asks for.
    pub read_size: usize,
    /// The view buffer.
    pub buffer: BufOptions,
}

/// What came over the link.
#[derive(Debug)]
pub enum Event {
    /// The handshake is complete.
    Started {
        /// How the sender speaks.
        dialect: Dialect,
    },
    /// Whole data frames: see [`Link::run`].
    Run {
        /// How many.
        frames: usize,
        /// Their bytes on the wire, as they came (before decompression).
        wire_bytes: usize,
    },
    /// A data frame over the limit is being skipped.
    Skipped {
        /// Its length.
        len: u32,
    },
    /// A compressed frame that cannot be decompressed.
    Undecompressed {
        /// Why.
        error: CompressError,
        /// Its bytes on the wire.
        wire_bytes: usize,
    },
    /// On an acknowledged stream: so many data frames follow, which are this batch.
    Batch {
        /// Its name.
        id: BatchId,
        /// Its data frames.
        frames: u32,
    },
    /// A control frame out of place, or data after STOP.
    Ignored,
    /// STOP came and FINISH, where it is due, has been written. Nothing more follows. On an acknowledged stream it is due
    /// when everything is taken: see [`Link::finish`].
    Stopped,
    /// The peer has closed.
    Eof(End),
}

/// Why a link cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Not Frame Streams, or over a limit.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Not in this order, or about something else.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The handshake was not complete in time.
    #[error("no complete handshake within {0:?}")]
    HandshakeTimeout(Duration),
    /// Nothing came for too long.
    #[error("nothing came for {0:?}")]
    IdleTimeout(Duration),
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl LinkError {
    /// Reasons that are not among [`End::ALL`].
    pub const OWN_REASONS: [&'static str; 3] = ["handshake_timeout", "idle_timeout", "io_error"];

    /// A label value for `tapflow_connections_closed_total`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Decode(e) => End::from(e).as_str(),
            Self::Handshake(e) => End::from(e).as_str(),
            Self::HandshakeTimeout(_) => "handshake_timeout",
            Self::IdleTimeout(_) => "idle_timeout",
            Self::Io(_) => "io_error",
        }
    }
}

/// Where the frames of the current [`Event::Run`] are.
#[derive(Debug)]
enum Run {
    None,
    /// The first bytes of the buffer.
    Buffered(usize),
    /// The last decompressed payload.
    Inflated,
}

/// How payloads are taken, once known.
#[derive(Debug)]
enum Payloads {
    Undecided,
    Plain,
    Compressed(Box<Decompressor>),
}

/// One connection's receiving side.
#[derive(Debug)]
pub struct Link<S> {
    io: S,
    options: Options,
    buf: FrameBuf,
    decoder: Decoder,
    receiver: Receiver,
    payloads: Payloads,
    inflated: Vec<u8>,
    run: Run,
    outbox: Vec<u8>,
    sniffed: bool,
    started: bool,
    read_hint: usize,
    quiet_reads: u8,
    opened: Instant,
    last_read: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// A link over a fresh connection; `pool` lends the read buffers.
    pub fn new(io: S, options: Options, pool: BufPool) -> Self {
        let now = Instant::now();
        let payloads = match options.compression {
            Compression::Auto => Payloads::Undecided,
            Compression::Off => Payloads::Plain,
            Compression::Codec(_) => {
                Payloads::Compressed(Box::new(Decompressor::new(options.decompressed_max)))
            }
        };
        Self {
            io,
            buf: FrameBuf::new(options.buffer, pool),
            decoder: Decoder::new(options.limits, options.oversize),
            receiver: Receiver::new(options.mode, options.content_types.clone()),
            payloads,
            inflated: Vec::new(),
            run: Run::None,
            outbox: Vec::new(),
            sniffed: false,
            started: false,
            read_hint: options.buffer.initial_capacity,
            quiet_reads: 0,
            opened: now,
            last_read: now,
            options,
        }
    }

    /// The frames of the last [`Event::Run`], in batch layout. Empty after any other event.
    pub fn run(&self) -> &[u8] {
        match &self.run {
            Run::None => &[],
            Run::Buffered(len) => self.buf.unread().get(..*len).unwrap_or_default(),
            Run::Inflated => &self.inflated,
        }
    }

    /// Takes the frames of the last [`Event::Run`] along: bytes that stay valid.
    pub fn take_run(&mut self) -> Bytes {
        match std::mem::replace(&mut self.run, Run::None) {
            Run::None => Bytes::new(),
            Run::Buffered(len) => self.buf.split_owned(len),
            Run::Inflated => Bytes::copy_from_slice(&self.inflated),
        }
    }

    /// Whether the stream ended in STOP.
    pub fn stopped(&self) -> bool {
        self.receiver.stopped()
    }

    /// The socket.
    pub fn io(&self) -> &S {
        &self.io
    }

    /// What comes next. Cancel-safe.
    ///
    /// # Errors
    /// The connection cannot go on: close it.
    pub async fn next(&mut self) -> Result<Event, LinkError> {
        self.leave_run();
        loop {
            self.write_outbox().await?;
            if let Some(event) = self.advance()? {
                if self.outbox.is_empty() {
                    return Ok(event);
                }
                // FINISH and ACCEPT go out before anybody acts on the event. Should this be cancelled, the next call
                // finishes the write; a lost `Stopped` is told again by `advance`.
                self.write_outbox().await?;
                return Ok(event);
            }
            if !self.outbox.is_empty() {
                continue;
            }
            if self.read().await? == 0 {
                return Ok(Event::Eof(
                    self.receiver.on_eof(self.decoder.mid_frame(&self.buf)),
                ));
            }
        }
    }

    /// Writes FINISH although no STOP came, because we end the stream ourselves: a bidirectional sender understands it.
    ///
    /// # Errors
    /// As [`Link::next`]; there is nobody left to tell.
    pub async fn finish_early(&mut self) -> Result<(), LinkError> {
        if self.receiver.dialect() == Some(Dialect::Bidirectional) && !self.receiver.stopped() {
            Control::plain(ControlKind::Finish).encode(&mut self.outbox);
        }
        self.write_outbox().await?;
        Ok(self.io.shutdown().await?)
    }

    /// Whether the sender waits to hear what is taken.
    pub fn acknowledged(&self) -> bool {
        self.receiver.acknowledged()
    }

    /// Tells the sender that so many frames of the stream are taken. Goes out with the next write, at the latest in
    /// [`Link::flush`].
    pub fn taken(&mut self, frames: u64) {
        self.mark(Mark::Taken(frames));
    }

    /// Asks the sender to send no more and to stop. Goes out as [`Link::taken`].
    pub fn leave(&mut self) {
        self.mark(Mark::Leave);
    }

    /// FINISH after everything of an acknowledged stream is taken. Goes out as [`Link::taken`].
    pub fn finish(&mut self) {
        if self.acknowledged() {
            Control::plain(ControlKind::Finish).encode(&mut self.outbox);
        }
    }

    fn mark(&mut self, mark: Mark) {
        if self.acknowledged() {
            Control::plain(ControlKind::Mark(mark)).encode(&mut self.outbox);
        }
    }

    /// Writes what the sender is to be told. Cancel-safe.
    ///
    /// # Errors
    /// The peer does not take it.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.write_outbox().await
    }

    /// Closes our direction, so that all that was written arrives before the close.
    pub async fn shutdown(&mut self) -> std::io::Result<()> {
        self.io.shutdown().await
    }

    /// Forgets the run that nobody took.
    fn leave_run(&mut self) {
        if let Run::Buffered(len) = std::mem::replace(&mut self.run, Run::None) {
            self.buf.consume(len);
        }
    }

    /// Does what the buffered bytes allow. `None`: more bytes are needed, or an answer must be written first.
    fn advance(&mut self) -> Result<Option<Event>, LinkError> {
        if self.receiver.stopped() {
            return Ok(Some(Event::Stopped));
        }
        if !self.sniffed {
            if self.buf.unread().is_empty() {
                return Ok(None);
            }
            if !self
                .receiver
                .check_first(self.buf.unread(), self.options.limits.data_len_max)?
            {
                return Ok(None);
            }
            self.sniffed = true;
        }
        if let Payloads::Compressed(_) = self.payloads {
            return self.advance_compressed();
        }
        match self.decoder.next(&mut self.buf)? {
            None => Ok(None),
            Some(Item::Control(control)) => self.on_control(&control),
            Some(Item::Skipped { len }) => self.deliverable(Event::Skipped { len }),
            Some(Item::Run { len, frames }) => {
                if matches!(self.payloads, Payloads::Undecided) && self.recognise(len) {
                    return self.advance_compressed();
                }
                self.run = Run::Buffered(len);
                self.deliverable(Event::Run {
                    frames,
                    wire_bytes: len,
                })
            }
        }
    }

    /// Settles by the first payload whether the stream is compressed.
    fn recognise(&mut self, run_len: usize) -> bool {
        let run = self.buf.unread().get(..run_len).unwrap_or_default();
        let compressed = Frames::new(run)
            .next()
            .is_some_and(|payload| self.options.compression.codec_of(payload).is_some());
        self.payloads = if compressed {
            Payloads::Compressed(Box::new(Decompressor::new(self.options.decompressed_max)))
        } else {
            Payloads::Plain
        };
        compressed
    }

    fn advance_compressed(&mut self) -> Result<Option<Event>, LinkError> {
        let Payloads::Compressed(decompressor) = &mut self.payloads else {
            return Ok(None);
        };
        let event = match self.decoder.next_view(&mut self.buf)? {
            None => return Ok(None),
            Some(View::Control(control)) => return self.on_control(&control),
            Some(View::Skipped { len }) => Event::Skipped { len },
            Some(View::Frame(payload)) => {
                let wire_bytes = payload.len().saturating_add(4);
                self.inflated.clear();
                match self.options.compression.codec_of(payload) {
                    // A sender that compresses may still send a frame as it is.
                    None => {
                        self.inflated.extend_from_slice(
                            &u32::try_from(payload.len())
                                .unwrap_or(u32::MAX)
                                .to_be_bytes(),
                        );
                        self.inflated.extend_from_slice(payload);
                        self.run = Run::Inflated;
                        Event::Run {
                            frames: 1,
                            wire_bytes,
                        }
                    }
                    Some(codec) => match decompressor.inner(codec, payload, &mut self.inflated) {
                        Ok(inner) => {
                            self.run = Run::Inflated;
                            Event::Run {
                                frames: inner.frames,
                                wire_bytes,
                            }
                        }
                        Err(error) => Event::Undecompressed { error, wire_bytes },
                    },
                }
            }
        };
        self.deliverable(event)
    }

    /// Data is only data while the stream is open.
    fn deliverable(&mut self, event: Event) -> Result<Option<Event>, LinkError> {
        match self.receiver.on_data()? {
            Data::Deliver => {
                self.started = true;
                Ok(Some(event))
            }
            Data::Discard => {
                self.leave_run();
                Ok(Some(Event::Ignored))
            }
        }
    }

    fn on_control(&mut self, control: &Control) -> Result<Option<Event>, LinkError> {
        match self.receiver.on_control(control)? {
            Action::Reply(reply) => {
                reply.encode(&mut self.outbox);
                Ok(None)
            }
            Action::Started => {
                self.started = true;
                if self.receiver.acknowledged() {
                    // The frames of a batch are counted, so each is taken for what it is.
                    self.payloads = Payloads::Plain;
                }
                let dialect = self.receiver.dialect().unwrap_or(Dialect::Unidirectional);
                Ok(Some(Event::Started { dialect }))
            }
            Action::Mark(Mark::Batch { id, frames }) => Ok(Some(Event::Batch { id, frames })),
            Action::Mark(_) | Action::Ignored(_) => Ok(Some(Event::Ignored)),
            Action::Stopped { reply } => {
                if let Some(reply) = reply {
                    reply.encode(&mut self.outbox);
                }
                Ok(Some(Event::Stopped))
            }
        }
    }

    /// Writes the answers that are due. An answer that finds nobody is no error: Unbound closes right after STOP, so FINISH
    /// comes too late, and what a sender wrote before it went away can still be read.
    ///
    /// # Errors
    /// The peer does not take the answer: it keeps asking and never reads.
    async fn write_outbox(&mut self) -> Result<(), LinkError> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let limit = self.options.handshake_timeout;
        let deadline = Instant::now().checked_add(limit);
        while !self.outbox.is_empty() {
            let wrote = with_deadline(self.io.write(&self.outbox), deadline).await;
            match wrote {
                Some(Ok(n)) if n > 0 => drop(self.outbox.drain(..n)),
                None if !self.receiver.stopped() => return Err(LinkError::HandshakeTimeout(limit)),
                _ => self.outbox.clear(),
            }
        }
        // TLS may still hold some of it.
        let _ = with_deadline(self.io.flush(), deadline).await;
        Ok(())
    }

    /// One read. Returns the number of bytes, 0 at the end of the stream.
    async fn read(&mut self) -> Result<usize, LinkError> {
        let want = self.read_hint.max(
            self.decoder
                .want(&self.buf)
                .min(self.options.buffer.growth_limit),
        );
        if self.quiet_reads == QUIET_READS
            && self.buf.capacity() > self.options.buffer.initial_capacity
        {
            self.buf.release_if_empty();
        }
        let (deadline, timed_out) = self.deadline();
        if self.talks_for_ever() {
            return Err(timed_out);
        }
        let n = {
            let spare = self.buf.spare(want);
            // A read asks for no more than it should, however large the storage is: what is read at once is one batch.
            let len = spare.len().min(self.options.read_size.max(want));
            let spare = spare.get_mut(..len).unwrap_or_default();
            with_deadline(self.io.read(spare), deadline)
                .await
                .ok_or(timed_out)??
        };
        self.buf.filled(n);
        if self.options.idle_timeout.is_some() {
            self.last_read = Instant::now();
        }
        if n >= self.read_hint {
            self.read_hint = self.read_hint.saturating_mul(4).min(self.options.read_size);
            self.quiet_reads = 0;
        } else if n < self.read_hint / 16 {
            self.quiet_reads = self.quiet_reads.saturating_add(1);
            if self.quiet_reads == QUIET_READS {
                self.read_hint = self.options.buffer.initial_capacity;
            }
        } else {
            self.quiet_reads = 0;
        }
        Ok(n)
    }

    /// Whether the peer has been in its handshake for twice the time. A read that is ready passes also after the deadline,
    /// which spares a sender that we were too busy to hear; one that keeps repeating READY must end all the same.
    fn talks_for_ever(&self) -> bool {
        let limit = self.options.handshake_timeout.saturating_mul(2);
        !self.started && !self.receiver.streaming() && self.opened.elapsed() > limit
    }

    /// Until when the next byte must come, and the error if it does not.
    fn deadline(&self) -> (Option<Instant>, LinkError) {
        // A raw listener has no handshake to wait for.
        if !self.started && !self.receiver.streaming() {
            let limit = self.options.handshake_timeout;
            return (
                self.opened.checked_add(limit),
                LinkError::HandshakeTimeout(limit),
            );
        }
        let limit = self.options.idle_timeout;
        (
            limit.and_then(|l| self.last_read.checked_add(l)),
            LinkError::IdleTimeout(limit.unwrap_or_default()),
        )
    }
}

async fn with_deadline<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
