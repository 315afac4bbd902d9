use std::sync::Arc;

use engine::{TokenEvent, TokenProgress, TokenStream};
use protocol::native::{FinishReason, Timing};
use sampling::{Token, TokenLogProbs};

use crate::clock::{SequenceClock, Tick};
use crate::config::RequestLog;
use crate::decoder::{self, Decoder};
use crate::metrics::{FinishedSequence, Metrics};
use crate::running::Ticket;

/// A sequence that runs: its tokens as they come, and what they say. Dropping it cancels it.
pub(crate) struct Sequence {
    pub(crate) stream: Option<TokenStream>,
    pub(crate) ticket: Ticket,
    pub(crate) decoder: Decoder,
    pub(crate) clock: SequenceClock,
    /// Tokens to wait for before something is said; the first is said at once.
    pub(crate) interval: usize,
    pub(crate) counts: Counts,
    pub(crate) reporting: Reporting,
}

/// How much of a sequence anybody hears.
pub(crate) struct Reporting {
    pub(crate) metrics: Arc<Metrics>,
    /// Whether it counts there; that it was ended before its time always does.
    pub(crate) counted: bool,
    /// Whether timing is told to the client in detail.
    pub(crate) detailed_timing: bool,
    pub(crate) log: RequestLog,
    /// Not even that it was given up is logged.
    pub(crate) silent: bool,
}

impl Reporting {
    /// So many tokens came together.
    fn tokens(&self, tick: Tick, count: usize) {
        match tick {
            _ if !self.counted => {}
            Tick::First(seconds) => self.metrics.first_token(seconds),
            Tick::Later(seconds) => self.metrics.later_tokens(seconds, count),
        }
    }
}

/// How many tokens a sequence has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) prompt_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) cached_tokens: usize,
    pub(crate) retractions: u32,
    pub(crate) queue_seconds: f64,
}

/// What is new about a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    pub(crate) log_probs: Vec<TokenLogProbs>,
    pub(crate) prompt_log_probs: Vec<TokenLogProbs>,
    /// Of the whole sequence so far.
    pub(crate) counts: Counts,
    /// With the last one, the end and when things happened.
    pub(crate) end: Option<End>,
}

/// The end of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) reason: FinishReason,
    pub(crate) timing: Timing,
}

impl Sequence {
    /// What came since the last call; `None` after the end.
    pub(crate) async fn next(&mut self) -> Option<Delta> {
        let mut delta = Delta::default();
        loop {
            let stream = self.stream.as_mut()?;
            let event = tokio::select! {
                biased;
                () = self.ticket.aborted() => None,
                event = stream.next() => Some(event),
            };
            let reason = match event {
                None => Some(decoder::cancelled()),
                Some(Some(TokenEvent::Progress(progress))) => self.absorb(progress, &mut delta),
                Some(Some(TokenEvent::Failed(failure))) => Some(decoder::failed(failure.message)),
                Some(None) => Some(decoder::failed("the engine is gone".to_owned())),
            };
            delta.counts = self.counts;
            if let Some(reason) = reason {
                self.finish(reason, &mut delta);
                return Some(delta);
            }
            let first = self.counts.completion_tokens == delta.tokens.len();
            if !delta.tokens.is_empty() && (first || delta.tokens.len() >= self.interval) {
                return Some(delta);
            }
        }
    }

    fn absorb(&mut self, progress: TokenProgress, delta: &mut Delta) -> Option<FinishReason> {
        if !progress.tokens.is_empty() {
            let tick = self.clock.tick();
            self.reporting.tokens(tick, progress.tokens.len());
        }
        let decoded = self.decoder.push(&progress.tokens, progress.finish);
        delta.text.push_str(&decoded.text);
        delta
            .tokens
            .extend(progress.tokens.into_iter().take(decoded.kept));
        delta
            .log_probs
            .extend(progress.log_probs.into_iter().take(decoded.kept));
        delta.prompt_log_probs.extend(progress.prompt_log_probs);
        self.counts.completion_tokens = self.decoder.tokens();
        self.counts.cached_tokens = progress.cached_tokens as usize;
        self.counts.retractions = progress.retractions;
        self.counts.queue_seconds = progress.queue_seconds;
        decoded.finish
    }

    fn finish(&mut self, reason: FinishReason, delta: &mut Delta) {
        if let Some(stream) = self.stream.take() {
            stream.complete();
        }
        let counts = self.counts;
        let timing = self.clock.timing(&counts, self.reporting.detailed_timing);
        if matches!(reason, FinishReason::Abort { .. }) {
            self.reporting.metrics.aborted();
        } else if self.reporting.counted {
            self.reporting.metrics.finished(&FinishedSequence {
                prompt_tokens: counts.prompt_tokens,
                completion_tokens: counts.completion_tokens,
                cached_tokens: counts.cached_tokens,
                retractions: counts.retractions,
                stages: self.clock.stages(counts.queue_seconds),
                end_to_end_seconds: timing.e2e_latency,
            });
        }
        if self.reporting.log == RequestLog::Summary {
            tracing::info!(
                "Finish: rid={}, output_tokens={}, cached_tokens={}, finish_reason={}, e2e_latency={:.3}",
                self.ticket.name().escape_debug(),
                counts.completion_tokens,
                counts.cached_tokens,
                reason.word(),
                timing.e2e_latency,
            );
        }
        delta.end = Some(End { reason, timing });
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if self.stream.is_some() {
            self.reporting.metrics.aborted();
        }
    }
}
