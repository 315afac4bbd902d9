use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use engine::{GenerateRequest, RequestError};
use http::StatusCode;
use sampling::SamplingParams;
use tokio::time::{Instant, timeout_at};

use crate::admission::Phase;
use crate::config::HealthCheck;
use crate::state::{self, Shared};

/// How often a busy engine is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// `/health`
pub(crate) async fn health(State(state): State<Shared>) -> StatusCode {
    match state.config.health {
        HealthCheck::Generate(limit) => generates(&state, limit).await,
        HealthCheck::Alive(_) if is_up(&state) => StatusCode::OK,
        HealthCheck::Alive(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// `/health_generate`
pub(crate) async fn health_generate(State(state): State<Shared>) -> StatusCode {
    generates(&state, state.config.health.limit()).await
}

/// `/ready`
pub(crate) async fn ready(State(state): State<Shared>) -> StatusCode {
    if is_up(&state) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// `/ping`
pub(crate) async fn ping() -> StatusCode {
    StatusCode::OK
}

fn is_up(state: &state::State) -> bool {
    state.admission.phase() == Phase::Ready && state.engine.is_healthy()
}

/// Whether the engine produces anything, for us or for others, within `limit`.
async fn generates(state: &state::State, limit: Duration) -> StatusCode {
    if !is_up(state) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let steps_before = state.engine.stats().scheduler.steps;
    let request = GenerateRequest {
        prompt: Arc::from([0]),
        params: Arc::new(SamplingParams::greedy(1)),
        choice: 0,
        log_probs: None,
        namespace: None,
        priority: 0,
    };
    let mut stream = match state.engine.generate(request) {
        Ok(stream) => Some(stream),
        // Others keep the engine busy; their progress is as good as ours.
        Err(RequestError::QueueFull) => None,
        Err(_) => return StatusCode::SERVICE_UNAVAILABLE,
    };
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline && state.engine.is_healthy() {
        let glance = deadline.min(Instant::now() + GLANCE);
        let event = timeout_at(glance, async {
            match &mut stream {
                Some(stream) => stream.next().await,
                None => std::future::pending().await,
            }
        });
        match event.await {
            Ok(Some(engine::TokenEvent::Progress(_))) => return StatusCode::OK,
            Ok(_) => return StatusCode::SERVICE_UNAVAILABLE,
            Err(_) if state.engine.stats().scheduler.steps > steps_before => return StatusCode::OK,
            Err(_) => {}
        }
    }
    StatusCode::SERVICE_UNAVAILABLE
}
