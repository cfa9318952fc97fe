//! The command line: one file a command, each a thin shell over the library.
//!
//! Messages for people go to standard error, data to standard output. Colours and progress only on a terminal; `NO_COLOR`
//! and `--quiet` are respected.
#![allow(
    clippy::print_stderr,
    reason = "this is the place that talks to people"
)]

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Says a line to people, on standard error. Nobody may be listening (a log reader that has gone, a full disk): then it is
/// lost, and the work goes on.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::cli::say_line(format_args!($($text)*))
    };
}
pub(crate) use say;

/// Writes one line to standard error; an error is ignored, because nobody is there to be told.
pub fn say_line(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The command line cannot be meant: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub mod check_config;
pub mod completions;
pub mod convert;
pub mod fields;
pub mod health;
pub mod input;
pub mod interrupt;
pub mod man;
pub mod packing;
pub mod progress;
pub mod read;
pub mod replay;
pub mod serve;
pub mod servers;
pub mod terms;
pub mod tree;
pub mod worker;

/// Exit codes beyond 0 (well), 1 (failed) and 2 (wrong command line).
pub mod exit {
    /// The command line is wrong, in a way that only the command itself sees.
    pub const USAGE: u8 = 2;
    /// Frames were lost, or two counts do not agree: the ledger or the report says where and why.
    pub const LOST: u8 = 3;
}

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "tapflow",
    version,
    about = "A dnstap collector over Frame Streams that accounts for every frame",
    long_about = "tapflow takes dnstap from Unbound, BIND, Knot, dnsdist, PowerDNS, CoreDNS and NSD in at line rate, \
        says what became of every frame, and turns it into Prometheus metrics, text, JSON and files.\n\n\
        `tapflow serve` is the main job and needs no configuration.",
    after_long_help = "Environment:\n  \
        TAPFLOW_CONFIG  configuration file of serve\n  \
        TAPFLOW_LOG     log filter, such as debug or tapflow::link=trace\n  \
        NO_COLOR        no colours\n\n\
        Exit codes:\n  \
        0  done, nothing lost\n  \
        1  failed, the message says why\n  \
        2  the command line is wrong\n  \
        3  done, but frames were lost or did not agree: the report says which"
)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, in the order of `tapflow --help`.
#[derive(Debug, Subcommand)]
#[allow(
    missing_docs,
    reason = "a doc comment here would take the place of the command's own help text"
)]
pub enum Command {
    Serve(serve::ServeArgs),
    #[command(
        about = worker::ABOUT,
        long_about = worker::LONG_ABOUT,
        after_long_help = worker::AFTER_LONG_HELP
    )]
    Worker(serve::ServeArgs),
    Replay(replay::ReplayArgs),
    Read(read::ReadArgs),
    Convert(convert::ConvertArgs),
    Fields(fields::FieldsArgs),
    CheckConfig(check_config::CheckConfigArgs),
    Health(health::HealthArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the command that `cli` names.
///
/// # Errors
/// What kept it from its work; `main` prints it.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Read(args) => read::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Fields(args) => fields::run(args),
        Command::CheckConfig(args) => check_config::run(args),
        Command::Health(args) => health::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// Writes bytes to standard output. A reader that has left is no error: it has seen enough.
///
/// # Errors
/// Any other error of writing.
pub fn print_out(bytes: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}
