//! The addresses of servers.

use rustls::pki_types::ServerName;
use std::fmt;

/// An `http://` or `https://` address without its path: where to connect, and what precedes every
/// path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As given, without trailing slashes: paths are appended to it.
    text: String,
    authority: String,
    prefix: String,
    /// Who the server must prove to be, where the connection is encrypted.
    proves: Option<ServerName<'static>>,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Not an address at all.
    #[error("{url}: not an http address (expected http://host:port or https://host:port)")]
    Malformed {
        /// The address as given.
        url: String,
    },
}

impl Url {
    /// Reads an address such as `http://127.0.0.1:30000` or `http://host:80/prefix`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed {
            url: url.to_owned(),
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let proves = match scheme {
            "http" => None,
            "https" => {
                let name = ServerName::try_from(host(authority)).map_err(|_| malformed())?;
                Some(name.to_owned())
            }
            _ => return Err(malformed()),
        };
        let prefix = match path.trim_end_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        Ok(Self {
            text: url.to_owned(),
            authority: authority.to_owned(),
            prefix,
            proves,
        })
    }

    /// `host:port` as the `Host` header wants it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `host:port` with the port that a missing one stands for.
    pub fn socket_address(&self) -> String {
        let host_end = self.authority.rfind(']').map_or(0, |at| at + 1);
        if self.authority[host_end..].contains(':') {
            self.authority.clone()
        } else {
            let usual = if self.proves.is_some() { 443 } else { 80 };
            format!("{}:{usual}", self.authority)
        }
    }

    /// The host without its port.
    pub fn host(&self) -> &str {
        host(&self.authority)
    }

    /// Who the server must prove to be; `None` where the connection is not encrypted.
    pub(crate) fn proves(&self) -> Option<&ServerName<'static>> {
        self.proves.as_ref()
    }

    /// The request target of a path below this address.
    pub fn target(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The full address of a path, as messages show it: appended to the text as given.
    pub fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The host in `host:port`, without the brackets of an address of version six.
fn host(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (text, socket, target) in [
            ("http://127.0.0.1:30000", "127.0.0.1:30000", "/generate"),
            ("http://host", "host:80", "/generate"),
            ("http://[::1]:8", "[::1]:8", "/generate"),
            ("http://[::1]", "[::1]:80", "/generate"),
            ("http://host:1/a/b/", "host:1", "/a/b/generate"),
            ("https://host", "host:443", "/generate"),
            ("https://[::1]", "[::1]:443", "/generate"),
            ("https://127.0.0.1:8443/a", "127.0.0.1:8443", "/a/generate"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(url.socket_address(), socket);
            assert_eq!(url.target("/generate"), target);
        }
    }

    #[test]
    fn only_an_encrypted_address_has_something_to_prove() {
        let name = |text: &str| {
            let url = Url::parse(text).unwrap();
            url.proves().map(|name| name.to_str().into_owned())
        };
        assert_eq!(name("http://host:1"), None);
        assert_eq!(name("https://host:1/x").as_deref(), Some("host"));
        assert_eq!(name("https://[::1]:1").as_deref(), Some("::1"));
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        for text in [
            "",
            "host:1",
            "ftp://h",
            "http://",
            "http:///x",
            "http://a b",
            "https://",
            "https://a_b?:1",
            "HTTPS//h",
        ] {
            assert!(
                matches!(Url::parse(text), Err(UrlError::Malformed { .. })),
                "{text}"
            );
        }
    }
}
