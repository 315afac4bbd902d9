use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde_json::json;
use subtle::ConstantTimeEq as _;

use crate::route::Route;

/// What requests must bring.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// For every request but `/health`, and for those of the next key where that is not set.
    pub api: Option<String>,
    /// For requests that change the server.
    pub admin: Option<String>,
    /// `/metrics` needs no key.
    pub public_metrics: bool,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |key: &Option<String>| key.as_ref().map(|_| "***");
        out.debug_struct("Keys")
            .field("api", &shown(&self.api))
            .field("admin", &shown(&self.admin))
            .field("public_metrics", &self.public_metrics)
            .finish()
    }
}

/// Who may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Open,
    /// Clients.
    Client,
    /// Whoever reads metrics.
    Metrics,
    /// Whoever runs the server.
    Admin,
}

impl Keys {
    /// The key that a path needs, as SGLang has it but for metrics, which are open there.
    pub(crate) fn needed(&self, access: Access) -> Option<&str> {
        match access {
            Access::Open => None,
            Access::Metrics if self.public_metrics => None,
            Access::Client | Access::Metrics => self.api.as_deref(),
            Access::Admin => self.admin.as_deref().or(self.api.as_deref()),
        }
    }

    /// Whether anything needs a key.
    pub(crate) fn are_set(&self) -> bool {
        self.api.is_some() || self.admin.is_some()
    }
}

/// The keys and what they open.
#[derive(Debug)]
pub(crate) struct AccessRules {
    keys: Keys,
    access: HashMap<&'static str, Access>,
}

impl AccessRules {
    pub(crate) fn new(keys: Keys, routes: &[Route]) -> Self {
        let access = routes.iter().map(|route| (route.path, route.access));
        Self {
            keys,
            access: access.collect(),
        }
    }

    fn allow(&self, request: &Request) -> bool {
        let path = request.extensions().get::<MatchedPath>();
        // What is not there looks like the rest to those without a key.
        let access = path.and_then(|path| self.access.get(path.as_str()));
        let Some(key) = self.keys.needed(*access.unwrap_or(&Access::Client)) else {
            return true;
        };
        let brought = request.headers().get(AUTHORIZATION);
        request.method() == Method::OPTIONS
            || brought.is_some_and(|value| is_bearer(value.as_bytes(), key))
    }
}

/// Lets requests pass that bring the key, and those that need none.
pub(crate) async fn check(
    State(rules): State<Arc<AccessRules>>,
    request: Request,
    next: Next,
) -> Response {
    if rules.allow(&request) {
        return next.run(request).await;
    }
    (
        StatusCode::UNAUTHORIZED,
        [(WWW_AUTHENTICATE, "Bearer")],
        Json(json!({"error": "Unauthorized"})),
    )
        .into_response()
}

/// Takes the same time wherever the first difference is.
fn is_bearer(value: &[u8], key: &str) -> bool {
    let key_given = value.strip_prefix(b"Bearer ");
    key_given.is_some_and(|given| given.ct_eq(key.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_the_key() {
        assert!(is_bearer(b"Bearer secret", "secret"));
        for wrong in [
            &b"Bearer secre"[..],
            b"Bearer secrets",
            b"bearer secret",
            b"secret",
            b"",
        ] {
            assert!(!is_bearer(wrong, "secret"));
        }
    }

    #[test]
    fn keys_open_what_they_open_in_sglang() {
        let keys = |api: Option<&str>, admin: Option<&str>| Keys {
            api: api.map(str::to_owned),
            admin: admin.map(str::to_owned),
            public_metrics: false,
        };
        for (api, admin, client, operator) in [
            (None, None, None, None),
            (Some("a"), None, Some("a"), Some("a")),
            (None, Some("b"), None, Some("b")),
            (Some("a"), Some("b"), Some("a"), Some("b")),
        ] {
            let keys = keys(api, admin);
            assert_eq!(keys.needed(Access::Open), None);
            assert_eq!(keys.needed(Access::Client), client);
            assert_eq!(keys.needed(Access::Metrics), client);
            assert_eq!(keys.needed(Access::Admin), operator);
            assert!(!format!("{keys:?}").contains("\"a\""));
        }
        let open = Keys {
            public_metrics: true,
            ..keys(Some("a"), None)
        };
        assert_eq!(open.needed(Access::Metrics), None);
        assert_eq!(open.needed(Access::Client), Some("a"));
    }
}
