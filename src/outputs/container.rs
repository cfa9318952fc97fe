//! [`Container`]: what stands around the frames of a format in a file or a pipe, and how to tell the whole frames of a file
//! that was not closed from the rest.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use bytes::Bytes;

use crate::format::{Format, FormatError, Settings, Shape};
use crate::fstrm::ContentType;
use crate::fstrm::Control;
use crate::fstrm::ControlKind;

/// Longest control frame that is taken for one when a file is examined, as its length word counts.
const CONTROL_LEN_MAX: u32 = 4064;

/// Bytes read at a time when a file is examined.
const READ_BYTES: usize = 256 * 1024;

static START: LazyLock<Vec<u8>> = LazyLock::new(|| {
    Control::with_type(ControlKind::Start, Some(ContentType::DNSTAP))
        .to_bytes()
        .to_vec()
});
static STOP: LazyLock<Vec<u8>> =
    LazyLock::new(|| Control::plain(ControlKind::Stop).to_bytes().to_vec());

/// What wraps the frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    shape: Shape,
    extension: &'static str,
    head: Bytes,
}

/// What a file that was not closed holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole {
    /// Bytes up to the end of the last whole frame, or to the end of STOP.
    pub len: u64,
    /// Whole frames; of lines, 1 when there are any.
    pub frames: u64,
    /// The end is marked already.
    pub ended: bool,
}

impl Container {
    /// That of Frame Streams.
    pub fn fstrm() -> Self {
        Self {
            shape: Shape::Fstrm,
            extension: "fstrm",
            head: Bytes::from_static(&START),
        }
    }

    /// That of a format.
    ///
    /// # Errors
    /// A field that there is not.
    pub fn new(format: &Format, settings: &Settings) -> Result<Self, FormatError> {
        let Some(mut line) = format.line(settings)? else {
            return Ok(Self::fstrm());
        };
        let mut head = Vec::new();
        line.begin(&mut head);
        Ok(Self {
            shape: format.shape(),
            extension: format.extension(),
            head: head.into(),
        })
    }

    /// The ending of a file's name, without the dot.
    pub const fn extension(&self) -> &'static str {
        self.extension
    }

    /// The bytes before the first frame.
    pub const fn head(&self) -> &Bytes {
        &self.head
    }

    /// The bytes after the last frame.
    pub fn tail(&self) -> &'static [u8] {
        tail(self.shape)
    }
}

/// The bytes after the last frame of a file of this shape.
pub fn tail(shape: Shape) -> &'static [u8] {
    match shape {
        Shape::Fstrm => &STOP,
        Shape::Lines | Shape::Pcap => &[],
    }
}

/// Examines a file from its beginning: `None` when it is not of this shape at all.
///
/// # Errors
/// Those of reading.
pub fn examine(shape: Shape, file: &File) -> io::Result<Option<Whole>> {
    match shape {
        Shape::Fstrm => examine_frames(file),
        Shape::Lines => examine_lines(file).map(Some),
        Shape::Pcap => examine_packets(file),
    }
}

/// Walks over the frames; only length words are looked at.
fn examine_frames(file: &File) -> io::Result<Option<Whole>> {
    let size = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let mut whole = Whole {
        len: 0,
        frames: 0,
        ended: false,
    };
    let mut started = false;
    while let Some(len) = read_u32(&mut reader)? {
        if len > 0 {
            let end = whole.len + 4 + u64::from(len);
            if !started || end > size {
                break;
            }
            reader.seek_relative(i64::from(len))?;
            whole.len = end;
            whole.frames += 1;
            continue;
        }
        let (Some(clen), Some(kind)) = (read_u32(&mut reader)?, read_u32(&mut reader)?) else {
            break;
        };
        let end = whole.len + 8 + u64::from(clen);
        // A power cut can leave zeros where data should be; they look like an empty control frame.
        if !(4..=CONTROL_LEN_MAX).contains(&clen) || end > size {
            break;
        }
        let kind = ControlKind::from(kind);
        if !started && kind != ControlKind::Start {
            break;
        }
        started = true;
        reader.seek_relative(i64::from(clen) - 4)?;
        whole.len = end;
        if kind == ControlKind::Stop {
            whole.ended = true;
            break;
        }
    }
    // A file that ends within our START holds nothing, but it is ours.
    let ours = started || size < START.len() as u64;
    Ok(ours.then_some(whole))
}

