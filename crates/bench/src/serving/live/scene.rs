//! What the live view knows of a load.

use crate::pace::LoadState;
use crate::record::RequestRecord;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The token rate is kept for this many draws.
const HISTORY: usize = 240;

/// What the view shows.
pub(super) struct Scene {
    pub(super) total: usize,
    pub(super) started: Instant,
    drawn: Instant,
    tokens: Arc<AtomicU64>,
    pub(super) tokens_before: u64,
    finished_before: usize,
    pub(super) token_rates: Vec<u64>,
    pub(super) request_rate: f64,
    pub(super) state: LoadState,
    pub(super) waiting: usize,
    pub(super) times: [(&'static str, Histogram<u64>); 3],
    pub(super) failures: BTreeMap<String, usize>,
}

impl Scene {
    pub(super) fn new(total: usize, tokens: Arc<AtomicU64>) -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, 86_400_000_000, 3).expect("the bounds are in order");
        let tokens_before = tokens.load(Ordering::Relaxed);
        Self {
            total,
            started: Instant::now(),
            drawn: Instant::now(),
            tokens,
            tokens_before,
            finished_before: 0,
            token_rates: Vec::new(),
            request_rate: 0.0,
            state: LoadState::default(),
            waiting: 0,
            times: [
                ("TTFT", histogram()),
                ("TPOT", histogram()),
                ("E2E", histogram()),
            ],
            failures: BTreeMap::new(),
        }
    }

    pub(super) fn take_in(&mut self, record: &RequestRecord) {
        if let Some(failure) = &record.failure {
            *self.failures.entry(failure.name()).or_default() += 1;
            return;
        }
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        let [(_, ttft), (_, tpot), (_, e2e)] = &mut self.times;
        e2e.saturating_record(micros(record.finished.seconds_since(record.sent)));
        let parts = record.generated();
        let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else {
            return;
        };
        ttft.saturating_record(micros(first.at.seconds_since(record.sent)));
        let tokens = record.usage.output_tokens.unwrap_or(parts.len() as u64);
        if tokens > 1 {
            let per_token = last.at.seconds_since(first.at) / (tokens - 1) as f64;
            tpot.saturating_record(micros(per_token));
        }
    }

    pub(super) fn tick(&mut self, state: &LoadState, waiting: Option<usize>) {
        let seconds = self.drawn.elapsed().as_secs_f64().max(1e-3);
        self.drawn = Instant::now();
        let tokens = self.tokens.load(Ordering::Relaxed);
        let rate = (tokens - self.tokens_before) as f64 / seconds;
        self.tokens_before = tokens;
        self.token_rates.push(rate as u64);
        if self.token_rates.len() > HISTORY {
            self.token_rates.remove(0);
        }
        let requests = (state.finished - self.finished_before.min(state.finished)) as f64 / seconds;
        self.finished_before = state.finished;
        self.request_rate = 0.2 * requests + 0.8 * self.request_rate;
        self.state = *state;
        self.waiting = waiting.unwrap_or(self.waiting);
    }

    /// How long ago it was drawn.
    pub(super) fn age(&self) -> Duration {
        self.drawn.elapsed()
    }
}
