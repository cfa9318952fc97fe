//! `tapflow check-config`: what is wrong with a configuration, where, and what was meant.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::config::check;
use crate::config::load::{self, Loaded};
use crate::config::problem::Problem;
use crate::config::resolve::Surroundings;

/// What `check-config` is told.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(
    about = "Say what is wrong with a configuration file, where, and what was meant",
    long_about = "Say what is wrong with a configuration file, where, and what was meant.\n\n\
        Reads the file as `serve` would, and shows everything that is wrong in one go: each problem with its line, \
        a mark under the part that is wrong, and what to write instead. An error keeps tapflow from starting; a \
        warning is a setting that will probably not do what was meant, or something this machine lacks, such as a \
        user. Nothing is started, and nothing is made or changed.\n\n\
        The last line says what the file sets up, and the most memory that its settings allow tapflow to take.",
    after_long_help = "Exit codes:\n  \
        0  the configuration can run (there may be warnings)\n  \
        1  it cannot, or the file cannot be read\n  \
        2  the command line is wrong\n\n\
        Example:\n  \
        $ tapflow check-config tapflow.toml\n  \
        error: `policy` cannot be \"droop_newest\"\n    \
        --> tapflow.toml:9:10\n     \
        |\n   \
        9 | policy = \"droop_newest\"\n     \
        |          ^^^^^^^^^^^^^^\n     \
        = did you mean \"drop_newest\"? The values are block, drop_newest, drop_oldest"
)]
pub struct CheckConfigArgs {
    /// The configuration file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Count warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Show problems only, not what the file sets up
    #[arg(long, short)]
    pub quiet: bool,
}

/// Checks the file: problems go to standard error, what the file sets up to standard output.
///
/// # Errors
/// When the file cannot be read, or standard output cannot be written to.
pub fn run(args: &CheckConfigArgs) -> anyhow::Result<ExitCode> {
    let mut loaded = if args.file == Path::new("-") {
        load::reader("standard input", std::io::stdin().lock())?
    } else {
        load::file(&args.file)?
    };
    let readable = loaded.errors().next().is_none();
    let resolved = loaded.config.resolve(&Surroundings::of_process());
    if readable {
        loaded.locate(check::machine(&resolved));
    }
    let colour = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let report = loaded.report(colour);
    if !report.is_empty() {
        // A report that nobody can read any more is no reason to fail differently.
        let _ = writeln!(std::io::stderr().lock(), "{report}");
    }
    let (errors, warnings) = (loaded.errors().count(), loaded.warnings().count());
    if errors > 0 || args.strict && warnings > 0 {
        let _ = writeln!(
            std::io::stderr().lock(),
            "{}: not valid: {}",
            loaded.source.name,
            counted(&loaded)
        );
        return Ok(ExitCode::FAILURE);
    }
    if !args.quiet {
        let summary = summary(&loaded);
        let memory = resolved.memory_bound();
        let data_dir = resolved.data_dir.display();
        writeln!(
            std::io::stdout().lock(),
            "{summary}\ndata folder: {data_dir}\nmemory: {memory}"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `x.toml: valid: 2 listeners, 2 stages, 1 output; 1 warning`.
fn summary(loaded: &Loaded) -> String {
    let config = &loaded.config;
    let parts = [
        plural(config.listener.len(), "listener"),
        plural(config.stage.len(), "stage"),
        plural(config.output.len(), "output"),
    ];
    format!(
        "{}: valid: {}; {}",
        loaded.source.name,
        parts.join(", "),
        counted(loaded)
    )
}

fn counted(loaded: &Loaded) -> String {
    let count = |wanted: bool| {
        loaded
            .problems
            .iter()
            .filter(|problem| Problem::is_error(problem) == wanted)
            .count()
    };
    match (count(true), count(false)) {
        (0, warnings) => plural(warnings, "warning"),
        (errors, 0) => plural(errors, "error"),
        (errors, warnings) => format!(
            "{}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ),
    }
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: CheckConfigArgs,
    }

    fn code(content: &[u8], flags: &[&str]) -> ExitCode {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, content).unwrap();
        let mut words = vec!["check-config", file.to_str().unwrap()];
        words.extend(flags);
        run(&Cli::parse_from(words).args).unwrap()
    }

    #[test]
    fn the_exit_code_tells_whether_the_configuration_can_run() {
        let warned: &[u8] = b"shutdown_timeout = \"off\"\n";
        for (content, flags, want) in [
            (&b"worker_threads = 2\n"[..], &[][..], ExitCode::SUCCESS),
            (warned, &[], ExitCode::SUCCESS),
            (warned, &["--quiet"], ExitCode::SUCCESS),
            (warned, &["--strict"], ExitCode::FAILURE),
            (b"worker_thread = 2\n", &[], ExitCode::FAILURE),
            (b"= 2\n", &["--quiet"], ExitCode::FAILURE),
        ] {
            assert_eq!(
                code(content, flags),
                want,
                "{:?} {flags:?}",
                String::from_utf8_lossy(content)
            );
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none.toml");
        for (path, want) in [
            (missing.as_path(), "there is no such file"),
            (folder.path(), "is a folder"),
        ] {
            let args = CheckConfigArgs {
                file: path.to_path_buf(),
                strict: false,
                quiet: false,
            };
            let error = run(&args).unwrap_err().to_string();
            assert!(
                error.contains(want) && error.contains(path.to_str().unwrap()),
                "{error}"
            );
        }
    }

    #[test]
    fn the_help_is_a_short_manual_with_an_example() {
        use clap::CommandFactory as _;
        let help = Cli::command().render_long_help().to_string();
        for want in [
            "Exit codes:",
            "Example:",
            "droop_newest",
            "--strict",
            "standard input",
        ] {
            assert!(help.contains(want), "{want} is not in\n{help}");
        }
    }
}
