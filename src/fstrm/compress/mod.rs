//! Compression of data frames, as DNS-collector and go-framestream put it on the wire.
//!
//! Only data frames are compressed, each by itself; control frames stay plain.
//! ```text
//!   data frame   u32 len | container(inner)
//!   inner        u32 n | payload                        one frame
//!                u32 total | (u32 n | payload)*         bulk
//! ```
//! The two inner layouts are told apart by whether the sub-lengths of what follows the first word tile it exactly. A
//! dnstap payload begins with a tag that is not zero, which read as a length is at least 2^24, so it never does. Either
//! way what comes out is a run: the same bytes that plain frames would have been.
//!
//! | codec | container | magic |
//! |---|---|---|
//! | gzip | RFC 1952, any number of members | `1f8b08` |
//! | lz4 | LZ4 frame format, any number of frames | `04224d18` |
//! | snappy | xerial's chunks of raw blocks; or one raw block, which has no magic | `82534e4150505900` |
//! | zstd | RFC 8878, any number of frames | `28b52ffd` |
//!
//! A peer decides what it sends, so everything is bounded by one limit for the decompressed size of a frame. The output
//! grows as bytes come out, never on the word of a header; a size that a header does state is refused when it is over
//! the limit; and what codecs keep beside the output is bounded too (the zstd window; lz4 blocks and snappy chunks are
//! written straight to the output). A bomb costs its own frame.

mod gzip;
mod lz4;
mod scratch;
mod snappy;
mod zstd;

use std::fmt;

use self::scratch::Scratch;
use super::decode::Frames;
use super::encode::EncodeError;
use super::encode::length_word;
use crate::wire::Reader;
use crate::wire::index;

/// A codec for the payloads of data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// RFC 1952. What DNS-collector sends, whichever codec it is configured for.
    Gzip,
    /// The LZ4 frame format.
    Lz4,
    /// Xerial's framing of snappy blocks, and on receive a bare block.
    Snappy,
    /// RFC 8878.
    Zstd,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Lz4, Self::Snappy, Self::Zstd];

    /// A short name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }

    /// The codec whose container begins like this, by its magic. No dnstap payload begins with any of them. A bare
    /// snappy block has no magic, so it is not recognised.
    #[inline]
    #[must_use]
    pub fn recognise(payload: &[u8]) -> Option<Self> {
        match payload {
            [0x1f, 0x8b, 0x08, ..] => Some(Self::Gzip),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0x00, ..] => Some(Self::Snappy),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which payloads a receiver decompresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// None.
    Off,
    /// Those that begin with a codec's magic.
    #[default]
    Auto,
    /// All: by their magic if they have one, because senders do not always use the codec they are configured for, and
    /// else with this codec.
    Codec(Codec),
}

impl Compression {
    /// The codec to decompress this payload with, or `None` if it is to be taken as it is.
    #[inline]
    #[must_use]
    pub fn codec_of(self, payload: &[u8]) -> Option<Codec> {
        match self {
            Self::Off => None,
            Self::Auto => Codec::recognise(payload),
            Self::Codec(codec) => Codec::recognise(payload).or(Some(codec)),
        }
    }
}

/// Why a payload cannot be decompressed. Every reason costs its own frame only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressReason {
    /// More comes out than the limit allows, or a header says that it would.
    TooLarge,
    /// A zstd window that would take more memory than we give it.
    Window,
    /// The payload ends too early.
    Truncated,
    /// The payload is not what the codec writes.
    Corrupt,
    /// A checksum or a stated size does not agree with what came out.
    Checksum,
    /// Not a container of this codec, or one with a feature that is not supported (an lz4 or zstd dictionary).
    Header,
    /// It holds no frame.
    Empty,
    /// The length word of the inner frame does not agree with what came out.
    LengthMismatch,
}

impl CompressReason {
    /// Every reason, for metrics that exist from the start.
    pub const ALL: [Self; 8] = [
        Self::TooLarge,
        Self::Window,
        Self::Truncated,
        Self::Corrupt,
        Self::Checksum,
        Self::Header,
        Self::Empty,
        Self::LengthMismatch,
    ];

    /// A short name in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "decompressed_too_large",
            Self::Window => "decompress_window",
            Self::Truncated => "decompress_truncated",
            Self::Corrupt => "decompress_corrupt",
            Self::Checksum => "decompress_checksum",
            Self::Header => "decompress_header",
            Self::Empty => "decompressed_empty",
            Self::LengthMismatch => "decompressed_length_mismatch",
        }
    }
}

