//! gzip, RFC 1952: any number of members one after another.
//!
//! Header and trailer are read here rather than by a wrapping reader, so that the inflate state (some 40 KiB) is kept
//! from one payload to the next.

use flate2::Compress;
use flate2::Compression;
use flate2::Crc;
use flate2::Decompress;
use flate2::FlushCompress;
use flate2::FlushDecompress;
use flate2::Status;

use super::CompressReason;
use super::scratch::Scratch;
use crate::wire::Reader;

/// Level of our own gzip frames: each further one costs more time than it saves bytes on dnstap.
const LEVEL: u32 = 3;

const FHCRC: u8 = 1 << 1;
const FEXTRA: u8 = 1 << 2;
const FNAME: u8 = 1 << 3;
const FCOMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xe0;

pub(super) fn decode(
    inflate: &mut Decompress,
    payload: &[u8],
    scratch: &mut Scratch,
) -> Result<(), CompressReason> {
    let mut reader = Reader::new(payload);
    loop {
        header(&mut reader)?;
        let start = scratch.len();
        inflate.reset(false);
        body(inflate, &mut reader, scratch)?;
        let (Some(crc), Some(size)) = (reader.array(), reader.array()) else {
            return Err(CompressReason::Truncated);
        };
        let member = scratch.since(start);
        let mut sum = Crc::new();
        sum.update(member);
        // ISIZE is the size modulo 2^32; `amount` wraps alike.
        if sum.sum() != u32::from_le_bytes(crc) || sum.amount() != u32::from_le_bytes(size) {
            return Err(CompressReason::Checksum);
        }
        if reader.is_empty() {
            return Ok(());
        }
    }
}

/// Reads a member's header, RFC 1952 section 2.3. The optional fields say nothing that we need.
fn header(reader: &mut Reader<'_>) -> Result<(), CompressReason> {
    let Some(fixed) = reader.array::<10>() else {
        return Err(CompressReason::Truncated);
    };
    let [0x1f, 0x8b, 8, flags, ..] = fixed else {
        return Err(CompressReason::Header);
    };
    if flags & RESERVED != 0 {
        return Err(CompressReason::Header);
    }
    if flags & FEXTRA != 0 {
        let len = reader
            .array()
            .map(u16::from_le_bytes)
            .ok_or(CompressReason::Truncated)?;
        reader
            .take(usize::from(len))
            .ok_or(CompressReason::Truncated)?;
    }
    for field in [FNAME, FCOMMENT] {
        if flags & field != 0 {
            let end = memchr::memchr(0, reader.rest()).ok_or(CompressReason::Truncated)?;
            reader.take(end + 1).ok_or(CompressReason::Truncated)?;
        }
    }
    if flags & FHCRC != 0 {
        reader.take(2).ok_or(CompressReason::Truncated)?;
    }
    Ok(())
}

fn body(
    inflate: &mut Decompress,
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
) -> Result<(), CompressReason> {
    loop {
        let before = (inflate.total_in(), inflate.total_out());
        // Deflate seldom does better than four to one on dnstap, so this is mostly one step.
        let want = reader.len().saturating_mul(4);
        let status = inflate
            .decompress(reader.rest(), scratch.room(want)?, FlushDecompress::None)
            .map_err(|_| CompressReason::Corrupt)?;
        let eaten = usize::try_from(inflate.total_in() - before.0).unwrap_or(usize::MAX);
        let made = usize::try_from(inflate.total_out() - before.1).unwrap_or(usize::MAX);
        reader.take(eaten).ok_or(CompressReason::Corrupt)?;
        scratch.advance(made);
        match status {
            Status::StreamEnd => return Ok(()),
            Status::Ok | Status::BufError if eaten == 0 && made == 0 => {
                let all_read = reader.is_empty();
                return Err(if all_read {
                    CompressReason::Truncated
                } else {
                    CompressReason::Corrupt
                });
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

pub(super) fn encoder() -> Compress {
    Compress::new(Compression::new(LEVEL), false)
}

pub(super) fn encode(deflate: &mut Compress, inner: &[u8], out: &mut Vec<u8>) {
    // No name, no time, unknown system: the same bytes for the same input.
    out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
    deflate.reset();
    let mut rest = inner;
    loop {
        // A stored block adds 5 bytes to each 64 KiB, so half as much again is always enough to get on.
        out.reserve(rest.len() / 2 + 64);
        let before = deflate.total_in();
        let status = deflate.compress_vec(rest, out, FlushCompress::Finish);
        let eaten = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
        rest = rest.get(eaten..).unwrap_or_default();
        match status {
            Ok(Status::Ok | Status::BufError) => {}
            // `compress` fails only for a stream used after its end, and `reset` began a new one.
            Ok(Status::StreamEnd) | Err(_) => break,
        }
    }
    let mut sum = Crc::new();
    sum.update(inner);
    out.extend_from_slice(&sum.sum().to_le_bytes());
    out.extend_from_slice(&sum.amount().to_le_bytes());
}
