use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use protocol::native::{AbortRequest, FlushCacheQuery};

use crate::error::{ApiError, NativeError};
use crate::extract::{AdminJson, NativeQuery};
use crate::state::Shared;

/// Seconds that a flush waits at most for the engine to be idle.
const MAX_FLUSH_WAIT: f64 = 3600.0;

/// The same where the request does not say: that a client has closed its connection is seen a moment later.
const FLUSH_WAIT: f64 = 0.1;

/// `/flush_cache`
pub(crate) async fn flush_cache(
    State(state): State<Shared>,
    NativeQuery(query): NativeQuery<FlushCacheQuery>,
) -> Response {
    let wait = query.timeout.unwrap_or(FLUSH_WAIT);
    if wait > 0.0 {
        let limit = Duration::from_secs_f64(wait.min(MAX_FLUSH_WAIT));
        // Busy until the end of the wait is what the flush itself finds out.
        let _ = tokio::time::timeout(limit, state.engine.idle()).await;
    }
    if state.engine.flush_cache().await {
        tracing::info!("Cache flushed successfully!");
        let text = "Cache flushed.\nPlease check backend logs for more details. (When there are \
                    running or waiting requests, the operation will not be performed.)\n";
        return text.into_response();
    }
    let now = state.engine.stats().scheduler;
    tracing::warn!(
        "Cache not flushed because there are pending requests. #queue-req: {}, #running-req: {}",
        now.waiting,
        now.running
    );
    let text = "Cache not flushed: requests run or wait.\n";
    (StatusCode::BAD_REQUEST, text).into_response()
}

/// `/abort_request`
pub(crate) async fn abort_request(
    State(state): State<Shared>,
    AdminJson(request): AdminJson<AbortRequest>,
) -> Result<StatusCode, NativeError> {
    let (who, ended) = match (request.rid, request.abort_all) {
        (_, Some(true)) => ("all".to_owned(), state.running.abort_all()),
        (Some(rid), _) if !rid.is_empty() => {
            let ended = state.running.abort(&rid);
            (rid, ended)
        }
        _ => return Err(ApiError::invalid("Either rid or abort_all should be provided.").into()),
    };
    tracing::info!(
        "Abort: rid={}, outputs={ended}: asked for",
        who.escape_debug()
    );
    Ok(StatusCode::OK)
}

/// `/freeze_gc`: there is no garbage here.
pub(crate) async fn freeze_gc() -> &'static str {
    "Garbage collection frozen.\n"
}
