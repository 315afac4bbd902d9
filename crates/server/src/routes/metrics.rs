use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::metrics;
use crate::state::Shared;

/// `/metrics`
pub(crate) async fn metrics(State(state): State<Shared>) -> Response {
    let text = state
        .metrics
        .exposition(&state.engine.stats(), state.room(), state.unknown.count());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
