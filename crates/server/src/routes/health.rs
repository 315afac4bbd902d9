use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use engine::{RequestError, TokenEvent};
use http::StatusCode;
use tokio::sync::watch;
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
        HealthCheck::Alive(_) => status(is_up(&state)),
    }
}

/// `/health_generate`
pub(crate) async fn health_generate(State(state): State<Shared>) -> StatusCode {
    generates(&state, state.config.health.limit()).await
}

/// `/ready`
pub(crate) async fn ready(State(state): State<Shared>) -> StatusCode {
    status(is_up(&state))
}

/// `/ping`
pub(crate) async fn ping() -> StatusCode {
    StatusCode::OK
}

fn status(is_well: bool) -> StatusCode {
    if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn is_up(state: &state::State) -> bool {
    state.admission.phase() == Phase::Ready && state.engine.is_healthy()
}

/// The check that runs, if one does: whoever asks meanwhile hears what it finds.
#[derive(Debug, Default)]
pub(crate) struct Checking(std::sync::Mutex<Option<watch::Receiver<Option<bool>>>>);

/// Whether the engine produces anything, for us or for others, within `limit`.
async fn generates(state: &Shared, limit: Duration) -> StatusCode {
    if !is_up(state) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let mut running = joined(state, limit);
    let found = running.wait_for(Option::is_some).await;
    status(found.is_ok_and(|found| *found == Some(true)) && is_up(state))
}

/// The check that runs, or a new one.
fn joined(state: &Shared, limit: Duration) -> watch::Receiver<Option<bool>> {
    let checking = &state.checking.0;
    let mut checking = checking
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(running) = &*checking
        && running.borrow().is_none()
        && running.has_changed().is_ok()
    {
        return running.clone();
    }
    let (sender, running) = watch::channel(None);
    *checking = Some(running.clone());
    let state = Arc::clone(state);
    tokio::spawn(async move {
        let found = advances(&state, limit).await;
        sender.send_replace(Some(found));
    });
    running
}

/// Sees the engine finish a step: one of those it has to do, or, when it has none, one for us.
async fn advances(state: &state::State, limit: Duration) -> bool {
    let completed_before = state.engine.stats().completed_steps;
    let deadline = Instant::now() + limit;
    let mut probe = None;
    while Instant::now() < deadline && state.engine.is_healthy() {
        if probe.is_none() && !state.engine.is_busy() {
            probe = match state.engine.probe() {
                Ok(probe) => Some(probe),
                Err(RequestError::QueueFull) => None,
                Err(_) => return false,
            };
        }
        let glance = deadline.min(Instant::now() + GLANCE);
        let event = timeout_at(glance, async {
            match &mut probe {
                Some(probe) => probe.next().await,
                None => std::future::pending().await,
            }
        });
        match event.await {
            Ok(Some(TokenEvent::Progress(_))) => return true,
            Ok(_) => return false,
            Err(_) if state.engine.stats().completed_steps > completed_before => return true,
            Err(_) => {}
        }
    }
    false
}
