//! The addresses of servers.

use std::fmt;

/// An `http://` address without its path: where to connect, and what precedes every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As given, without trailing slashes: paths are appended to it.
    text: String,
    authority: String,
    prefix: String,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Encrypted addresses are refused.
    #[error("{url}: https is not supported, put a plain http address in front of the server")]
    Https {
        /// The address as given.
        url: String,
    },
    /// Not an address at all.
    #[error("{url}: not an http address (expected http://host:port)")]
    Malformed {
        /// The address as given.
        url: String,
    },
}

impl Url {
    /// Reads an address such as `http://127.0.0.1:30000` or `http://host:80/prefix`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        if url.starts_with("https://") {
            return Err(UrlError::Https {
                url: url.to_owned(),
            });
        }
        let malformed = || UrlError::Malformed {
            url: url.to_owned(),
        };
        let rest = url.strip_prefix("http://").ok_or_else(malformed)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let prefix = match path.trim_end_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        Ok(Self {
            text: url.to_owned(),
            authority: authority.to_owned(),
            prefix,
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
            format!("{}:80", self.authority)
        }
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
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(url.socket_address(), socket);
            assert_eq!(url.target("/generate"), target);
        }
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        assert!(matches!(
            Url::parse("https://h"),
            Err(UrlError::Https { .. })
        ));
        for text in [
            "",
            "host:1",
            "ftp://h",
            "http://",
            "http:///x",
            "http://a b",
        ] {
            assert!(
                matches!(Url::parse(text), Err(UrlError::Malformed { .. })),
                "{text}"
            );
        }
    }
}
