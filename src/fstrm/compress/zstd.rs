//! zstd, RFC 8878: any number of frames, skippable frames between them.
//!
//! A frame that states its size is decompressed straight into the output and needs no window of its own. One that does
//! not, as streaming writers make them, goes through a window whose size is bounded.

use zstd::zstd_safe::CCtx;
use zstd::zstd_safe::CParameter;
use zstd::zstd_safe::DCtx;
use zstd::zstd_safe::DParameter;
use zstd::zstd_safe::InBuffer;
use zstd::zstd_safe::OutBuffer;
use zstd::zstd_safe::ResetDirective;
use zstd::zstd_safe::compress_bound;
use zstd::zstd_safe::find_frame_compressed_size;
use zstd::zstd_safe::get_frame_content_size;

use super::CompressReason;
use super::scratch::Scratch;

/// Level of our own frames: zstd's default.
const LEVEL: i32 = 3;
/// Windows up to 8 MiB are taken whatever the limit: RFC 8878 section 3.1.1.1.2 asks decoders to.
const WINDOW_LOG_MIN: u32 = 23;
/// zstd's own default maximum, 128 MiB, however large the limit.
const WINDOW_LOG_MAX: u32 = 27;

// Numbers of zstd_errors.h; those below 100 are fixed for good.
const PREFIX_UNKNOWN: usize = 10;
const WINDOW_TOO_LARGE: usize = 16;
const CHECKSUM_WRONG: usize = 22;
const DICTIONARY_WRONG: usize = 32;
const DST_TOO_SMALL: usize = 70;
const SRC_SIZE_WRONG: usize = 72;

pub(super) struct Decoder(DCtx<'static>);

impl Decoder {
    pub(super) fn new(limit: usize) -> Self {
        let mut context = DCtx::create();
        let log = limit
            .saturating_sub(1)
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        // Fails only for a value out of range, and then the default of 27 stands.
        let _ = context.set_parameter(DParameter::WindowLogMax(
            log.clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX),
        ));
        Self(context)
    }

    pub(super) fn decode(
        &mut self,
        payload: &[u8],
        scratch: &mut Scratch,
    ) -> Result<(), CompressReason> {
        let mut rest = payload;
        loop {
            let len = find_frame_compressed_size(rest).map_err(reason)?;
            let (frame, after) = rest
                .split_at_checked(len)
                .ok_or(CompressReason::Truncated)?;
            match get_frame_content_size(frame) {
                Ok(Some(size)) if size > scratch.left() as u64 => {
                    return Err(CompressReason::TooLarge);
                }
                Ok(Some(size)) => {
                    let room = scratch.room(usize::try_from(size).unwrap_or(usize::MAX))?;
                    let made = self.0.decompress(room, frame).map_err(reason)?;
                    scratch.advance(made);
                }
                Ok(None) => self.stream(frame, scratch)?,
                Err(_) => return Err(CompressReason::Header),
            }
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn stream(&mut self, frame: &[u8], scratch: &mut Scratch) -> Result<(), CompressReason> {
        self.0.reset(ResetDirective::SessionOnly).map_err(reason)?;
        let mut input = InBuffer::around(frame);
        loop {
            let eaten = input.pos;
            let mut output = OutBuffer::around(scratch.room(frame.len().saturating_mul(4))?);
            let more = self
                .0
                .decompress_stream(&mut output, &mut input)
                .map_err(reason)?;
            let made = output.pos();
            scratch.advance(made);
            match (more, made, input.pos - eaten) {
                (0, ..) => return Ok(()),
                (_, 0, 0) => return Err(CompressReason::Truncated),
                _ => {}
            }
        }
    }
}

/// zstd returns errors as negated numbers.
fn reason(code: usize) -> CompressReason {
    match code.wrapping_neg() {
        PREFIX_UNKNOWN | DICTIONARY_WRONG => CompressReason::Header,
        WINDOW_TOO_LARGE => CompressReason::Window,
        CHECKSUM_WRONG => CompressReason::Checksum,
        DST_TOO_SMALL => CompressReason::TooLarge,
        SRC_SIZE_WRONG => CompressReason::Truncated,
        _ => CompressReason::Corrupt,
    }
}

pub(super) struct Encoder(CCtx<'static>);

impl Encoder {
    pub(super) fn new() -> Self {
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(LEVEL),
            CParameter::ChecksumFlag(true),
        ] {
            // Fails only for values out of range.
            let _ = context.set_parameter(parameter);
        }
        Self(context)
    }

    pub(super) fn encode(&mut self, inner: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start.saturating_add(compress_bound(inner.len())), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        // It has the room that it can need at most, so it fails only for want of memory.
        let len = self.0.compress2(room, inner).unwrap_or(0);
        out.truncate(start + len);
    }
}
