//! Which names a server may be called by, and which pages may ask it.
//!
//! Whoever listens on loopback relies on nobody else reaching that. A browser on the same machine does: a page from anywhere
//! may send requests to it, and one whose name is made to point there (DNS rebinding) may read the answers too. The first
//! names itself in `Origin` or `Sec-Fetch-Site`, the second in `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, Version};
use protocol::native::ErrorBody;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

/// What a list of names has that allows any.
const ANY: &str = "*";

/// Names and pages that are allowed besides the machine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNames {
    /// What `Host` may say; `*` is anything.
    pub hosts: Vec<String>,
    /// Origins of pages, such as `https://chat.example`; `*` is any.
    pub origins: Vec<String>,
}

/// What is checked of names; none where anything is allowed.
#[derive(Debug)]
pub(crate) struct Names {
    hosts: Option<Vec<String>>,
    origins: Option<Vec<String>>,
}

impl Names {
    /// On loopback only the machine's own names and what is allowed; elsewhere anything, unless a list says what.
    pub(crate) fn new(allowed: &AllowedNames, on_loopback: bool) -> Self {
        let checked = |names: &[String]| {
            let is_checked = on_loopback || !names.is_empty();
            let is_any = names.iter().any(|name| name == ANY);
            let lower = || names.iter().map(|name| name.to_ascii_lowercase()).collect();
            (is_checked && !is_any).then(lower)
        };
        Self {
            hosts: checked(&allowed.hosts),
            origins: checked(&allowed.origins),
        }
    }

    /// Lets pages that may ask read the answers. There are no cookies here, so none are asked for.
    pub(crate) fn cors(self: &Arc<Self>) -> CorsLayer {
        let names = Arc::clone(self);
        let origins = if names.origins.is_none() {
            AllowOrigin::any()
        } else {
            let allowed = move |origin: &HeaderValue, parts: &Parts| {
                names.is_allowed_origin(origin, authority(&parts.uri, &parts.headers).as_ref())
            };
            AllowOrigin::predicate(allowed)
        };
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(AllowMethods::mirror_request())
            .allow_headers(AllowHeaders::mirror_request())
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        let headers = request.headers();
        let written = written_host(headers, request.version(), request.uri())?;
        for host in [request.uri().authority(), written.as_ref()]
            .into_iter()
            .flatten()
        {
            if !self.is_allowed_host(host.host()) {
                return Err(Refused::Host(host.host().to_owned()));
            }
        }
        let host = request.uri().authority().or(written.as_ref());
        if self.origins.is_none() {
            return Ok(());
        }
        if let Some(origin) = headers.get(ORIGIN) {
            if !self.is_allowed_origin(origin, host) {
                return Err(Refused::Origin(
                    String::from_utf8_lossy(origin.as_bytes()).into_owned(),
                ));
            }
        } else if headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site")
        {
            return Err(Refused::Page);
        }
        Ok(())
    }

    fn is_allowed_host(&self, host: &str) -> bool {
        let Some(allowed) = &self.hosts else {
            return true;
        };
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        // No name is made to point anywhere where there is only an address.
        is_local(host) || address(host).is_some() || allowed.iter().any(|name| name == host)
    }

    /// The machine's own pages, those of the server itself, and those that are listed.
    fn is_allowed_origin(&self, origin: &HeaderValue, host: Option<&Authority>) -> bool {
        let Some(allowed) = &self.origins else {
            return true;
        };
        let Ok(origin) = origin.to_str().map(str::to_ascii_lowercase) else {
            return false;
        };
        if allowed.contains(&origin) {
            return true;
        }
        let Some(("http" | "https", rest)) = origin.split_once("://") else {
            return false;
        };
        let Ok(page) = rest.parse::<Authority>() else {
            return false;
        };
        let is_loopback = address(page.host()).is_some_and(|address| address.is_loopback());
        let is_ours = host.is_some_and(|host| host.as_str().eq_ignore_ascii_case(rest));
        is_local(page.host()) || is_loopback || is_ours
    }
}

/// Lets requests pass that name the server as it may be named and come from where they may.
pub(crate) async fn check(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    match names.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            let status = refused.status();
            (status, axum::Json(ErrorBody::new(refused.to_string()))).into_response()
        }
    }
}

/// Why a request is refused by its names alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refused {
    #[error("the request has no Host header")]
    NoHost,
    #[error("the request has {0} Host headers, it must have one")]
    Hosts(usize),
    #[error("the Host header is no name or address with a port")]
    BadHost,
    #[error(
        "the server is not called {0:?}; --allowed-hosts lists the names that it may be called by"
    )]
    Host(String),
    #[error("pages of {0} may not ask this server; --allowed-origins lists those that may")]
    Origin(String),
    #[error("pages of other sites may not ask this server; --allowed-origins lists those that may")]
    Page,
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoHost | Self::Hosts(_) | Self::BadHost => StatusCode::BAD_REQUEST,
            Self::Host(_) | Self::Origin(_) | Self::Page => StatusCode::FORBIDDEN,
        }
    }
}

