use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};

use crate::command::RequestKey;
use crate::{RequestError, RequestFailed, TokenEvent};

/// Who reads tokens, for the day when the device is lost; the engine thread may not be able to tell them anything then.
/// Touched when a request begins and when it ends, not on the way of its tokens.
#[derive(Default)]
pub(crate) struct Clients(Mutex<Reached>);

#[derive(Default)]
struct Reached {
    streams: BTreeMap<RequestKey, WeakUnboundedSender<TokenEvent>>,
    failed: bool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses when all have been told already that it is over.
    pub(crate) fn add(
        &self,
        key: RequestKey,
        events: &UnboundedSender<TokenEvent>,
    ) -> Result<(), RequestError> {
        let mut reached = self.lock();
        if reached.failed {
            return Err(RequestError::ShuttingDown);
        }
        reached.streams.insert(key, events.downgrade());
        Ok(())
    }

    pub(crate) fn remove(&self, key: RequestKey) {
        self.lock().streams.remove(&key);
    }

    /// Fails everybody, now and from now on.
    pub(crate) fn fail(&self, message: &str) {
        let mut reached = self.lock();
        reached.failed = true;
        for (_, events) in std::mem::take(&mut reached.streams) {
            let failed = RequestFailed {
                message: message.to_owned(),
            };
            // A stream that is closed has ended by itself.
            if let Some(events) = events.upgrade() {
                let _ = events.send(TokenEvent::Failed(failed));
            }
        }
    }
}
