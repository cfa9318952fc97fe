//! What the commands read: dnstap in Frame Streams or packet captures, compressed as a whole or not, told by content.
//!
//! ```text
//!   file, pipe ─▶ packing (gzip, zstd, lz4, snappy) ─▶ Frame Streams ─▶ runs of frames
//!                                                   └▶ pcap, pcapng ─▶ paired messages ─▶ runs of frames
//! ```
//! [`Input`] is the one interface: [`Input::next`] until [`Step::Eof`], then [`Input::ending`]. Whatever the file was, a
//! step gives whole frames in the layout of a batch. What cannot become a frame is counted in the [`Tally`].
//!
//! Frames go through undecoded; whether their payloads are dnstap is for the caller to see.

mod capture;
mod frames;
mod tally;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::cli::packing;
use crate::fstrm::Sniff;
use crate::fstrm::sniff;
use crate::pcap::ConvertOptions;

use self::capture::Capture;
use self::frames::FrameFile;
pub use self::tally::Tally;

/// Longest data frame that is taken, in bytes; longer ones are skipped and counted. Four times what any dnstap message with
/// all of its fields can need, so that only damage reaches it.
pub const FRAME_MAX: usize = 16 * 1024 * 1024;
/// Octets that tell what a file is.
const FIRST_OCTETS: usize = 12;

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard input.
    Stdin,
    /// A path: a file, a folder, a pipe.
    Path(PathBuf),
}

impl Place {
    /// From the command line: `-` is standard input.
    pub fn of(argument: &Path) -> Self {
        if argument == Path::new("-") {
            Self::Stdin
        } else {
            Self::Path(argument.to_owned())
        }
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

/// What [`Input::next`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Whole frames: see [`Input::run`].
    Run {
        /// How many.
        frames: usize,
    },
    /// Nothing more for now. A file that grows may have more later: ask again.
    Eof,
}

/// Why an input cannot be read on. The texts name the input.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read, or holds nothing that could be.
    #[error("{0}")]
    Unreadable(String),
    /// It could be read up to a place where it is damaged.
    #[error("{0}")]
    Damaged(String),
}

/// How an input ended that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Clean,
    /// Between two frames, but without STOP: nothing shows whether more should follow.
    NoStop,
    /// Within something; the text says what.
    Cut(String),
}

/// How an input is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes that one read asks for; also the usual length of a run.
    pub read_size: usize,
    /// What packets become, should it be a capture.
    pub capture: ConvertOptions,
}

impl Default for Options {
    /// Reads of 256 KiB, which the nearer caches hold.
    fn default() -> Self {
        Self {
            read_size: 256 * 1024,
            capture: ConvertOptions::default(),
        }
    }
}

/// One file or pipe being read.
pub struct Input {
    name: String,
    source: Source,
    compressed: bool,
    read: Arc<AtomicU64>,
    size: Option<u64>,
}

enum Source {
    Frames(Box<FrameFile>),
    Capture(Box<Capture>),
}

impl Input {
    /// Opens a file, or standard input.
    ///
    /// # Errors
    /// [`Fault::Unreadable`]: it is not there, is empty, or is something else; the text says what.
    pub fn open(place: &Place, options: &Options) -> Result<Self, Fault> {
        match place {
            Place::Stdin => Self::of_reader(&place.name(), Box::new(io::stdin()), None, options),
            Place::Path(path) => {
                let file = open_file(path)?;
                Self::of_file(&place.name(), file, options)
            }
        }
    }

