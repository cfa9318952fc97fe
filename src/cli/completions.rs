//! `tapflow completions`: what a shell needs to complete our command line.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::{Cli, print_out};

/// What `completions` is told.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Print completions of the command line for a shell",
    long_about = "Print completions of the command line for a shell.\n\n\
        The script goes to standard output; where it belongs depends on the shell.",
    after_long_help = "Examples:\n  \
        $ tapflow completions bash > ~/.local/share/bash-completion/completions/tapflow\n  \
        $ tapflow completions zsh > /usr/local/share/zsh/site-functions/_tapflow\n  \
        $ tapflow completions fish > ~/.config/fish/completions/tapflow.fish\n\n\
        Exit codes:\n  \
        0  done\n  \
        1  standard output cannot be written to\n  \
        2  the command line is wrong"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written to.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tapflow", &mut script);
    print_out(&script)?;
    Ok(ExitCode::SUCCESS)
}
