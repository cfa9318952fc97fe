//! What `deploy/` holds works with the program as it is.

mod containers;
mod metrics;
mod package;
mod sockets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::Parser as _;
use tapflow::cli::{Cli, Command};

/// A file of the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Files below a folder with one of these endings.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path(folder)).expect("a folder").flatten() {
        let path = entry.path();
        let inner = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            found.extend(files(&inner, endings));
        } else if endings.iter().any(|e| inner.ends_with(e)) {
            found.push(path);
        }
    }
    found
}

/// The command, or a line that says what was skipped.
fn program(name: &str, args: &[&str], package: &str) -> Option<Process> {
    let mut command = Process::new(name);
    if Process::new(name).arg("--version").output().is_err() {
        println!("skipped: {name} is not installed; apt-get install {package}");
        return None;
    }
    command.args(args).current_dir(path("."));
    Some(command)
}

#[test]
fn the_units_score_for_exposure_is_under_two() {
    let args = [
        "security",
        "--offline=true",
        "--threshold=20",
        "deploy/tapflow.service",
    ];
    let Some(mut command) = program("systemd-analyze", &args, "systemd") else {
        return;
    };
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("unrecognized option") {
        println!("skipped: this systemd-analyze cannot look at a file offline (systemd 250 can)");
        return;
    }
    assert!(
        output.status.success(),
        "{}\n{told}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_socket_is_where_a_listener_of_the_services_configuration_is() {
    let loaded = tapflow::config::load::file(&path("deploy/tapflow.toml")).expect("it is read");
    assert!(loaded.problems.is_empty(), "{}", loaded.report(false));
    let (socket, unit) = (
        text("deploy/tapflow.socket"),
        text("deploy/tapflow.service"),
    );
    let listener = &loaded.config.listener[0];
    let place = listener.uri.to_string();
    let at = place.strip_prefix("unix:").expect("a socket file");
    for line in [
        format!("ListenStream={at}"),
        format!("SocketGroup={}", listener.group),
        format!("SocketMode={}", listener.socket_mode),
    ] {
        assert!(socket.lines().any(|l| l == line), "{line}");
    }
    let users = text("deploy/tapflow.sysusers");
    assert!(unit.contains(&format!("SupplementaryGroups={}", listener.group)));
    assert!(users.contains(&format!("g {} ", listener.group)));
    assert!(
        unit.contains("StateDirectory=tapflow")
            && loaded.config.data_dir == Path::new("/var/lib/tapflow")
    );
}

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
