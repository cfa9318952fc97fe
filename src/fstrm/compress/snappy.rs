//! Snappy in xerial's framing, `82 "SNAPPY" 00 | version | compatible version | (u32 len | raw block)*`, big-endian; and
//! a bare raw block.

use snap::raw::Decoder;
use snap::raw::Encoder;
use snap::raw::decompress_len;
use snap::raw::max_compress_len;

use super::CompressReason;
use super::scratch::Scratch;
use crate::wire::Reader;
use crate::wire::index;

const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
/// Version and the oldest version that can read it, as every writer has them.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

pub(super) fn decode(payload: &[u8], scratch: &mut Scratch) -> Result<(), CompressReason> {
    let Some(framed) = payload.strip_prefix(MAGIC) else {
        return block(payload, scratch);
    };
    let mut reader = Reader::new(framed);
    reader
        .take(VERSIONS.len())
        .ok_or(CompressReason::Truncated)?;
    while !reader.is_empty() {
        let len = reader.u32().ok_or(CompressReason::Truncated)?;
        let chunk = reader.take(index(len)).ok_or(CompressReason::Truncated)?;
        block(chunk, scratch)?;
    }
    Ok(())
}

/// A raw block states its size first, so it is refused before any of it comes out.
fn block(block: &[u8], scratch: &mut Scratch) -> Result<(), CompressReason> {
    if block.is_empty() {
        return Err(CompressReason::Truncated);
    }
    let len = decompress_len(block).map_err(|_| CompressReason::Corrupt)?;
    if len > scratch.left() {
        return Err(CompressReason::TooLarge);
    }
    let room = scratch
        .room(len)?
        .get_mut(..len)
        .ok_or(CompressReason::TooLarge)?;
    Decoder::new()
        .decompress(block, room)
        .map_err(|_| CompressReason::Corrupt)?;
    scratch.advance(len);
    Ok(())
}

pub(super) fn encode(encoder: &mut Encoder, inner: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSIONS);
    let start = out.len();
    out.resize(start + 4 + max_compress_len(inner.len()), 0);
    let room = out.get_mut(start + 4..).unwrap_or_default();
    // It fails only for an input over 32 bits, which the caller's length word rules out.
    let len = encoder.compress(inner, room).unwrap_or(0);
    out.truncate(start + 4 + len);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&(len as u32).to_be_bytes());
    }
}
