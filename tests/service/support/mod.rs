//! What the tests share.

pub(crate) mod collector;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod peer;
pub(crate) mod program;
pub(crate) mod rig;
pub(crate) mod scrape;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for something that has to happen. It is long because the machine may be busy; nothing passes by waiting.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that has to happen.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `look` finds what it looks for.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// As [`eventually`], on a thread.
pub(crate) fn eventually_blocking<T>(
    what: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {}", what());
        std::thread::sleep(LOOK);
    }
}

/// A future that has to end.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("never happened: {what}"),
    }
}

/// The files of a folder with this ending, by name.
pub(crate) fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_file())
        .collect();
    files.retain(|p| p.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// A folder of the test data.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

/// A folder of the corpus that stands beside the project where there is one; says so when there is none.
pub(crate) fn shared_corpus(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/corpus")
        .join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no ../shared/corpus/{name}");
    None
}

/// This process may open as many files as the system lets it: a test with a thousand connections has both ends of each.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
