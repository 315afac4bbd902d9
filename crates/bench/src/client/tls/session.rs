//! One encrypted exchange: bytes of the socket on one side, bytes of HTTP on the other.

use super::trust::Identity;
use rustls::{CertificateError, ClientConnection, Error, InvalidMessage};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The state of one encrypted connection; the socket belongs to somebody else.
pub(crate) struct Session {
    state: ClientConnection,
    host: String,
    is_closed: bool,
}

impl Session {
    /// Readies the first flight of a handshake.
    pub(crate) fn begin(identity: &Identity) -> Self {
        let mut state = ClientConnection::new(Arc::clone(&identity.config), identity.name.clone())
            .expect("the configuration has key exchanges and versions that go together");
        // A request is at hand whole before the handshake is over.
        state.set_buffer_limit(None);
        Self {
            state,
            host: identity.host(),
            is_closed: false,
        }
    }

    /// The same state for a reader that waits.
    pub(crate) fn into_state(self) -> ClientConnection {
        self.state
    }

    /// Takes over what is to be sent as soon as the handshake allows.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.state
            .writer()
            .write_all(bytes)
            .expect("a buffer without limit takes everything");
    }

    /// Whether there is something to be written to the socket now.
    pub(crate) fn wants_write(&self) -> bool {
        self.state.wants_write()
    }

    /// Writes some of it.
    pub(crate) fn write(&mut self, socket: &mut dyn Write) -> io::Result<usize> {
        self.state.write_tls(socket)
    }

    /// Whether the two sides still agree on keys.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.state.is_handshaking()
    }

    /// Whether the server said that nothing more follows.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Opens received bytes: what they hold is appended, up to the first that cannot be opened.
    pub(crate) fn open(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        while !bytes.is_empty() && !self.is_closed {
            self.state
                .read_tls(&mut bytes)
                .map_err(|error| error.to_string())?;
            let news = self
                .state
                .process_new_packets()
                .map_err(|error| refusal(&error, &self.host))?;
            self.is_closed = news.peer_has_closed();
            let start = plain.len();
            plain.resize(start + news.plaintext_bytes_to_read(), 0);
            self.state
                .reader()
                .read_exact(&mut plain[start..])
                .expect("what is counted can be read");
        }
        Ok(())
    }
}

/// Why a session with this host cannot be, in words.
pub(crate) fn refusal(error: &Error, host: &str) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
            "the certificate of {host} is not accepted: unknown authority (--ca-file names one)"
        ),
        Error::InvalidCertificate(reason) => {
            format!("the certificate of {host} is not accepted: {reason}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("{host} does not speak TLS at this port")
        }
        error => format!("TLS with {host}: {error}"),
    }
}
