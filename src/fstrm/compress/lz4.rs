//! The LZ4 frame format, version 1.6.x of its description: any number of frames, skippable frames between them.
//!
//! Read and written here, with the block codec and the checksum from libraries, because a frame reader that serves any
//! stream allocates two buffers of the block size a header claims (up to 4 MiB each) for every payload. Blocks are
//! decompressed straight into the output instead.

use lz4_flex::block::CompressTable;
use lz4_flex::block::DecompressError;
use lz4_flex::block::compress_into_with_table;
use lz4_flex::block::decompress_into_with_dict;
use lz4_flex::block::get_maximum_output_size;
use twox_hash::XxHash32;

use super::CompressReason;
use super::scratch::Scratch;
use crate::wire::Reader;
use crate::wire::index;

const MAGIC: u32 = 0x184d_2204;
/// Sixteen magics of frames without a meaning to us.
const SKIPPABLE: u32 = 0x184d_2a50;
/// How far back a linked block may refer.
const WINDOW: usize = 64 * 1024;
/// A length byte adds at most 255 bytes to a match, so no block expands more than this.
const EXPANSION_MAX: usize = 255;
const UNCOMPRESSED: u32 = 1 << 31;
/// The block size we declare, 4 MiB, the largest there is; its code in the descriptor is 7.
const BLOCK: usize = 4 * 1024 * 1024;
/// Our descriptor: version 1, independent blocks, content checksum; blocks of 4 MiB; and the descriptor's checksum.
const DESCRIPTOR: [u8; 3] = [0x64, 0x70, 0xb9];

/// What a frame descriptor says.
struct Frame {
    linked: bool,
    block_checksum: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_max: usize,
}

pub(super) fn decode(payload: &[u8], scratch: &mut Scratch) -> Result<(), CompressReason> {
    let mut reader = Reader::new(payload);
    loop {
        match u32_le(&mut reader)? {
            MAGIC => frame(&mut reader, scratch)?,
            magic if magic & !0xf == SKIPPABLE => {
                let len = u32_le(&mut reader)?;
                reader.take(index(len)).ok_or(CompressReason::Truncated)?;
            }
            _ => return Err(CompressReason::Header),
        }
        if reader.is_empty() {
            return Ok(());
        }
    }
}

fn frame(reader: &mut Reader<'_>, scratch: &mut Scratch) -> Result<(), CompressReason> {
    let frame = descriptor(reader)?;
    if frame
        .content_size
        .is_some_and(|size| size > scratch.left() as u64)
    {
        return Err(CompressReason::TooLarge);
    }
    let start = scratch.len();
    loop {
        let word = u32_le(reader)?;
        if word == 0 {
            break;
        }
        let len = index(word & !UNCOMPRESSED);
        if len > frame.block_max {
            return Err(CompressReason::Corrupt);
        }
        let block = reader.take(len).ok_or(CompressReason::Truncated)?;
        if frame.block_checksum && u32_le(reader)? != XxHash32::oneshot(0, block) {
            return Err(CompressReason::Checksum);
        }
        if word & UNCOMPRESSED != 0 {
            stored(block, scratch)?;
        } else {
            compressed(block, &frame, start, scratch)?;
        }
    }
    let content = scratch.since(start);
    let size_differs = frame
        .content_size
        .is_some_and(|size| size != content.len() as u64);
    if size_differs || (frame.content_checksum && u32_le(reader)? != XxHash32::oneshot(0, content))
    {
        return Err(CompressReason::Checksum);
    }
    Ok(())
}

/// Reads a frame descriptor; the magic has been read.
fn descriptor(reader: &mut Reader<'_>) -> Result<Frame, CompressReason> {
    let described = reader.rest();
    let [flags, block] = reader.array::<2>().ok_or(CompressReason::Truncated)?;
    let bit = |n: u8| flags & (1 << n) != 0;
    let (version_1, reserved, dictionary) = (flags >> 6 == 1, bit(1), bit(0));
    if !version_1 || reserved || dictionary || block & 0x8f != 0 {
        return Err(CompressReason::Header);
    }
    let block_max = match block >> 4 {
        4 => 64 * 1024,
        5 => 256 * 1024,
        6 => 1024 * 1024,
        7 => BLOCK,
        _ => return Err(CompressReason::Header),
    };
    let content_size = match bit(3) {
        true => Some(u64::from_le_bytes(
            reader.array().ok_or(CompressReason::Truncated)?,
        )),
        false => None,
    };
    let described = described
        .get(..described.len() - reader.len())
        .unwrap_or_default();
    let [_, check, ..] = XxHash32::oneshot(0, described).to_le_bytes();
    match reader.u8() {
        Some(byte) if byte == check => {}
        Some(_) => return Err(CompressReason::Checksum),
        None => return Err(CompressReason::Truncated),
    }
    Ok(Frame {
        linked: !bit(5),
        block_checksum: bit(4),
        content_checksum: bit(2),
        content_size,
        block_max,
    })
}

fn stored(block: &[u8], scratch: &mut Scratch) -> Result<(), CompressReason> {
    let room = scratch
        .room(block.len())?
        .get_mut(..block.len())
        .ok_or(CompressReason::TooLarge)?;
    room.copy_from_slice(block);
    scratch.advance(block.len());
    Ok(())
}

fn compressed(
    block: &[u8],
    frame: &Frame,
    start: usize,
    scratch: &mut Scratch,
) -> Result<(), CompressReason> {
    let most = frame
        .block_max
        .min(block.len().saturating_mul(EXPANSION_MAX));
    let (written, room) = scratch.split(most, start)?;
    let limited = room.len() < most;
    let len = room.len().min(most);
    let room = room.get_mut(..len).unwrap_or_default();
    let window = match frame.linked {
        true => written
            .get(written.len().saturating_sub(WINDOW)..)
            .unwrap_or_default(),
        false => &[],
    };
    match decompress_into_with_dict(block, room, window) {
        Ok(made) => {
            scratch.advance(made);
            Ok(())
        }
        Err(DecompressError::OutputTooSmall { .. }) if limited => Err(CompressReason::TooLarge),
        Err(_) => Err(CompressReason::Corrupt),
    }
}

fn u32_le(reader: &mut Reader<'_>) -> Result<u32, CompressReason> {
    reader
        .array()
        .map(u32::from_le_bytes)
        .ok_or(CompressReason::Truncated)
}

/// Writes frames; keeps the table in which matches are looked up.
pub(super) struct Encoder {
    table: CompressTable,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            table: CompressTable::large(),
        }
    }
}

impl Encoder {
    pub(super) fn encode(&mut self, inner: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&DESCRIPTOR);
        for block in inner.chunks(BLOCK) {
            self.block(block, out);
        }
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&XxHash32::oneshot(0, inner).to_le_bytes());
    }

    fn block(&mut self, block: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + 4 + get_maximum_output_size(block.len()), 0);
        let room = out.get_mut(start + 4..).unwrap_or_default();
        let packed = compress_into_with_table(block, room, &mut self.table)
            .ok()
            .filter(|n| *n < block.len());
        let word = match packed {
            Some(len) => {
                out.truncate(start + 4 + len);
                len as u32
            }
            // What does not become shorter is stored as it is.
            None => {
                out.truncate(start + 4);
                out.extend_from_slice(block);
                block.len() as u32 | UNCOMPRESSED
            }
        };
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}
