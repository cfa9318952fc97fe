//! SIGINT and SIGTERM for the commands that read files: they stop between two steps, so that their report still comes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Exit code of a command that a second signal ended, as shells give it for SIGINT.
pub const EXIT_INTERRUPTED: i32 = 130;

/// Says whether a signal came.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT and SIGTERM from now on. `on_first` runs in the watching thread with the first one; the second
    /// ends the process at once.
    ///
    /// # Errors
    /// When the handlers or the thread cannot be set up.
    pub fn watch(on_first: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let interrupt = Self::default();
        let raised = interrupt.0.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (mut int, mut term) = {
            let _guard = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! { _ = int.recv() => {} _ = term.recv() => {} }
                    raised.store(true, Ordering::Relaxed);
                    on_first();
                    tokio::select! { _ = int.recv() => {} _ = term.recv() => {} }
                    std::process::exit(EXIT_INTERRUPTED);
                });
            })?;
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
