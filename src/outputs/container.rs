//! [`Container`]: what stands around the frames of a format in a file or a pipe, and how to tell the whole frames of a file
//! that was not closed from the rest.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use crate::fstrm::ContentType;
use crate::fstrm::Control;
use crate::fstrm::ControlKind;
use crate::outputs::options::Format;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// START, data, STOP.
    Fstrm,
    /// Lines of text: nothing around them.
    Text,
    /// Lines of JSON: nothing around them.
    Json,
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

impl From<Format> for Container {
    fn from(format: Format) -> Self {
        match format {
            Format::Fstrm => Self::Fstrm,
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

impl Container {
    /// Every container.
    pub const ALL: [Self; 3] = [Self::Fstrm, Self::Text, Self::Json];

    /// The ending of a file's name, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Fstrm => "fstrm",
            Self::Text => "txt",
            Self::Json => "jsonl",
        }
    }

    /// The bytes before the first frame.
    pub fn head(self) -> &'static [u8] {
        match self {
            Self::Fstrm => &START,
            Self::Text | Self::Json => &[],
        }
    }

    /// The bytes after the last frame.
    pub fn tail(self) -> &'static [u8] {
        match self {
            Self::Fstrm => &STOP,
            Self::Text | Self::Json => &[],
        }
    }

    /// Examines a file from its beginning: `None` when it is not one of these at all.
    ///
    /// # Errors
    /// Those of reading.
    pub fn examine(self, file: &File) -> io::Result<Option<Whole>> {
        match self {
            Self::Fstrm => examine_frames(file),
            Self::Text | Self::Json => examine_lines(file).map(Some),
        }
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
                Container::Fstrm.examine(&file(&bytes[..cut])).unwrap(),
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
            let got = Container::Fstrm.examine(&file(&bytes)).unwrap();
            assert_eq!(got.map(|w| (w.len, w.frames, w.ended)), want, "{name}");
        }
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
            let got = Container::Json
                .examine(&file(text.as_bytes()))
                .unwrap()
                .unwrap();
            assert_eq!((got.len, got.frames > 0), (want, want > 0));
        }
    }
}