/// A payload that cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{codec} payload of {len} bytes: {} (limit {limit} bytes)", .reason.as_str())]
pub struct CompressError {
    /// The codec tried.
    pub codec: Codec,
    /// What is wrong.
    pub reason: CompressReason,
    /// Bytes of the compressed payload.
    pub len: usize,
    /// The limit for the decompressed size in bytes.
    pub limit: usize,
}

/// The run that came out of a compressed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Where it begins in the output: what was the output's length before.
    pub start: usize,
    /// Its bytes, length words included.
    pub len: usize,
    /// Its frames, at least 1.
    pub frames: usize,
}

/// Decompresses payloads within a limit, and keeps its buffers from one to the next.
pub struct Decompressor {
    scratch: Scratch,
    inflate: Option<flate2::Decompress>,
    zstd: Option<zstd::Decoder>,
}

impl Decompressor {
    /// At most `limit` bytes, inner length words included, may come out of one payload. Takes no memory until it is used;
    /// after that it keeps at most `limit` bytes and the codecs' own state (zstd: a window of at most
    /// `max(limit, 8 MiB)` rounded up to a power of two, only for frames that do not state their size).
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            scratch: Scratch::new(limit),
            inflate: None,
            zstd: None,
        }
    }

    /// Decompresses a payload and appends the run in it to `out`. Runs of several payloads appended one after another are
    /// one run.
    ///
    /// # Errors
    /// [`CompressError`], with `out` unchanged.
    pub fn inner(
        &mut self,
        codec: Codec,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Inner, CompressError> {
        let limit = self.scratch.limit();
        let error = |reason| CompressError {
            codec,
            reason,
            len: payload.len(),
            limit,
        };
        self.decode(codec, payload).map_err(error)?;
        let (run, frames) = run_of(self.scratch.written()).map_err(error)?;
        let start = out.len();
        out.extend_from_slice(run);
        Ok(Inner {
            start,
            len: run.len(),
            frames,
        })
    }

    /// Appends to `out` the run that a received run stands for: compressed payloads replaced by the frames in them, the
    /// others as they are. Returns the number of frames appended. A payload that cannot be decompressed is left out and
    /// told to `failed`, once, so that it can be counted as one frame lost.
    pub fn expand(
        &mut self,
        compression: Compression,
        run: &[u8],
        out: &mut Vec<u8>,
        mut failed: impl FnMut(CompressError),
    ) -> usize {
        let mut frames = Frames::new(run);
        let (mut rest, mut count) = (run, 0);
        while let Some(payload) = frames.next() {
            let after = frames.rest();
            match compression
                .codec_of(payload)
                .map(|codec| self.inner(codec, payload, out))
            {
                None => {
                    out.extend_from_slice(rest.get(..rest.len() - after.len()).unwrap_or_default());
                    count += 1;
                }
                Some(Ok(inner)) => count += inner.frames,
                Some(Err(error)) => failed(error),
            }
            rest = after;
        }
        count
    }

    /// Frees the memory: for a connection that has become idle.
    pub fn release(&mut self) {
        self.scratch.release();
        self.inflate = None;
        self.zstd = None;
    }

    /// Bytes of output buffer held now.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.scratch.capacity()
    }

    fn decode(&mut self, codec: Codec, payload: &[u8]) -> Result<(), CompressReason> {
        let scratch = &mut self.scratch;
        scratch.clear();
        match codec {
            Codec::Gzip => {
                let inflate = self
                    .inflate
                    .get_or_insert_with(|| flate2::Decompress::new(false));
                gzip::decode(inflate, payload, scratch)?;
            }
            Codec::Lz4 => lz4::decode(payload, scratch)?,
            Codec::Snappy => snappy::decode(payload, scratch)?,
            Codec::Zstd => {
                let limit = scratch.limit();
                self.zstd
                    .get_or_insert_with(|| zstd::Decoder::new(limit))
                    .decode(payload, scratch)?;
            }
        }
        if scratch.over() {
            Err(CompressReason::TooLarge)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("scratch", &self.scratch)
            .finish_non_exhaustive()
    }
}

