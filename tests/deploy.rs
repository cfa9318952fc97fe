//! What `deploy/` holds works with the program as it is.

use std::fs;
use std::path::Path;

use clap::Parser as _;
use tapflow::cli::{Cli, Command};

#[test]
fn the_units_command_lines_are_ones_that_the_program_takes() {
    let unit =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/tapflow.service"))
            .expect("unit");
    let mut seen = 0;
    for (_, command) in unit
        .lines()
        .filter_map(|line| line.split_once("ExecStart="))
    {
        let cli =
            Cli::try_parse_from(command.split(' ')).unwrap_or_else(|e| panic!("{command}: {e}"));
        assert!(matches!(cli.command, Command::Serve(_)));
        seen += 1;
    }
    assert_eq!(
        seen, 2,
        "the command, and the one to use with a configuration file"
    );
}

#[test]
fn the_unit_waits_longer_than_a_stop_may_take() {
    let unit =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/tapflow.service"))
            .expect("unit");
    let seconds: u64 = unit
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="))
        .and_then(|value| value.parse().ok())
        .expect("TimeoutStopSec in seconds");
    assert!(
        seconds
            > tapflow::config::Config::default()
                .shutdown_timeout
                .0
                .as_secs()
                + 2
    );
}
