use std::sync::Arc;
use std::sync::mpsc::Sender;

use sampling::{FinishReason, Token, TokenLogProbs};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::RequestFailed;
use crate::canceller::Canceller;
use crate::command::{Command, RequestKey};
use crate::handle::Shared;

/// What a stream yields.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenEvent {
    /// Progress of the sequence.
    Progress(TokenProgress),
    /// The engine broke; the stream ends.
    Failed(RequestFailed),
}

/// What is new about a sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenProgress {
    /// Tokens produced since the last event; may be empty in the last one.
    pub tokens: Vec<Token>,
    /// One entry per token of `tokens`, when asked for.
    pub log_probs: Vec<TokenLogProbs>,
    /// Log-probabilities of further prompt tokens, when asked for.
    pub prompt_log_probs: Vec<TokenLogProbs>,
    /// Prompt tokens found in the cache.
    pub cached_tokens: u32,
    /// How often the sequence was taken back to the queue.
    pub retractions: u32,
    /// Seconds from arrival at the engine to the first step.
    pub queue_seconds: f64,
    /// Set in the last event.
    pub finish: Option<FinishReason>,
}

impl TokenProgress {
    fn merge(&mut self, later: Self) {
        self.tokens.extend(later.tokens);
        self.log_probs.extend(later.log_probs);
        self.prompt_log_probs.extend(later.prompt_log_probs);
        self.cached_tokens = later.cached_tokens;
        self.retractions = later.retractions;
        self.queue_seconds = later.queue_seconds;
        self.finish = later.finish;
    }
}

/// The tokens of one sequence as they come; dropping it cancels the sequence.
pub struct TokenStream {
    key: RequestKey,
    events: UnboundedReceiver<TokenEvent>,
    commands: Sender<Command>,
    shared: Arc<Shared>,
    /// A failure that arrived behind progress and waits its turn.
    failed: Option<RequestFailed>,
    ended: bool,
}

impl TokenStream {
    pub(crate) fn new(
        key: RequestKey,
        events: UnboundedReceiver<TokenEvent>,
        commands: Sender<Command>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            key,
            events,
            commands,
            shared,
            failed: None,
            ended: false,
        }
    }

    /// Everything that happened since the last call, as one event; `None` after the end.
    ///
    /// A slow reader gets fewer and larger events; nobody waits for it.
    pub async fn next(&mut self) -> Option<TokenEvent> {
        if let Some(failed) = self.failed.take() {
            return Some(TokenEvent::Failed(failed));
        }
        if self.ended {
            return None;
        }
        let first = self.events.recv().await;
        let Some(TokenEvent::Progress(mut progress)) = first else {
            self.ended = true;
            return first;
        };
        while let Ok(event) = self.events.try_recv() {
            match event {
                TokenEvent::Progress(later) => progress.merge(later),
                TokenEvent::Failed(failed) => {
                    self.failed = Some(failed);
                    self.ended = true;
                }
            }
        }
        self.ended |= progress.finish.is_some();
        Some(TokenEvent::Progress(progress))
    }
}

impl TokenStream {
    /// A way to cancel the sequence from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            key: self.key,
            commands: self.commands.clone(),
        }
    }

    /// Ends a sequence of which the client has all it wanted: it counts as finished, not as cancelled.
    pub fn complete(mut self) {
        if !self.ended {
            self.ended = true;
            // An engine that is gone has nothing left to end.
            let _ = self.commands.send(Command::Complete(self.key));
        }
    }
}

impl Drop for TokenStream {
    fn drop(&mut self) {
        self.shared.clients.remove(self.key);
        if !self.ended {
            self.canceller().cancel();
        }
    }
}
