use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use serde_json::json;

use crate::state::Shared;

/// Lets requests pass that bring the key, and those that need none.
pub(crate) async fn check(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let is_open = is_open(request.uri().path());
    let allowed = match &state.config.api_key {
        None => true,
        Some(_) if is_open || request.method() == Method::OPTIONS => true,
        Some(key) => {
            let header = request.headers().get(AUTHORIZATION);
            header.is_some_and(|value| is_bearer(value.as_bytes(), key))
        }
    };
    if allowed {
        return next.run(request).await;
    }
    (
        StatusCode::UNAUTHORIZED,
        Json(json!({"error": "Unauthorized"})),
    )
        .into_response()
}

/// Whether a path is open to everybody.
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with("/health") || path.starts_with("/metrics")
}

/// Takes the same time wherever the first difference is.
fn is_bearer(value: &[u8], key: &str) -> bool {
    let expected = [b"Bearer ", key.as_bytes()].concat();
    let differences = value
        .iter()
        .zip(&expected)
        .fold(0, |all, (a, b)| all | (a ^ b));
    value.len() == expected.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::is_bearer;

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
}
