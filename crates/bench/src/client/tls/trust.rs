//! Which servers are believed to be who they say they are.

use super::verifier::NamedOrSigned;
use crate::client::http1::Url;
use flags::{FlagSpec, Parsed};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose certificates are accepted.
#[derive(Clone, Debug)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// Authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read, or is no PEM.
    #[error("--ca-file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has no certificate in it.
    #[error("--ca-file {}: no certificate in it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Trust {
    /// The option by which a person chooses.
    pub(crate) const FLAG: FlagSpec = FlagSpec::text(
        "ca-file",
        "For https: trust the certificates in this PEM file and no others (an own authority, or a \
         server that signed its own).",
    );

    /// The authorities that browsers trust.
    pub fn usual() -> Self {
        let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        Self::of(roots, Vec::new())
    }

    /// The certificates of a PEM file and nobody else: authorities, or servers that signed their own.
    pub fn in_file(path: &Path) -> Result<Self, TrustError> {
        let wrong = |reason: String| TrustError::File {
            path: path.to_owned(),
            reason,
        };
        let mut roots = RootCertStore::empty();
        let mut named = Vec::new();
        let found =
            CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots
                .add(certificate.clone())
                .map_err(|error| wrong(error.to_string()))?;
            named.push(certificate);
        }
        if named.is_empty() {
            return Err(TrustError::Empty {
                path: path.to_owned(),
            });
        }
        Ok(Self::of(roots, named))
    }

    /// The certificates of the file that is given by [`FLAG`](Self::FLAG), else the usual authorities.
    pub(crate) fn chosen(given: &Parsed) -> Result<Self, TrustError> {
        match given.text(Self::FLAG.name) {
            Some(path) => Self::in_file(Path::new(path)),
            None => Ok(Self::usual()),
        }
    }

    fn of(roots: RootCertStore, named: Vec<CertificateDer<'static>>) -> Self {
        let provider = Arc::new(ring::default_provider());
        let signed =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .expect("there is an authority in every store");
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the usual versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NamedOrSigned::new(named, signed)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Every request pays for its handshake, so that all are measured alike.
        config.resumption = Resumption::disabled();
        Self {
            config: Arc::new(config),
        }
    }

    /// What a server at this address has to prove; nothing where the address is not encrypted.
    pub(crate) fn identity(&self, base: &Url) -> Option<Identity> {
        let name = base.proves()?.clone();
        Some(Identity {
            config: Arc::clone(&self.config),
            name,
        })
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::usual()
    }
}

/// Who a server must prove to be, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Identity {
    /// The host, as messages name it.
    pub(crate) fn host(&self) -> String {
        self.name.to_str().into_owned()
    }
}
