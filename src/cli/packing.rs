//! Files compressed as a whole, in the formats of the usual command-line tools: told by their first octets when read, by
//! their name's ending when written.
//!
//! | ending | codec | format |
//! |---|---|---|
//! | `.gz` | gzip | RFC 1952, any number of members |
//! | `.zst` | zstd | RFC 8878, any number of frames |
//! | `.lz4` | lz4 | LZ4 frame format, any number of frames |
//! | `.sz` | snappy | snappy framing format |
//!
//! This is not the compression of single payloads, which [`crate::fstrm::compress`] does.

use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::Path;

use crate::fstrm::Codec;

/// Buffer before and behind the codecs, in bytes.
const BLOCK_BYTES: usize = 256 * 1024;
/// Largest zstd window taken, as a power of two: 128 MiB, what `zstd -d` itself takes unasked.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// What `zstd` and `gzip` use unasked.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

/// The codec of a file that begins with these octets; four are enough.
pub fn recognise(first: &[u8]) -> Option<Codec> {
    match first {
        // The stream identifier of the snappy framing format. (The magic of xerial's format, which single payloads have,
        // is not that of a file.)
        [0xff, 0x06, 0x00, 0x00, ..] => Some(Codec::Snappy),
        _ => Codec::recognise(first).filter(|codec| *codec != Codec::Snappy),
    }
}

/// A compressed file of a kind that is not read here, by its first octets: its name, and the command that unpacks it.
pub fn foreign(first: &[u8]) -> Option<(&'static str, &'static str)> {
    match first {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some(("xz", "xz -dc")),
        [b'B', b'Z', b'h', ..] => Some(("bzip2", "bzip2 -dc")),
        [b'P', b'K', 3, 4, ..] => Some(("zip", "unzip -p")),
        _ => None,
    }
}

/// The ending of a compressed file's name, without the dot.
pub const fn ending(codec: Codec) -> &'static str {
    match codec {
        Codec::Gzip => "gz",
        Codec::Lz4 => "lz4",
        Codec::Snappy => "sz",
        Codec::Zstd => "zst",
    }
}

/// The codec that the ending of a file's name stands for.
pub fn of_name(path: &Path) -> Option<Codec> {
    let found = path.extension()?;
    Codec::ALL.into_iter().find(|codec| found == ending(*codec))
}

/// The plain bytes of a compressed file.
///
/// # Errors
/// When zstd cannot set up. Reading gives `UnexpectedEof` where the compressed file is cut.
pub fn unpack(codec: Codec, packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let packed = io::BufReader::with_capacity(BLOCK_BYTES, packed);
    Ok(match codec {
        Codec::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Codec::Lz4 => Box::new(Lz4Frames(lz4_flex::frame::FrameDecoder::new(packed))),
        Codec::Snappy => Box::new(snap::read::FrameDecoder::new(packed)),
        Codec::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    })
}

/// LZ4 frames one after another. The decoder says "end" at the end of each, and goes on when it is read again.
struct Lz4Frames<R: BufRead>(lz4_flex::frame::FrameDecoder<R>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.0.read(into)?;
            if n > 0 || into.is_empty() || self.0.get_mut().fill_buf()?.is_empty() {
                return Ok(n);
            }
        }
    }
}

/// Writes a file, compressed or not.
pub enum Packer<W: Write> {
    /// As it is.
    Plain(W),
    /// gzip.
    Gzip(flate2::write::GzEncoder<BufWriter<W>>),
    /// LZ4 frame format.
    Lz4(lz4_flex::frame::FrameEncoder<BufWriter<W>>),
    /// Snappy framing format.
    Snappy(Box<snap::write::FrameEncoder<BufWriter<W>>>),
    /// zstd.
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> Packer<W> {
    /// A packer into `target`; `None` writes plain bytes.
    ///
    /// # Errors
    /// When zstd cannot set up.
    pub fn new(codec: Option<Codec>, target: W) -> io::Result<Self> {
        let buffered = |target| BufWriter::with_capacity(BLOCK_BYTES, target);
        Ok(match codec {
            None => Self::Plain(target),
            Some(Codec::Gzip) => Self::Gzip(flate2::write::GzEncoder::new(
                buffered(target),
                flate2::Compression::new(GZIP_LEVEL),
            )),
            Some(Codec::Lz4) => Self::Lz4(lz4_flex::frame::FrameEncoder::new(buffered(target))),
            Some(Codec::Snappy) => {
                Self::Snappy(Box::new(snap::write::FrameEncoder::new(buffered(target))))
            }
            Some(Codec::Zstd) => {
                let mut encoder = zstd::stream::write::Encoder::new(buffered(target), ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    /// Writes what ends the compressed file, and everything that waits, and gives the target back.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(self) -> io::Result<W> {
        let buffered = match self {
            Self::Plain(mut target) => {
                target.flush()?;
                return Ok(target);
            }
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Lz4(encoder) => encoder.finish()?,
            Self::Snappy(encoder) => encoder
                .into_inner()
                .map_err(snap::write::IntoInnerError::into_error_io)?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        let mut target = buffered
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        target.flush()?;
        Ok(target)
    }
}

/// The cause of a failed `into_inner` of snap, whose own error cannot be taken apart.
trait IntoIo {
    fn into_error_io(self) -> io::Error;
}

impl<W> IntoIo for snap::write::IntoInnerError<W> {
    fn into_error_io(self) -> io::Error {
        io::Error::new(self.error().kind(), self.error().to_string())
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(target) => target.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Lz4(encoder) => encoder.write(bytes),
            Self::Snappy(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(target) => target.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Lz4(encoder) => encoder.flush(),
            Self::Snappy(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(codec: Option<Codec>, plain: &[u8]) -> Vec<u8> {
        let mut packer = Packer::new(codec, Vec::new()).unwrap();
        packer.write_all(plain).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(codec: Codec, packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        unpack(codec, Box::new(io::Cursor::new(packed)))?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn what_is_packed_is_recognised_and_unpacks_to_the_same_also_twice_in_a_row() {
        let plain: Vec<u8> = (0..600_000u32)
            .flat_map(|i| (i / 7).to_be_bytes())
            .collect();
        for codec in Codec::ALL {
            let packed = pack(Some(codec), &plain);
            assert_eq!(recognise(&packed), Some(codec));
            let twice = [packed.clone(), pack(Some(codec), b"and more")].concat();
            assert_eq!(unpacked(codec, packed).unwrap(), plain, "{codec}");
            let want = [plain.as_slice(), b"and more"].concat();
            assert_eq!(unpacked(codec, twice).unwrap(), want, "{codec} twice");
        }
        assert_eq!(pack(None, b"as it is"), b"as it is");
    }

    #[test]
    fn a_cut_file_is_an_unexpected_end() {
        let plain: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
        for codec in Codec::ALL {
            let mut packed = pack(Some(codec), &plain);
            packed.truncate(packed.len() / 2);
            let error = unpacked(codec, packed).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::UnexpectedEof,
                "{codec}: {error}"
            );
        }
    }

    #[test]
    fn endings_name_their_codec() {
        for (name, want) in [
            ("a.fstrm", None),
            ("a.fstrm.gz", Some(Codec::Gzip)),
            ("a.zst", Some(Codec::Zstd)),
            ("a.fstrm.lz4", Some(Codec::Lz4)),
            ("dir/a.sz", Some(Codec::Snappy)),
            ("gz", None),
            ("-", None),
        ] {
            assert_eq!(of_name(Path::new(name)), want, "{name}");
        }
    }
}
