//! The finisher: a thread per file output for everything that takes long and must not hold the queue up. It finishes what a
//! crash left, waits for the disk, compresses, and removes the oldest files.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use rustix::fs::{FlockOperation, flock};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use crate::format::Shape;
use crate::outputs::container;
use crate::outputs::sink::Meter;
use crate::outputs::sink::file::compress::Compression;
use crate::outputs::sink::file::name;

/// Closed files that may wait for the thread. Beyond it a file stays as it is until the next start.
const JOBS_MAX: usize = 4096;

/// What the finisher needs to know of its output.
#[derive(Clone, Debug)]
pub struct FinishOptions {
    /// The output's name, for logs.
    pub output: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Its prefix.
    pub prefix: String,
    /// Compression of closed files.
    pub compress: Option<Compression>,
    /// Closed files kept; `None`: all.
    pub keep: Option<usize>,
    /// Wait for the disk before a file gets its final name.
    pub sync: bool,
}

/// A file whose last byte is written.
#[derive(Debug)]
pub struct Closed {
    /// The file, locked until it is dropped.
    pub file: File,
    /// Its final name. It still has its temporary one where the finisher is to sync it first.
    pub path: PathBuf,
}

/// The thread's handle. Dropping it makes the thread give up what it has not begun.
#[derive(Debug)]
pub struct Finisher {
    jobs: Option<SyncSender<Closed>>,
    stop: Arc<AtomicBool>,
    done: Option<oneshot::Receiver<()>>,
}

