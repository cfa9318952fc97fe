//! Compressed data frames, as go-framestream and DNS-collector put them on the wire: one frame in each, or many.

use crate::fstrm::Frames;
use crate::fstrm::compress::{Codec, Compressor};
use crate::link::outbox::{Chunk, Layout, Outbox};
use crate::outputs::encode::Encoder;
use crate::outputs::options::SendCompression;
use crate::pipeline::batch::Batch;

/// Bytes of frames in one bulk container (one frame at least). Under 64 KiB with whatever a codec adds to bytes that do not
/// compress, because receivers with go-framestream before 1.7 take no larger frame.
const BULK_BYTES: usize = 60 * 1024;

/// The codec of a setting, `None` where it is off.
pub const fn codec(setting: SendCompression) -> Option<Codec> {
    match setting {
        SendCompression::Off => None,
        SendCompression::Gzip => Some(Codec::Gzip),
        SendCompression::Lz4 => Some(Codec::Lz4),
        SendCompression::Snappy => Some(Codec::Snappy),
        SendCompression::Zstd => Some(Codec::Zstd),
    }
}

/// Compresses the frames of a batch.
pub struct Compressed {
    compressor: Compressor,
    bulk: bool,
}

impl Compressed {
    /// With `codec`; `bulk`: many frames in one payload.
    pub fn new(codec: Codec, bulk: bool) -> Self {
        Self {
            compressor: Compressor::new(codec),
            bulk,
        }
    }

    /// One container for a piece of a run; `false` when it cannot be made.
    fn piece(&mut self, run: &[u8], frames: u64, outbox: &mut Outbox) -> bool {
        let mut out = Vec::with_capacity(run.len() / 2 + 64);
        let made = if self.bulk {
            self.compressor.bulk(run, &mut out).is_ok()
        } else {
            self.compressor.each(run, &mut out).is_ok()
        };
        if made {
            // A container of many frames is delivered whole or not at all; of single frames each is a frame on the wire.
            let layout = if self.bulk {
                Layout::Whole
            } else {
                Layout::Run
            };
            outbox.push(Chunk::new(out.into(), frames, layout));
        }
        made
    }
}

impl std::fmt::Debug for Compressed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressed({})", self.compressor.codec())
    }
}

impl Encoder for Compressed {
    fn encode(&mut self, batch: &Batch, outbox: &mut Outbox) -> u64 {
        let mut rest: &[u8] = batch.bytes();
        let mut bad = 0;
        while !rest.is_empty() {
            let (len, frames) = if self.bulk {
                Frames::prefix(rest, BULK_BYTES)
            } else {
                (rest.len(), batch.frame_count())
            };
            let Some((run, tail)) = rest
                .split_at_checked(len)
                .filter(|(run, _)| !run.is_empty())
            else {
                break;
            };
            if !self.piece(run, frames as u64, outbox) {
                bad += frames as u64;
            }
            rest = tail;
        }
        bad
    }
}
