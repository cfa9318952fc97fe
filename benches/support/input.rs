//! What is sent: the servers' captures in `testdata/captures`, one after another, and frames made up for one question.

use std::fs;
use std::path::{Path, PathBuf};

use super::Result;

/// `START` with dnstap's content type.
pub(crate) const START: &[u8] =
    b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
/// `STOP`.
pub(crate) const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

/// A Frame Streams file and what is in it.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The file: START, frames, STOP.
    pub(crate) file: PathBuf,
    /// Data frames in it.
    pub(crate) frames: usize,
    /// Their bytes, length words included.
    pub(crate) bytes: usize,
}

impl Input {
    /// How often it is sent for so many frames.
    pub(crate) fn loops(&self, frames: usize) -> usize {
        frames.div_ceil(self.frames).max(1)
    }

    fn write(file: PathBuf, frames: usize, run: &[u8]) -> Result<Self> {
        fs::write(&file, [START, run, STOP].concat())?;
        let bytes = run.len();
        Ok(Self {
            file,
            frames,
            bytes,
        })
    }

    /// The data frames of all captures, in one file in `folder`.
    ///
    /// # Errors
    /// A capture that cannot be read, a file that cannot be written.
    pub(crate) fn captures(folder: &Path) -> Result<Self> {
        let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures");
        let mut paths: Vec<PathBuf> = fs::read_dir(captures)?
            .filter_map(|e| Some(e.ok()?.path()))
            .collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "fstrm"));
        paths.sort();
        let (mut run, mut frames) = (Vec::new(), 0);
        for path in paths {
            let bytes = fs::read(path)?;
            let mut rest = &bytes[..];
            while let Some((word, after)) = rest.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*word) as usize;
                if len == 0 {
                    let control = u32::from_be_bytes(after[..4].try_into()?) as usize;
                    rest = &after[4 + control..];
                } else {
                    run.extend_from_slice(&rest[..4 + len]);
                    frames += 1;
                    rest = &after[len..];
                }
            }
        }
        Self::write(folder.join("captures.fstrm"), frames, &run)
    }

    /// Frames of these payload sizes in turn, so many in all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn sizes(file: PathBuf, sizes: &[usize], frames: usize) -> Result<Self> {
        let mut run = Vec::new();
        for size in sizes.iter().cycle().take(frames) {
            run.extend((*size as u32).to_be_bytes());
            run.resize(run.len() + size, 0x0a);
        }
        Self::write(file, frames, &run)
    }

    /// Client queries of one size, with so many identities and so many names, in an order that seldom repeats.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn distinct(
        file: PathBuf,
        frames: usize,
        identities: usize,
        names: usize,
    ) -> Result<Self> {
        let mut run = Vec::with_capacity(frames * 120);
        for i in 0..frames {
            // A prime that divides none of the powers of ten steps through all of them.
            let step = i * 7_919;
            let payload = query(step % identities, step % names);
            run.extend((payload.len() as u32).to_be_bytes());
            run.extend(payload);
        }
        Self::write(file, frames, &run)
    }
}

/// A dnstap CLIENT_QUERY for `NUMBER.example.com. A` from the server `ns-NUMBER`.
pub(crate) fn query(identity: usize, name: usize) -> Vec<u8> {
    let mut dns = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x08".to_vec();
    dns.extend(format!("{name:08x}").bytes());
    dns.extend(b"\x07example\x03com\0\0\x01\0\x01");
    // type CLIENT_QUERY, INET, UDP, query_address, query_port, query_time.
    let mut message = vec![0x08, 5, 0x10, 1, 0x18, 1, 0x22, 4, 192, 0, 2, 7, 0x30, 53];
    message.extend([0x40, 0x80, 0xcd, 0xb5, 0xc5, 0x06, 0x4d, 1, 2, 3, 4]);
    message.extend([0x52, dns.len() as u8]);
    message.extend(dns);
    let identity = format!("ns-{identity:08x}");
    let mut out = vec![0x0a, identity.len() as u8];
    out.extend(identity.bytes());
    out.extend([0x72, message.len() as u8]);
    out.extend(message);
    out.extend([0x78, 1]);
    out
}