    /// An input from a file that is open.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn of_file(name: &str, file: File, options: &Options) -> Result<Self, Fault> {
        let size = file
            .metadata()
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|meta| meta.len());
        Self::of_reader(name, Box::new(file), size, options)
    }

    fn of_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        size: Option<u64>,
        options: &Options,
    ) -> Result<Self, Fault> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            reader,
            read: read.clone(),
        };
        let unreadable = |e: io::Error| Fault::Unreadable(format!("{name}: cannot be read: {e}"));
        let (first, whole) = peek(Box::new(counted)).map_err(unreadable)?;
        if first.is_empty() {
            return Err(Fault::Unreadable(format!("{name}: is empty")));
        }
        let mut compressed = false;
        let (first, whole) = match packing::recognise(&first) {
            None => (first, whole),
            Some(codec) => {
                compressed = true;
                let plain = packing::unpack(codec, whole).map_err(unreadable)?;
                peek(plain).map_err(|e| {
                    Fault::Unreadable(format!("{name}: does not unpack as {codec}: {e}"))
                })?
            }
        };
        let source = Source::of(name, &first, whole, compressed, options)?;
        Ok(Self {
            name: name.to_owned(),
            source,
            compressed,
            read,
            size,
        })
    }

    /// Reads on: the next run, or the end as far as there is one now. Frames that are lost on the way are counted as errors
    /// in `tally`; those of the run are not counted.
    ///
    /// # Errors
    /// [`Fault`]: there is no reading on.
    pub fn next(&mut self, tally: &mut Tally) -> Result<Step, Fault> {
        match &mut self.source {
            Source::Frames(frames) => frames.next(&self.name, tally),
            Source::Capture(capture) => capture.next(&self.name, tally),
        }
    }

    /// The frames of the last [`Step::Run`], in batch layout.
    pub fn run(&self) -> &[u8] {
        match &self.source {
            Source::Frames(frames) => frames.run(),
            Source::Capture(capture) => capture.run(),
        }
    }

    /// Takes the frames of the last [`Step::Run`] along.
    pub fn take_run(&mut self) -> Bytes {
        match &mut self.source {
            Source::Frames(frames) => frames.take_run(),
            Source::Capture(capture) => capture.take_run(),
        }
    }

    /// What the end means, after [`Step::Eof`].
    ///
    /// # Errors
    /// [`Fault::Unreadable`]: it ended before anything could have come.
    pub fn ending(&self, tally: &mut Tally) -> Result<Ending, Fault> {
        match &self.source {
            Source::Frames(frames) => frames.ending(&self.name),
            Source::Capture(capture) => Ok(capture.ending(tally)),
        }
    }

    /// Whether more may come should the file grow: not once there was a STOP, and not in a capture or a compressed file.
    pub fn may_grow(&self) -> bool {
        match &self.source {
            Source::Frames(frames) => !self.compressed && !frames.stopped(),
            Source::Capture(_) => false,
        }
    }

    /// Bytes read so far of the file as it is, for progress.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes the file had when it was opened, where that is known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The packet counters, of a capture.
    pub fn capture(&self) -> Option<&Capture> {
        match &self.source {
            Source::Frames(_) => None,
            Source::Capture(capture) => Some(capture),
        }
    }
}

impl Source {
    fn of(
        name: &str,
        first: &[u8],
        whole: Box<dyn Read + Send>,
        compressed: bool,
        options: &Options,
    ) -> Result<Self, Fault> {
        let cut = if compressed { " (unpacked)" } else { "" };
        if let Some((kind, command)) = packing::foreign(first) {
            return Err(Fault::Unreadable(format!(
                "{name}{cut}: is compressed with {kind}, which is not read here; use {command} {name} | tapflow read -"
            )));
        }
        match sniff(first, FRAME_MAX) {
            // Too few octets to tell: the decoder says what is missing.
            Sniff::Control | Sniff::RawData { .. } | Sniff::NeedMore => Ok(Self::Frames(Box::new(
                FrameFile::new(whole, options.read_size),
            ))),
            Sniff::Pcap => Capture::open(name, whole, options.capture.clone())
                .map(|capture| Self::Capture(Box::new(capture))),
            other => Err(Fault::Unreadable(format!(
                "{name}{cut}: is not dnstap in Frame Streams: {}",
                describe(other, compressed)
            ))),
        }
    }
}

/// What something unreadable is, in the words of one who looks at a file.
fn describe(what: Sniff, compressed: bool) -> String {
    match what {
        Sniff::Tls => "it is a recording of TLS, which is encrypted".to_owned(),
        Sniff::Compressed(codec) if compressed => format!("it is compressed again, with {codec}"),
        other => other.describe().to_owned(),
    }
}

/// Opens a file for reading, with an error that names it.
///
/// # Errors
/// [`Fault::Unreadable`].
pub fn open_file(path: &Path) -> Result<File, Fault> {
    let fault = |why: &str| Fault::Unreadable(format!("{}: {why}", path.display()));
    match File::open(path) {
        Ok(file) if file.metadata().is_ok_and(|meta| meta.is_dir()) => {
            Err(fault("is a folder, not a file"))
        }
        Ok(file) => Ok(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(fault("there is no such file")),
        Err(e) => Err(fault(&format!("cannot be opened: {e}"))),
    }
}

/// A reader together with the octets it begins with.
type Peeked = (Vec<u8>, Box<dyn Read + Send>);

/// The first octets, and a reader that still gives them.
fn peek(mut reader: Box<dyn Read + Send>) -> io::Result<Peeked> {
    let mut first = Vec::with_capacity(FIRST_OCTETS);
    reader
        .by_ref()
        .take(FIRST_OCTETS as u64)
        .read_to_end(&mut first)?;
    let whole = Box::new(Cursor::new(first.clone()).chain(reader));
    Ok((first, whole))
}

/// Counts the bytes that were read.
struct Counted {
    reader: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(into)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
