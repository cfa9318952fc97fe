//! Client certificates that a rule names by fingerprint are trusted whoever signed them; the others are for the authorities
//! to answer for.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::transport::tls::rules::{Fingerprint, fingerprint};

#[derive(Debug)]
pub(super) struct Pinned {
    /// Asked about certificates that are not pinned; none: they are refused.
    pub(super) inner: Option<Arc<dyn ClientCertVerifier>>,
    pub(super) pins: Vec<Fingerprint>,
    pub(super) required: bool,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Pinned {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // With pins no list of authorities, or a client whose certificate none of them signed would not send it.
        match &self.inner {
            Some(inner) if self.pins.is_empty() => inner.root_hint_subjects(),
            _ => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.pins.contains(&fingerprint(end_entity)) {
            return Ok(ClientCertVerified::assertion());
        }
        match &self.inner {
            Some(inner) => inner.verify_client_cert(end_entity, intermediates, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
