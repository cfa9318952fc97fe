//! From bytes to runs and control frames.

use super::buffer::FrameBuf;
use super::control::Control;
use super::error::DecodeError;
use super::error::DecodeReason;
use super::error::FirstOctets;
use super::error::NotARun;
use crate::wire::Reader;
use crate::wire::index;

/// Limits, all inclusive and in bytes, checked from a length word alone before a byte of the frame is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest control frame, counted as its length word does: type and fields, without escape and length word. libfstrm
    /// takes 512, go-framestream 4060; Infoblox appliances send more than libfstrm takes.
    pub control_len_max: usize,
    /// Longest payload of a data frame. A DNS message of 65,535 octets with its metadata needs a little over 64 KiB.
    pub data_len_max: usize,
    /// Longest data frame that is skipped under [`Oversize::Skip`]. A length beyond it, and beyond `data_len_max`, is
    /// not a frame: the framing is lost, and to skip would be to swallow everything the peer ever sends. The default,
    /// 128 MiB less one, is the largest length whose first octet is below 0x08, the lowest a dnstap payload can begin
    /// with: text, and payloads read as a length, are all beyond it.
    pub skip_len_max: usize,
}

impl Default for Limits {
    /// 4064 bytes for control frames, 1 MiB for data frames.
    fn default() -> Self {
        Self {
            control_len_max: 4064,
            data_len_max: 1024 * 1024,
            skip_len_max: 0x07ff_ffff,
        }
    }
}

/// What becomes of a data frame over [`Limits::data_len_max`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversize {
    /// Exactly its payload is skipped, as it arrives and without buffering it, and the stream goes on.
    #[default]
    Skip,
    /// The stream ends with [`DecodeReason::DataTooLong`].
    Close,
}

/// What the decoder found at the front of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The first `len` unread bytes are `frames` whole data frames, all within the limits. The caller consumes or splits
    /// them off; calling `next` again without doing so finds the same frames again.
    Run {
        /// Bytes, length words included; never 0.
        len: usize,
        /// Frames; never 0.
        frames: usize,
    },
    /// A control frame, already consumed.
    Control(Control),
    /// An oversized data frame begins here. Reported once; its bytes are consumed as they arrive.
    Skipped {
        /// Length of its payload.
        len: u32,
    },
}

/// As [`Item`], one frame at a time and borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View<'b> {
    /// The payload of a data frame, already consumed: valid until the buffer is used again.
    Frame(&'b [u8]),
    /// A control frame.
    Control(Control),
    /// An oversized data frame that is being skipped.
    Skipped {
        /// Length of its payload.
        len: u32,
    },
}

/// Finds whole frames in a [`FrameBuf`]. Holds no bytes: everything that waits is in the buffer.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    oversize: Oversize,
    run_len_max: usize,
    /// Bytes of an oversized payload still to be skipped.
    skip_left: u32,
}

/// What stands at the front of the unread bytes, where it is not a whole data frame.
enum Front {
    NeedMore,
    Control,
    Oversized(u32),
}

impl Decoder {
    /// A decoder at the start of a stream, with runs as long as the buffer holds.
    #[must_use]
    pub const fn new(limits: Limits, oversize: Oversize) -> Self {
        Self {
            limits,
            oversize,
            run_len_max: usize::MAX,
            skip_left: 0,
        }
    }

    /// Ends runs before `len` bytes where it can: only a single frame is ever longer.
    #[must_use]
    pub const fn max_run(mut self, len: usize) -> Self {
        self.run_len_max = len;
        self
    }

