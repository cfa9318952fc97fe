//! `tapflow man`: the manual pages, made of the same definitions as `--help`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;

use crate::cli::{Cli, print_out};

/// What `man` is told.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Print a manual page, or write all of them",
    long_about = "Print a manual page, or write all of them.\n\n\
        Without --out the page of tapflow, or of the command that is named, goes to standard output. With --out the pages \
        of all commands are written into a folder, which is made if need be.",
    after_long_help = "Examples:\n  \
        $ tapflow man replay | man -l -\n  \
        $ tapflow man --out /usr/local/share/man/man1\n\n\
        Exit codes:\n  \
        0  done\n  \
        1  a page cannot be written\n  \
        2  the command line is wrong"
)]
pub struct ManArgs {
    /// The command whose page is wanted
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub command: Option<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// Prints a page or writes them all.
///
/// # Errors
/// When there is no such command, or a page cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut root = Cli::command();
    // Gives the commands their full names, `tapflow read` and so on.
    root.build();
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        for command in std::iter::once(&root).chain(commands(&root)) {
            let page = page(command);
            let path = folder.join(page.get_filename());
            fs::write(&path, render(&page)?)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = match &args.command {
        None => &root,
        Some(name) => {
            let names: Vec<_> = commands(&root).map(Command::get_name).collect();
            commands(&root)
                .find(|command| command.get_name() == name)
                .with_context(|| {
                    format!("there is no command {name}; there are {}", names.join(", "))
                })?
        }
    };
    print_out(&render(&page(wanted))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands that are ours: not clap's `help`.
fn commands(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands()
        .filter(|command| command.get_name() != "help")
}

fn page(command: &Command) -> Man {
    let version = env!("CARGO_PKG_VERSION");
    Man::new(command.clone().version(version))
        .source(format!("tapflow {version}"))
        .manual("tapflow manual")
}

fn render(page: &Man) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(text)
}
