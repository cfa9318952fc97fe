//! [`Sender`]: the sending end of Frame Streams on a connected socket.
//!
//! It writes batches as they are, many in one call, and keeps an eye on the other direction meanwhile: a receiver has
//! nothing to say but ACCEPT and FINISH, so its FINISH or its end of stream out of turn means that it wants no more, and is
//! noticed before the next write instead of after it.
//!
//! What a failed connection got is told by the [`Outbox`]: frames whose last byte the operating system took count as
//! delivered, the frame that was cut goes out again whole on the next connection. (Frames that lay in the socket's buffers
//! when the peer died are lost without a trace; only an acknowledgement by the receiver could tell.)
//!
//! What it is not: it does not connect again, wait, or drop. That is the output's policy.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use crate::fstrm::BufOptions;
use crate::fstrm::BufPool;
use crate::fstrm::ContentType;
use crate::fstrm::Control;
use crate::fstrm::ControlKind;
use crate::fstrm::Decoder;
use crate::fstrm::Dialect;
use crate::fstrm::End;
use crate::fstrm::FrameBuf;
use crate::fstrm::Item;
use crate::fstrm::Limits;
use crate::fstrm::Oversize;
use crate::fstrm::Sender as Machine;
use crate::fstrm::SenderAction;
use crate::link::outbox::{Outbox, SLICES_MAX};
use crate::transport::Stream;
use crate::transport::dial_with;
use crate::transport::tls::client::ClientTls;
use crate::transport::tls::{Fault, fault_of};
use crate::units::Endpoint;

/// A receiver sends control frames alone; two of the longest fit.
const INBOX_BYTES: usize = 8 * 1024;

/// How a stream is sent.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Which handshake is spoken.
    pub dialect: Dialect,
    /// The content types on offer, best first; normally dnstap's alone.
    pub content_types: Vec<ContentType>,
    /// The payloads are compressed: then the peer's closing after STOP is as good as FINISH, because DNS-collector never
    /// answers FINISH on such a stream.
    pub compressed: bool,
    /// Time the receiver may take to answer READY; `None`: for ever.
    pub handshake_timeout: Option<Duration>,
    /// Time a write may make no progress at all; starts anew with every byte that is taken. `None`: for ever.
    pub write_timeout: Option<Duration>,
    /// Time to wait for FINISH after STOP; `None`: for ever.
    pub finish_timeout: Option<Duration>,
}

impl Default for SenderOptions {
    /// Bidirectional dnstap; 5 s for the handshake, 30 s for a write, 2 s for FINISH.
    fn default() -> Self {
        Self {
            dialect: Dialect::Bidirectional,
            content_types: vec![ContentType::DNSTAP],
            compressed: false,
            handshake_timeout: Some(Duration::from_secs(5)),
            write_timeout: Some(Duration::from_secs(30)),
            finish_timeout: Some(Duration::from_secs(2)),
        }
    }
}

/// Why a connection could not be made or was lost. A closed set: label values of `tapflow_output_reconnects_total`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nobody listens there.
    Refused,
    /// No way there: no route, no such name, no such socket file, no permission.
    Unreachable,
    /// No connection in time.
    ConnectTimeout,
    /// No ACCEPT in time.
    HandshakeTimeout,
    /// The answer to READY was not one that lets data flow.
    Handshake,
    /// The connection broke.
    Reset,
    /// The peer closed, or said FINISH, before we were done.
    Closed,
    /// No byte was taken in time.
    WriteTimeout,
    /// TLS failed.
    Tls(Fault),
    /// Any other error of the socket.
    Other,
}

impl Failure {
    /// Every reason but those of TLS, which are [`Fault::ALL`].
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::HandshakeTimeout,
        Self::Handshake,
        Self::Reset,
        Self::Closed,
        Self::WriteTimeout,
        Self::Other,
    ];

    /// The name in metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Handshake => "handshake",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::WriteTimeout => "write_timeout",
            Self::Tls(fault) => fault.as_str(),
            Self::Other => "other",
        }
    }

    fn of_stream(error: &io::Error) -> Self {
        if let Some(fault) = fault_of(error) {
            return Self::Tls(fault);
        }
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => {
                Self::Closed
            }
            // ETIMEDOUT: keepalive or retransmission gave the peer up.
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::TimedOut => Self::Reset,
            _ => Self::Other,
        }
    }

    /// The reason of a connection that could not be made.
    pub fn of_dial(error: &io::Error) -> Self {
        if let Some(fault) = fault_of(error) {
            return Self::Tls(fault);
        }
        match error.kind() {
            // A Unix listener whose backlog is full says EAGAIN at once.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => Self::Refused,
            io::ErrorKind::TimedOut => Self::ConnectTimeout,
            io::ErrorKind::ConnectionReset => Self::Reset,
            _ => Self::Unreachable,
        }
    }
}

