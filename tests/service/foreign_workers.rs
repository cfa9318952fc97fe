//! Workers in other languages, as `deploy/workers` shows them: each takes every frame and is told the end.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tapflow::fstrm::Frames;

use crate::support::eventually_blocking;
use crate::support::frames::Numbered;
use crate::support::peer::Peer;
use crate::support::program::Program;

/// A worker that runs. Killed when dropped.
struct Foreign {
    child: Child,
    at: String,
    out: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Foreign {
    fn start(command: &mut Command, folder: tempfile::TempDir) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let first = lines.next().expect("a line").expect("text");
        // What it says later must find a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|l| println!("{l}")));
        Self {
            at: first.trim_start_matches("listening ").to_owned(),
            out: folder.path().join("frames.bin"),
            child,
            _folder: folder,
        }
    }

    /// Gives it frames, and looks whether it has them all.
    async fn takes_everything(self, acknowledges: bool) {
        const FRAMES: u64 = 50_000;
        let collector = Program::new()
            .unix()
            .arg("--output")
            .arg(format!("mux+tcp:{}", self.at))
            .log("debug")
            .start();
        let numbered = Numbered::new();
        let mut peer = Peer::bidirectional(&collector.unix()).await;
        for first in (0..FRAMES).step_by(1000) {
            peer.send(&numbered.run(first..first + 1000)).await;
        }
        peer.stop().await;
        collector.wait_ledger("all are delivered", |l| {
            l["outputs"][0]["delivered"] == FRAMES
        });
        let (code, ledger, lines) = collector.terminate();
        assert_eq!(
            (code, &ledger["closes"]),
            (Some(0), &true.into()),
            "{lines:#?}"
        );
        let started = format!("acknowledged={acknowledges}");
        assert!(lines.iter().any(|l| l.contains(&started)), "{lines:#?}");
        assert!(
            !lines
                .iter()
                .any(|l| l.contains("has ended its streams in time")),
            "FINISH came for every STOP: {lines:#?}"
        );
        let read = || {
            let bytes = std::fs::read(&self.out).unwrap_or_default();
            let mut numbers: Vec<u64> = Frames::new(&bytes).map(|p| numbered.number(p)).collect();
            numbers.sort_unstable();
            numbers
        };
        eventually_blocking(
            || format!("{FRAMES} frames, not {}", read().len()),
            || (read().len() as u64 == FRAMES).then_some(()),
        );
        assert!(read().into_iter().eq(0..FRAMES), "each once");
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/workers")
        .join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_go_takes_plain_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("worker");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source("go"))
        .output();
    match built {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            println!(
                "skipped: deploy/workers/go cannot be built here (no module proxy?): {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return;
        }
        Err(_) => {
            println!("skipped: no go here; install Go 1.21 or later");
            return;
        }
    }
    let mut command = Command::new(&program);
    command
        .args(["-listen", "127.0.0.1:0", "-out"])
        .arg(folder.path().join("frames.bin"));
    Foreign::start(&mut command, folder)
        .takes_everything(false)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_acknowledges_what_it_has_written() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3 here; install Python 3");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("python3");
    command
        .arg(source("python/worker.py"))
        .arg("127.0.0.1:0")
        .arg(folder.path().join("frames.bin"));
    Foreign::start(&mut command, folder)
        .takes_everything(true)
        .await;
}
