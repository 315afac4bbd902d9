//! From an address to a socket address that answers.

use super::http1::Url;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The socket address to use for a whole run: the first that accepts a connection, else the first.
///
/// Names are looked up once, so that no lookup is part of any latency.
pub(crate) fn resolve(base: &Url) -> io::Result<SocketAddr> {
    let addresses = base.socket_address().to_socket_addrs();
    let named = |error: io::Error| {
        let reason = format!("{}: {error}", base.authority());
        io::Error::new(error.kind(), reason)
    };
    let addresses: Vec<SocketAddr> = addresses.map_err(named)?.collect();
    let accepts =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, Duration::from_secs(5)).is_ok();
    let first = addresses.first().copied();
    let found = if addresses.len() > 1 {
        addresses.iter().find(accepts).copied()
    } else {
        None
    };
    found
        .or(first)
        .ok_or_else(|| io::Error::other("the name has no address"))
}