/// A connection that could not be made or was lost.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SendError {
    /// The reason, for counting.
    pub failure: Failure,
    text: String,
}

impl SendError {
    /// With a text for people.
    pub fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self {
            failure,
            text: text.into(),
        }
    }
}

impl From<io::Error> for SendError {
    fn from(e: io::Error) -> Self {
        Self::new(Failure::of_stream(&e), e.to_string())
    }
}

/// How a stream ended after STOP.
#[derive(Debug)]
pub enum Farewell {
    /// FINISH came: the receiver has everything.
    Finished,
    /// The dialect knows no FINISH; everything was handed to the operating system.
    Unasked,
    /// The peer closed without FINISH, which on a compressed stream is as good.
    Closed,
    /// It cannot be told whether the receiver has everything.
    Unclear(SendError),
}

impl Farewell {
    /// Whether the stream ended as it should.
    pub const fn is_clean(&self) -> bool {
        !matches!(self, Self::Unclear(_))
    }
}

/// A started stream on a connected socket `S`.
#[derive(Debug)]
pub struct Sender<S = Stream> {
    io: S,
    options: SenderOptions,
    machine: Machine,
    decoder: Decoder,
    inbox: FrameBuf,
    content_type: Option<ContentType>,
    /// The last write may have ended within a frame, so that no control frame can follow.
    cut: bool,
}

