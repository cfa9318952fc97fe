//! The pages over HTTPS.

use std::process::Command;

use tapflow::transport::tls::server::ClientCertificates;
use tokio::net::TcpStream;

use crate::support::{Place, Running};

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_are_served_over_tls_to_clients_that_show_what_is_asked() {
    if Command::new("curl").arg("-V").output().is_err() {
        println!("skipped: HTTPS is tried with curl; apt-get install curl");
        return;
    }
    let place = Place::new();
    let prometheus = place.ca.sign("prometheus", &["prometheus.example.net"]);
    let mut config = place.config(|_| {});
    config.http.tls_cert = place.server.cert.clone();
    config.http.tls_key = place.server.key.clone();
    config.http.tls_client = ClientCertificates::Required;
    config.http.tls_client_ca = place.ca.file.clone();
    let running = Running::start(&config).await;
    let port = running.service.http().expect("it serves").port();
    // Clients that say nothing hold up nobody.
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let curl = |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "--cacert"]);
        command.arg(&place.ca.file).args(args);
        command.arg(format!("https://localhost:{port}/readyz"));
        tokio::task::spawn_blocking(move || command.output().expect("curl runs"))
    };
    let shown = curl(&[
        "--cert".as_ref(),
        prometheus.cert.as_ref(),
        "--key".as_ref(),
        prometheus.key.as_ref(),
    ]);
    let output = shown.await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ready\n",
        "{output:?}"
    );
    let output = curl(&[]).await.unwrap();
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    assert!(
        running.value("tapflow_tls_certificate_expiry_timestamp_seconds{place=\"http\"}") > 0.0
    );
}
