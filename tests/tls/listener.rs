//! The listener, with rustls on the other side.

use tapflow::link::sender::Failure;
use tapflow::transport::tls::server::ClientCertificates;
use tapflow::transport::tls::{Fault, TlsVersion};
use tapflow::units::{Endpoint, Span};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pki::{Authority, now, pin, self_signed};
use crate::support::{Place, Running, eventually, frames, send};

/// Senders of every kind, and what is counted for each.
#[tokio::test(flavor = "multi_thread")]
async fn good_certificates_come_in_and_each_bad_one_has_a_reason_of_its_own() {
    let place = Place::new();
    let rogue = Authority::new(place.path(), "rogue");
    let good = place.ca.sign("good", &["ns1.example.net"]);
    let other = place.ca.sign("other", &["ns9.example.net"]);
    let expired = place.ca.sign_expired("expired", &["ns1.example.net"]);
    let foreign = rogue.sign("foreign", &["ns1.example.net"]);
    let running = place.strict(&["ns1.example.net"]).await;
    for (pair, fault) in [
        (None, Some(Fault::NoCertificate)),
        (Some(&expired), Some(Fault::Expired)),
        (Some(&foreign), Some(Fault::UnknownAuthority)),
        (Some(&other), Some(Fault::UnknownClient)),
        (Some(&good), None),
    ] {
        let outcome = running.connect(place.client(pair)).await;
        match fault {
            None => {
                send(outcome.expect("a good sender comes in"), None, 7).await;
                running.wait_received(7).await;
            }
            Some(fault) => {
                let error = outcome.expect_err("a bad sender stays out");
                println!(
                    "{}: the sender saw {}: {error}",
                    fault.as_str(),
                    error.failure.as_str()
                );
                running.wait_closed(fault.as_str(), 1).await;
            }
        }
    }
    running.wait_closed("clean", 1).await;
    assert_eq!(running.service.stop().await.lost(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_speak_tls_or_says_nothing_is_closed_in_time_and_counted() {
    let place = Place::new();
    let config = place.config(|o| {
        o.handshake_timeout = Span::millis(300);
        o.tls_min_version = TlsVersion::V13;
    });
    let running = Running::start(&config).await;
    let address = ("127.0.0.1", running.port());
    // Frame Streams in the clear.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(&[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 4])
        .await
        .unwrap();
    let _ = plain.read_to_end(&mut Vec::new()).await;
    running.wait_closed("tls_not_tls", 1).await;
    // Silence, and half a hello.
    let silent = TcpStream::connect(address).await.unwrap();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    running.wait_closed("tls_timeout", 2).await;
    drop((silent, half));
    // Connected and gone.
    drop(TcpStream::connect(address).await.unwrap());
    running.wait_closed("tls_closed", 1).await;
    // After all of that a good one is served; nobody's place is still taken.
    send(running.connect(place.client(None)).await.unwrap(), None, 3).await;
    running.wait_received(3).await;
    eventually("no connection is open", || {
        (running.value("tapflow_connections_active{listener=\"tls\"}") == 0.0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_says_nothing_keeps_no_sender_out() {
    let place = Place::new();
    let config = place.config(|o| {
        o.handshake_timeout = Span::OFF;
        o.tls_handshakes_max = 8;
    });
    let running = Running::start(&config).await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(
            TcpStream::connect(("127.0.0.1", running.port()))
                .await
                .unwrap(),
        );
    }
    running.wait_closed("tls_crowded_out", 92).await;
    send(running.connect(place.client(None)).await.unwrap(), None, 5).await;
    running.wait_received(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_sends_as_its_identities_and_what_else_it_sends_is_dropped_and_counted() {
    let place = Place::new();
    let named = place.ca.sign("named", &["ns1.example.net"]);
    let pinned = self_signed(place.path(), "pinned", &["whatever"]);
    let free = place.ca.sign("free", &["relay.example.net"]);
    let config = place.config(|o| {
        o.tls_client = ClientCertificates::Optional;
        o.tls_client_ca = place.ca.file.clone();
        let rules = [
            "ns1.example.net=ns1",
            "ns1.example.net=lab-*",
            "relay.example.net",
        ];
        o.tls_clients = rules.iter().map(|r| r.parse().unwrap()).collect();
        o.tls_clients
            .push(format!("{}=pin", pin(&pinned)).parse().unwrap());
    });
    let running = Running::start(&config).await;
    let (mut sent, mut foreign) = (0, 0);
    for (pair, identity, permitted) in [
        (Some(&named), Some("ns1"), true),
        (Some(&named), Some("lab-7"), true),
        (Some(&named), Some("pin"), false),
        (Some(&named), None, false),
        (Some(&pinned), Some("pin"), true),
        (Some(&pinned), Some("ns1"), false),
        (Some(&free), Some("ns1"), true),
        (None, Some("stranger"), true),
        (None, Some("lab-7"), false),
    ] {
        let mut sender = running.connect(place.client(pair)).await.unwrap();
        // The stream goes on after frames that are not permitted.
        sender.write_all(&mut frames(identity, 3)).await.unwrap();
        send(sender, identity, 4).await;
        sent += 7;
        foreign += if permitted { 0 } else { 7 };
        running.wait_received(sent).await;
        assert_eq!(running.dropped("foreign_identity"), foreign, "{identity:?}");
    }
    running.wait_closed("clean", 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_hold_for_new_connections_open_streams_stay_and_broken_files_change_nothing() {
    let place = Place::new();
    let config = place.config(|o| {
        o.tls_reload = Span::millis(20);
    });
    let running = Running::start(&config).await;
    let reloads = |result: &str| {
        running.value(&format!(
            "tapflow_tls_reloads_total{{place=\"listener:tls\",result=\"{result}\"}}"
        ))
    };
    let expiry = || {
        running.value("tapflow_tls_certificate_expiry_timestamp_seconds{place=\"listener:tls\"}")
    };
    assert!(expiry() > now());
    let mut old = running.connect(place.client(None)).await.unwrap();
    // A certificate of another authority comes: seen without a signal.
    let next = Authority::new(place.path(), "next");
    next.sign("server", &["localhost", "127.0.0.1"]);
    eventually("the files are read again", || {
        (reloads("done") >= 1.0).then_some(())
    })
    .await;
    let refused = running
        .connect(place.client(None))
        .await
        .expect_err("another authority");
    assert_eq!(
        refused.failure,
        Failure::Tls(Fault::UnknownAuthority),
        "{refused}"
    );
    running.wait_closed("tls_refused", 1).await;
    let mut trusting = place.client(None);
    trusting.ca = next.file.clone();
    send(running.connect(trusting.clone()).await.unwrap(), None, 2).await;
    // The stream from before goes on.
    old.write_all(&mut frames(None, 3)).await.unwrap();
    running.wait_received(5).await;
    // A broken file: told once, and the last good one stays.
    std::fs::write(&place.server.cert, "nonsense").unwrap();
    eventually("the broken file is seen", || {
        (reloads("failed") >= 1.0).then_some(())
    })
    .await;
    send(running.connect(trusting).await.unwrap(), None, 1).await;
    send(old, None, 4).await;
    running.wait_received(10).await;
    assert_eq!(running.service.stop().await.lost(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reads_the_files_again_at_once() {
    let place = Place::new();
    let running = Running::start(&place.config(|o| o.tls_reload = Span::OFF)).await;
    running.service.reload_certificates();
    eventually("they are read again", || {
        let done = "tapflow_tls_reloads_total{place=\"listener:tls\",result=\"done\"}";
        (running.value(done) == 1.0).then_some(())
    })
    .await;
}

#[test]
fn check_config_says_what_is_wrong_with_certificates_before_anything_starts() {
    let place = Place::new();
    let other = place.ca.sign("other", &["x.example"]);
    let expired = place.ca.sign_expired("expired", &["x.example"]);
    let text = place.path().join("text.pem");
    std::fs::write(&text, "hello\n").unwrap();
    let check = |settings: &str| {
        let file = place.path().join("t.toml");
        let head = "[[listener]]\nuri = \"tls:127.0.0.1:6001\"\n";
        std::fs::write(&file, format!("{head}{settings}\n")).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tapflow"))
            .arg("check-config")
            .arg(&file)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code() == Some(0), told)
    };
    let pair = |cert: &std::path::Path, key: &std::path::Path| {
        format!("tls_cert = {cert:?}\ntls_key = {key:?}")
    };
    let (cert, key) = (&place.server.cert, &place.server.key);
    let good = pair(cert, key);
    let mode = |mode| {
        std::fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    mode(0o644);
    let (ok, told) = check(&good);
    assert!(
        ok && told.contains("every user of this machine may read the key"),
        "{told}"
    );
    mode(0o600);
    for (settings, fine, part) in [
        (good.clone(), true, ""),
        (String::new(), false, "`tls_cert` names none"),
        (
            pair(cert, &other.key),
            false,
            "is not the key of the certificate",
        ),
        (
            pair(&expired.cert, &expired.key),
            false,
            "not valid any more",
        ),
        (pair(&text, key), false, "holds no certificate in PEM"),
        (pair(cert, &text), false, "holds no private key in PEM"),
        (
            pair(&place.path().join("none.pem"), key),
            true,
            "there is no such file",
        ),
        (
            format!("{good}\ntls_client = \"required\""),
            false,
            "none is trusted",
        ),
        (
            format!("{good}\ntls_clients = [\"a.example=b\"]"),
            false,
            "not asked for a certificate",
        ),
        (
            format!("{good}\ntls_client = \"required\"\ntls_clients = [\"a.example=b\"]"),
            false,
            "trusted authority",
        ),
        (
            format!("{good}\ntls_clients = [\"sha256:12\"]"),
            false,
            "no fingerprint",
        ),
    ] {
        let (ok, told) = check(&settings);
        assert!(ok == fine && told.contains(part), "{settings}\n---\n{told}");
    }
}

/// The program itself: a certificate of another authority is shown after SIGHUP, and only then.
#[test]
fn sighup_takes_new_certificates_and_ends_nothing() {
    use std::process::{Command, Stdio};
    let place = Place::new();
    let free = || {
        std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let (at, http) = (free(), free());
    let (cert, key) = (&place.server.cert, &place.server.key);
    let config = place.path().join("t.toml");
    let text = format!(
        "[http]\naddress = \"{http}\"\n[[listener]]\nuri = \"tls:{at}\"\ntls_reload = \"off\"\ntls_cert = {cert:?}\ntls_key = {key:?}\n[[output]]\ntype = \"null\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let program = env!("CARGO_BIN_EXE_tapflow");
    let mut serve = Command::new(program);
    serve
        .args(["serve", "--quiet", "--data-dir"])
        .arg(place.path().join("data"));
    let mut child = serve
        .arg("--config")
        .arg(&config)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    let until = |what: &str, look: &dyn Fn() -> bool| {
        while !look() {
            assert!(
                std::time::Instant::now() < deadline,
                "never happened: {what}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let capture =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures/kdig.fstrm");
    let sends = |ca: &std::path::Path| {
        let mut replay = Command::new(program);
        replay
            .args(["replay", "--quiet", "--timeout", "5s", "--to"])
            .arg(format!("tls:{at}"));
        replay
            .arg(&capture)
            .arg("--tls-ca")
            .arg(ca)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    until("it takes frames", &|| sends(&place.ca.file));
    let next = Authority::new(place.path(), "next");
    next.sign("server", &["localhost", "127.0.0.1"]);
    assert!(!sends(&next.file), "nobody has asked for the new ones yet");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    until("the new certificate is shown", &|| sends(&next.file));
    assert!(!sends(&place.ca.file));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_tls_place_reads_back_as_it_is_printed() {
    for text in ["tls:localhost:6001", "tls:[::1]:1"] {
        assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
    }
}
