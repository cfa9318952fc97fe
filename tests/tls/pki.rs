//! An authority in a folder, and what it signs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    date_time_ymd,
};

/// An authority.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) file: PathBuf,
}

/// A certificate and its key, in files.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) der: Vec<u8>,
}

impl Authority {
    /// A new one called `name`, whose certificate is NAME.pem.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, issuer.pem()).expect("a file");
        Self {
            folder: folder.to_owned(),
            issuer,
            file,
        }
    }

    /// Signs a certificate for `names`.
    pub(crate) fn sign(&self, file: &str, names: &[&str]) -> Pair {
        self.sign_as(file, names, |_| {})
    }

    /// Signs one that was valid in 2001.
    pub(crate) fn sign_expired(&self, file: &str, names: &[&str]) -> Pair {
        self.sign_as(file, names, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2001, 12, 31);
        })
    }

    fn sign_as(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let mut params = params(names);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        write(&self.folder, file, &certificate, &key)
    }
}

/// A certificate that signs itself.
pub(crate) fn self_signed(folder: &Path, file: &str, names: &[&str]) -> Pair {
    let key = KeyPair::generate().expect("a key");
    let certificate = params(names).self_signed(&key).expect("a certificate");
    write(folder, file, &certificate, &key)
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

/// Writes both files at once as far as a reader can tell: the certificate last, and each by a rename.
fn write(folder: &Path, file: &str, certificate: &Certificate, key: &KeyPair) -> Pair {
    let put = |ending: &str, text: String| {
        let (path, new) = (
            folder.join(format!("{file}.{ending}")),
            folder.join(format!("{file}.{ending}.new")),
        );
        std::fs::write(&new, text).expect("a file");
        std::fs::rename(&new, &path).expect("a rename");
        path
    };
    Pair {
        key: put("key", key.serialize_pem()),
        cert: put("pem", certificate.pem()),
        der: certificate.der().to_vec(),
    }
}

/// The fingerprint as a rule has it.
pub(crate) fn pin(pair: &Pair) -> String {
    let print = tapflow::transport::tls::rules::fingerprint(&pair.der);
    let digits: Vec<String> = print.iter().map(|octet| format!("{octet:02X}")).collect();
    format!("sha256:{}", digits.join(":"))
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a clock")
        .as_secs_f64()
}