/// The run within decompressed bytes, and how many frames it has.
fn run_of(inner: &[u8]) -> Result<(&[u8], usize), CompressReason> {
    let mut reader = Reader::new(inner);
    let total = match reader.u32() {
        Some(total) => index(total),
        None if inner.is_empty() => return Err(CompressReason::Empty),
        None => return Err(CompressReason::LengthMismatch),
    };
    let body = reader.rest();
    if total != body.len() {
        return Err(CompressReason::LengthMismatch);
    }
    if body.is_empty() {
        return Err(CompressReason::Empty);
    }
    match Frames::count_of(body) {
        Ok(frames) => Ok((body, frames)),
        Err(_) => Ok((inner, 1)),
    }
}

/// Compresses runs into data frames.
pub struct Compressor {
    encoder: Encoder,
    inner: Vec<u8>,
}

enum Encoder {
    Gzip(flate2::Compress),
    Lz4(lz4::Encoder),
    Snappy(Box<snap::raw::Encoder>),
    Zstd(zstd::Encoder),
}

impl Compressor {
    /// A compressor at the codec's usual fast level.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        let encoder = match codec {
            Codec::Gzip => Encoder::Gzip(gzip::encoder()),
            Codec::Lz4 => Encoder::Lz4(lz4::Encoder::default()),
            Codec::Snappy => Encoder::Snappy(Box::new(snap::raw::Encoder::new())),
            Codec::Zstd => Encoder::Zstd(zstd::Encoder::new()),
        };
        Self {
            encoder,
            inner: Vec::new(),
        }
    }

    /// The codec.
    #[must_use]
    pub const fn codec(&self) -> Codec {
        match self.encoder {
            Encoder::Gzip(_) => Codec::Gzip,
            Encoder::Lz4(_) => Codec::Lz4,
            Encoder::Snappy(_) => Codec::Snappy,
            Encoder::Zstd(_) => Codec::Zstd,
        }
    }

    /// Appends to `out` the run as *one* data frame in the bulk layout. The receiver has a limit for the compressed frame
    /// (1 MiB with DNS-collector) and we for the decompressed: cut longer runs with [`Frames::prefix`].
    ///
    /// # Errors
    /// [`EncodeError`] when the run is empty or the frame would be longer than a length word can say; `out` is then
    /// unchanged.
    pub fn bulk(&mut self, run: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let word = length_word(run.len())?;
        self.inner.clear();
        self.inner.reserve(run.len().saturating_add(4));
        self.inner.extend_from_slice(&word);
        self.inner.extend_from_slice(run);
        let inner = std::mem::take(&mut self.inner);
        let done = self.container(&inner, out);
        self.inner = inner;
        done
    }

    /// Appends to `out` each frame of the run as a data frame of its own in the one-frame layout. Returns their number.
    ///
    /// # Errors
    /// As [`bulk`](Self::bulk), for a single frame.
    pub fn each(&mut self, run: &[u8], out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        let before = out.len();
        let mut frames = Frames::new(run);
        let (mut rest, mut count) = (run, 0);
        while frames.next().is_some() {
            let after = frames.rest();
            // A frame as it is on the wire, length word first, is the one-frame layout already.
            let frame = rest.get(..rest.len() - after.len()).unwrap_or_default();
            if let Err(error) = self.container(frame, out) {
                out.truncate(before);
                return Err(error);
            }
            rest = after;
            count += 1;
        }
        Ok(count)
    }

    fn container(&mut self, inner: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match &mut self.encoder {
            Encoder::Gzip(deflate) => gzip::encode(deflate, inner, out),
            Encoder::Lz4(encoder) => encoder.encode(inner, out),
            Encoder::Snappy(encoder) => snappy::encode(encoder, inner, out),
            Encoder::Zstd(encoder) => encoder.encode(inner, out),
        }
        let word = length_word(out.len().saturating_sub(start).saturating_sub(4));
        match (
            word,
            out.get_mut(start..)
                .and_then(|frame| frame.first_chunk_mut::<4>()),
        ) {
            (Ok(word), Some(place)) => {
                *place = word;
                Ok(())
            }
            (word, _) => {
                out.truncate(start);
                word.map(|_| ())
            }
        }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("codec", &self.codec())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// name, codec, payload in hex, `frames=N len=BYTES crc=CRC-32` of the run or `error=REASON`, limit.
    const ROWS: &str = include_str!("../../../testdata/fstrm/compressed.tsv");

    struct Row {
        name: &'static str,
        codec: Codec,
        payload: Vec<u8>,
        want: &'static str,
        limit: usize,
    }

    fn rows() -> Vec<Row> {
        let parse = |line: &'static str| {
            let [name, codec, hex, want, limit] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("five columns: {line}")
            };
            let codec = Codec::ALL
                .into_iter()
                .find(|c| c.as_str() == codec)
                .unwrap();
            let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            let payload = (0..hex.len()).step_by(2).map(octet).collect();
            Row {
                name,
                codec,
                payload,
                want,
                limit: limit.parse().unwrap(),
            }
        };
        let rows: Vec<_> = ROWS.lines().map(parse).collect();
        assert!(rows.len() >= 70);
        rows
    }

    fn outcome(decompressor: &mut Decompressor, codec: Codec, payload: &[u8]) -> String {
        let mut out = b"before".to_vec();
        let result = decompressor.inner(codec, payload, &mut out);
        assert!(out.starts_with(b"before"));
        match result {
            Ok(inner) => {
                assert_eq!((inner.start, inner.start + inner.len), (6, out.len()));
                assert_eq!(Frames::count_of(&out[6..]), Ok(inner.frames), "it is a run");
                let mut crc = flate2::Crc::new();
                crc.update(&out[6..]);
                format!(
                    "frames={} len={} crc={:08x}",
                    inner.frames,
                    inner.len,
                    crc.sum()
                )
            }
            Err(error) => {
                assert_eq!(out, b"before", "a failed payload leaves nothing behind");
                format!("error={}", error.reason.as_str())
            }
        }
    }

    #[test]
    fn payloads_of_other_writers_and_damaged_ones_give_what_they_should() {
        for Row {
            name,
            codec,
            payload,
            want,
            limit,
        } in rows()
        {
            assert_eq!(
                outcome(&mut Decompressor::new(limit), codec, &payload),
                want,
                "{name}"
            );
        }
    }

    #[test]
    fn a_decompressor_is_as_good_as_new_after_any_payload() {
        let mut used = Decompressor::new(1 << 20);
        let rows = rows();
        for bad in rows.iter().filter(|row| row.limit == 1 << 20) {
            outcome(&mut used, bad.codec, &bad.payload);
            for good in rows.iter().filter(|row| row.name.starts_with("go-bulk")) {
                let got = outcome(&mut used, good.codec, &good.payload);
                assert_eq!(got, good.want, "{} after {}", good.name, bad.name);
            }
        }
    }

    #[test]
    fn a_payload_cut_at_any_byte_is_an_error() {
        for Row {
            name,
            codec,
            payload,
            want,
            limit,
        } in rows()
        {
            if !want.starts_with("frames") || name.starts_with("big") {
                continue;
            }
            let mut decompressor = Decompressor::new(limit);
            for n in 0..payload.len() {
                let got = outcome(&mut decompressor, codec, &payload[..n]);
                assert!(got.starts_with("error"), "{name} cut to {n} octets: {got}");
            }
        }
    }

    #[test]
    fn magics_are_recognised_and_dnstap_is_not_one() {
        for row in rows().iter().filter(|row| row.name.starts_with("go-bulk")) {
            assert_eq!(Codec::recognise(&row.payload), Some(row.codec));
            let other = Compression::Codec(Codec::Lz4);
            assert_eq!(
                other.codec_of(&row.payload),
                Some(row.codec),
                "its magic says better"
            );
            assert_eq!(Compression::Off.codec_of(&row.payload), None);
        }
        for tag in [0x0a, 0x12, 0x1a, 0x72, 0x78] {
            assert_eq!(
                Codec::recognise(&[tag, 0x8b, 0x08, 0x18, 0, 0, 0, 0, 0]),
                None
            );
        }
        assert_eq!(
            Compression::Codec(Codec::Snappy).codec_of(b"\x0a"),
            Some(Codec::Snappy)
        );
        assert_eq!(Compression::Auto.codec_of(b""), None);
    }

    fn run(payloads: usize) -> Vec<u8> {
        let mut run = Vec::new();
        for i in 0..payloads {
            let payload = format!(
                "\n{}",
                format!("query {} example.org ", i % 17).repeat(i % 40 + 1)
            );
            super::super::encode::data(payload.as_bytes(), &mut run).unwrap();
        }
        run
    }

    #[test]
    fn what_is_compressed_decompresses_to_the_same_run() {
        for codec in Codec::ALL {
            let (mut compressor, mut decompressor) =
                (Compressor::new(codec), Decompressor::new(1 << 24));
            for payloads in [1, 2, 100, 12_000] {
                let run = run(payloads);
                let (mut bulk, mut each) = (Vec::new(), Vec::new());
                compressor.bulk(&run, &mut bulk).unwrap();
                assert_eq!(Frames::count_of(&bulk), Ok(1));
                assert_eq!(compressor.each(&run, &mut each), Ok(payloads));
                assert_eq!(Frames::count_of(&each), Ok(payloads));
                for container in [bulk, each] {
                    let (mut out, mut frames) = (Vec::new(), 0);
                    for payload in Frames::new(&container) {
                        assert_eq!(Codec::recognise(payload), Some(codec));
                        frames += decompressor.inner(codec, payload, &mut out).unwrap().frames;
                    }
                    assert_eq!(frames, payloads);
                    assert!(out == run, "{codec}, {payloads} payloads");
                }
            }
        }
    }

    #[test]
    fn our_lz4_and_snappy_bulk_of_the_example_are_go_framestreams_bytes() {
        let run = b"\0\0\0\x05hello\0\0\0\x06world!";
        for row in rows() {
            if matches!(row.name, "go-bulk-lz4" | "go-bulk-snappy") {
                let mut out = Vec::new();
                Compressor::new(row.codec).bulk(run, &mut out).unwrap();
                assert_eq!(out[4..], row.payload, "{}", row.name);
            }
        }
    }

    #[test]
    fn an_empty_run_is_refused_and_leaves_nothing() {
        let mut out = vec![1];
        for codec in Codec::ALL {
            assert_eq!(
                Compressor::new(codec).bulk(&[], &mut out),
                Err(EncodeError::Empty)
            );
            assert_eq!(Compressor::new(codec).each(&[], &mut out), Ok(0));
        }
        assert_eq!(out, [1]);
    }

    #[test]
    fn a_bomb_costs_its_frame_and_no_memory_beyond_the_limit() {
        const LIMIT: usize = 256 * 1024;
        let mut zeros = Vec::new();
        super::super::encode::data(&vec![0; 16 << 20], &mut zeros).unwrap();
        for codec in Codec::ALL {
            let mut bomb = Vec::new();
            Compressor::new(codec).bulk(&zeros, &mut bomb).unwrap();
            assert!(
                bomb.len() < zeros.len() / 20,
                "{codec}: it is one, with {} bytes",
                bomb.len()
            );
            let mut decompressor = Decompressor::new(LIMIT);
            let error = decompressor
                .inner(codec, &bomb[4..], &mut Vec::new())
                .unwrap_err();
            assert_eq!(error.reason, CompressReason::TooLarge, "{codec}");
            assert!(
                decompressor.capacity() <= LIMIT + 1,
                "{codec}: {}",
                decompressor.capacity()
            );
            let mut hello = Vec::new();
            Compressor::new(codec)
                .bulk(b"\0\0\0\x05hello", &mut hello)
                .unwrap();
            assert!(
                decompressor
                    .inner(codec, &hello[4..], &mut Vec::new())
                    .is_ok(),
                "{codec}"
            );
            decompressor.release();
            assert_eq!(decompressor.capacity(), 0);
        }
    }

    #[test]
    fn a_run_of_plain_compressed_and_damaged_frames_expands_to_the_good_ones() {
        let plain = b"\0\0\0\x03\x0aab";
        let (mut received, mut want) = (plain.to_vec(), plain.to_vec());
        for codec in Codec::ALL {
            Compressor::new(codec).bulk(&run(3), &mut received).unwrap();
            want.extend(run(3));
            received.extend_from_slice(b"\0\0\0\x04\x1f\x8b\x08\0");
            received.extend_from_slice(plain);
            want.extend_from_slice(plain);
        }
        let (mut out, mut failed) = (Vec::new(), Vec::new());
        let frames =
            Decompressor::new(1 << 20).expand(Compression::Auto, &received, &mut out, |error| {
                failed.push(error.reason)
            });
        assert_eq!(
            (frames, failed),
            (1 + 4 * 4, vec![CompressReason::Truncated; 4])
        );
        assert!(out == want);
        let frames =
            Decompressor::new(1 << 20).expand(Compression::Off, &received, &mut out, |error| {
                panic!("{error}")
            });
        assert_eq!(frames, 1 + 4 * 3, "off means off");
    }

    #[test]
    fn errors_say_codec_size_reason_and_limit() {
        let error = Decompressor::new(9)
            .inner(Codec::Gzip, b"\x0a\x04text", &mut Vec::new())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "gzip payload of 6 bytes: decompress_truncated (limit 9 bytes)"
        );
    }
}