fn read_u32(reader: &mut impl Read) -> io::Result<Option<u32>> {
    let mut word = [0; 4];
    match reader.read_exact(&mut word) {
        Ok(()) => Ok(Some(u32::from_be_bytes(word))),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

/// Octets of a pcap file before its first packet, and of a packet before its data.
const PCAP_HEAD: u64 = 24;
const PACKET_HEAD: usize = 16;

/// Magic of the pcap files that we write: nanoseconds, least octet first.
const PCAP_MAGIC: [u8; 4] = 0xa1b2_3c4d_u32.to_le_bytes();

/// Walks over the packets; only their lengths are looked at.
fn examine_packets(file: &File) -> io::Result<Option<Whole>> {
    let size = file.metadata()?.len();
    let mut whole = Whole {
        len: size.min(PCAP_HEAD),
        frames: 0,
        ended: true,
    };
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let mut head = [0; PCAP_HEAD as usize];
    let head = head
        .get_mut(..size.min(PCAP_HEAD) as usize)
        .unwrap_or_default();
    reader.read_exact(head)?;
    let magic = head.get(..4).unwrap_or(head);
    if !PCAP_MAGIC.starts_with(magic) {
        return Ok(None);
    }
    let mut packet = [0; PACKET_HEAD];
    while size - whole.len >= PACKET_HEAD as u64 {
        reader.read_exact(&mut packet)?;
        let [.., a, b, c, d, _, _, _, _] = packet;
        let len = u32::from_le_bytes([a, b, c, d]);
        let end = whole.len + PACKET_HEAD as u64 + u64::from(len);
        // Every packet has an address at least; a power cut can leave zeros where it should be.
        if len == 0 || end > size {
            break;
        }
        reader.seek_relative(i64::from(len))?;
        whole.len = end;
        whole.frames += 1;
    }
    Ok(Some(whole))
}

/// Finds the last newline, from the end.
fn examine_lines(file: &File) -> io::Result<Whole> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; READ_BYTES];
    while end > 0 {
        let start = end.saturating_sub(READ_BYTES as u64);
        let part = block.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact_at(part, start)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            return Ok(Whole {
                len: start + at as u64 + 1,
                frames: 1,
                ended: true,
            });
        }
        end = start;
    }
    Ok(Whole {
        len: 0,
        frames: 0,
        ended: true,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        file
    }

    #[test]
    fn finds_the_last_whole_frame_at_every_cut() {
        let frames: &[&[u8]] = &[&START, b"\0\0\0\x02hi", b"\0\0\0\x05there", &STOP];
        let bytes = frames.concat();
        for cut in 0..=bytes.len() {
            let (mut len, mut pieces) = (0, 0);
            for frame in frames {
                if len + frame.len() > cut {
                    break;
                }
                len += frame.len();
                pieces += 1u64;
            }
            let want = Whole {
                len: len as u64,
                frames: pieces.saturating_sub(1).min(2),
                ended: pieces == 4,
            };
            assert_eq!(
                examine(Shape::Fstrm, &file(&bytes[..cut])).unwrap(),
                Some(want),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn ends_where_the_bytes_make_no_sense_and_leaves_foreign_files_alone() {
        let start: &[u8] = &START;
        let frame: &[u8] = b"\0\0\0\x02hi";
        let n = start.len() as u64;
        for (name, bytes, want) in [
            (
                "zeros after a power cut",
                [start, frame, &[0; 64]].concat(),
                Some((n + 6, 1, false)),
            ),
            (
                "bytes after STOP",
                [start, frame, &STOP, b"junk"].concat(),
                Some((n + 18, 1, true)),
            ),
            (
                "another program's file",
                b"this is not Frame Streams at all, nor is it short".to_vec(),
                None,
            ),
            ("data without START", [frame; 10].concat(), None),
            ("nothing", vec![], Some((0, 0, false))),
        ] {
            let got = examine(Shape::Fstrm, &file(&bytes)).unwrap();
            assert_eq!(got.map(|w| (w.len, w.frames, w.ended)), want, "{name}");
        }
    }

    #[test]
    fn finds_the_last_whole_packet_at_every_cut() {
        let packet =
            |data: &[u8]| [&[0; 8][..], &[data.len() as u8, 0, 0, 0], &[0; 4], data].concat();
        let head = [&PCAP_MAGIC[..], &[0; 20]].concat();
        let pieces = [head, packet(b"one"), packet(b"three")];
        let bytes = pieces.concat();
        for cut in 0..=bytes.len() {
            let mut ends = pieces.iter().scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            });
            let whole = ends.clone().take_while(|end| *end <= cut).last();
            let frames = ends.by_ref().take_while(|end| *end <= cut).count();
            let got = examine(Shape::Pcap, &file(&bytes[..cut])).unwrap().unwrap();
            assert_eq!(
                (got.len, got.frames),
                (whole.unwrap_or(cut) as u64, frames.saturating_sub(1) as u64),
                "cut at {cut}"
            );
        }
        assert_eq!(
            examine(
                Shape::Pcap,
                &file(b"not a capture, but long enough for one")
            )
            .unwrap(),
            None
        );
    }

    #[test]
    fn lines_end_after_the_last_newline_however_long_the_torn_line_is() {
        let torn = "x".repeat(READ_BYTES + 10);
        for (text, want) in [
            ("", 0),
            ("abc", 0),
            ("a\nb\n", 4),
            ("a\nb\ncut", 4),
            (&*format!("a\n{torn}"), 2),
        ] {
            let got = examine(Shape::Lines, &file(text.as_bytes()))
                .unwrap()
                .unwrap();
            assert_eq!((got.len, got.frames > 0), (want, want > 0));
        }
    }
}