impl Sender<Stream> {
    /// Connects to `to` within `connect_timeout` and starts the stream.
    ///
    /// # Errors
    /// [`SendError`]: not connected, or as [`Sender::start`].
    pub async fn dial(
        to: &Endpoint,
        tls: Option<&Arc<ClientTls>>,
        connect_timeout: Duration,
        options: SenderOptions,
    ) -> Result<Self, SendError> {
        let io = dial_with(to, tls, connect_timeout)
            .await
            .map_err(|e| SendError::new(Failure::of_dial(&e), e.to_string()))?;
        Self::start(io, options).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sender<S> {
    /// Does the handshake on a socket that is connected.
    ///
    /// # Errors
    /// [`SendError`] when the receiver does not answer in time, closes, takes none of our content types, or speaks
    /// something else.
    pub async fn start(io: S, options: SenderOptions) -> Result<Self, SendError> {
        let machine = Machine::new(options.dialect, options.content_types.clone())
            .finish_optional(options.compressed);
        let buffer = BufOptions {
            initial_capacity: 512,
            growth_limit: INBOX_BYTES,
        };
        let mut sender = Self {
            io,
            machine,
            decoder: Decoder::new(Limits::default(), Oversize::Close),
            inbox: FrameBuf::new(buffer, BufPool::new(INBOX_BYTES, 1)),
            content_type: None,
            cut: false,
            options,
        };
        let limit = sender.options.handshake_timeout;
        match within(limit, sender.shake_hands()).await {
            Some(result) => result.map(|()| sender),
            None => Err(SendError::new(
                Failure::HandshakeTimeout,
                format!("no answer to READY within {:?}", limit.unwrap_or_default()),
            )),
        }
    }

    async fn shake_hands(&mut self) -> Result<(), SendError> {
        if let Some(first) = self.machine.start() {
            if first.kind == ControlKind::Start {
                self.content_type = first.content_types.first().cloned();
            }
            self.io.write_all(&first.to_bytes()).await?;
        }
        while !self.machine.streaming() {
            if let SenderAction::Start(start) = self.control().await? {
                self.content_type = start.content_types.first().cloned();
                self.io.write_all(&start.to_bytes()).await?;
            }
        }
        self.io.flush().await?;
        Ok(())
    }

    /// The content type that START named.
    pub const fn content_type(&self) -> Option<&ContentType> {
        self.content_type.as_ref()
    }

    /// Writes once from the front of `outbox`, up to 64 chunks in one call, and returns the number of bytes taken; at once
    /// when the outbox is empty. Waits for as long as the peer takes nothing, at most the write timeout. Cancel-safe: the
    /// outbox knows what was taken.
    ///
    /// # Errors
    /// [`SendError`] when the connection is lost or the peer wants no more; the outbox has been rewound to the first
    /// frame that was not wholly written, and this sender is of no more use.
    pub async fn write(&mut self, outbox: &mut Outbox) -> Result<usize, SendError> {
        if outbox.is_empty() {
            return Ok(0);
        }
        let limit = self.options.write_timeout;
        let step = std::future::poll_fn(|cx| self.poll_write(cx, outbox));
        let result = match within(limit, step).await {
            Some(Ok(n)) if outbox.is_empty() => {
                self.io.flush().await.map(|()| n).map_err(SendError::from)
            }
            Some(result) => result,
            None => Err(SendError::new(
                Failure::WriteTimeout,
                format!("the peer took nothing for {:?}", limit.unwrap_or_default()),
            )),
        };
        self.cut = !outbox.at_boundary();
        if result.is_err() {
            outbox.rewind();
        }
        result
    }

    /// As [`Sender::write`], until the outbox is empty. Returns the number of bytes taken.
    ///
    /// # Errors
    /// As [`Sender::write`].
    pub async fn write_all(&mut self, outbox: &mut Outbox) -> Result<u64, SendError> {
        let mut bytes = 0;
        while !outbox.is_empty() {
            bytes += self.write(outbox).await? as u64;
        }
        Ok(bytes)
    }

    /// Waits until the peer closes or says FINISH out of turn: for use while there is nothing to write. Cancel-safe.
    pub async fn closed(&mut self) -> SendError {
        std::future::poll_fn(|cx| self.poll_closed(cx)).await
    }

    /// Ends the stream: STOP, and in a bidirectional one waits for FINISH, up to the finish timeout. Call it when the outbox
    /// is empty; after a write that was cut within a frame no STOP is possible, and the connection is just closed.
    pub async fn stop(mut self) -> Farewell {
        if self.cut {
            return Farewell::Unclear(SendError::new(Failure::Other, "closed within a frame"));
        }
        let limit = self.options.finish_timeout;
        match within(limit, self.say_goodbye()).await {
            Some(Ok(farewell)) => farewell,
            Some(Err(e)) => Farewell::Unclear(e),
            None => Farewell::Unclear(SendError::new(
                Failure::HandshakeTimeout,
                format!("no FINISH within {:?}", limit.unwrap_or_default()),
            )),
        }
    }

    async fn say_goodbye(&mut self) -> Result<Farewell, SendError> {
        if let Some(stop) = self.machine.stop() {
            self.io.write_all(&stop.to_bytes()).await?;
            self.io.flush().await?;
        }
        if self.machine.finished() {
            self.io.shutdown().await?;
            return Ok(Farewell::Unasked);
        }
        while !self.machine.finished() {
            if let Err(e) = self.control().await {
                let end = self.machine.on_eof(self.decoder.mid_frame(&self.inbox));
                return if e.failure == Failure::Closed && end == End::Clean {
                    Ok(Farewell::Closed)
                } else {
                    Err(e)
                };
            }
        }
        // The peer may have closed already: FINISH is all we wanted.
        let _ = self.io.shutdown().await;
        Ok(Farewell::Finished)
    }

    /// Writes STOP, after which [`poll_peer`](Self::poll_peer) gives what comes until FINISH. For those who have something
    /// to hear in between; the others use [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`SendError`] when the connection is lost.
    pub async fn begin_stop(&mut self) -> Result<(), SendError> {
        if let Some(stop) = self.machine.stop() {
            let limit = self.options.write_timeout;
            match within(limit, self.io.write_all(&stop.to_bytes())).await {
                Some(written) => written?,
                None => return Err(SendError::new(Failure::WriteTimeout, "STOP finds no room")),
            }
        }
        Ok(())
    }

    /// The connection, to write data frames on. Whoever writes a part of a frame has to write the rest.
    pub const fn io_mut(&mut self) -> &mut S {
        &mut self.io
    }

    /// What the receiver says next.
    ///
    /// # Errors
    /// [`SendError`] when nothing more will come, or what comes is no answer.
    pub fn poll_peer(&mut self, cx: &mut Context<'_>) -> Poll<Result<SenderAction, SendError>> {
        self.poll_control(cx)
    }

    async fn control(&mut self) -> Result<SenderAction, SendError> {
        std::future::poll_fn(|cx| self.poll_control(cx)).await
    }

    /// The next control frame from the peer and what it asks of us; an error when there will be none.
    fn poll_control(&mut self, cx: &mut Context<'_>) -> Poll<Result<SenderAction, SendError>> {
        loop {
            match self.decoder.next(&mut self.inbox) {
                Ok(Some(Item::Control(control))) => return Poll::Ready(self.on_control(&control)),
                Ok(Some(Item::Run { .. } | Item::Skipped { .. })) => {
                    let error = self
                        .machine
                        .on_data()
                        .map_or_else(|e| e.to_string(), |()| "data from a receiver".to_owned());
                    return Poll::Ready(Err(SendError::new(Failure::Handshake, error)));
                }
                Err(e) => {
                    return Poll::Ready(Err(SendError::new(Failure::Handshake, e.to_string())));
                }
                Ok(None) => {}
            }
            let want = self.decoder.want(&self.inbox);
            let mut spare = ReadBuf::new(self.inbox.spare(want));
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut spare))?;
            let n = spare.filled().len();
            if n == 0 {
                return Poll::Ready(Err(SendError::new(
                    Failure::Closed,
                    "the peer closed the connection",
                )));
            }
            self.inbox.filled(n);
        }
    }

