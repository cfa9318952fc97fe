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

#[cfg(test)]
mod tests {
    use super::super::buffer::BufOptions;
    use super::super::control::ControlKind;
    use super::super::pool::BufPool;
    use super::*;

    fn buffer(growth_limit: usize) -> FrameBuf {
        FrameBuf::new(
            BufOptions {
                initial_capacity: 16,
                growth_limit,
            },
            BufPool::new(4096, 2),
        )
    }

    fn filled(bytes: &[u8]) -> FrameBuf {
        let mut buf = buffer(1 << 24);
        assert_eq!(buf.extend(bytes), bytes.len());
        buf
    }

    fn frame(len: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(len).unwrap().to_be_bytes().to_vec();
        bytes.resize(4 + len, 0xda);
        bytes
    }

    fn small() -> Limits {
        Limits {
            control_len_max: 12,
            data_len_max: 10,
            ..Limits::default()
        }
    }

    #[test]
    fn a_run_is_all_whole_frames_at_the_front() {
        let mut bytes = [frame(1), frame(10), frame(3)].concat();
        let whole = bytes.len();
        bytes.extend_from_slice(&frame(9)[..7]);
        let mut buf = filled(&bytes);
        let mut decoder = Decoder::new(small(), Oversize::Skip);
        let run = Ok(Some(Item::Run {
            len: whole,
            frames: 3,
        }));
        assert_eq!(decoder.next(&mut buf), run);
        assert_eq!(decoder.next(&mut buf), run, "the same until it is consumed");
        buf.consume(whole);
        assert_eq!(decoder.next(&mut buf), Ok(None));
        assert_eq!((decoder.mid_frame(&buf), decoder.want(&buf)), (true, 6));
        buf.extend(&frame(9)[7..]);
        assert_eq!(
            decoder.next(&mut buf),
            Ok(Some(Item::Run { len: 13, frames: 1 }))
        );
        buf.consume(13);
        assert!(!decoder.mid_frame(&buf));
    }

    #[test]
    fn a_capped_run_ends_in_time_but_never_within_a_frame() {
        let bytes = [frame(3), frame(3), frame(9), frame(1)].concat();
        let mut buf = filled(&bytes);
        let mut decoder = Decoder::new(small(), Oversize::Skip).max_run(15);
        let mut runs = Vec::new();
        while let Some(Item::Run { len, frames }) = decoder.next(&mut buf).unwrap() {
            runs.push((len, frames));
            buf.consume(len);
        }
        assert_eq!(runs, [(14, 2), (13, 1), (5, 1)]);
        let mut buf = filled(&bytes);
        let mut decoder = Decoder::new(small(), Oversize::Skip).max_run(0);
        assert_eq!(
            decoder.next(&mut buf),
            Ok(Some(Item::Run { len: 7, frames: 1 }))
        );
    }

    #[test]
    fn limits_are_inclusive_and_one_more_is_refused_from_the_length_word_alone() {
        let control = |clen: u32| [0, clen].map(u32::to_be_bytes).concat();
        let mut at = control(12);
        at.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
        let mut decoder = Decoder::new(small(), Oversize::Close);
        assert!(
            matches!(decoder.next(&mut filled(&at)), Ok(Some(Item::Control(c))) if c.content_types.len() == 1)
        );
        let error = decoder.next(&mut filled(&control(13))).unwrap_err();
        assert_eq!(
            (error.reason, error.len, error.limit),
            (DecodeReason::ControlTooLong, 13, 12)
        );
        assert_eq!(error.octets.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 13]);

