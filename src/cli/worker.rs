//! `tapflow worker`: `serve` that takes sessions of many streams from another tapflow.

use std::process::ExitCode;

use crate::cli::serve::{self, ServeArgs};

/// Where it listens when nothing else is said.
const LISTEN: &str = "mux+tcp:127.0.0.1:6001";

/// The first line of its help.
pub(super) const ABOUT: &str =
    "Take the streams of another tapflow's mux output in (`serve` with a mux+ listener)";

/// What it does.
pub(super) const LONG_ABOUT: &str = "Take the streams of another tapflow's mux output in.\n\n\
    This is `serve` with a listener for sessions of many streams: --listen tcp:HOST:PORT means mux+tcp:HOST:PORT here, \
    and without --listen and --config it listens at mux+tcp:127.0.0.1:6001. Everything else is as in `serve`.\n\n\
    SIGTERM or SIGINT makes it leave: it tells its senders to send no more, finishes what it has, acknowledges it and \
    ends; they go on with the other workers.";

/// An example.
pub(super) const AFTER_LONG_HELP: &str = "Exit codes: those of `serve`\n\n\
    Example:\n  \
    $ tapflow worker --listen mux+tcp:0.0.0.0:6001 --output file:/var/lib/tapflow/frames";

/// Runs until a signal stops it.
///
/// # Errors
/// As [`serve::run`].
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let mut args = args.clone();
    if args.listen.is_empty() && args.config.is_none() {
        args.listen.push(LISTEN.to_owned());
    }
    for uri in &mut args.listen {
        if ["tcp:", "unix:"]
            .iter()
            .any(|scheme| uri.starts_with(scheme))
        {
            uri.insert_str(0, "mux+");
        }
    }
    serve::run(&args)
}
