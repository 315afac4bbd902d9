//! Encrypted connections: a certificate and its key from files, read again when they are renewed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// What clients may choose from when they say what they speak, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and an authority, as PEM.
    pub certificates: PathBuf,
    /// The key of the first one, as PEM.
    pub key: PathBuf,
    /// Authorities, as PEM: clients must show a certificate of one of them.
    pub client_authorities: Option<PathBuf>,
}

/// Why connections cannot be encrypted with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A file is not what it should be.
    #[error("{path} is not PEM: {reason}")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of certificates has none.
    #[error("{0} has no certificate: it must have a block BEGIN CERTIFICATE")]
    NoCertificate(PathBuf),
    /// A file of a key has none.
    #[error("{0} has no private key: it must have a block BEGIN PRIVATE KEY")]
    NoKey(PathBuf),
    /// The key is encrypted.
    #[error(
        "the key in {0} is encrypted, which is not supported: decrypt it with `openssl pkey` into a file that only the \
         server's user can read"
    )]
    EncryptedKey(PathBuf),
    /// The key belongs to another certificate.
    #[error("the key in {key} is not that of the first certificate in {certificates}")]
    WrongPair {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificates: PathBuf,
    },
    /// They cannot be used for another reason.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What connections are encrypted with; clones share what was read last.
#[derive(Clone, Debug)]
pub struct Tls {
    files: TlsFiles,
    /// How often the files are looked at, if at all.
    refresh: Option<Duration>,
    current: Arc<RwLock<Arc<rustls::ServerConfig>>>,
}

impl Tls {
    /// Reads the files; with `refresh` they are looked at that often and read again when they changed.
    pub fn load(files: TlsFiles, refresh: Option<Duration>) -> Result<Self, TlsError> {
        let current = Arc::new(RwLock::new(Arc::new(read(&files)?)));
        Ok(Self {
            files,
            refresh,
            current,
        })
    }

    /// Reads the files again, for connections from now on. Where they cannot be used, nothing changes.
    pub(crate) fn reload(&self) {
        match read(&self.files) {
            Ok(read) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                tracing::info!("TLS certificate and key reloaded");
            }
            Err(error) => {
                let because = std::error::Error::source(&error);
                let because = because.map_or_else(String::new, |source| format!(": {source}"));
                tracing::error!("TLS files not reloaded, the old ones stay: {error}{because}");
            }
        }
    }

    /// Reads the files again whenever they change, where that is wanted.
    pub(crate) async fn keep_fresh(self) {
        let Some(every) = self.refresh else {
            return;
        };
        let mut seen = self.stamps();
        loop {
            tokio::time::sleep(every).await;
            let now = self.stamps();
            if now != seen {
                seen = now;
                self.reload();
            }
        }
    }

    /// What tells a file from the one that was there before.
    fn stamps(&self) -> Vec<Option<(SystemTime, u64, u64)>> {
        use std::os::unix::fs::MetadataExt as _;
        let files = &self.files;
        let paths = [
            Some(&files.certificates),
            Some(&files.key),
            files.client_authorities.as_ref(),
        ];
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len(), found.ino()))
        };
        paths.into_iter().flatten().map(stamp).collect()
    }

    /// What agrees with the next client.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }
}

fn read(files: &TlsFiles) -> Result<rustls::ServerConfig, TlsError> {
    let chain = certificates(&files.certificates)?;
    let key = key(&files.key)?;
    let provider = Arc::new(ring::default_provider());
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |error: &dyn std::fmt::Display| TlsError::Unusable {
            path,
            reason: error.to_string(),
        }
    };
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificates)(&error))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = client_verifier(path, provider)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::WrongPair {
                key: files.key.clone(),
                certificates: files.certificates.clone(),
            },
            rustls::Error::InvalidCertificate(_) => unusable(&files.certificates)(&error),
            other => unusable(&files.key)(&other),
        })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(config)
}

fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let unusable = |reason: String| TlsError::Unusable {
        path: path.to_owned(),
        reason,
    };
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = authorities.add(certificate);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
        .build()
        .map_err(|error| unusable(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text(path)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| not_pem(path, &error))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = text(path)?;
    let has = |words: &str| {
        text.windows(words.len())
            .any(|window| window == words.as_bytes())
    };
    if has("BEGIN ENCRYPTED PRIVATE KEY") || has("Proc-Type: 4,ENCRYPTED") {
        return Err(TlsError::EncryptedKey(path.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        other => not_pem(path, &other),
    })
}

fn text(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Unreadable(path.to_owned(), error))
}

fn not_pem(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::NotPem {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
