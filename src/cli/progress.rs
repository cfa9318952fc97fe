//! Progress on a terminal, and nothing anywhere else.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line is drawn again.
const TICK: Duration = Duration::from_millis(200);

/// A progress line on standard error. It is not there when that is no terminal, or with `--quiet`.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Progress in bytes: towards `total`, or just counted where that is not known.
    pub fn bytes(total: Option<u64>, quiet: bool) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5))
        };
        // No colours, so that there is nothing for NO_COLOR to turn off.
        let template = match total {
            Some(_) => "{msg} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "{msg} {spinner} {bytes}, {bytes_per_sec}, {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    /// What is being done.
    pub fn name(&self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    /// Bytes done so far.
    pub fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