        assert_eq!(
            decoder.next(&mut filled(&frame(10))),
            Ok(Some(Item::Run { len: 14, frames: 1 }))
        );
        let error = decoder.next(&mut filled(&frame(11)[..4])).unwrap_err();
        assert_eq!(
            (error.reason, error.len, error.limit),
            (DecodeReason::DataTooLong, 11, 10)
        );
    }

    #[test]
    fn default_limits_are_4064_and_one_mebibyte() {
        let word = |len: u32| len.to_be_bytes();
        for (len, fits) in [(1024 * 1024, true), (1024 * 1024 + 1, false)] {
            let got =
                Decoder::new(Limits::default(), Oversize::Close).next(&mut filled(&word(len)));
            assert_eq!(got.is_ok(), fits, "data of {len}: {got:?}");
        }
        for (len, fits) in [(4064, true), (4065, false)] {
            let bytes = [word(0), word(len)].concat();
            let got = Decoder::new(Limits::default(), Oversize::Close).next(&mut filled(&bytes));
            assert_eq!(got.is_ok(), fits, "control of {len}: {got:?}");
        }
    }

    #[test]
    fn limits_may_be_raised_to_any_size() {
        let limits = Limits {
            control_len_max: usize::MAX,
            data_len_max: usize::MAX,
            ..Limits::default()
        };
        let mut buf = buffer(usize::MAX);
        buf.extend(&[0xff; 4]);
        let mut decoder = Decoder::new(limits, Oversize::Close);
        assert_eq!(decoder.next(&mut buf), Ok(None));
        assert_eq!(decoder.want(&buf), 0xffff_ffff);
        let mut buf = buffer(usize::MAX);
        buf.extend(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.next(&mut buf), Ok(None));
    }

    #[test]
    fn an_oversized_frame_is_skipped_exactly_however_it_arrives() {
        let bytes = [frame(2), frame(11), frame(3), frame(10_000), frame(4)].concat();
        for chunk in [1, 2, 3, 7, 64, 4096, bytes.len()] {
            let mut buf = buffer(64);
            let mut decoder = Decoder::new(small(), Oversize::Skip);
            let (mut frames, mut skipped) = (Vec::new(), Vec::new());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let n = buf.extend(&rest[..chunk.min(rest.len())]);
                assert!(n > 0, "the buffer never fills up");
                rest = &rest[n..];
                while let Some(item) = decoder.next(&mut buf).unwrap() {
                    match item {
                        Item::Run { len, .. } => {
                            frames.extend(Frames::new(&buf.unread()[..len]).map(<[u8]>::len));
                            buf.consume(len);
                        }
                        Item::Skipped { len } => skipped.push(len),
                        Item::Control(control) => panic!("{control:?}"),
                    }
                }
                assert!(buf.capacity() <= 64, "an oversized frame is not buffered");
            }
            assert_eq!(
                (frames, skipped),
                (vec![2, 3, 4], vec![11, 10_000]),
                "chunks of {chunk}"
            );
            assert!(!decoder.mid_frame(&buf));
        }
    }

    #[test]
    fn a_stream_that_ends_while_skipping_ends_within_a_frame() {
        let mut buf = filled(&frame(11)[..8]);
        let mut decoder = Decoder::new(small(), Oversize::Skip);
        assert_eq!(decoder.next(&mut buf), Ok(Some(Item::Skipped { len: 11 })));
        assert_eq!(decoder.next(&mut buf), Ok(None));
        assert!(buf.unread().is_empty() && decoder.mid_frame(&buf));
    }

    #[test]
    fn an_impossible_length_is_lost_framing_even_where_oversized_frames_are_skipped() {
        for (len, lost) in [
            (0x07ff_ffff, false),
            (0x0800_0000, true),
            (0x4745_5420, true),
            (0xffff_ffff, true),
        ] {
            let mut bytes = frame(5);
            bytes.extend_from_slice(&u32::to_be_bytes(len));
            bytes.extend_from_slice(b"what follows is not known");
            let mut buf = filled(&bytes);
            let mut decoder = Decoder::new(small(), Oversize::Skip);
            assert_eq!(
                decoder.next(&mut buf),
                Ok(Some(Item::Run { len: 9, frames: 1 }))
            );
            buf.consume(9);
            let got = decoder.next(&mut buf);
            if lost {
                let error = got.unwrap_err();
                assert_eq!(
                    (error.reason, error.offset, error.len),
                    (DecodeReason::LostFraming, 9, len)
                );
                assert_eq!(&error.octets.as_bytes()[4..], b"what follows");
                assert_eq!(decoder.next(&mut buf), Err(error), "and stays so");
            } else {
                assert_eq!(got, Ok(Some(Item::Skipped { len })));
            }
        }
    }

    #[test]
    fn the_error_says_where_what_and_how_much() {
        let mut buf = filled(&[frame(5), b"GET / HTTP/1.1\r\n".to_vec()].concat());
        let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
        decoder.next(&mut buf).unwrap();
        buf.consume(9);
        assert_eq!(
            decoder.next(&mut buf).unwrap_err().to_string(),
            "impossible length, so the framing is lost at byte 9: length 1195725856 (limit 1048576), \
             first octets 474554202f20485454502f312e310d0a"
        );
    }

    #[test]
    fn a_frame_that_the_buffer_cannot_hold_is_oversized_not_a_stall() {
        let mut buf = buffer(100);
        let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
        buf.extend(&frame(97)[..100]);
        assert_eq!(decoder.next(&mut buf), Ok(Some(Item::Skipped { len: 97 })));
        buf.extend(&[0xda]);
        assert_eq!(decoder.next(&mut buf), Ok(None), "the last octet of it");
        buf.extend(&frame(96));
        assert_eq!(
            decoder.next(&mut buf),
            Ok(Some(Item::Run {
                len: 100,
                frames: 1
            }))
        );
        buf.consume(100);
        buf.extend(&[0, 0, 0, 0, 0, 0, 0, 93]);
        assert_eq!(
            decoder.next(&mut buf).unwrap_err().reason,
            DecodeReason::ControlTooLong
        );
    }

    #[test]
    fn a_control_frame_waits_for_its_last_byte() {
        let control = Control::plain(ControlKind::Stop).to_bytes();
        for n in 0..control.len() {
            let mut buf = filled(&control[..n]);
            let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
            assert_eq!(decoder.next(&mut buf), Ok(None), "{n} bytes");
            assert_eq!(decoder.mid_frame(&buf), n > 0);
            let want = match n {
                0..4 => 4 - n,
                4..8 => 8 - n,
                _ => 12 - n,
            };
            assert_eq!(decoder.want(&buf), want, "{n} bytes");
        }
    }

    #[test]
    fn views_are_the_same_frames_one_at_a_time() {
        let stop = Control::plain(ControlKind::Stop);
        let bytes = [
            frame(2),
            frame(11),
            frame(3),
            stop.to_bytes().to_vec(),
            frame(1)[..3].to_vec(),
        ]
        .concat();
        let mut buf = filled(&bytes);
        let mut decoder = Decoder::new(small(), Oversize::Skip);
        assert_eq!(
            decoder.next_view(&mut buf),
            Ok(Some(View::Frame(&[0xda; 2])))
        );
        assert_eq!(
            decoder.next_view(&mut buf),
            Ok(Some(View::Skipped { len: 11 }))
        );
        assert_eq!(
            decoder.next_view(&mut buf),
            Ok(Some(View::Frame(&[0xda; 3])))
        );
        assert_eq!(decoder.next_view(&mut buf), Ok(Some(View::Control(stop))));
        assert_eq!(decoder.next_view(&mut buf), Ok(None));
        assert_eq!(buf.position(), (bytes.len() - 3) as u64);
    }

    #[test]
    fn foreign_runs_are_validated() {
        assert_eq!(Frames::count_of(b""), Ok(0));
        assert_eq!(Frames::count_of(&[frame(1), frame(2)].concat()), Ok(2));
        assert_eq!(
            Frames::count_of(&[frame(1), vec![0; 4]].concat()),
            Err(NotARun { offset: 5 })
        );
        assert_eq!(
            Frames::count_of(&[frame(1), vec![0; 3]].concat()),
            Err(NotARun { offset: 5 })
        );
        assert_eq!(Frames::count_of(&frame(3)[..6]), Err(NotARun { offset: 0 }));
        assert_eq!(Frames::count_of(&[0xff; 8]), Err(NotARun { offset: 0 }));
    }

    #[test]
    fn a_prefix_of_a_run_keeps_to_its_limit_but_has_a_frame() {
        let run = [frame(3), frame(3), frame(9)].concat();
        let rows = [
            (0, (7, 1)),
            (13, (7, 1)),
            (14, (14, 2)),
            (26, (14, 2)),
            (27, (27, 3)),
            (99, (27, 3)),
        ];
        for (max, want) in rows {
            assert_eq!(Frames::prefix(&run, max), want, "at most {max}");
        }
        assert_eq!(Frames::prefix(&[], 10), (0, 0));
    }
}
