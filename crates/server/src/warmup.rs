use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use serde_json::json;
use tower::ServiceExt as _;

use crate::error::ServerError;
use crate::state::Shared;

/// The longest that a first request may take: devices compile, page in and allocate.
const LIMIT: Duration = Duration::from_mins(10);
/// What is read of an answer.
const ANSWER: usize = 1 << 20;

/// Sends the server its first request, past the network: that may want a certificate, or a name that we do not know.
pub(crate) async fn warm_up(
    state: &Shared,
    app: Router,
    address: SocketAddr,
) -> Result<(), ServerError> {
    let sampling = json!({"temperature": 0, "max_new_tokens": 8});
    let mut body = json!({"sampling_params": sampling});
    if state.text.is_some() {
        body["text"] = json!("The capital city of France is");
    } else {
        body["input_ids"] = json!([0]);
    }
    let mut request = Request::post("/generate")
        .extension(ConnectInfo(address))
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json");
    if let Some(key) = &state.config.keys.api {
        request = request.header(AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request.body(Body::from(body.to_string()));
    let request = request.map_err(|error| ServerError::Warmup(error.to_string()))?;
    let Ok(answer) = tokio::time::timeout(LIMIT, app.oneshot(request)).await else {
        return Err(ServerError::Warmup(format!("no answer in {LIMIT:?}")));
    };
    let Ok(answer) = answer;
    let status = answer.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    let text = axum::body::to_bytes(answer.into_body(), ANSWER).await;
    let text = text.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    Err(ServerError::Warmup(format!("{status}: {text}")))
}
