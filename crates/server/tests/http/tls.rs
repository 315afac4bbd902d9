//! Encrypted connections.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use server::{Tls, TlsFiles, Warmup};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Setup, TestServer};

/// An authority of one test.
struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Pair {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    fn pair(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    }

    /// What a client needs to trust this authority; with a pair it shows that.
    fn client(&self, protocols: &[&str], own: Option<&Pair>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::try_from(pair.key.serialize_der()).unwrap();
                let chain = vec![pair.certificate.clone()];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        config
    }
}

/// Files of a pair in a folder.
fn write(folder: &Path, pair: &Pair) -> TlsFiles {
    let files = TlsFiles {
        certificates: folder.join("certificate.pem"),
        key: folder.join("key.pem"),
        client_authorities: None,
    };
    std::fs::write(&files.certificates, &pair.pem).unwrap();
    std::fs::write(&files.key, pair.key.serialize_pem()).unwrap();
    files
}

async fn start(tls: Tls) -> TestServer {
    let setup = Setup::with(|setup| {
        setup.server.tls = Some(tls);
        setup.server.warmup = Warmup::Request;
    });
    setup.launch().await.unwrap()
}

async fn connect(
    server: &TestServer,
    config: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

fn ask(path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::post(format!("https://localhost{path}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .unwrap()
}

#[tokio::test]
async fn encrypted_connections_speak_what_the_client_chooses() {
    let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
    let files = write(folder.path(), &authority.pair());
    let server = start(Tls::load(files, None).unwrap()).await;
    let body = json!({"text": "say:sealed\n"}).to_string();
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"], &[]] {
        let stream = connect(&server, authority.client(protocols, None))
            .await
            .unwrap();
        let chosen = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let expected = protocols.first().map(|name| name.as_bytes().to_vec());
        assert_eq!(chosen, expected);
        let io = TokioIo::new(stream);
        let answer = if protocols.first() == Some(&"h2") {
            let (mut client, connection) =
                http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            client.send_request(ask("/generate", &body)).await.unwrap()
        } else {
            let (mut client, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            client.send_request(ask("/generate", &body)).await.unwrap()
        };
        assert_eq!(answer.status(), 200);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(
            text.windows(6).any(|window| window == b"sealed"),
            "{text:?}"
        );
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_with_a_certificate_answers_nothing_in_the_clear() {
    let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
    let files = write(folder.path(), &authority.pair());
    let server = start(Tls::load(files, None).unwrap()).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain
        .write_all(b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut heard = Vec::new();
    // A connection may also be reset.
    let _ = plain.read_to_end(&mut heard).await;
    assert!(!heard.starts_with(b"HTTP"), "{heard:?}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn with_authorities_for_clients_only_theirs_are_answered() {
    let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
    let mut files = write(folder.path(), &authority.pair());
    let path = folder.path().join("clients.pem");
    let clients = Authority::new();
    std::fs::write(&path, &clients.pem).unwrap();
    files.client_authorities = Some(path);
    let server = start(Tls::load(files, None).unwrap()).await;
    let (known, unknown) = (clients.pair(), Authority::new().pair());
    for (own, is_answered) in [(None, false), (Some(&unknown), false), (Some(&known), true)] {
        let answered = async {
            let mut stream = connect(&server, authority.client(&[], own)).await.ok()?;
            let ask = b"GET /ping HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(ask).await.ok()?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.ok()?;
            Some(heard)
        };
        let answered = answered
            .await
            .is_some_and(|heard| heard.starts_with(b"HTTP/1.1 200"));
        assert_eq!(answered, is_answered);
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn renewed_certificates_are_shown_and_broken_ones_are_not() {
    let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
    let (first, second) = (authority.pair(), authority.pair());
    let files = write(folder.path(), &first);
    let server = start(Tls::load(files.clone(), Some(Duration::from_millis(10))).unwrap()).await;
    let shown = async || {
        let stream = connect(&server, authority.client(&[], None)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    assert_eq!(shown().await, first.certificate);
    std::fs::write(&files.key, "broken").unwrap();
    for _ in 0..5 {
        assert_eq!(shown().await, first.certificate);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    write(folder.path(), &second);
    while shown().await != second.certificate {
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}

/// What is said of these files.
fn refusal(files: TlsFiles) -> String {
    Tls::load(files, None)
        .expect_err("they cannot be used")
        .to_string()
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
    let good = write(folder.path(), &authority.pair());
    let other = authority.pair().key.serialize_pem();
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let file = |text: &str| -> PathBuf {
        let path = folder.path().join("other.pem");
        std::fs::write(&path, text).unwrap();
        path
    };
    let missing = folder.path().join("missing.pem");
    let with_key = |key: PathBuf| {
        refusal(TlsFiles {
            key,
            ..good.clone()
        })
    };
    let with_certificates = |certificates: PathBuf| {
        refusal(TlsFiles {
            certificates,
            ..good.clone()
        })
    };
    let with_authorities = |path: PathBuf| {
        refusal(TlsFiles {
            client_authorities: Some(path),
            ..good.clone()
        })
    };
    for (refusal, expected) in [
        (with_key(missing.clone()), "cannot read "),
        (with_certificates(missing.clone()), "cannot read "),
        (with_authorities(missing), "cannot read "),
        (
            with_key(file(&other)),
            "is not that of the first certificate in",
        ),
        (
            with_key(file(sealed)),
            "is encrypted, which is not supported: decrypt it with `openssl pkey`",
        ),
        (with_key(file(old)), "is encrypted, which is not supported"),
        (with_key(file("")), "has no private key"),
        (with_key(good.certificates.clone()), "has no private key"),
        (with_certificates(file("")), "has no certificate"),
        (with_certificates(good.key.clone()), "has no certificate"),
        (with_authorities(good.key.clone()), "has no certificate"),
        (
            with_certificates(file(
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            )),
            "is not PEM",
        ),
        (
            with_certificates(file(
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            )),
            "cannot be used",
        ),
    ] {
        assert!(refusal.contains(expected), "{refusal}");
    }
    Tls::load(good, None).expect("the pair is good");
}
