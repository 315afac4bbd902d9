use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::oneshot;

/// Why steps are not recorded, or a recording is not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// One is recorded already.
    #[error("Profiling is already in progress. Call /stop_profile first.")]
    Running,
    /// One was ended, and its trace is still being put together.
    #[error(
        "The trace of the last profiling is still being put together. Try again when it is saved."
    )]
    Ending,
    /// There is none to end.
    #[error("Profiling is not in progress. Call /start_profile first.")]
    NotRunning,
    /// The engine is gone.
    #[error("the server is shutting down")]
    EngineGone,
}

/// A recording that has begun.
#[must_use = "nobody else is given its trace"]
#[derive(Debug)]
pub struct Recording {
    trace: oneshot::Receiver<String>,
    running: Arc<()>,
}

impl Recording {
    /// The Chrome trace, once the recording has ended; none where the engine ended before.
    pub async fn trace(self) -> Option<String> {
        let trace = self.trace.await.ok();
        drop(self.running);
        trace
    }
}

/// What handles know of the recording; the engine thread does what they ask, in the order they ask it.
#[derive(Default)]
pub(crate) struct Recorded(Mutex<Latest>);

/// The newest recording: the device has one tracer, so another begins only when this one's trace has been handed over.
#[derive(Default)]
struct Latest {
    running: Weak<()>,
    /// Whoever asked for its end, or it ended by itself.
    is_ended: bool,
}

impl Recorded {
    /// Begins one, unless one runs; `ask` tells the engine thread and says whether that still listens.
    pub(crate) fn begin(
        &self,
        ask: impl FnOnce(oneshot::Sender<String>) -> bool,
    ) -> Result<Recording, RecordingError> {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.running.strong_count() > 0 {
            return Err(if latest.is_ended {
                RecordingError::Ending
            } else {
                RecordingError::Running
            });
        }
        let (result, trace) = oneshot::channel();
        if !ask(result) {
            return Err(RecordingError::EngineGone);
        }
        let running = Arc::new(());
        *latest = Latest {
            running: Arc::downgrade(&running),
            is_ended: false,
        };
        Ok(Recording { trace, running })
    }

    /// Ends the one that runs; `ask` is as above.
    pub(crate) fn end(&self, ask: impl FnOnce() -> bool) -> Result<(), RecordingError> {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.running.strong_count() == 0 || latest.is_ended {
            return Err(RecordingError::NotRunning);
        }
        latest.is_ended = true;
        ask().then_some(()).ok_or(RecordingError::EngineGone)
    }

    /// The one that ran records no more; its trace has not been handed over yet.
    pub(crate) fn mark_ended(&self) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.is_ended = true;
    }
}
