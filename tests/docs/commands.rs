//! Every command runs as it stands, or is a sample of a kind that cannot run here.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use tapflow::cli::Cli;

use crate::{blocks, pages};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");

/// Kinds of samples, and why they do not run in a test.
const SAMPLES: &[(&str, &str)] = &[
    ("install", "changes the machine"),
    (
        "server",
        "looks at a service or a DNS server that has to run",
    ),
    ("container", "needs a container runtime or a cluster"),
    ("development", "builds the program, or changes the sources"),
];

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Runs a script as the README's are: with `tapflow` on the path and, as root, a network of its own.
fn run(script: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["testdata", "config", "deploy"] {
        symlink(Path::new(ROOT).join(name), folder.path().join(name)).expect("a link");
    }
    let bin = Path::new(TAPFLOW).parent().expect("a folder");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "bash", "-ec"]);
        command.arg(format!("ip link set lo up\n{script}"));
        command
    } else {
        let mut command = Command::new("bash");
        command.args(["-ec", script]);
        command
    };
    let output = command
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .output()
        .expect("bash (and, as root, unshare)");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{script}\n--- {}\n{out}\n---\n{err}",
        output.status
    );
}

#[test]
fn every_shell_block_runs_or_is_a_sample_of_a_known_kind() {
    let (mut ran, mut samples) = (0, 0);
    for (name, page) in pages() {
        for (info, block) in blocks(&page) {
            let shell =
                info.starts_with("sh") || info.starts_with("bash") || info.starts_with("console");
            if !shell {
                continue;
            }
            let parses = Command::new("bash")
                .args(["-nc", &block])
                .status()
                .expect("bash");
            assert!(parses.success(), "{name}: {block}");
            if info == "sh" {
                let needs = ["promtool", "openssl", "curl"]
                    .iter()
                    .filter(|p| block.contains(*p));
                let mut needs = needs;
                if needs.all(|program| has(program)) {
                    run(&block);
                    ran += 1;
                }
                continue;
            }
            let kind = info
                .strip_prefix("sh,sample=")
                .unwrap_or_else(|| panic!("{name}: {info} is neither sh nor a sample"));
            assert!(
                SAMPLES.iter().any(|(known, _)| *known == kind),
                "{name}: there is no kind {kind} of samples"
            );
            samples += 1;
            for line in block.lines().filter(|l| l.starts_with("tapflow ")) {
                if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                    panic!("{name}: {line}: {error}");
                }
            }
        }
    }
    println!("{ran} blocks ran, {samples} are samples");
    assert!(ran + samples >= 12);
}

#[test]
fn files_that_samples_name_are_there() {
    for (name, page) in pages() {
        for word in page
            .split([' ', '`', '\n', '(', ')', ','])
            .map(|w| w.trim_end_matches(['.', ':']))
        {
            let ours = ["deploy/", "config/", "testdata/", "src/"]
                .iter()
                .any(|start| word.starts_with(start));
            if ours && !word.contains('*') {
                assert!(Path::new(ROOT).join(word).exists(), "{name}: {word}");
            }
        }
    }
}
