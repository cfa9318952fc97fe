//! A value made from files, made again when they change: by a thread of its own, so that no frame waits for a disk.
//!
//! What cannot be read leaves the value as it is, and says so in the log once for each change of the files.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::stages::StageError;

type Load<T> = Box<dyn Fn() -> Result<T, StageError> + Send>;

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<Arc<T>>,
    generation: AtomicU64,
}

/// The value, and the thread that looks after it, which ends when this is dropped.
pub(super) struct Watched<T> {
    shared: Arc<Shared<T>>,
    _stop: mpsc::SyncSender<()>,
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

/// What a file looked like: device and number, size, time of change. `None` when it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Looks at files and loads the value again when one has changed.
pub(super) struct Checker<T> {
    files: Vec<PathBuf>,
    seen: Vec<Stamp>,
    load: Load<T>,
    shared: Arc<Shared<T>>,
}

/// What a look at the files found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checked {
    Same,
    Reloaded,
    /// They have changed, and cannot be used.
    Kept,
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let m = std::fs::metadata(file).ok()?;
        Some((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}

impl<T> Checker<T> {
    /// Loads the value for the first time.
    pub(super) fn new(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T, StageError> + Send + 'static,
    ) -> Result<Self, StageError> {
        let seen = stamps(&files);
        let value = Mutex::new(Arc::new(load()?));
        let shared = Shared {
            value,
            generation: AtomicU64::new(0),
        };
        Ok(Self {
            files,
            seen,
            load: Box::new(load),
            shared: Arc::new(shared),
        })
    }

    /// One look.
    pub(super) fn check(&mut self) -> Checked {
        let now = stamps(&self.files);
        if now == self.seen {
            return Checked::Same;
        }
        self.seen = now;
        match (self.load)() {
            Ok(value) => {
                let mut current = self
                    .shared
                    .value
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(value);
                drop(current);
                self.shared.generation.fetch_add(1, Ordering::Release);
                tracing::info!(files = ?self.files, "loaded again");
                Checked::Reloaded
            }
            Err(error) => {
                tracing::warn!(%error, "a file has changed and cannot be used; what it held before stays in use");
                Checked::Kept
            }
        }
    }

    /// The value as it is now and will be.
    #[cfg(test)]
    pub(super) fn reader(&self) -> Reader<T> {
        Reader::new(&self.shared)
    }
}

impl<T: Send + Sync + 'static> Watched<T> {
    /// Looks every so often, or never.
    pub(super) fn start(mut checker: Checker<T>, every: Option<Duration>) -> Self {
        let shared = checker.shared.clone();
        let (stop, stopped) = mpsc::sync_channel(1);
        if let Some(every) = every {
            let watch = move || {
                while stopped.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) {
                    checker.check();
                }
            };
            let thread = std::thread::Builder::new().name("reload".to_owned());
            if let Err(error) = thread.spawn(watch) {
                tracing::warn!(%error, "no thread to look for changed files: they are not loaded again");
            }
        }
        Self {
            shared,
            _stop: stop,
        }
    }

    /// The value as it is now and will be.
    pub(super) fn reader(&self) -> Reader<T> {
        Reader::new(&self.shared)
    }
}

/// A stage's hold on the value. Costs one atomic load where nothing has changed.
#[derive(Debug)]
pub(super) struct Reader<T> {
    shared: Arc<Shared<T>>,
    value: Arc<T>,
    generation: u64,
}

impl<T> Reader<T> {
    fn new(shared: &Arc<Shared<T>>) -> Self {
        let generation = shared.generation.load(Ordering::Acquire);
        let value = shared
            .value
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Self {
            shared: shared.clone(),
            value,
            generation,
        }
    }

    /// The newest value, and its number: another number is another value.
    #[inline]
    pub(super) fn get(&mut self) -> (&Arc<T>, u64) {
        if self.shared.generation.load(Ordering::Acquire) != self.generation {
            *self = Self::new(&self.shared.clone());
        }
        (&self.value, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_loaded_and_a_broken_one_leaves_the_old_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n");
        let load = {
            let path = path.clone();
            move || {
                let why = |why: String| StageError::File {
                    path: path.clone(),
                    why,
                };
                let text = std::fs::read_to_string(&path).map_err(|e| why(e.to_string()))?;
                text.parse::<u32>().map_err(|e| why(e.to_string()))
            }
        };
        assert!(Checker::new(vec![path.clone()], load.clone()).is_err());
        std::fs::write(&path, "1").unwrap();
        let mut checker = Checker::new(vec![path.clone()], load).unwrap();
        let mut reader = checker.reader();
        for (text, checked, value) in [
            (None, Checked::Same, 1),
            (Some("22"), Checked::Reloaded, 22),
            (Some("bad"), Checked::Kept, 22),
            (None, Checked::Same, 22),
            (Some("3333"), Checked::Reloaded, 3333),
        ] {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            assert_eq!(checker.check(), checked, "{text:?}");
            assert_eq!(**reader.get().0, value, "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(checker.check(), Checked::Kept);
        assert_eq!(**reader.get().0, 3333);
    }
}
