//! The `tapflow` program: reads the command line and runs a command of [`tapflow::cli`].

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = tapflow::cli::Cli::parse();
    match tapflow::cli::run(&cli) {
        Ok(code) => code,
        Err(error) => {
            // One line a cause, the outermost first.
            tapflow::cli::say_line(format_args!("tapflow: {error:#}"));
            if error.is::<tapflow::cli::Usage>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