    /// The next run, control frame or skipped frame at the front of `buf`, or `None` until more bytes arrive.
    ///
    /// Costs a few instructions a data frame, and allocates only for the content types of a control frame.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes cannot be Frame Streams or are over a limit. The buffer is left as it is and every
    /// further call gives the same error: close the stream. Runs before it have been given out already.
    pub fn next(&mut self, buf: &mut FrameBuf) -> Result<Option<Item>, DecodeError> {
        self.skip(buf);
        let unread = buf.unread();
        let window = unread.get(..self.run_len_max).unwrap_or(unread);
        let (mut len, mut frames, mut front) = self.scan(window, usize::MAX);
        if frames == 0 && window.len() < unread.len() {
            (len, frames, front) = self.scan(unread, 1);
        }
        if frames > 0 {
            return Ok(Some(Item::Run { len, frames }));
        }
        match self.bounded(front, buf) {
            Front::NeedMore => Ok(None),
            Front::Control => Ok(self.control(buf)?.map(Item::Control)),
            Front::Oversized(len) => self
                .oversized(len, buf)
                .map(|()| Some(Item::Skipped { len })),
        }
    }

    /// As [`next`](Self::next), one data frame at a time, consumed and borrowed until the buffer is used again.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_view<'b>(
        &mut self,
        buf: &'b mut FrameBuf,
    ) -> Result<Option<View<'b>>, DecodeError> {
        self.skip(buf);
        let (len, frames, front) = self.scan(buf.unread(), 1);
        if frames > 0 {
            return Ok(Some(View::Frame(
                buf.lend(len).get(4..).unwrap_or_default(),
            )));
        }
        match self.bounded(front, buf) {
            Front::NeedMore => Ok(None),
            Front::Control => Ok(self.control(buf)?.map(View::Control)),
            Front::Oversized(len) => self
                .oversized(len, buf)
                .map(|()| Some(View::Skipped { len })),
        }
    }

    /// How many more bytes complete the frame at the front, at least 1: a hint for the next read. A buffer asked for as
    /// much (see [`FrameBuf::spare`]) grows once for a large frame, not by and by.
    #[must_use]
    pub fn want(&self, buf: &FrameBuf) -> usize {
        let mut reader = Reader::new(buf.unread());
        let whole = match reader.u32() {
            None => 4,
            Some(0) => reader.u32().map_or(8, |len| {
                index(len)
                    .min(self.limits.control_len_max)
                    .saturating_add(8)
            }),
            Some(len) => index(len).min(self.limits.data_len_max).saturating_add(4),
        };
        whole.saturating_sub(buf.unread().len()).max(1)
    }

    /// Whether the stream would be cut within a frame if it ended here. Drain [`next`](Self::next) first.
    #[must_use]
    pub fn mid_frame(&self, buf: &FrameBuf) -> bool {
        self.skip_left > 0 || !buf.unread().is_empty()
    }

    /// The limits in force.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Walks over whole data frames at the front of `bytes`, at most `frames_max`: the bytes they take, their number, and
    /// what follows. This loop is the cost of a frame: one load, one compare with the limit (in which 0 wraps round to
    /// the top and so is the escape), one compare with the end.
    #[inline]
    fn scan(&self, bytes: &[u8], frames_max: usize) -> (usize, usize, Front) {
        let max = self.limits.data_len_max;
        let mut rest = bytes;
        let mut frames = 0;
        let front = loop {
            if frames == frames_max {
                break Front::NeedMore;
            }
            let Some((word, tail)) = rest.split_first_chunk::<4>() else {
                break Front::NeedMore;
            };
            let word = u32::from_be_bytes(*word);
            if index(word).wrapping_sub(1) >= max {
                break if word == 0 {
                    Front::Control
                } else {
                    Front::Oversized(word)
                };
            }
            let Some(next) = tail.get(index(word)..) else {
                break Front::NeedMore;
            };
            rest = next;
            frames += 1;
        };
        (bytes.len() - rest.len(), frames, front)
    }

    /// A frame that the buffer can never hold is oversized, whatever the limit says: otherwise the stream would stall.
    fn bounded(&self, front: Front, buf: &FrameBuf) -> Front {
        match (front, Reader::new(buf.unread()).u32()) {
            (Front::NeedMore, Some(len)) if index(len).saturating_add(4) > buf.growth_limit() => {
                Front::Oversized(len)
            }
            (front, _) => front,
        }
    }

    fn control(&self, buf: &mut FrameBuf) -> Result<Option<Control>, DecodeError> {
        let limit = self
            .limits
            .control_len_max
            .min(buf.growth_limit().saturating_sub(8));
        let mut reader = Reader::new(buf.unread());
        let (Some(_escape), Some(len)) = (reader.u32(), reader.u32()) else {
            return Ok(None);
        };
        let error = |reason| {
            let octets = FirstOctets::of(buf.unread());
            DecodeError {
                reason,
                offset: buf.position(),
                len,
                limit,
                octets,
            }
        };
        if index(len) > limit {
            return Err(error(DecodeReason::ControlTooLong));
        }
        if len < 4 {
            return Err(error(DecodeReason::ControlTooShort));
        }
        let Some(body) = reader.take(index(len)) else {
            return Ok(None);
        };
        let control = Control::parse(body).map_err(error)?;
        buf.consume(index(len).saturating_add(8));
        Ok(Some(control))
    }

    fn oversized(&mut self, len: u32, buf: &mut FrameBuf) -> Result<(), DecodeError> {
        let limit = self
            .limits
            .data_len_max
            .min(buf.growth_limit().saturating_sub(4));
        let reason = match self.oversize {
            _ if index(len) > self.limits.skip_len_max.max(self.limits.data_len_max) => {
                DecodeReason::LostFraming
            }
            Oversize::Close => DecodeReason::DataTooLong,
            Oversize::Skip => {
                buf.consume(4);
                self.skip_left = len;
                self.skip(buf);
                return Ok(());
            }
        };
        let octets = FirstOctets::of(buf.unread());
        Err(DecodeError {
            reason,
            offset: buf.position(),
            len,
            limit,
            octets,
        })
    }

    #[inline]
    fn skip(&mut self, buf: &mut FrameBuf) {
        if self.skip_left > 0 {
            let n = buf.unread().len().min(index(self.skip_left));
            buf.consume(n);
            self.skip_left = self
                .skip_left
                .saturating_sub(u32::try_from(n).unwrap_or(u32::MAX));
        }
    }
}