/// The one `Host` of a request. HTTP/2 may name it in the address instead, and HTTP/1.0 did not know it.
fn written_host(
    headers: &HeaderMap,
    version: Version,
    uri: &Uri,
) -> Result<Option<Authority>, Refused> {
    let written: Vec<_> = headers.get_all(HOST).iter().collect();
    match written[..] {
        [] if version <= Version::HTTP_10 => Ok(None),
        [] if version >= Version::HTTP_2 && uri.authority().is_some() => Ok(None),
        [] => Err(Refused::NoHost),
        [host] => {
            let host = Authority::try_from(host.as_bytes()).map_err(|_| Refused::BadHost)?;
            if host.as_str().contains('@') {
                return Err(Refused::BadHost);
            }
            Ok(Some(host))
        }
        _ => Err(Refused::Hosts(written.len())),
    }
}

/// What a request that was let in calls the server.
fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let written = || Authority::try_from(headers.get(HOST)?.as_bytes()).ok();
    uri.authority().cloned().or_else(written)
}

/// Names that every machine has for itself alone.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], origins: &[&str], on_loopback: bool) -> Names {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let allowed = AllowedNames {
            hosts: owned(hosts),
            origins: owned(origins),
        };
        Names::new(&allowed, on_loopback)
    }

    fn asked(names: &Names, headers: &[(&str, &str)]) -> Result<(), Refused> {
        let mut request = Request::post("/generate");
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        names.check(&request.body(axum::body::Body::empty()).expect("sound"))
    }

    #[test]
    fn on_loopback_only_the_machines_own_names_and_addresses_are_answered() {
        let names = names(&["Chat.example"], &[], true);
        for host in [
            "localhost:30000",
            "LOCALHOST",
            "a.localhost",
            "localhost.",
            "127.0.0.1:1",
            "[::1]:30000",
            "10.0.0.7",
            "chat.example:8443",
            "CHAT.example",
        ] {
            assert_eq!(asked(&names, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.example",
            "2130706433",
            "x",
        ] {
            let refused = asked(&names, &[("host", host)]).unwrap_err();
            assert_eq!(refused, Refused::Host(host.to_owned()));
        }
        assert_eq!(
            asked(&names, &[("host", "a@localhost")]),
            Err(Refused::BadHost)
        );
    }

    #[test]
    fn on_loopback_only_the_machines_own_pages_may_ask() {
        let names = names(&["chat.example"], &["https://app.example"], true);
        let from = |host: &str, headers: &[(&str, &str)]| {
            asked(&names, &[&[("host", host)], headers].concat())
        };
        for origin in [
            "http://localhost:3000",
            "https://a.localhost",
            "http://127.0.0.1:3000",
            "http://[::1]",
            "https://app.example",
        ] {
            assert_eq!(from("localhost", &[("origin", origin)]), Ok(()), "{origin}");
        }
        assert_eq!(
            from("chat.example", &[("origin", "https://chat.example")]),
            Ok(())
        );
        for origin in [
            "https://chat.example",
            "http://evil.example",
            "null",
            "https://app.example.evil",
            "http://app.example",
            "chrome-extension://abc",
            "http://localhost.evil",
        ] {
            let refused = from("localhost", &[("origin", origin)]).unwrap_err();
            assert_eq!(refused, Refused::Origin(origin.to_owned()));
        }
        assert_eq!(
            from("localhost", &[("sec-fetch-site", "cross-site")]),
            Err(Refused::Page)
        );
        for site in ["none", "same-origin", "same-site"] {
            assert_eq!(
                from("localhost", &[("sec-fetch-site", site)]),
                Ok(()),
                "{site}"
            );
        }
    }

    #[test]
    fn elsewhere_anything_is_answered_unless_a_list_says_what() {
        let evil = [
            ("host", "evil.example"),
            ("origin", "http://evil.example:1"),
        ];
        assert_eq!(asked(&names(&[], &[], false), &evil), Ok(()));
        assert_eq!(asked(&names(&["*"], &["*"], true), &evil), Ok(()));
        let listed = names(&["chat.example"], &[], false);
        assert_eq!(
            asked(&listed, &evil),
            Err(Refused::Host("evil.example".to_owned()))
        );
        let listed = names(&[], &["http://a.example"], false);
        let refused = Refused::Origin("http://evil.example:1".to_owned());
        assert_eq!(asked(&listed, &evil), Err(refused));
    }

    #[test]
    fn a_request_names_the_server_once() {
        let names = names(&[], &[], false);
        assert_eq!(asked(&names, &[]), Err(Refused::NoHost));
        assert_eq!(
            asked(&names, &[("host", "a"), ("host", "a")]),
            Err(Refused::Hosts(2))
        );
        assert_eq!(asked(&names, &[("host", "a b")]), Err(Refused::BadHost));
        assert_eq!(asked(&names, &[("host", "")]), Err(Refused::BadHost));
    }
}