    fn on_control(&mut self, control: &Control) -> Result<SenderAction, SendError> {
        self.machine
            .on_control(control)
            .map_err(|e| SendError::new(Failure::Handshake, e.to_string()))
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<SendError> {
        loop {
            match ready!(self.poll_control(cx)) {
                Ok(SenderAction::Finished | SenderAction::Ignored(ControlKind::Finish)) => {
                    return Poll::Ready(SendError::new(
                        Failure::Closed,
                        "the peer said FINISH before our STOP",
                    ));
                }
                Ok(_) => {}
                Err(e) => return Poll::Ready(e),
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<Result<usize, SendError>> {
        // Costs no system call while nothing has arrived: the runtime remembers that the socket is not readable.
        if let Poll::Ready(e) = self.poll_closed(cx) {
            return Poll::Ready(Err(e));
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let filled = outbox.slices(&mut slices, usize::MAX);
        let slices = slices.get(..filled).unwrap_or_default();
        let n = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices))?;
        if n == 0 {
            return Poll::Ready(Err(SendError::new(
                Failure::Closed,
                "the connection takes no more bytes",
            )));
        }
        outbox.advance(n);
        Poll::Ready(Ok(n))
    }
}

/// `None`: the time was up first.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::fstrm::Frames;
    use crate::link::outbox::{Chunk, Layout};

    /// A socket that takes so many bytes at each write, then breaks; and from which these bytes can be read.
    #[derive(Default, Debug)]
    struct Script {
        takes: VecDeque<usize>,
        written: Vec<u8>,
        answers: Vec<u8>,
        /// Pending so long before each write.
        delay: Option<Duration>,
        waiting: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    impl AsyncRead for &mut Script {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.answers.is_empty() {
                return Poll::Pending;
            }
            buf.put_slice(&self.answers);
            self.answers.clear();
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for &mut Script {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            if let Some(delay) = self.delay {
                let sleep = self
                    .waiting
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
                ready!(sleep.as_mut().poll(cx));
                self.waiting = None;
            }
            let Some(n) = self.takes.pop_front() else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            let n = n.min(buf.len());
            self.written.extend_from_slice(&buf[..n]);
            Poll::Ready(Ok(n))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all: Vec<u8> = bufs.iter().flat_map(|b| b.to_vec()).collect();
            self.poll_write(cx, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn options(dialect: Dialect) -> SenderOptions {
        SenderOptions {
            dialect,
            ..SenderOptions::default()
        }
    }

    /// Frames of these payload lengths, numbered from `first` in their first octet.
    fn run(first: u8, lens: &[usize]) -> Vec<u8> {
        let numbered = lens.iter().zip((0..=u8::MAX).cycle().skip(first.into()));
        numbered
            .flat_map(|(n, i)| {
                (*n as u32)
                    .to_be_bytes()
                    .into_iter()
                    .chain(std::iter::repeat_n(i, *n))
            })
            .collect()
    }

    fn accept() -> Vec<u8> {
        Control::with_type(ControlKind::Accept, Some(ContentType::DNSTAP))
            .to_bytes()
            .to_vec()
    }

    proptest! {
        #[test]
        fn cuts_anywhere_and_new_connections_deliver_every_frame_exactly_once(
            chunks in proptest::collection::vec(proptest::collection::vec(1usize..12, 1..6), 1..8),
            connections in proptest::collection::vec(proptest::collection::vec(1usize..40, 0..6), 0..8),
            dialect in prop_oneof![Just(Dialect::Bidirectional), Just(Dialect::Unidirectional), Just(Dialect::Raw)],
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let mut outbox = Outbox::new();
                let mut want = Vec::new();
                for lens in &chunks {
                    let bytes = run(want.len() as u8, lens);
                    want.extend_from_slice(&bytes);
                    outbox.push(Chunk::new(bytes.into(), lens.len() as u64, Layout::Run));
                }
                let marks = match dialect { Dialect::Bidirectional => 2, Dialect::Unidirectional => 1, Dialect::Raw => 0 };
                let (mut got, mut delivered) = (Vec::new(), 0);
                for takes in connections.iter().map(|c| c.iter().copied().collect()).chain([VecDeque::from([usize::MAX; 64])]) {
                    // Control frames (42 octets each) go out whole, so that every cut is among the data.
                    let takes = std::iter::repeat_n(usize::MAX, marks).chain(takes).collect();
                    let mut io = Script { takes, answers: accept(), ..Script::default() };
                    if dialect != Dialect::Bidirectional {
                        io.answers.clear();
                    }
                    let mut sender = Sender::start(&mut io, options(dialect)).await.unwrap();
                    let result = sender.write_all(&mut outbox).await;
                    prop_assert_eq!(result.is_ok(), outbox.is_empty());
                    delivered += outbox.take_delivered();
                    let mut frames = Frames::new(&io.written[42 * marks..]);
                    frames.by_ref().for_each(drop);
                    got.extend_from_slice(&io.written[42 * marks..io.written.len() - frames.rest().len()]);
                }
                prop_assert_eq!(&got, &want);
                prop_assert_eq!(delivered, Frames::count_of(&want).unwrap() as u64);
                Ok(())
            })?;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_write_timeout_starts_anew_with_every_byte_taken() {
        for (delay, ok) in [(29, true), (31, false)] {
            let takes = VecDeque::from([3; 10]);
            let mut io = Script {
                takes,
                delay: Some(Duration::from_secs(delay)),
                ..Script::default()
            };
            let mut sender = Sender::start(&mut io, options(Dialect::Raw)).await.unwrap();
            let mut outbox = Outbox::new();
            outbox.push(Chunk::new(run(0, &[26]).into(), 1, Layout::Run));
            let result = sender.write_all(&mut outbox).await;
            assert_eq!(result.is_ok(), ok);
            if let Err(e) = result {
                assert_eq!(e.failure, Failure::WriteTimeout);
                assert_eq!(outbox.frames(), 1, "it is still to be sent");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_handshake_and_finish_have_timeouts_of_their_own() {
        let mut io = Script {
            takes: VecDeque::from([usize::MAX; 9]),
            ..Script::default()
        };
        let error = Sender::start(&mut io, options(Dialect::Bidirectional))
            .await
            .unwrap_err();
        assert_eq!(error.failure, Failure::HandshakeTimeout);
        let mut io = Script {
            takes: VecDeque::from([usize::MAX; 9]),
            answers: accept(),
            ..Script::default()
        };
        let sender = Sender::start(&mut io, options(Dialect::Bidirectional))
            .await
            .unwrap();
        assert_eq!(sender.content_type(), Some(&ContentType::DNSTAP));
        assert!(!sender.stop().await.is_clean());
        assert!(
            io.written.ends_with(b"\0\0\0\0\0\0\0\x04\0\0\0\x03"),
            "STOP was written"
        );
    }

    #[tokio::test]
    async fn no_stop_is_written_into_the_middle_of_a_frame() {
        let mut io = Script {
            takes: VecDeque::from([5, 99, 99]),
            ..Script::default()
        };
        let mut sender = Sender::start(&mut io, options(Dialect::Raw)).await.unwrap();
        let mut outbox = Outbox::new();
        outbox.push(Chunk::new(run(0, &[26]).into(), 1, Layout::Run));
        assert_eq!(sender.write(&mut outbox).await.unwrap(), 5);
        assert!(!sender.stop().await.is_clean());
        assert_eq!(io.written.len(), 5);
    }
}
