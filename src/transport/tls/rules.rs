//! Which client certificate may send as which dnstap identity.
//!
//! A rule is written `WHO` or `WHO=IDENTITY`. `WHO` is a name of the certificate (a DNS name or an address among its subject
//! alternative names, RFC 6125) or `sha256:` and the fingerprint of the whole certificate in hexadecimal digits. Several
//! rules with one `WHO` add up; one without an identity permits them all. An identity that ends in `*` stands for all that
//! begin so.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serde::{Deserialize, Serialize};

/// SHA-256 of a certificate in DER.
pub type Fingerprint = [u8; 32];

/// The fingerprint of a certificate.
pub fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let mut out = [0; 32];
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    for (to, from) in out.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    out
}

/// A rule that cannot be read: a sentence for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// A subject alternative name.
    Name(String),
    /// The certificate itself.
    Fingerprint(Fingerprint),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientRule {
    /// Whom it is about.
    pub who: Who,
    /// The identity it permits; `None`: every one.
    pub identity: Option<String>,
}

const EXAMPLE: &str = "write a name and an identity, such as \"ns1.example.net=ns1\", or \"sha256:\" and 64 digits in place of the name";

impl FromStr for ClientRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let fail = |why: &str| RuleError(format!("\"{text}\" {why}: {EXAMPLE}"));
        let (who, identity) = match text.split_once('=') {
            Some((who, identity)) => (who.trim(), Some(identity.trim())),
            None => (text.trim(), None),
        };
        let who = match who.strip_prefix("sha256:") {
            Some(digits) => {
                let digits: String = digits.chars().filter(|c| *c != ':').collect();
                let octets = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
                let print = octets.ok().and_then(|o| Fingerprint::try_from(o).ok());
                Who::Fingerprint(print.ok_or_else(|| fail("holds no fingerprint"))?)
            }
            None => {
                ServerName::try_from(who)
                    .map_err(|_| fail("begins with what is neither a name nor an address"))?;
                Who::Name(who.to_ascii_lowercase())
            }
        };
        let identity = identity.filter(|identity| *identity != "*");
        Ok(Self {
            who,
            identity: identity.map(str::to_owned),
        })
    }
}

impl fmt::Display for ClientRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Name(name) => f.write_str(name)?,
            Who::Fingerprint(print) => {
                write!(f, "sha256:{}", data_encoding::HEXLOWER.encode(print))?;
            }
        }
        self.identity
            .as_ref()
            .map_or(Ok(()), |identity| write!(f, "={identity}"))
    }
}

impl TryFrom<String> for ClientRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<ClientRule> for String {
    fn from(rule: ClientRule) -> Self {
        rule.to_string()
    }
}

/// Which identities a connection may send as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Every one.
    Any,
    /// These.
    Only(Arc<[String]>),
    /// All but these, which belong to certificates.
    Except(Arc<[String]>),
}

impl Grant {
    /// Whether a frame of this identity may come; one without an identity has the empty one.
    pub fn permits(&self, identity: &[u8]) -> bool {
        let among = |list: &[String]| list.iter().any(|pattern| matches(pattern, identity));
        match self {
            Self::Any => true,
            Self::Only(list) => among(list),
            Self::Except(list) => !among(list),
        }
    }
}

fn matches(pattern: &str, identity: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => identity.starts_with(start.as_bytes()),
        None => identity == pattern.as_bytes(),
    }
}

/// The rules of one listener.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<ClientRule>);

impl Rules {
    /// These rules; none: every certificate that is valid may send as anything.
    pub fn new(rules: Vec<ClientRule>) -> Self {
        Self(rules)
    }

    /// The fingerprints that rules name: certificates that are trusted whoever signed them.
    pub fn pins(&self) -> Vec<Fingerprint> {
        let pin = |rule: &ClientRule| match rule.who {
            Who::Fingerprint(print) => Some(print),
            Who::Name(_) => None,
        };
        self.0.iter().filter_map(pin).collect()
    }

    /// What a client with this certificate, which has been verified, may send as; `None`: no rule names it.
    pub fn grant(&self, certificate: Option<&CertificateDer<'_>>) -> Option<Grant> {
        if self.0.is_empty() {
            return Some(Grant::Any);
        }
        let Some(certificate) = certificate else {
            // Whoever shows nothing takes no name that belongs to somebody.
            return Some(Grant::Except(
                self.0.iter().filter_map(|r| r.identity.clone()).collect(),
            ));
        };
        let print = fingerprint(certificate);
        let parsed = ParsedCertificate::try_from(certificate).ok();
        let is = |who: &Who| match who {
            Who::Fingerprint(pin) => *pin == print,
            Who::Name(name) => parsed.as_ref().is_some_and(|parsed| {
                ServerName::try_from(name.as_str())
                    .is_ok_and(|name| verify_server_name(parsed, &name).is_ok())
            }),
        };
        let found: Vec<&ClientRule> = self.0.iter().filter(|rule| is(&rule.who)).collect();
        if found.is_empty() {
            None
        } else if found.iter().any(|rule| rule.identity.is_none()) {
            Some(Grant::Any)
        } else {
            Some(Grant::Only(
                found.iter().filter_map(|r| r.identity.clone()).collect(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::new(texts.iter().map(|t| t.parse().unwrap()).collect())
    }

    #[test]
    fn rules_read_back_as_they_are_printed_and_say_what_is_wrong_with_them() {
        for text in [
            "ns1.example.net=ns1",
            "ns1.example.net",
            "192.0.2.1=a=b",
            "ns1.example.net=ns*",
            &format!("sha256:{}=x", "0f".repeat(32)),
        ] {
            assert_eq!(text.parse::<ClientRule>().unwrap().to_string(), text);
        }
        let upper: ClientRule = format!("sha256:{}", ["AB"; 32].join(":")).parse().unwrap();
        assert_eq!(upper.to_string(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!("n=*".parse::<ClientRule>().unwrap().identity, None);
        for (text, part) in [
            ("", "neither a name nor an address"),
            ("=ns1", "neither a name nor an address"),
            ("sha256:abc=x", "no fingerprint"),
        ] {
            let error = text.parse::<ClientRule>().unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("ns1.example.net=ns1"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_certificate_gets_what_its_names_and_its_fingerprint_are_granted() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["ns1.example.net".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let der = certificate.der();
        let own = format!(
            "sha256:{}",
            data_encoding::HEXLOWER.encode(&fingerprint(der))
        );
        let only = |ids: &[&str]| Some(Grant::Only(ids.iter().map(|i| (*i).to_owned()).collect()));
        for (texts, want) in [
            (&[][..], Some(Grant::Any)),
            (&["ns1.example.net=a", "ns2.example.net=b"], only(&["a"])),
            (
                &["NS1.example.net=a", &format!("{own}=c*")],
                only(&["a", "c*"]),
            ),
            (&["ns1.example.net=a", &own], Some(Grant::Any)),
            (&["ns2.example.net"], None),
        ] {
            assert_eq!(rules(texts).grant(Some(der)), want, "{texts:?}");
        }
        let stranger = rules(&["ns1.example.net=a", "ns2.example.net"])
            .grant(None)
            .unwrap();
        assert!(stranger.permits(b"z") && !stranger.permits(b"a"));
        let grant = only(&["a", "c*"]).unwrap();
        for (identity, permitted) in [
            (&b"a"[..], true),
            (b"ab", false),
            (b"c", true),
            (b"cd", true),
            (b"", false),
        ] {
            assert_eq!(grant.permits(identity), permitted, "{identity:?}");
        }
    }
}
