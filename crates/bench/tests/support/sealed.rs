//! A TLS end in front of a scripted server.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ALL_VERSIONS, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use tempfile::TempDir;

const WAKE: Token = Token(usize::MAX);
const LISTEN: Token = Token(usize::MAX - 1);

/// Deciphers what clients send, hands it to a plain server, and back; dropping it ends it.
pub(crate) struct Sealed {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Sealed {
    /// A front with the certificate and key of this [name](tls_file).
    pub(crate) fn before(server: SocketAddr, certificate: &str) -> Self {
        Self::speaking(ALL_VERSIONS, server, certificate)
    }

    /// The same, which speaks only these versions.
    pub(crate) fn speaking(
        versions: &[&'static SupportedProtocolVersion],
        server: SocketAddr,
        certificate: &str,
    ) -> Self {
        let poll = Poll::new().unwrap();
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let registry = poll.registry();
        registry
            .register(&mut listener, LISTEN, Interest::READABLE)
            .unwrap();
        let waker = Waker::new(registry, WAKE).unwrap();
        let address = listener.local_addr().unwrap();
        let (over, most) = (Arc::default(), Arc::default());
        let mut front = Front {
            poll,
            listener,
            server,
            config: server_config(versions, certificate),
            pairs: Vec::new(),
            over: Arc::clone(&over),
            most: Arc::clone(&most),
        };
        let thread = Some(std::thread::spawn(move || front.run()));
        Self {
            address,
            over,
            most,
            waker,
            thread,
        }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The most connections that were open at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.waker.wake().unwrap();
        self.thread.take().unwrap().join().ok();
    }
}

/// The path of a file with a certificate or a key: `authority.pem`, `server` signed by it, and `self-signed`.
pub(crate) fn tls_file(name: &str) -> String {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(certificates).path();
    folder.join(name).to_str().unwrap().to_owned()
}

/// Makes all certificates and keys.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let authority = IsCa::Ca(BasicConstraints::Unconstrained);
    let named = |names: &[&str], common: &str, is_ca: IsCa| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.is_ca = is_ca;
        (params, KeyPair::generate().unwrap())
    };
    let (params, authority_key) = named(&[], "test authority", authority);
    let signed = params.self_signed(&authority_key).unwrap();
    write("authority.pem", signed.pem());
    let issuer = Issuer::new(params, authority_key);
    let (params, key) = named(
        &["127.0.0.1", "localhost"],
        "test server",
        IsCa::ExplicitNoCa,
    );
    write("server.pem", params.signed_by(&key, &issuer).unwrap().pem());
    write("server.key", key.serialize_pem());
    let (params, key) = named(&["127.0.0.1"], "test server on its own", authority);
    write("self-signed.pem", params.self_signed(&key).unwrap().pem());
    write("self-signed.key", key.serialize_pem());
    folder
}

/// A server that shows the certificate of this [name](tls_file).
pub(crate) fn server_config(
    versions: &[&'static SupportedProtocolVersion],
    certificate: &str,
) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(tls_file(&format!("{certificate}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls_file(&format!("{certificate}.key"))).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    Arc::new(config)
}

struct Front {
    poll: Poll,
    listener: TcpListener,
    server: SocketAddr,
    config: Arc<ServerConfig>,
    pairs: Vec<Option<Pair>>,
    over: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
}

impl Front {
    fn run(&mut self) {
        let mut events = Events::with_capacity(256);
        while !self.over.load(Ordering::SeqCst) {
            self.poll.poll(&mut events, None).unwrap();
            for event in &events {
                match event.token() {
                    WAKE => {}
                    LISTEN => self.accept(),
                    Token(place) => {
                        let held = &mut self.pairs[place];
                        if held.as_mut().is_some_and(|pair| !pair.pump()) {
                            *held = None;
                        }
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((mut client, _)) = self.listener.accept() {
            let mut server = TcpStream::connect(self.server).unwrap();
            let place = Token(self.pairs.len());
            let both = Interest::READABLE | Interest::WRITABLE;
            for stream in [&mut client, &mut server] {
                stream.set_nodelay(true).unwrap();
                self.poll.registry().register(stream, place, both).unwrap();
            }
            let mut session = ServerConnection::new(Arc::clone(&self.config)).unwrap();
            session.set_buffer_limit(None);
            self.pairs.push(Some(Pair {
                client,
                server,
                session,
                request: Vec::new(),
                answered: false,
            }));
            let open = self.pairs.iter().flatten().count();
            self.most.fetch_max(open, Ordering::SeqCst);
        }
    }
}

/// A client, the server, and what lies between them.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    session: ServerConnection,
    request: Vec<u8>,
    /// Whether the server has ended its answer.
    answered: bool,
}

impl Pair {
    /// Moves what can be moved; whether more may follow.
    fn pump(&mut self) -> bool {
        let goes_on = self.hear_client() && self.tell_server() && self.hear_server();
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.client) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        if self.answered {
            self.client.shutdown(Shutdown::Write).ok();
        }
        goes_on
    }

    fn hear_client(&mut self) -> bool {
        loop {
            match self.session.read_tls(&mut self.client) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
            if self.session.process_new_packets().is_err() {
                return false;
            }
            // Nothing to read now is no error of the connection.
            self.session.reader().read_to_end(&mut self.request).ok();
        }
    }

    fn tell_server(&mut self) -> bool {
        while !self.request.is_empty() {
            match self.server.write(&self.request) {
                Ok(written) => drop(self.request.drain(..written)),
                Err(error) => return is_pending(&error),
            }
        }
        true
    }

    fn hear_server(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        while !self.answered {
            match self.server.read(&mut buffer) {
                Ok(0) => {
                    self.session.send_close_notify();
                    self.answered = true;
                }
                Ok(length) => self.session.writer().write_all(&buffer[..length]).unwrap(),
                Err(error) => return is_pending(&error),
            }
        }
        true
    }
}

fn is_pending(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
    )
}
