//! Every command in README.md runs as it is written there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");

/// The fenced blocks of this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&format!("```{language}\n")) {
        let (block, after) = after.split_once("```").expect("a fence is closed");
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

fn readme() -> String {
    fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a script with `tapflow` on the path, in a folder that has the repository's testdata and config. As root it gets a
/// network of its own, so that the ports that the README names are free, and a `/var/lib` of its own.
fn run(script: &str, folder: &Path) -> Output {
    for name in ["testdata", "config"] {
        symlink(Path::new(ROOT).join(name), folder.join(name)).expect("link");
    }
    let bin = Path::new(TAPFLOW).parent().expect("the program's folder");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = if is_root() {
        let mut c = Command::new("unshare");
        c.args(["--net", "--mount", "bash", "-ec"]);
        c.arg(format!(
            "mount -t tmpfs none /var/lib; ip link set lo up\n{script}"
        ));
        c
    } else {
        let mut c = Command::new("bash");
        c.args(["-ec", script]);
        c
    };
    command
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env_remove("XDG_STATE_HOME");
    command.output().expect("bash (and, as root, unshare)")
}

fn assert_ran(script: &str, output: &Output) {
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
fn the_main_job_runs_on_its_defaults_and_ends_well() {
    if Command::new("curl").arg("-V").output().is_err() {
        println!("skipped: the README's examples use curl; apt-get install curl");
        return;
    }
    let blocks = blocks(&readme(), "sh");
    assert_eq!(
        blocks[0], "cargo run --release -- serve\n",
        "the first block is the main job"
    );
    let arguments = blocks[0]
        .trim()
        .strip_prefix("cargo run --release -- ")
        .expect("cargo run");
    // Only what `cargo run` does is left out: the program is built already.
    let script = format!(
        "tapflow {arguments} 2> log & pid=$!\n\
         until grep -q 'metrics: http' log; do kill -0 $pid; done\n\
         curl -sf http://127.0.0.1:9954/readyz\n\
         curl -sf http://127.0.0.1:9954/metrics | grep -c ^tapflow_\n\
         tapflow replay --quiet testdata/captures/kdig.fstrm --to tcp:127.0.0.1:6000 --verify 127.0.0.1:9954\n\
         kill -TERM $pid; wait $pid; cat log >&2"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(&script, folder.path());
    assert_ran(&script, &output);
    let log = String::from_utf8_lossy(&output.stderr);
    for words in [
        "dnstap-socket-path",
        "newFrameStreamTcpLogger",
        "dnstap-output unix",
        "\\\"received\\\":87",
    ] {
        assert!(log.contains(words), "{words} in\n{log}");
    }
}

#[test]
fn every_other_block_runs_as_it_is_written() {
    if Command::new("curl").arg("-V").output().is_err() {
        println!("skipped: the README's examples use curl; apt-get install curl");
        return;
    }
    let mut ran = 0;
    for block in blocks(&readme(), "sh") {
        if block.starts_with("cargo run --release -- serve") || block == "cargo test\n" {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let output = run(&block, folder.path());
        assert_ran(&block, &output);
        ran += 1;
    }
    assert!(ran >= 2, "README.md has lost its examples");
}

#[test]
fn the_test_command_is_cargo_test_and_ci_calls_it() {
    let readme = readme();
    let command = blocks(&readme, "sh")
        .into_iter()
        .find(|b| b.starts_with("cargo test"))
        .expect("the test command");
    let ci = fs::read_to_string(Path::new(ROOT).join(".ci/run")).expect(".ci/run");
    assert!(
        ci.lines().any(|line| line.starts_with(command.trim())),
        "{command}"
    );
}

#[test]
fn files_and_benches_that_the_readme_names_exist() {
    let readme = readme();
    let mut links = 0;
    for part in readme.split("](").skip(1) {
        let target = part.split(')').next().expect("a closed link");
        if !target.starts_with("http") {
            assert!(Path::new(ROOT).join(target).exists(), "{target}");
            links += 1;
        }
    }
    assert!(links > 5);
    for part in readme.split("--bench ").skip(1) {
        let name: String = part
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let benches = Path::new(ROOT).join("benches");
        let forms = [format!("{name}.rs"), format!("{name}/main.rs")];
        assert!(
            forms.iter().any(|form| benches.join(form).exists()),
            "{name}"
        );
    }
}
