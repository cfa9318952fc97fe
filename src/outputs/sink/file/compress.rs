//! Compression of a whole file once it is closed.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::outputs::options::SendCompression;
use crate::outputs::sink::file::name;

/// Bytes compressed between two looks at the clock on the wall: whether the process aborts.
const BLOCK_BYTES: usize = 256 * 1024;

/// How closed files are compressed. Each in the format of its command-line tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// The LZ4 frame format.
    Lz4,
    /// The snappy framing format.
    Snappy,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Lz4, Self::Snappy, Self::Zstd];

    /// The setting, `None` where it is off.
    pub const fn of(setting: SendCompression) -> Option<Self> {
        match setting {
            SendCompression::Off => None,
            SendCompression::Gzip => Some(Self::Gzip),
            SendCompression::Lz4 => Some(Self::Lz4),
            SendCompression::Snappy => Some(Self::Snappy),
            SendCompression::Zstd => Some(Self::Zstd),
        }
    }

    /// The ending that the tools give, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Lz4 => "lz4",
            Self::Snappy => "sz",
            Self::Zstd => "zst",
        }
    }

    /// The name of `path` when it is compressed.
    pub fn path(self, path: &Path) -> PathBuf {
        name::with_ending(path, &format!(".{}", self.extension()))
    }

    /// Compresses the closed file `path` next to itself, under a temporary name until it is complete, and then removes the
    /// original. `Ok(false)`: `stop` said so, or the file is gone; what there was is still there.
    ///
    /// # Errors
    /// Those of reading and writing; the original is still there and nothing else is left.
    pub fn compress_file(
        self,
        path: &Path,
        sync: bool,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let source = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let target = self.path(path);
        let temporary = name::part(&target);
        let done = File::create(&temporary).and_then(|out| self.copy(source, out, sync, stop));
        match done {
            Ok(true) => {
                fs::rename(&temporary, &target)?;
                fs::remove_file(path)?;
                Ok(true)
            }
            other => {
                let _ = fs::remove_file(&temporary);
                other
            }
        }
    }

    fn copy(
        self,
        source: File,
        out: File,
        sync: bool,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let out = BufWriter::with_capacity(BLOCK_BYTES, out);
        let out = match self {
            Self::Gzip => {
                // Level 3: half the time of the usual 6, for a few per cent of size.
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(3));
                if !pump(source, &mut encoder, stop)? {
                    return Ok(false);
                }
                encoder.finish()?
            }
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
                if !pump(source, &mut encoder, stop)? {
                    return Ok(false);
                }
                encoder.finish()?
            }
            Self::Snappy => {
                let mut encoder = snap::write::FrameEncoder::new(out);
                if !pump(source, &mut encoder, stop)? {
                    return Ok(false);
                }
                encoder
                    .into_inner()
                    .map_err(|e| io::Error::new(e.error().kind(), e.to_string()))?
            }
            Self::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, 1)?;
                encoder.include_checksum(true)?;
                if !pump(source, &mut encoder, stop)? {
                    return Ok(false);
                }
                encoder.finish()?
            }
        };
        let file = out.into_inner()?;
        if sync {
            file.sync_all()?;
        }
        Ok(true)
    }
}

/// Copies everything, unless `stop` says so.
fn pump(mut source: File, target: &mut dyn Write, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        if stop() {
            return Ok(false);
        }
        match source.read(&mut block) {
            Ok(0) => return Ok(true),
            Ok(n) => target.write_all(block.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
