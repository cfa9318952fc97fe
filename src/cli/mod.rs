//! The command line: one file a command, each a thin shell over the library.
//!
//! Messages for people go to standard error, data to standard output. Colours and progress only on a terminal; `NO_COLOR`
//! and `--quiet` are respected.
#![allow(clippy::print_stderr, reason = "this is the place that talks to people")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod check_config;
pub mod serve;
pub mod servers;

/// Exit codes beyond 0 (well), 1 (failed) and 2 (wrong command line).
pub mod exit {
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

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take dnstap in
    Serve(serve::ServeArgs),
    /// Check a configuration file
    CheckConfig(check_config::CheckConfigArgs),
}

/// Runs the command that `cli` names.
///
/// # Errors
/// What kept it from its work; `main` prints it.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::CheckConfig(args) => check_config::run(args),
    }
}
