//! Files in a folder: begun with the first frame, closed by size, by age or on request, and never torn.
//!
//! ```text
//!   NAME.part ──(frames)──▶ STOP ──▶ NAME ──(finisher's thread)──▶ NAME.zst.part ──▶ NAME.zst
//!      │ crash                                                         │ crash
//!      └─ next start: cut after the last whole frame, STOP, rename     └─ next start: removed, NAME is compressed again
//! ```
//! A write that fails is taken back to the last whole frame before anything else is written, and only the frames in hand are
//! dropped: the next ones try anew, so the output recovers by itself when there is space again. A file that is being written
//! is locked, so that another process does not take it for one that a crash has left.
//!
//! Read [`name`] for how files are called, [`finish`] for what happens after they are closed, [`compress`] for how.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::link::outbox::{Outbox, SLICES_MAX};
use crate::log_limit::LogLimit;
use crate::outputs::container::Container;
use crate::outputs::sink::file::finish::{Closed, FinishOptions, Finisher};
use crate::outputs::sink::file::name::Namer;
use crate::outputs::sink::{Ending, Gather, Meter, Sink, Step, Wrote};
use crate::shutdown::{Phase, Signal};

pub mod compress;
pub mod finish;
pub mod name;

/// Small batches are written together, and at the latest after this time, so that whoever follows the file sees them.
const GATHER: Gather = Gather {
    bytes: 256 * 1024,
    wait: Duration::from_millis(250),
};

/// After this time a rotation that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// At most one line about failing writes in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// When a file is closed and the next begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// Bytes after which a file is closed; it ends with the batch that reaches them. `None`: never for its size.
    pub bytes: Option<u64>,
    /// Age after which it is closed. `None`: never for its age.
    pub age: Option<Duration>,
}

/// The sink. Blocks.
#[derive(Debug)]
pub struct FileSink {
    name: String,
    dir: PathBuf,
    namer: Namer,
    container: Container,
    rotation: Rotation,
    sync: bool,
    /// Somebody waits to hear what is on the disk, so a file is synced before another is begun.
    answers: bool,
    open: Option<Open>,
    finisher: Finisher,
    /// When to try a failed rotation again.
    retry_at: Option<Instant>,
    failing: bool,
    signal: Signal,
    meter: Meter,
    log: LogLimit,
}

/// The file that is being written.
#[derive(Debug)]
struct Open {
    file: File,
    /// Its final name.
    path: PathBuf,
    /// Bytes up to the end of the last whole frame, or of the frame that is being written.
    size: u64,
    /// There may be bytes after `size` that must go before anything is written.
    torn: bool,
    /// Written to since it was synced.
    dirty: bool,
    begun: Instant,
}

impl Open {
    /// Cuts off what a failed write left.
    fn repair(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.size)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes `mark` whole or not at all.
    fn write_mark(&mut self, mark: &[u8]) -> io::Result<()> {
        self.repair()?;
        if let Err(e) = self.file.write_all(mark) {
            self.torn = true;
            // It is repaired before the next write, if not now.
            let _ = self.repair();
            return Err(e);
        }
        self.size += mark.len() as u64;
        Ok(())
    }
}

