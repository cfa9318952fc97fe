//! Unbound's `dnstap-tls` and `openssl s_client`, which others wrote.

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tapflow::transport::tls::TlsVersion;

use crate::support::{Place, Running};

/// Ends the process with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(name: &str, package: &str) -> Option<String> {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .map(|folder| format!("{folder}/{name}"))
        .find(|path| Path::new(path).is_file());
    if found.is_none() {
        println!("skipped: {name} is not installed; apt-get install {package}");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn unbound_sends_over_tls_and_shows_the_certificate_that_its_identity_belongs_to() {
    let Some(unbound) = program("unbound", "unbound") else {
        return;
    };
    let place = Place::new();
    let shown = place.ca.sign("unbound", &["resolver.example.net"]);
    let running = place.strict(&["resolver.example.net=resolver-1"]).await;
    let dns = SocketAddr::from(([127, 0, 0, 1], crate::ports::free_port()));
    let start = |identity: &str, cert: &Path, key: &Path| {
        let config = format!(
            "server:\n  directory: \"{dir}\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"{dir}/pid\"\n  use-syslog: no\n  \
             port: {port}\n  interface: 127.0.0.1\n  do-daemonize: no\n  module-config: \"iterator\"\n  num-threads: 1\n  \
             local-zone: \"rig.\" static\n  local-data: \"a.rig. A 192.0.2.1\"\n\
             remote-control:\n  control-enable: no\n\
             dnstap:\n  dnstap-enable: yes\n  dnstap-ip: \"127.0.0.1@{to}\"\n  dnstap-tls: yes\n  \
             dnstap-tls-server-name: \"localhost\"\n  dnstap-tls-cert-bundle: \"{ca}\"\n  \
             dnstap-tls-client-key-file: \"{key}\"\n  dnstap-tls-client-cert-file: \"{cert}\"\n  \
             dnstap-send-identity: yes\n  dnstap-identity: \"{identity}\"\n  \
             dnstap-log-client-query-messages: yes\n  dnstap-log-client-response-messages: yes\n",
            dir = place.path().display(),
            port = dns.port(),
            to = running.port(),
            ca = place.ca.file.display(),
            key = key.display(),
            cert = cert.display(),
        );
        let file = place.path().join("unbound.conf");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(&unbound)
            .args(["-d", "-p", "-c"])
            .arg(&file)
            .spawn();
        Ends(child.expect("unbound starts"))
    };
    let ask = |n: u16| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let query = [
            &n.to_be_bytes()[..],
            b"\x01\0\0\x01\0\0\0\0\0\0\x01a\x03rig\0\0\x01\0\x01",
        ]
        .concat();
        // It starts, and does not hear the first ones.
        for _ in 0..300 {
            let _ = socket.send_to(&query, dns);
            if socket.recv(&mut [0; 512]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("Unbound answers nothing");
    };
    let server = start("resolver-1", &shown.cert, &shown.key);
    for n in 0..50 {
        ask(n);
    }
    let received = || running.service.ledger().snapshot().received;
    // A query that was asked again counts twice, so not fewer than two frames a query.
    crate::support::eventually("Unbound's frames", || (received() >= 100).then_some(())).await;
    assert_eq!(running.dropped("foreign_identity"), 0);
    drop(server);
    // The same certificate under another identity: every frame is dropped and counted.
    let before = received();
    let server = start("resolver-2", &shown.cert, &shown.key);
    ask(1);
    crate::support::eventually("frames of another identity", || {
        (received() >= before + 2).then_some(())
    })
    .await;
    assert_eq!(running.dropped("foreign_identity"), received() - before);
    drop(server);
    // A certificate of nobody that is trusted: refused, counted, again and again, and no frame comes.
    let stranger = crate::pki::self_signed(place.path(), "stranger", &["resolver.example.net"]);
    let before = received();
    let server = start("resolver-1", &stranger.cert, &stranger.key);
    ask(1);
    running.wait_closed("tls_unknown_authority", 2).await;
    assert_eq!(received(), before);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_speaks_both_versions_sends_frames_and_needs_no_alpn() {
    let Some(openssl) = program("openssl", "openssl") else {
        return;
    };
    let place = Place::new();
    let shown = place.ca.sign("shown", &["ns1.example.net"]);
    let running = place.strict(&["ns1.example.net=openssl"]).await;
    let only_13 = Running::start(&place.config(|o| o.tls_min_version = TlsVersion::V13)).await;
    let connect = |port: u16, args: &[&str], input: &[u8]| {
        let mut child = Command::new(&openssl)
            .args(["s_client", "-quiet", "-verify_return_error", "-connect"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("-CAfile")
            .arg(&place.ca.file)
            .args([
                "-cert".as_ref(),
                shown.cert.as_os_str(),
                "-key".as_ref(),
                shown.key.as_os_str(),
            ])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl starts");
        let mut stdin = child.stdin.take().expect("its input");
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("openssl ends")
    };
    let start = [
        &[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 22][..],
        b"protobuf:dnstap.Dnstap",
    ]
    .concat();
    let mut outbox = crate::support::frames(Some("openssl"), 10);
    let mut slices = [std::io::IoSlice::new(&[])];
    outbox.slices(&mut slices, usize::MAX);
    let stop = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3];
    let stream = [&start[..], &slices[0], &stop].concat();
    outbox.give_up();
    let mut sent = 0;
    for args in [&["-tls1_2"][..], &["-tls1_3"], &["-alpn", "dot"]] {
        let (port, stream) = (running.port(), stream.clone());
        tokio::task::block_in_place(|| connect(port, args, &stream));
        sent += 10;
        running.wait_received(sent).await;
    }
    assert_eq!(running.dropped("foreign_identity"), 0);
    let output = tokio::task::block_in_place(|| connect(only_13.port(), &["-tls1_2"], b""));
    assert!(!output.status.success());
    only_13.wait_closed("tls_incompatible", 1).await;
}
