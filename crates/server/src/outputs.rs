use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::native::FinishReason;
use sampling::{LogProbRequest, Token};

use crate::admission::Visit;
use crate::error::ApiError;
use crate::running::Claim;
use crate::sequence::{Delta, Sequence};

/// The sequences of one request, driven by whoever asks for the next piece of any of them.
pub(crate) struct Outputs {
    sequences: Sequences,
    facts: Vec<Facts>,
    /// Sequences that have not ended.
    open: usize,
    /// Tokens of all so far.
    tokens: usize,
    silent: bool,
    _visit: Visit,
    _claim: Claim,
}

/// What stays true of a sequence from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The name of its request.
    pub(crate) id: Arc<str>,
    /// Its own: the same, or where a request has several choices, with its number behind.
    pub(crate) name: Arc<str>,
    pub(crate) prompt: Arc<[Token]>,
    pub(crate) log_probs: Option<Arc<LogProbRequest>>,
}

enum Sequences {
    One(Box<Sequence>),
    Many(FuturesUnordered<Next>),
}

type Next = Pin<Box<dyn Future<Output = (usize, Sequence, Option<Delta>)> + Send>>;

impl Outputs {
    pub(crate) fn new(sequences: Vec<(Facts, Sequence)>, visit: Visit, claim: Claim) -> Self {
        let (facts, mut sequences): (Vec<_>, Vec<_>) = sequences.into_iter().unzip();
        let first = sequences.first();
        let silent = first.is_none_or(|sequence| sequence.reporting.silent);
        let sequences = match sequences.pop() {
            Some(only) if sequences.is_empty() => Sequences::One(Box::new(only)),
            last => {
                let all = sequences.into_iter().chain(last).enumerate();
                Sequences::Many(all.map(|(index, sequence)| wait(index, sequence)).collect())
            }
        };
        Self {
            sequences,
            open: facts.len(),
            tokens: 0,
            facts,
            silent,
            _visit: visit,
            _claim: claim,
        }
    }

    /// What stays true of each sequence.
    pub(crate) fn facts(&self) -> &[Facts] {
        &self.facts
    }

    /// The next piece of any sequence, with its number; `None` when all have ended.
    pub(crate) async fn next(&mut self) -> Option<(usize, Delta)> {
        let (index, delta) = self.next_of_any().await?;
        self.tokens += delta.tokens.len();
        self.open -= usize::from(delta.end.is_some());
        Some((index, delta))
    }

    async fn next_of_any(&mut self) -> Option<(usize, Delta)> {
        match &mut self.sequences {
            Sequences::One(sequence) => sequence.next().await.map(|delta| (0, delta)),
            Sequences::Many(waiting) => loop {
                let (index, sequence, delta) = waiting.next().await?;
                if let Some(delta) = delta {
                    if delta.end.is_none() {
                        waiting.push(wait(index, sequence));
                    }
                    return Some((index, delta));
                }
            },
        }
    }

    /// Every sequence to its end, in order.
    pub(crate) async fn collect(mut self) -> Vec<Delta> {
        let mut all = vec![Delta::default(); self.facts.len()];
        while let Some((index, delta)) = self.next().await {
            let whole = &mut all[index];
            whole.text.push_str(&delta.text);
            whole.tokens.extend(delta.tokens);
            whole.log_probs.extend(delta.log_probs);
            whole.prompt_log_probs.extend(delta.prompt_log_probs);
            whole.counts = delta.counts;
            whole.end = delta.end;
        }
        all
    }
}

impl Drop for Outputs {
    /// Whoever asked is gone before the end: nothing else would tell of the request.
    fn drop(&mut self) {
        if self.open > 0 && !self.silent {
            let id = self.facts.first().map_or("", |facts| &facts.id);
            tracing::info!(
                "Abort: rid={}, open_outputs={}, outputs={}, output_tokens={}: the client closed the connection",
                id.escape_debug(),
                self.open,
                self.facts.len(),
                self.tokens,
            );
        }
    }
}

fn wait(index: usize, mut sequence: Sequence) -> Next {
    Box::pin(async move {
        let delta = sequence.next().await;
        (index, sequence, delta)
    })
}

/// The error that the answer to a request becomes when its only sequence was broken by us.
pub(crate) fn failure(sequences: &[Delta]) -> Result<(), ApiError> {
    let [only] = sequences else { return Ok(()) };
    match only.end.as_ref().map(|end| &end.reason) {
        Some(FinishReason::Abort {
            message,
            status_code: Some(status),
            ..
        }) => Err(ApiError::Aborted {
            message: message.clone(),
            status: *status,
        }),
        _ => Ok(()),
    }
}