impl FileSink {
    /// A sink that writes into the folder of `finish` as soon as there is a frame. Makes the folder, and starts the thread
    /// that finishes what an earlier run left.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn new(
        container: Container,
        rotation: Rotation,
        finish: FinishOptions,
        signal: Signal,
        meter: Meter,
    ) -> io::Result<Self> {
        fs::create_dir_all(&finish.dir)?;
        let sink = Self {
            name: finish.output.clone(),
            dir: finish.dir.clone(),
            namer: Namer::new(&finish.dir, &finish.prefix, container.extension()),
            container,
            rotation,
            sync: finish.sync,
            answers: false,
            open: None,
            finisher: Finisher::start(finish, meter.clone())?,
            retry_at: None,
            failing: false,
            signal,
            log: LogLimit::new(LOG_INTERVAL),
            meter,
        };
        sink.meter.connected(true);
        Ok(sink)
    }

    /// The file to write to, begun if there is none, and whole.
    fn ready(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let open = self.begin()?;
            self.open = Some(open);
        }
        let head = self.container.head().clone();
        let open = self.open.as_mut().ok_or(ErrorKind::NotFound)?;
        open.repair()?;
        if open.size == 0 && !head.is_empty() {
            open.write_mark(&head)?;
        }
        Ok(open)
    }

    fn begin(&mut self) -> io::Result<Open> {
        let path = self.namer.give();
        let create = || {
            File::options()
                .append(true)
                .create_new(true)
                .open(name::part(&path))
        };
        let file = match create() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // Somebody removed the folder.
                fs::create_dir_all(&self.dir)?;
                create()?
            }
            other => other?,
        };
        if let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Some file systems have no locks. Then two processes must not share a folder and prefix.
            debug!(output = self.name, "cannot lock {}: {e}", path.display());
        }
        debug!(output = self.name, path = %path.display(), "file begun");
        Ok(Open {
            file,
            path,
            size: 0,
            torn: false,
            dirty: false,
            begun: Instant::now(),
        })
    }

    fn write_now(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        while !outbox.is_empty() && self.signal.phase() != Phase::Aborting {
            let limit = self.rotation.bytes.unwrap_or(u64::MAX);
            let open = self.ready()?;
            let room = usize::try_from(limit.saturating_sub(open.size)).unwrap_or(usize::MAX);
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let filled = outbox.slices(&mut slices, room);
            match open
                .file
                .write_vectored(slices.get(..filled).unwrap_or_default())
            {
                Ok(0) => return Err(take_back(open, outbox, ErrorKind::WriteZero.into())),
                Ok(n) => {
                    outbox.advance(n);
                    open.size += n as u64;
                    open.dirty = true;
                    self.meter.wrote(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(take_back(open, outbox, e)),
            }
            // A chunk stays in one file.
            if outbox.at_boundary() && self.open.as_ref().is_some_and(|o| o.size >= limit) {
                self.turn();
            }
        }
        Ok(())
    }

    /// Closes the file, when there is a frame in it.
    fn turn(&mut self) {
        self.retry_at = None;
        let Some(open) = &mut self.open else { return };
        if open.size <= self.container.head().len() as u64 {
            open.begun = Instant::now();
            return;
        }
        if let Err(e) = open.write_mark(self.container.tail()) {
            // It stays the current file: frames may go in while this is tried again.
            self.retry_at = Some(Instant::now() + RETRY);
            self.failed("cannot end a file", &e);
            return;
        }
        if self.sync && self.answers && self.sync_now().is_err() {
            // As above. What is written stays unanswered until it is synced.
            self.retry_at = Some(Instant::now() + RETRY);
            return;
        }
        if let Some(open) = self.open.take() {
            self.hand_over(open);
        }
    }

    /// Waits until what is in the file is on the disk.
    fn sync_now(&mut self) -> io::Result<()> {
        let Some(open) = self.open.as_mut().filter(|o| o.dirty) else {
            return Ok(());
        };
        match open.file.sync_data() {
            Ok(()) => open.dirty = false,
            Err(e) => {
                self.failed("cannot wait for the disk", &e);
                return Err(e);
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, open: Open) {
        let Open {
            file, path, size, ..
        } = open;
        if !self.sync
            && let Err(e) = fs::rename(name::part(&path), &path)
        {
            if e.kind() == ErrorKind::NotFound {
                info!(output = self.name, path = %path.display(), "the file was moved while it was written; it is complete where it is");
            } else {
                self.failed("cannot give a closed file its name", &e);
            }
            return;
        }
        info!(output = self.name, path = %path.display(), bytes = size, "file closed");
        if let Some(closed) = self.finisher.hand_over(Closed { file, path }) {
            warn!(output = self.name, path = %closed.path.display(), "too many closed files wait to be finished; this one will be at the next start");
        }
    }

    fn failed(&mut self, what: &str, error: &io::Error) {
        self.meter.error();
        self.meter.connected(false);
        self.failing = true;
        if let Some(more) = self.log.pass(std::time::Instant::now()) {
            warn!(output = self.name, folder = %self.dir.display(), suppressed = more, "{what}: {error}");
        }
    }

    fn end(&mut self) {
        // What is left when STOP cannot be written is finished at the next start.
        self.turn();
        let empty = self
            .open
            .as_ref()
            .is_some_and(|o| o.size <= self.container.head().len() as u64);
        if empty && let Some(open) = self.open.take() {
            let _ = fs::remove_file(name::part(&open.path));
        }
        self.meter.connected(false);
    }
}

/// Takes a failed write back to the end of the last whole frame.
fn take_back(open: &mut Open, outbox: &mut Outbox, error: io::Error) -> io::Error {
    let back = outbox.rewind() as u64;
    open.size = open.size.saturating_sub(back);
    open.torn = true;
    // It is repaired before the next write, if not now.
    let _ = open.repair();
    error
}

impl Sink for FileSink {
    fn answers(&mut self) {
        self.answers = true;
    }

    fn secure(&mut self) -> io::Result<()> {
        if self.sync { self.sync_now() } else { Ok(()) }
    }

    fn gather(&self) -> Gather {
        GATHER
    }

    fn write<'a>(&'a mut self, outbox: &'a mut Outbox) -> Step<'a, Wrote> {
        let wrote = match self.write_now(outbox) {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    self.meter.connected(true);
                    info!(output = self.name, folder = %self.dir.display(), "writing again");
                }
                Wrote::Progress
            }
            Err(e) => {
                self.failed("cannot write, the frames in hand are dropped", &e);
                Wrote::Failed(outbox.give_up())
            }
        };
        Box::pin(std::future::ready(wrote))
    }

    fn due(&self) -> Option<Instant> {
        let old = || self.open.as_ref()?.begun.checked_add(self.rotation.age?);
        self.retry_at.or_else(old)
    }

    fn tick(&mut self) {
        self.turn();
    }

    fn rotate(&mut self) {
        self.turn();
    }

    fn close(&mut self, ending: Ending) -> Step<'_, ()> {
        self.end();
        match ending {
            Ending::Aborted => Box::pin(std::future::ready(())),
            Ending::Drained => Box::pin(self.finisher.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::link::outbox::{Chunk, Layout};
    use crate::shutdown::channel;
    use crate::telemetry::Telemetry;

    fn sink(dir: &std::path::Path) -> FileSink {
        let finish = FinishOptions {
            output: "files".into(),
            dir: dir.to_owned(),
            prefix: "tap".into(),
            compress: None,
            keep: None,
            sync: false,
        };
        let rotation = Rotation {
            bytes: None,
            age: None,
        };
        let meter = Meter::new(&Telemetry::new(), "files");
        FileSink::new(Container::fstrm(), rotation, finish, channel().1, meter).unwrap()
    }

    fn one_frame() -> Outbox {
        let mut outbox = Outbox::new();
        outbox.push(Chunk::new(
            Bytes::from_static(b"\0\0\0\x01x"),
            1,
            Layout::Run,
        ));
        outbox
    }

    #[tokio::test]
    async fn a_stop_that_does_not_fit_is_tried_again_and_the_file_stays_the_current_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = sink(dir.path());
        assert_eq!(sink.write(&mut one_frame()).await, Wrote::Progress);
        assert_eq!(sink.due(), None);
        // Every write to this device fails as on a full disk.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let good = std::mem::replace(&mut sink.open.as_mut().unwrap().file, full);
        sink.rotate();
        assert!(
            sink.open.is_some() && sink.due().is_some(),
            "it is due again although there is no rotation by age"
        );
        assert_eq!(
            sink.write(&mut one_frame()).await,
            Wrote::Failed(1),
            "frames that do not fit are dropped"
        );
        sink.open.as_mut().unwrap().file = good;
        assert_eq!(sink.write(&mut one_frame()).await, Wrote::Progress);
        sink.tick();
        assert!(sink.open.is_none() && sink.due().is_none());
        let path = fs::read_dir(dir.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let want = [
            &Container::fstrm().head()[..],
            b"\0\0\0\x01x\0\0\0\x01x",
            Container::fstrm().tail(),
        ]
        .concat();
        assert_eq!(fs::read(&path).unwrap(), want);
        assert_eq!(path.extension().unwrap(), "fstrm");
    }

    #[tokio::test]
    async fn a_folder_that_vanishes_is_made_again_and_a_begun_file_without_a_frame_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("frames");
        let mut sink = sink(&folder);
        fs::remove_dir(&folder).unwrap();
        assert!(sink.ready().is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        sink.close(Ending::Drained).await;
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn with_sync_written_frames_are_safe_when_the_disk_says_so_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = sink(dir.path());
        sink.sync = true;
        sink.answers();
        assert!(sink.secure().is_ok(), "nothing is written yet");
        assert_eq!(sink.write(&mut one_frame()).await, Wrote::Progress);
        assert!(sink.open.as_ref().unwrap().dirty);
        assert!(sink.secure().is_ok());
        assert!(!sink.open.as_ref().unwrap().dirty);
        assert_eq!(sink.write(&mut one_frame()).await, Wrote::Progress);
        // This device cannot be synced.
        let never = File::options().write(true).open("/dev/null").unwrap();
        let good = std::mem::replace(&mut sink.open.as_mut().unwrap().file, never);
        assert!(sink.secure().is_err());
        sink.rotate();
        assert!(
            sink.open.is_some(),
            "it is not handed over before it is safe"
        );
        sink.open.as_mut().unwrap().file = good;
        sink.tick();
        assert!(sink.open.is_none());
    }
}