impl Finisher {
    /// Starts the thread. What is left from before is listed now, so that no file begun later is taken for it.
    ///
    /// # Errors
    /// No thread.
    pub fn start(options: FinishOptions, meter: Meter) -> io::Result<Self> {
        let left = name::list(&options.dir, &options.prefix)?;
        let left: Vec<_> = left.into_values().flatten().collect();
        let (jobs, inbox) = sync_channel(JOBS_MAX);
        let (finished, done) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            options,
            meter,
            stop: stop.clone(),
            waiting: VecDeque::new(),
        };
        std::thread::Builder::new()
            .name("finish-files".to_owned())
            .spawn(move || {
                worker.run(left, &inbox);
                drop(finished);
            })?;
        Ok(Self {
            jobs: Some(jobs),
            stop,
            done: Some(done),
        })
    }

    /// Hands a closed file over. It comes back when too many wait.
    pub fn hand_over(&self, closed: Closed) -> Option<Closed> {
        match &self.jobs {
            Some(jobs) => jobs.try_send(closed).err().map(|e| match e {
                std::sync::mpsc::TrySendError::Full(c)
                | std::sync::mpsc::TrySendError::Disconnected(c) => c,
            }),
            None => Some(closed),
        }
    }

    /// Waits until everything handed over is done.
    pub async fn finish(&mut self) {
        self.jobs = None;
        if let Some(done) = self.done.take() {
            // It is never sent: the thread drops its end when it is done.
            let _ = done.await;
        }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Worker {
    options: FinishOptions,
    meter: Meter,
    stop: Arc<AtomicBool>,
    /// Closed files to compress, oldest first.
    waiting: VecDeque<PathBuf>,
}

impl Worker {
    fn run(mut self, left: Vec<(name::Name, PathBuf)>, inbox: &Receiver<Closed>) {
        for (name, path) in left {
            if let Err(e) = self.take_over(&name, &path) {
                self.failed("cannot finish what an earlier run left", &path, &e);
            }
        }
        self.remove_oldest();
        let mut open = true;
        while !self.stopped() && (open || !self.waiting.is_empty()) {
            let job = if self.waiting.is_empty() {
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                inbox.try_recv()
            };
            match job {
                Ok(closed) => {
                    self.settle(closed);
                    self.remove_oldest();
                    continue;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => open = false,
            }
            self.compress_next();
        }
        // The process aborts. Waiting for the disk is over, but a file that is complete deserves its name.
        if self.options.sync {
            inbox
                .try_iter()
                .for_each(|closed| self.rename(&closed.path));
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn failed(&self, what: &str, path: &Path, error: &io::Error) {
        self.meter.error();
        warn!(output = self.options.output, path = %path.display(), "{what}: {error}");
    }

    /// Decides about a file that was in the folder at the start.
    fn take_over(&mut self, name: &name::Name, path: &Path) -> io::Result<()> {
        match (name.part, name.compression) {
            (false, None) => {
                // Closed, but the process ended before it was compressed.
                self.enqueue(path.to_owned());
                Ok(())
            }
            (false, Some(_)) => Ok(()),
            // The original is still there.
            (true, Some(_)) => fs::remove_file(path),
            (true, None) => self.recover(name.shape, path),
        }
    }

    /// Ends a file that its writer did not: cuts off what is not whole, marks the end, gives it its name.
    fn recover(&mut self, shape: Shape, path: &Path) -> io::Result<()> {
        let mut file = File::options().read(true).append(true).open(path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            debug!(output = self.options.output, path = %path.display(), "left alone: another process writes it");
            return Ok(());
        }
        let Some(whole) = container::examine(shape, &file)? else {
            warn!(output = self.options.output, path = %path.display(), "left alone: not a file of this output, in spite of its name");
            return Ok(());
        };
        if whole.frames == 0 {
            return fs::remove_file(path);
        }
        let size = file.metadata()?.len();
        file.set_len(whole.len)?;
        if !whole.ended {
            file.write_all(container::tail(shape))?;
        }
        file.sync_all()?;
        let target = path.with_extension("");
        fs::rename(path, &target)?;
        let cut_bytes = size.saturating_sub(whole.len);
        info!(output = self.options.output, path = %target.display(), frames = whole.frames, cut_bytes, "recovered a file that was not closed");
        self.enqueue(target);
        Ok(())
    }

    fn enqueue(&mut self, path: PathBuf) {
        if self.options.compress.is_some() {
            self.waiting.push_back(path);
        }
    }

    /// Waits for the disk where that is asked for, and gives the file its name.
    fn settle(&mut self, closed: Closed) {
        if self.options.sync {
            if let Err(e) = closed.file.sync_all() {
                self.failed("the disk did not confirm a closed file", &closed.path, &e);
            }
            self.rename(&closed.path);
            if let Err(e) = File::open(&self.options.dir).and_then(|dir| dir.sync_all()) {
                self.failed(
                    "the disk did not confirm the name of a file",
                    &closed.path,
                    &e,
                );
            }
        }
        self.enqueue(closed.path);
    }

    fn rename(&self, path: &Path) {
        if let Err(e) = fs::rename(name::part(path), path) {
            self.failed("cannot give a closed file its name", path, &e);
        }
    }

    fn compress_next(&mut self) {
        let (Some(compress), Some(path)) = (self.options.compress, self.waiting.pop_front()) else {
            return;
        };
        match compress.compress_file(&path, self.options.sync, &|| self.stopped()) {
            Ok(done) => {
                debug!(output = self.options.output, path = %path.display(), done, "compressed")
            }
            Err(e) => self.failed(
                "cannot compress a closed file, it stays as it is",
                &path,
                &e,
            ),
        }
        self.remove_oldest();
    }

    /// Removes the oldest closed files beyond the number to keep. A file and its compressed form count as one.
    fn remove_oldest(&self) {
        let Some(keep) = self.options.keep else {
            return;
        };
        let mut closed = match name::list(&self.options.dir, &self.options.prefix) {
            Ok(found) => found,
            Err(e) => return self.failed("cannot look for old files", &self.options.dir, &e),
        };
        closed.retain(|_, forms| forms.iter().any(|(name, _)| !name.part));
        let excess = closed.len().saturating_sub(keep);
        for (name, path) in closed.into_values().take(excess).flatten() {
            match fs::remove_file(&path) {
                Ok(()) if !name.part => {
                    info!(output = self.options.output, path = %path.display(), "removed, as newer files are enough to keep")
                }
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => self.failed("cannot remove an old file", &path, &e),
            }
        }
    }
}
