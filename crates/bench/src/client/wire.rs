//! A connection that is waited for, encrypted or not.

use super::http1::Url;
use super::tls::{Identity, Session};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A connection for questions outside of any load.
pub(super) enum Wire {
    Plain(TcpStream),
    Sealed(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Connects to the first address that accepts; no wait takes longer than `longest`.
    pub(super) fn connect(
        base: &Url,
        identity: Option<&Identity>,
        longest: Duration,
    ) -> io::Result<Self> {
        let stream = open(base, longest)?;
        let Some(identity) = identity else {
            return Ok(Self::Plain(stream));
        };
        let state = Session::begin(identity).into_state();
        Ok(Self::Sealed(Box::new(StreamOwned::new(state, stream))))
    }

    /// Sends all of a request.
    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(request),
            Self::Sealed(stream) => {
                stream.write_all(request)?;
                stream.flush()
            }
        }
    }

    /// Appends what arrives next: how much, zero at the end.
    pub(super) fn read_more(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = match self {
                Self::Plain(stream) => stream.read(&mut buffer),
                Self::Sealed(stream) => stream.read(&mut buffer),
            };
            match read {
                Ok(length) => {
                    into.extend_from_slice(&buffer[..length]);
                    return Ok(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn open(base: &Url, longest: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in base.socket_address().to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, longest) {
            Ok(stream) => {
                stream.set_read_timeout(Some(longest))?;
                stream.set_write_timeout(Some(longest))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
