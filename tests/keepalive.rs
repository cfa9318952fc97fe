//! A TCP peer that vanishes without a word is found by keepalive: two hosts (network namespaces) and a cable that is pulled.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends what a test started, however it ends.
struct Rig {
    children: Vec<Child>,
    hosts: [String; 2],
}

impl Drop for Rig {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for host in &self.hosts {
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

fn ip(line: &str) {
    let status = Command::new("ip")
        .args(line.split(' '))
        .status()
        .expect("ip");
    assert!(status.success(), "ip {line}");
}

fn inside(host: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host, program]);
    command
}

#[test]
fn a_peer_whose_cable_is_pulled_is_closed_and_its_frames_are_kept() {
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    if !rustix::process::geteuid().is_root() || !["ip", "python3", "curl"].into_iter().all(has) {
        println!(
            "skipped: two hosts need root, ip, python3 and curl; apt-get install iproute2 python3 curl"
        );
        return;
    }
    let hosts = ["c", "s"].map(|side| format!("tapflow-{side}-{}", std::process::id()));
    let [collector, sender] = hosts.clone();
    let mut rig = Rig {
        children: Vec::new(),
        hosts,
    };
    for host in &rig.hosts {
        ip(&format!("netns add {host}"));
        ip(&format!("-n {host} link set lo up"));
    }
    ip(&format!(
        "-n {collector} link add wire type veth peer name wire netns {sender}"
    ));
    for (host, address) in [(&collector, "192.0.2.1/24"), (&sender, "192.0.2.2/24")] {
        ip(&format!("-n {host} addr add {address} dev wire"));
        ip(&format!("-n {host} link set wire up"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut serve = inside(&collector, env!("CARGO_BIN_EXE_tapflow"))
        .args([
            "serve",
            "--listen",
            "tcp:192.0.2.1:6000?keepalive=1s",
            "--output",
            "null:",
            "--data-dir",
        ])
        .arg(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("serve");
    let mut log = BufReader::new(serve.stderr.take().expect("stderr")).lines();
    rig.children.push(serve);
    while !log
        .next()
        .expect("a log line")
        .expect("text")
        .contains("metrics: http")
    {}
    // A sender that writes START and one frame and then only waits.
    let script = "import socket, sys, time\n\
        s = socket.create_connection(('192.0.2.1', 6000))\n\
        t = b'protobuf:dnstap.Dnstap'\n\
        s.sendall(b'\\0\\0\\0\\0\\0\\0\\0\\x22\\0\\0\\0\\x02\\0\\0\\0\\x01\\0\\0\\0\\x16' + t + b'\\0\\0\\0\\x04\\x72\\0\\x78\\x01')\n\
        time.sleep(600)\n";
    rig.children.push(
        inside(&sender, "python3")
            .args(["-c", script])
            .spawn()
            .expect("python3"),
    );
    let scrape = |what: &str| -> Option<String> {
        let out = inside(&collector, "curl")
            .args(["-s", "http://127.0.0.1:9954/metrics"])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines()
            .find_map(|line| line.strip_prefix(what))
            .map(|value| value.trim().to_owned())
    };
    let wait_for = |what: &str, value: &str| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while scrape(what).as_deref() != Some(value) {
            assert!(
                Instant::now() < deadline,
                "{what} is {:?}, not {value}",
                scrape(what)
            );
        }
    };
    wait_for("tapflow_frames_received_total{listener=\"tcp-6000\"}", "1");
    wait_for("tapflow_connections_active{listener=\"tcp-6000\"}", "1");
    ip(&format!("-n {sender} link set wire down"));
    wait_for("tapflow_connections_active{listener=\"tcp-6000\"}", "0");
    wait_for(
        "tapflow_connections_closed_total{listener=\"tcp-6000\",reason=\"io_error\"}",
        "1",
    );
}
