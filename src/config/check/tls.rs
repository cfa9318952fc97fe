//! TLS: files that belong together, and settings that mean nothing without it.

use std::path::{Path, PathBuf};

use super::path;
use crate::config::Config;
use crate::config::problem::Problem;
use crate::http::options::HttpOptions;
use crate::outputs::options::{DnstapOptions, OutputKind};
use crate::transport::options::ListenerOptions;
use crate::transport::tls::FileError;
use crate::transport::tls::rules::Who;
use crate::transport::tls::server::{ClientCertificates, is_expired};
use crate::units::Endpoint;

/// Everything about TLS that is wrong with the settings as such.
pub(super) fn check(config: &Config, problems: &mut Vec<Problem>) {
    for (i, options) in config.listener.iter().enumerate() {
        listener(options, &format!("listener[{i}]"), problems);
    }
    http(&config.http, problems);
    for (i, output) in config.output.iter().enumerate() {
        if let OutputKind::Dnstap(dnstap) = &output.kind {
            forward(dnstap, &format!("output[{i}]"), problems);
        }
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

fn paths(place: &str, files: [(&str, &PathBuf); 3], problems: &mut Vec<Problem>) {
    for (key, file) in files.iter().filter(|(_, file)| !is_empty(file)) {
        path(&format!("{place}.{key}"), file, problems);
    }
}

fn listener(o: &ListenerOptions, place: &str, problems: &mut Vec<Problem>) {
    let key = |key: &str| format!("{place}.{key}");
    let plain = ListenerOptions::default();
    if !matches!(o.uri.carrier(), Endpoint::Tls { .. }) {
        for (name, set) in [
            ("tls_cert", o.tls_cert != plain.tls_cert),
            ("tls_key", o.tls_key != plain.tls_key),
            ("tls_client", o.tls_client != plain.tls_client),
            ("tls_client_ca", o.tls_client_ca != plain.tls_client_ca),
            ("tls_clients", o.tls_clients != plain.tls_clients),
        ] {
            if set {
                let what = format!("`{name}` is about TLS, and {} is without it", o.uri);
                problems
                    .push(Problem::error(key(name), what).fix("write \"tls:host:port\" in `uri`"));
            }
        }
        return;
    }
    for (name, file) in [("tls_cert", &o.tls_cert), ("tls_key", &o.tls_key)] {
        if is_empty(file) {
            let what = format!("TLS needs a certificate and its key, and `{name}` names none");
            problems.push(
                Problem::error(key("uri"), what).fix("name PEM files in `tls_cert` and `tls_key`"),
            );
        }
    }
    let files = [
        ("tls_cert", &o.tls_cert),
        ("tls_key", &o.tls_key),
        ("tls_client_ca", &o.tls_client_ca),
    ];
    paths(place, files, problems);
    if o.tls_client == ClientCertificates::Off {
        for (name, set) in [
            ("tls_client_ca", !is_empty(&o.tls_client_ca)),
            ("tls_clients", !o.tls_clients.is_empty()),
        ] {
            if set {
                let what =
                    format!("senders are not asked for a certificate, so `{name}` means nothing");
                problems.push(
                    Problem::error(key(name), what).fix("set tls_client = \"required\" as well"),
                );
            }
        }
    } else if is_empty(&o.tls_client_ca) {
        let named = |who: &Who| matches!(who, Who::Name(_));
        if o.tls_clients.is_empty() {
            let what = "senders are asked for a certificate, and none is trusted";
            problems.push(
                Problem::error(key("tls_client"), what).fix(
                    "name the authorities in `tls_client_ca`, or fingerprints in `tls_clients`",
                ),
            );
        } else if let Some(i) = o.tls_clients.iter().position(|rule| named(&rule.who)) {
            let what = "a name counts only in a certificate that a trusted authority has signed, and there is none";
            problems.push(
                Problem::error(format!("{place}.tls_clients[{i}]"), what)
                    .fix("name the authorities in `tls_client_ca`"),
            );
        }
    }
    if o.tls_handshakes_max == 0 {
        problems.push(
            Problem::error(
                key("tls_handshakes_max"),
                "with 0 handshakes nobody can connect",
            )
            .fix("the default is 256"),
        );
    }
}

fn http(o: &HttpOptions, problems: &mut Vec<Problem>) {
    let needs = |problems: &mut Vec<Problem>, key: &str, what: &str| {
        let fix = "name PEM files in `tls_cert` and `tls_key`";
        problems.push(Problem::error(format!("http.{key}"), what).fix(fix));
    };
    match (is_empty(&o.tls_cert), is_empty(&o.tls_key)) {
        (true, false) => needs(
            problems,
            "tls_key",
            "a key without a certificate is of no use",
        ),
        (false, true) => needs(problems, "tls_cert", "a certificate needs its key"),
        (true, true) if o.tls_client != ClientCertificates::Off => {
            needs(
                problems,
                "tls_client",
                "without TLS nobody shows a certificate",
            );
        }
        _ => {}
    }
    if o.tls_client != ClientCertificates::Off && is_empty(&o.tls_client_ca) {
        let what = "clients are asked for a certificate, and none is trusted";
        problems.push(
            Problem::error("http.tls_client", what).fix("name the authorities in `tls_client_ca`"),
        );
    }
    let files = [
        ("tls_cert", &o.tls_cert),
        ("tls_key", &o.tls_key),
        ("tls_client_ca", &o.tls_client_ca),
    ];
    paths("http", files, problems);
}

fn forward(o: &DnstapOptions, place: &str, problems: &mut Vec<Problem>) {
    let set = [
        ("tls_ca", !is_empty(&o.tls_ca)),
        ("tls_server_name", !o.tls_server_name.is_empty()),
        ("tls_cert", !is_empty(&o.tls_cert)),
        ("tls_key", !is_empty(&o.tls_key)),
    ];
    if !matches!(o.to.carrier(), Endpoint::Tls { .. }) {
        for (name, _) in set.iter().filter(|(_, set)| *set) {
            let what = format!("`{name}` is about TLS, and {} is without it", o.to);
            problems.push(
                Problem::error(format!("{place}.{name}"), what)
                    .fix("write \"tls:host:port\" in `to`"),
            );
        }
        return;
    }
    if is_empty(&o.tls_cert) != is_empty(&o.tls_key) {
        let what = "a certificate and its key go together";
        problems.push(
            Problem::error(format!("{place}.tls_cert"), what).fix("set `tls_cert` and `tls_key`"),
        );
    }
    let files = [
        ("tls_ca", &o.tls_ca),
        ("tls_cert", &o.tls_cert),
        ("tls_key", &o.tls_key),
    ];
    paths(place, files, problems);
}

/// A certificate that expires within this many seconds is told of.
const SOON: i64 = 7 * 86_400;

/// A key that every user of the machine may read.
fn open_key(place: &str, key: &Path, problems: &mut Vec<Problem>) {
    use std::os::unix::fs::PermissionsExt as _;
    let everyone = |m: std::fs::Metadata| m.permissions().mode() & 0o004 != 0;
    if !is_empty(key) && std::fs::metadata(key).is_ok_and(everyone) {
        let what = format!(
            "{}: every user of this machine may read the key",
            key.display()
        );
        problems.push(
            Problem::warning(format!("{place}.tls_key"), what)
                .fix("mode 0640, with the group that tapflow runs as"),
        );
    }
}

/// Certificates, keys and authorities as they are on this machine. What is not there may be on another machine and is a
/// warning; what is there and cannot be used is an error.
pub(super) fn files(config: &Config, problems: &mut Vec<Problem>) {
    let mut report =
        |place: String, own: &Path, checked: Result<Option<i64>, FileError>| match checked {
            Ok(Some(expires)) if is_expired(expires) => {
                let what = format!("{}: the certificate is not valid any more", own.display());
                problems.push(
                    Problem::error(place, what)
                        .fix("put a new one there; it is taken while tapflow runs"),
                );
            }
            Ok(Some(expires)) if is_expired(expires.saturating_sub(SOON)) => {
                let what = format!(
                    "{}: the certificate is valid for less than a week",
                    own.display()
                );
                problems.push(
                    Problem::warning(place, what)
                        .fix("put a new one there; it is taken while tapflow runs"),
                );
            }
            Ok(_) => {}
            Err(error) if error.absent => problems.push(Problem::warning(place, error.to_string())),
            Err(error) => problems.push(Problem::error(place, error.to_string())),
        };
    for (i, listener) in config.listener.iter().enumerate() {
        if let Some(files) = listener
            .tls()
            .filter(|f| !is_empty(&f.cert) && !is_empty(&f.key))
        {
            report(
                format!("listener[{i}].tls_cert"),
                &files.cert,
                files.check(),
            );
        }
    }
    if let Some(files) = config.http.tls().filter(|f| !is_empty(&f.key)) {
        report("http.tls_cert".to_owned(), &files.cert, files.check());
    }
    for (i, output) in config.output.iter().enumerate() {
        if let OutputKind::Dnstap(dnstap) = &output.kind
            && let Some(files) = dnstap.tls()
        {
            let key = if is_empty(&files.cert) {
                "tls_ca"
            } else {
                "tls_cert"
            };
            report(format!("output[{i}].{key}"), &files.cert, files.check());
        }
    }
    for (i, listener) in config.listener.iter().enumerate() {
        open_key(&format!("listener[{i}]"), &listener.tls_key, problems);
    }
    open_key("http", &config.http.tls_key, problems);
    for (i, output) in config.output.iter().enumerate() {
        if let OutputKind::Dnstap(dnstap) = &output.kind {
            open_key(&format!("output[{i}]"), &dnstap.tls_key, problems);
        }
    }
}
