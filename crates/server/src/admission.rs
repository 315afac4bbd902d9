use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use engine::RequestError;
use tokio::sync::watch;

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Requests are served, but nobody was told.
    Starting,
    /// Up and ready.
    Ready,
    /// What runs may end; nothing new begins.
    Draining,
}

/// Who may come in, and who is in.
#[derive(Debug)]
pub(crate) struct Admission {
    phase: AtomicU8,
    inside: Arc<watch::Sender<usize>>,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            inside: Arc::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Goes on to `phase`; there is no way back.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Lets a request in, unless the server is going away.
    pub(crate) fn enter(&self) -> Result<Visit, RequestError> {
        if self.phase() == Phase::Draining {
            return Err(RequestError::ShuttingDown);
        }
        self.inside.send_modify(|inside| *inside += 1);
        Ok(Visit(Arc::clone(&self.inside)))
    }

    /// Requests whose answer is not complete.
    pub(crate) fn inside(&self) -> usize {
        *self.inside.borrow()
    }

    /// Resolves when there are none.
    pub(crate) async fn empty(&self) {
        let mut inside = self.inside.subscribe();
        // The sender lives as long as `self`.
        let _ = inside.wait_for(|inside| *inside == 0).await;
    }
}

/// One request that is inside until this is dropped.
#[derive(Debug)]
pub(crate) struct Visit(Arc<watch::Sender<usize>>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.send_modify(|inside| *inside -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_go_forward() {
        let admission = Admission::new();
        assert_eq!(admission.phase(), Phase::Starting);
        admission.advance(Phase::Draining);
        admission.advance(Phase::Ready);
        assert_eq!(admission.phase(), Phase::Draining);
        assert_eq!(admission.enter().unwrap_err(), RequestError::ShuttingDown);
    }

    #[tokio::test]
    async fn the_house_is_empty_when_the_last_visit_ends() {
        let admission = Arc::new(Admission::new());
        let visits = [admission.enter().unwrap(), admission.enter().unwrap()];
        assert_eq!(admission.inside(), 2);
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.empty().await }
        });
        drop(visits);
        waiting.await.unwrap();
        assert_eq!(admission.inside(), 0);
    }
}