/// Iterates over the payloads of a run.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Over the run `bytes`. Bytes that are not a run end the iteration at the first frame that is empty or cut.
    #[inline]
    #[must_use]
    pub const fn new(run: &'a [u8]) -> Self {
        Self { rest: run }
    }

    /// How many frames the run `bytes` has: validates a run from elsewhere.
    ///
    /// # Errors
    /// [`NotARun`] when it does not consist of whole, non-empty data frames to its last byte.
    pub fn count_of(bytes: &'a [u8]) -> Result<usize, NotARun> {
        let mut frames = Self::new(bytes);
        let count = frames.by_ref().count();
        if frames.rest.is_empty() {
            Ok(count)
        } else {
            Err(NotARun {
                offset: bytes.len() - frames.rest.len(),
            })
        }
    }

    /// The longest prefix of the run that has at most `len_max` bytes, as (bytes, frames), but at least one frame: cuts
    /// a long run into pieces that a receiver's limit allows.
    #[must_use]
    pub fn prefix(run: &'a [u8], len_max: usize) -> (usize, usize) {
        let mut frames = Self::new(run);
        let (mut len, mut count) = (0, 0);
        while frames.next().is_some() {
            let end = run.len() - frames.rest.len();
            if end > len_max && count > 0 {
                break;
            }
            (len, count) = (end, count + 1);
        }
        (len, count)
    }

    /// The bytes of the run not iterated over yet: a run itself.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (word, tail) = self.rest.split_first_chunk::<4>()?;
        let (payload, rest) = tail.split_at_checked(index(u32::from_be_bytes(*word)))?;
        if payload.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(payload)
    }
}
