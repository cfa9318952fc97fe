//! fstrm's own tools as peers: `fstrm_replay` sends to us, `fstrm_capture` receives from us, and the files that come out are the
//! files that went in, octet for octet.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ports::free_port;
use crate::support::collector::{Collector, Ledger, contents};
use crate::support::process::{Process, find_or_skip, testdata};
use crate::support::sender::Sender;
use crate::support::wait_for;
use crate::support::walker::Walker;

const CONTENT_TYPE: &str = "protobuf:dnstap.Dnstap";

fn captures() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(testdata("../captures")).expect("captures");
    let files = folder.map(|e| e.expect("entry").path());
    let mut files: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "fstrm"))
        .collect();
    files.sort();
    assert!(files.len() >= 7, "a capture of each server");
    files
}

fn payloads(file: &Path) -> Vec<Vec<u8>> {
    let mut walker = Walker::keeping();
    walker.feed(&std::fs::read(file).expect("file"));
    walker.payloads
}

/// The only file that a collector has written.
fn only_file(folder: &Path) -> Vec<u8> {
    let files: Vec<_> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    contents(&files[0])
}

fn replays_into_a_file_like_the_one_it_read(tcp: bool) {
    let Some(fstrm_replay) = find_or_skip("fstrm_replay", "fstrm-bin") else {
        return;
    };
    for input in captures() {
        let dir = tempfile::tempdir().expect("folder");
        let collector = Collector::start(&dir.path().join("t"));
        let mut command = Command::new(&fstrm_replay);
        command.args(["-t", CONTENT_TYPE, "-r"]).arg(&input);
        match tcp {
            true => command.args(["-a", "127.0.0.1", "-p", &collector.tcp.port().to_string()]),
            false => command.arg("-u").arg(&collector.unix),
        };
        let mut replay =
            Process::start("fstrm_replay", &mut command, dir.path().join("replay.log"));
        let status = replay.wait_end(crate::support::PATIENCE);
        assert!(status.success(), "{}", replay.printed());
        collector.wait_idle();
        let frames = payloads(&input).len() as u64;
        assert_eq!(
            collector.metric("tapflow_connections_closed_total", &["reason=\"clean\""]),
            1
        );
        let folder = collector.frames_dir();
        let ended = collector.stop();
        assert_eq!(
            (ended.code, ended.ledger),
            (Some(0), Ledger::all_delivered(frames)),
            "{}",
            input.display()
        );
        assert!(
            only_file(&folder) == std::fs::read(&input).expect("file"),
            "{}: identical",
            input.display()
        );
    }
}

#[test]
fn fstrm_replay_over_a_unix_socket_makes_the_file_that_it_read() {
    replays_into_a_file_like_the_one_it_read(false);
}

#[test]
fn fstrm_replay_over_tcp_makes_the_file_that_it_read() {
    replays_into_a_file_like_the_one_it_read(true);
}

fn captures_the_file_that_was_sent(tcp: bool) {
    let Some(fstrm_capture) = find_or_skip("fstrm_capture", "fstrm-bin") else {
        return;
    };
    for input in captures() {
        let dir = tempfile::tempdir().expect("folder");
        let (socket, output) = (
            dir.path().join("capture.sock"),
            dir.path().join("out.fstrm"),
        );
        let mut command = Command::new(&fstrm_capture);
        command.args(["-t", CONTENT_TYPE, "-w"]).arg(&output);
        let port = free_port();
        let uri = match tcp {
            true => {
                command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
                format!("tcp:127.0.0.1:{port}")
            }
            false => {
                command.arg("-u").arg(&socket);
                format!("unix:{}", socket.display())
            }
        };
        // The collector is first: its output finds the receiver as soon as that is there.
        let collector = Collector::start_with(&dir.path().join("t"), &["--output", &uri]);
        let mut capture = Process::start(
            "fstrm_capture",
            &mut command,
            dir.path().join("capture.log"),
        );
        let sent = payloads(&input);
        let mut sender = Sender::connect(&collector.unix);
        sent.iter().for_each(|p| sender.frame(p));
        sender.stop();
        collector.wait_written(sent.len() as u64);
        let ended = collector.stop();
        assert_eq!(
            (ended.code, ended.ledger),
            (Some(0), Ledger::all_delivered(sent.len() as u64)),
            "{}",
            ended.log
        );
        // It writes what it has when it ends.
        capture.assert_running();
        capture.terminate();
        wait_for("the captured file", || output.exists());
        assert!(
            std::fs::read(&output).expect("file") == std::fs::read(&input).expect("file"),
            "{}: identical",
            input.display()
        );
    }
}

#[test]
fn fstrm_capture_over_a_unix_socket_writes_the_file_that_was_sent() {
    captures_the_file_that_was_sent(false);
}

#[test]
fn fstrm_capture_over_tcp_writes_the_file_that_was_sent() {
    captures_the_file_that_was_sent(true);
}
