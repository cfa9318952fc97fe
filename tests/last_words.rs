//! The collector outlives its log, its terminal and its operator's habits: found by using it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A collector that writes files, with this standard error; ready when this returns.
fn serve(folder: &Path, stderr: Stdio) -> (Killed, String) {
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("it");
    let http = free.to_string();
    let socket = folder.join("s");
    let child = Command::new(TAPFLOW)
        .args(["serve", "--http", &http, "--data-dir"])
        .arg(folder)
        .args(["--listen", &format!("unix:{}", socket.display())])
        .args([
            "--output",
            &format!("file:{}?rotate_size=64KiB", folder.join("frames").display()),
        ])
        .stderr(stderr)
        .spawn()
        .expect("serve");
    let child = Killed(child);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ask(&http, "/readyz").is_some_and(|answer| answer.contains("200 OK")) {
        assert!(Instant::now() < deadline, "it is not ready");
    }
    (child, http)
}

fn ask(http: &str, page: &str) -> Option<String> {
    let mut stream = TcpStream::connect(http).ok()?;
    write!(stream, "GET {page} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn replay(folder: &Path, http: &str) {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures");
    let status = Command::new(TAPFLOW)
        .args([
            "replay",
            "--quiet",
            "--verify",
            &format!("http://{http}"),
            "--to",
        ])
        .arg(format!("unix:{}", folder.join("s").display()))
        .arg(captures.join("kdig.fstrm"))
        .arg(captures.join("dnsdist.fstrm"))
        .status()
        .expect("replay");
    assert!(status.success(), "{status}");
}

fn signal(child: &Killed, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.0.id().to_string()])
        .status();
    assert!(status.expect("kill").success());
}

fn ends_well(mut child: Killed, folder: &Path) {
    signal(&child, "TERM");
    assert_eq!(child.0.wait().expect("wait").code(), Some(0));
    let names = fs::read_dir(folder.join("frames")).expect("the files");
    for name in names.map(|e| e.expect("entry").file_name().into_string().expect("text")) {
        assert!(!name.ends_with(".part"), "{name} is not complete");
    }
}

#[test]
fn a_log_that_nobody_reads_any_more_costs_no_frame() {
    for name in ["a pipe whose reader is gone", "a full disk"] {
        let folder = tempfile::tempdir().expect("a folder");
        let stderr = if name == "a full disk" {
            Stdio::from(
                fs::OpenOptions::new()
                    .write(true)
                    .open("/dev/full")
                    .expect("/dev/full"),
            )
        } else {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            Stdio::from(writer)
        };
        let (child, http) = serve(folder.path(), stderr);
        // Files rotate, connections open and close: all of it is logged.
        replay(folder.path(), &http);
        ends_well(child, folder.path());
    }
}

#[test]
fn a_hangup_does_not_end_it_and_two_replays_in_a_row_both_verify() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, http) = serve(folder.path(), Stdio::null());
    signal(&child, "HUP");
    for _ in 0..3 {
        replay(folder.path(), &http);
    }
    ends_well(child, folder.path());
}

#[test]
fn a_socket_named_on_the_command_line_is_open_to_dns_servers_of_other_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let (child, _) = serve(folder.path(), Stdio::null());
    let mode = fs::metadata(folder.path().join("s"))
        .expect("socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o666);
    ends_well(child, folder.path());
}

#[test]
fn a_command_line_that_cannot_be_meant_exits_2_and_says_why_once() {
    for (args, words) in [
        (&["serve", "--listen", "foo"][..], "unix:/path"),
        (&["serve", "--output", "nowhere:"][..], "no output"),
    ] {
        let out = Command::new(TAPFLOW).args(args).output().expect("tapflow");
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(words), "{text}");
    }
    let out = Command::new(TAPFLOW)
        .args([
            "serve",
            "--output",
            "null:",
            "--http",
            "off",
            "--listen",
            "unix:/no/such/folder/s",
            "--data-dir",
        ])
        .arg(tempfile::tempdir().expect("a folder").path())
        .output()
        .expect("tapflow");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(
        text.matches("does not exist; make it first").count(),
        1,
        "{text}"
    );
}
