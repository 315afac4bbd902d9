use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::admission::Phase;
use crate::error::ServerError;
use crate::state::Shared;

/// How often the engine's health is looked at.
const GLANCE: Duration = Duration::from_millis(500);

/// How long an answer may wait for its reader when nothing else is left to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was told to stop, and everything that ran was answered first.
    Drained,
    /// It was told to stop at once.
    AtOnce,
}

/// Requests to stop, as they come.
#[derive(Clone, Debug)]
pub struct StopRequests(watch::Receiver<u32>);

/// Where requests to stop are made.
#[derive(Debug)]
pub struct Stopper(watch::Sender<u32>);

impl Stopper {
    /// Asks the server to stop; a second time, to stop at once.
    pub fn stop(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

impl StopRequests {
    /// Requests that the returned stopper makes.
    pub fn new() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(0);
        (Stopper(sender), Self(receiver))
    }

    /// Requests by SIGTERM and SIGINT. Must be called inside a runtime.
    pub fn by_signals() -> std::io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (stopper, requests) = Self::new();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    () = stopper.0.closed() => return,
                }
                stopper.stop();
            }
        });
        Ok(requests)
    }

    /// Resolves when there were `count` requests; never when nobody can make them any more.
    pub(crate) async fn reached(&mut self, count: u32) {
        if self.0.wait_for(|made| *made >= count).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Resolves when the server should stop listening: after a request to stop, when all is answered.
pub(crate) async fn supervise(
    state: &Shared,
    mut requests: StopRequests,
) -> Result<Stopped, ServerError> {
    tokio::select! {
        () = requests.reached(1) => {}
        () = lost(state) => return Err(ServerError::EngineLost),
    }
    state.admission.advance(Phase::Draining);
    state.engine.drain();
    let open = state.admission.inside();
    tracing::info!("Gracefully exiting... Remaining number of requests {open}.");
    if open > 0 {
        tracing::info!("Waiting for them to end; a second signal exits at once.");
    }
    let answered = async {
        tokio::select! {
            () = state.admission.empty() => {}
            () = unread(state) => {
                let open = state.admission.inside();
                tracing::warn!("Nobody reads the answers to {open} requests; exiting without.");
            }
        }
        state.engine.idle().await;
    };
    tokio::select! {
        () = answered => if state.engine.is_healthy() {
            Ok(Stopped::Drained)
        } else {
            Err(ServerError::EngineLost)
        },
        () = requests.reached(2) => {
            let open = state.admission.inside();
            tracing::warn!("Exiting at once; requests that are cut off: {open}.");
            Ok(Stopped::AtOnce)
        }
        () = lost(state) => Err(ServerError::EngineLost),
    }
}

/// Resolves when the engine has had nothing to do for a while: who is inside then does not read.
async fn unread(state: &Shared) {
    let steps = || state.engine.stats().scheduler.steps;
    loop {
        state.engine.idle().await;
        let before = steps();
        tokio::time::sleep(PATIENCE).await;
        if steps() == before {
            return;
        }
    }
}

/// Resolves when the engine has ended by itself.
async fn lost(state: &Shared) {
    let mut glances = tokio::time::interval(GLANCE);
    loop {
        glances.tick().await;
        if !state.engine.is_healthy() {
            return;
        }
    }
}
