//! TLS 1.2 and 1.3 for listeners, forwards and HTTP: certificates from files, read again when they change.
//!
//! [`server`] takes connections and decides about client certificates, [`client`] makes connections, [`rules`] says which
//! client may send as which dnstap identity, [`crowd`] bounds the handshakes under way. Every way a handshake can fail is a
//! [`Fault`] with a name that is counted.
//!
//! Nothing is asked of ALPN: DNS servers send none. Sessions are not resumed, since senders keep their connections for days
//! and a certificate authority that is taken away must count for the next connection.

pub mod client;
pub mod crowd;
mod pins;
pub mod rules;
pub mod server;
pub mod validity;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, RootCertStore, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

/// Certificates, keys or authorities that cannot be used. The text names the file and says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}", file = .file.display())]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// It is not there, or this user may not read it; on another machine it may be.
    pub absent: bool,
}

impl FileError {
    fn new(file: &Path, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            what: what.into(),
            absent: false,
        }
    }

    fn absent(file: &Path, what: impl Into<String>) -> Self {
        Self {
            absent: true,
            ..Self::new(file, what)
        }
    }
}

/// The oldest TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246) and 1.3.
    #[default]
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3 (RFC 8446) alone.
    #[serde(rename = "1.3")]
    V13,
}

impl TlsVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] =
            [&rustls::version::TLS13, &rustls::version::TLS12];
        static NEW: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match self {
            Self::V12 => &BOTH,
            Self::V13 => &NEW,
        }
    }
}

/// Why a TLS handshake failed. A closed set: label values of `tapflow_connections_closed_total` and
/// `tapflow_output_reconnects_total`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// It was not complete in time.
    Timeout,
    /// Too many were under way, and this was the oldest.
    CrowdedOut,
    /// The other side speaks something else.
    NotTls,
    /// No common version or cipher.
    Incompatible,
    /// A certificate is required and none came.
    NoCertificate,
    /// The other side's certificate is not valid any more, or not yet.
    Expired,
    /// No authority that is trusted here has signed the other side's certificate.
    UnknownAuthority,
    /// The other side's certificate has another name.
    WrongName,
    /// The other side's certificate cannot be used for another reason.
    BadCertificate,
    /// The client's certificate is good, and no rule names it.
    UnknownClient,
    /// The other side refused: it does not take our certificate, or wants one.
    Refused,
    /// The other side closed during the handshake.
    Closed,
    /// Anything else.
    Other,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 13] = [
        Self::Timeout,
        Self::CrowdedOut,
        Self::NotTls,
        Self::Incompatible,
        Self::NoCertificate,
        Self::Expired,
        Self::UnknownAuthority,
        Self::WrongName,
        Self::BadCertificate,
        Self::UnknownClient,
        Self::Refused,
        Self::Closed,
        Self::Other,
    ];

    /// The name in metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "tls_timeout",
            Self::CrowdedOut => "tls_crowded_out",
            Self::NotTls => "tls_not_tls",
            Self::Incompatible => "tls_incompatible",
            Self::NoCertificate => "tls_no_certificate",
            Self::Expired => "tls_certificate_expired",
            Self::UnknownAuthority => "tls_unknown_authority",
            Self::WrongName => "tls_wrong_name",
            Self::BadCertificate => "tls_bad_certificate",
            Self::UnknownClient => "tls_unknown_client",
            Self::Refused => "tls_refused",
            Self::Closed => "tls_closed",
            Self::Other => "tls_other",
        }
    }

    /// What an error of the TLS library says.
    fn of(error: &rustls::Error) -> Self {
        use rustls::Error as E;
        match error {
            E::NoCertificatesPresented => Self::NoCertificate,
            E::InvalidCertificate(error) => match error {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::Expired,
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::UnknownAuthority
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                _ => Self::BadCertificate,
            },
            E::PeerIncompatible(_) => Self::Incompatible,
            E::AlertReceived(_) => Self::Refused,
            E::InvalidMessage(_) | E::InappropriateMessage { .. } => Self::NotTls,
            _ => Self::Other,
        }
    }
}

/// The fault behind an error of a socket, where TLS is what failed.
pub fn fault_of(error: &io::Error) -> Option<Fault> {
    let inner = error.get_ref()?;
    if let Some(error) = inner.downcast_ref::<HandshakeError>() {
        return Some(error.fault);
    }
    inner.downcast_ref::<rustls::Error>().map(Fault::of)
}

/// A handshake that failed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct HandshakeError {
    /// For counting.
    pub fault: Fault,
    text: String,
}

impl HandshakeError {
    fn new(fault: Fault, text: impl Into<String>) -> Self {
        Self {
            fault,
            text: text.into(),
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        let fault = fault_of(&error).unwrap_or_else(|| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Fault::Closed,
            _ => Fault::Other,
        });
        let text = match fault {
            Fault::NotTls => {
                format!("the other side does not speak TLS ({error})")
            }
            Fault::Closed => "the other side closed during the TLS handshake".to_owned(),
            _ => format!("TLS handshake: {error}"),
        };
        Self { fault, text }
    }
}

/// The cryptography. *ring* needs a C compiler and nothing else to be built.
#[expect(
    deprecated,
    reason = "marked so for its lack of post-quantum key exchange; the other provider takes ten times as long to build"
)]
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What a file looked like: device and number, size, time of change. `None` when it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamps<'f>(files: impl Iterator<Item = &'f PathBuf>) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let m = std::fs::metadata(file).ok()?;
        Some((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
    };
    files.map(stamp).collect()
}

fn pem_error(file: &Path, what: &str, error: pem::Error) -> FileError {
    match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            FileError::absent(file, "there is no such file")
        }
        pem::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            FileError::absent(
                file,
                "this user may not read it; give it to the group that tapflow runs as, with mode 0640",
            )
        }
        pem::Error::Io(error) => FileError::absent(file, format!("cannot be read: {error}")),
        pem::Error::NoItemsFound => FileError::new(
            file,
            format!("holds no {what} in PEM (a text with -----BEGIN ...-----)"),
        ),
        other => FileError::new(file, format!("is no {what} in PEM: {other:?}")),
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let fail = |error| pem_error(file, "certificate", error);
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(fail)?
        .collect::<Result<_, _>>()
        .map_err(fail)?;
    if certificates.is_empty() {
        return Err(fail(pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

/// The private key of a PEM file: PKCS #8, PKCS #1 or SEC1.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| pem_error(file, "private key", error))
}

/// The authorities of a PEM file, at least one. One that cannot be used is left out, as long as another can.
fn authorities(file: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    let (used, _) = roots.add_parsable_certificates(certificates(file)?);
    if used == 0 {
        return Err(FileError::new(
            file,
            "none of its certificates can be used as an authority",
        ));
    }
    Ok(roots)
}

/// Says what an error means for the certificate and key that it is about.
fn key_pair_error(cert: &Path, key: &Path, error: &rustls::Error) -> FileError {
    match error {
        rustls::Error::InconsistentKeys(_) => FileError::new(
            key,
            format!("is not the key of the certificate in {}", cert.display()),
        ),
        rustls::Error::InvalidCertificate(error) => FileError::new(
            cert,
            format!("its first certificate cannot be used: {error}"),
        ),
        error => FileError::new(key, format!("cannot be used as a key: {error}")),
    }
}
