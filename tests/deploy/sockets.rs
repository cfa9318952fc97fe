//! A socket that the service manager holds, and the health check.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !look() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_socket_from_the_service_manager_is_taken_and_its_file_outlives_the_process() {
    let Some(mut command) = crate::program("systemd-socket-activate", &[], "systemd") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("dnstap.sock");
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let child = command
        .arg("--listen")
        .arg(&socket)
        .args([
            env!("CARGO_BIN_EXE_tapflow"),
            "serve",
            "--quiet",
            "--output",
            "null:",
            "--data-dir",
        ])
        .arg(folder.path())
        .arg("--http")
        .arg(free.to_string())
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut child = Ends(child);
    eventually("the socket is there", || socket.exists());
    // The program is started by the first connection, which is served.
    let mut sender = UnixStream::connect(&socket).unwrap();
    let ready = [
        &[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 22][..],
        b"protobuf:dnstap.Dnstap",
    ]
    .concat();
    sender.write_all(&ready).unwrap();
    let mut accept = [0; 42];
    sender.read_exact(&mut accept).unwrap();
    assert_eq!(accept[11], 1, "ACCEPT");
    let health = || {
        let mut check = Command::new(env!("CARGO_BIN_EXE_tapflow"));
        check.arg("health").arg(free.to_string()).output().unwrap()
    };
    eventually("it is healthy", || health().status.success());
    assert_eq!(health().stdout, b"ready\n");
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    drop(sender);
    assert!(child.0.wait().unwrap().success());
    assert!(socket.exists(), "the socket's file is the manager's");
    let dead = health();
    assert_eq!(dead.status.code(), Some(1), "{dead:?}");
}
