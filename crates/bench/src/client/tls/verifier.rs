//! Certificates that an authority signed, or that are themselves the ones to trust.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// The usual check, which also accepts a server's own certificate that a person named.
///
/// Certificates that servers sign for themselves mostly call themselves authorities, and an
/// authority is no server to the usual check, whoever trusts it.
#[derive(Debug)]
pub(super) struct NamedOrSigned {
    named: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl NamedOrSigned {
    pub(super) fn new(
        named: Vec<CertificateDer<'static>>,
        signed: Arc<WebPkiServerVerifier>,
    ) -> Self {
        Self { named, signed }
    }
}

impl ServerCertVerifier for NamedOrSigned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual =
            self.signed
                .verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        // Dates come before the question of who is an authority, so they hold here too.
        match usual {
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.named.contains(certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
