use std::sync::Arc;
use std::sync::atomic::Ordering;

use sampling::SamplingParams;

use crate::handle::Shared;
use crate::{EngineHandle, GenerateRequest, RequestError, TokenEvent, TokenStream};

/// A sequence of one token that shows that the engine works. It has a place of its own beside those of the queue.
pub struct Probe {
    stream: TokenStream,
    _place: Place,
}

impl Probe {
    /// The next event of the sequence; `None` after the end.
    pub async fn next(&mut self) -> Option<TokenEvent> {
        self.stream.next().await
    }
}

/// Room for one more in the queue until it is dropped.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl EngineHandle {
    /// Generates a token for nobody.
    pub fn probe(&self) -> Result<Probe, RequestError> {
        self.shared.probes.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.shared));
        let stream = self.generate(GenerateRequest {
            prompt: Arc::from([0]),
            params: Arc::new(SamplingParams::greedy(1)),
            choice: 0,
            log_probs: None,
            namespace: None,
            priority: None,
        })?;
        Ok(Probe {
            stream,
            _place: place,
        })
    }

    /// Whether anything runs or waits.
    pub fn is_busy(&self) -> bool {
        self.shared.inbox.load(Ordering::Acquire) > 0 || *self.active.borrow() > 0
    }
}
