use std::time::Duration;

use scheduler::{DecodeEvent, Event};

use crate::Measured;

/// Writes the log lines that dashboards and people read, in SGLang's words.
pub(crate) struct StepLog {
    interval: usize,
    largest_graph: usize,
    captured: bool,
    decode_steps: usize,
    tokens_since: u64,
    since: Duration,
    throughput: f64,
    /// True when a `Decode batch` line was written and the interval's steps have not been told of yet.
    told: bool,
}

impl StepLog {
    pub(crate) fn new(interval: usize, largest_graph: usize) -> Self {
        Self {
            interval: interval.max(1),
            largest_graph,
            captured: false,
            decode_steps: 0,
            tokens_since: 0,
            since: Duration::ZERO,
            throughput: 0.0,
            told: false,
        }
    }

    /// True once after every `Decode batch` line.
    pub(crate) fn ends_interval(&mut self) -> bool {
        std::mem::take(&mut self.told)
    }

    /// How near the interval's steps came to what memory allows; a line of its own, since tools read the one before.
    pub(crate) fn measured(measured: &Measured) {
        let Some(share) = measured.share() else {
            return;
        };
        let millis = |seconds: f64| 1e3 * seconds / measured.steps as f64;
        tracing::info!(
            "Decode steps, measured: {:.3} ms, floor: {:.3} ms, floor/measured: {:.1} %, #steps: {}",
            millis(measured.seconds),
            millis(measured.floor_seconds),
            100.0 * share,
            measured.steps,
        );
    }

    /// Whether the last generating step was small enough to be a captured one.
    pub(crate) fn captured(&self) -> bool {
        self.captured
    }

    /// Tokens a second over the last interval.
    pub(crate) fn throughput(&self) -> f64 {
        self.throughput
    }

    pub(crate) fn count_tokens(&mut self, tokens: usize) {
        self.tokens_since += tokens as u64;
    }

    /// Nothing runs any more: time that passes now is not generation time.
    pub(crate) fn rest(&mut self, now: Duration) {
        self.since = now;
        self.tokens_since = 0;
    }

    pub(crate) fn event(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Prefill(prefill) => tracing::info!(
                "Prefill batch, #new-seq: {}, #new-token: {}, #cached-token: {}, token usage: {:.2}, #running-req: \
                 {}, #queue-req: {}, ",
                prefill.new_sequences,
                prefill.new_tokens,
                prefill.cached_tokens,
                prefill.token_usage,
                prefill.running,
                prefill.waiting,
            ),
            Event::Decode(decode) => self.decode(decode, now),
            Event::Retract(retract) => tracing::info!(
                "KV cache pool is full. Retract requests. #retracted_reqs: {}, #new_token_ratio: {:.4} -> {:.4}",
                retract.sequences,
                retract.ratio_before,
                retract.ratio_after,
            ),
            Event::Outrank(outrank) => tracing::info!(
                "Requests gave way to a more important one. #preempted_reqs: {}",
                outrank.sequences,
            ),
        }
    }

    fn decode(&mut self, decode: &DecodeEvent, now: Duration) {
        self.captured = decode.rows as usize <= self.largest_graph;
        self.decode_steps += 1;
        if !self.decode_steps.is_multiple_of(self.interval) {
            return;
        }
        let seconds = now.saturating_sub(self.since).as_secs_f64();
        self.throughput = if seconds > 0.0 {
            self.tokens_since as f64 / seconds
        } else {
            0.0
        };
        self.rest(now);
        self.told = true;
        tracing::info!(
            "Decode batch, #running-req: {}, #token: {}, token usage: {:.2}, cuda graph: {}, gen throughput \
             (token/s): {:.2}, #queue-req: {}, ",
            decode.running,
            decode.used_tokens,
            decode.token_usage,
            if self.captured { "True" } else { "False" },
            self.throughput,
            decode.waiting,
        );
    }
}
