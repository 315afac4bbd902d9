//! Figures without the reference's defects.

use super::cache::CacheHits;
use super::goodput::{Goodput, Objectives, Observed};
use super::overlap::{levels, peak};
use super::reference::Spread;
use super::served::served_rate;
use super::steady::{Loop, NotSteady, Steady};
use super::timing::{CountSource, Timing};
use crate::client::Backend;
use crate::clock::Nanos;
use crate::record::RequestRecord;
use crate::vocabulary::Vocabulary;
use std::collections::BTreeMap;

/// Why a resumed run lacks figures that need all requests under way.
const NOT_ON_RECORD: &str =
    "the run was resumed, and requests under way at its interruption are not on record";

/// Figures over all requests that were sent, failed ones among them where they belong.
#[derive(Clone, Debug, PartialEq)]
pub struct StrictFigures {
    /// Requests sent.
    pub sent: usize,
    /// Those that succeeded.
    pub completed: usize,
    /// Those that failed, by reason, the most frequent first.
    pub failures: Vec<(String, usize)>,
    /// From the first send to the last byte, seconds.
    pub duration: f64,
    /// Prompt tokens of successful requests by the dataset.
    pub input_nominal: u64,
    /// The same by the server, where it said so for all of them.
    pub input_actual: Option<u64>,
    /// Output tokens.
    pub output: u64,
    /// Answers that the server counted, and that are shorter than asked.
    pub shorter: Shorter,
    /// Who counted them: every source that was needed.
    pub output_sources: Vec<CountSource>,
    /// The most output tokens in any one second.
    pub peak_output: f64,
    /// The most requests ever under way at once.
    pub peak_requests: Option<usize>,
    /// The mean number under way.
    pub concurrency: f64,
    /// Requests per second as they were sent.
    pub achieved_rate: f64,
    /// Requests per second as they were due.
    pub scheduled_rate: f64,
    /// Requests per second that an open loop's server got through, where there are enough to tell.
    pub served_rate: Option<f64>,
    /// From being due to the last line.
    pub scheduled_e2e: Spread,
    /// From being sent to the last line.
    pub e2e: Spread,
    /// From being due to the first token.
    pub scheduled_ttft: Spread,
    /// From being sent to the first token.
    pub ttft: Spread,
    /// Per output token after the first.
    pub tpot: Spread,
    /// Between tokens.
    pub itl: Spread,
    /// From being due to being let through the gate.
    pub queue: Spread,
    /// Prefix-cache hits, where the server counts them.
    pub cache: Option<CacheHits>,
    /// Mean accepted length of speculative decoding over requests that tell it.
    pub accept_length: Option<f64>,
    /// The steady part, or why there is none.
    pub steady: Result<Steady, NotSteady>,
    /// Goodput under the objectives.
    pub goodput: Option<Goodput>,
    /// Figures that this run cannot give, by their keys in the result line, and why.
    pub refused: Vec<(&'static str, String)>,
}

/// Answers that ended before the length that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shorter {
    /// How many.
    pub answers: usize,
    /// The tokens they have.
    pub tokens: u64,
    /// The tokens that were asked of them.
    pub asked: u64,
}

impl StrictFigures {
    /// The figures of records of an open loop.
    pub fn of(
        records: &[RequestRecord],
        backend: Backend,
        vocabulary: &Vocabulary,
        objectives: Option<&Objectives>,
    ) -> Self {
        Self::under(Loop::Open, records, backend, vocabulary, objectives)
    }

    /// The figures of records that came about like this.
    pub fn under(
        shape: Loop,
        records: &[RequestRecord],
        backend: Backend,
        vocabulary: &Vocabulary,
        objectives: Option<&Objectives>,
    ) -> Self {
        let good: Vec<&RequestRecord> =
            records.iter().filter(|record| record.succeeded()).collect();
        let timings: Vec<Timing> = good
            .iter()
            .map(|record| Timing::of(record, backend.family(), vocabulary))
            .collect();
        let spans: Vec<(Nanos, Nanos)> = records
            .iter()
            .map(|record| (record.sent, record.finished))
            .collect();
        let first = spans.iter().map(|span| span.0).min().unwrap_or_default();
        let last = spans.iter().map(|span| span.1).max().unwrap_or_default();
        let duration = last.seconds_since(first);
        let spread = |time: fn(&Timing) -> f64| Spread::of(timings.iter().map(time).collect());
        let per_token: Vec<f64> = timings.iter().filter_map(Timing::tpot).collect();
        let gaps: Vec<f64> = timings.iter().flat_map(Timing::gaps).collect();
        let under_way: f64 = spans.iter().map(|(from, to)| to.seconds_since(*from)).sum();
        Self {
            sent: records.len(),
            completed: good.len(),
            failures: failures(records),
            duration,
            input_nominal: good.iter().map(|record| record.asked.prompt_tokens).sum(),
            input_actual: good.iter().map(|record| record.usage.prompt_tokens).sum(),
            output: timings.iter().map(|timing| timing.output).sum(),
            shorter: shorter(&good, &timings),
            output_sources: sources(&timings),
            peak_output: peak_output(&timings),
            peak_requests: Some(peak(&levels(&spans))),
            concurrency: under_way / duration,
            achieved_rate: rate(records.iter().map(|record| record.sent)),
            scheduled_rate: rate(records.iter().map(|record| record.scheduled)),
            served_rate: match shape {
                Loop::Open => served_rate(records),
                Loop::Burst | Loop::Closed => None,
            },
            scheduled_e2e: spread(|timing| timing.scheduled_e2e),
            e2e: spread(|timing| timing.e2e),
            scheduled_ttft: spread(|timing| timing.scheduled_ttft),
            ttft: spread(|timing| timing.ttft),
            tpot: Spread::of(per_token),
            itl: Spread::of(gaps),
            queue: spread(|timing| timing.queue),
            cache: cache(&good),
            accept_length: accept_length(&good),
            steady: Steady::of(shape, &spans, &timings),
            goodput: objectives.map(|bounds| goodput(bounds, &timings, records.len(), duration)),
            refused: Vec::new(),
        }
    }

    /// The same figures of a run that was interrupted and resumed, without those that need the
    /// requests that were under way when it was interrupted.
    #[must_use]
    pub fn of_resumed(mut self) -> Self {
        self.achieved_rate = f64::NAN;
        self.served_rate = None;
        self.peak_requests = None;
        self.concurrency = f64::NAN;
        self.peak_output = f64::NAN;
        self.steady = Err(NotSteady::Resumed);
        let keys = [
            "achieved_request_rate",
            "max_output_tokens_per_s",
            "max_concurrent_requests",
            "concurrency",
        ];
        self.refused = keys.map(|key| (key, NOT_ON_RECORD.to_owned())).into();
        self
    }

    /// Requests that failed.
    pub fn failed(&self) -> usize {
        self.sent - self.completed
    }

    /// The share of requests that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed() as f64 / self.sent.max(1) as f64
    }

    /// Something per second of the run.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration
    }

    /// Prompt tokens: the server's count where it is known, else the dataset's.
    pub fn input(&self) -> u64 {
        self.input_actual.unwrap_or(self.input_nominal)
    }
}

fn failures(records: &[RequestRecord]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for failure in records.iter().filter_map(|record| record.failure.as_ref()) {
        *counts.entry(failure.name()).or_default() += 1;
    }
    let mut failures: Vec<(String, usize)> = counts.into_iter().collect();
    failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    failures
}

fn sources(timings: &[Timing]) -> Vec<CountSource> {
    let mut sources: Vec<CountSource> = timings.iter().map(|timing| timing.source).collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// The most tokens that arrived within any one second, wherever it begins.
fn peak_output(timings: &[Timing]) -> f64 {
    let mut arrivals: Vec<(Nanos, u64)> = timings
        .iter()
        .flat_map(|timing| &timing.arrivals)
        .map(|arrival| (arrival.at, u64::from(arrival.tokens)))
        .collect();
    arrivals.sort_unstable();
    let (mut from, mut tokens, mut most) = (0, 0, 0);
    for (at, count) in &arrivals {
        tokens += count;
        while at.since(arrivals[from].0) >= 1_000_000_000 {
            tokens -= arrivals[from].1;
            from += 1;
        }
        most = most.max(tokens);
    }
    most as f64
}

/// How many moments there are per second.
fn rate(moments: impl Iterator<Item = Nanos> + Clone) -> f64 {
    match (moments.clone().min(), moments.clone().max()) {
        (Some(first), Some(last)) if last > first => {
            (moments.count() - 1) as f64 / last.seconds_since(first)
        }
        _ => f64::NAN,
    }
}

fn cache(good: &[&RequestRecord]) -> Option<CacheHits> {
    let counted = good
        .iter()
        .filter(|record| record.usage.cached_tokens.is_some());
    let pairs: Vec<(&RequestRecord, u64)> = counted
        .map(|record| {
            let told = record
                .usage
                .prompt_tokens
                .unwrap_or(record.asked.prompt_tokens);
            (*record, told)
        })
        .collect();
    (!pairs.is_empty()).then(|| CacheHits::of(pairs))
}

fn accept_length(good: &[&RequestRecord]) -> Option<f64> {
    let lengths: Vec<f64> = good
        .iter()
        .filter_map(|record| record.usage.accept_length)
        .collect();
    (!lengths.is_empty()).then(|| super::mean(&lengths))
}

fn shorter(good: &[&RequestRecord], timings: &[Timing]) -> Shorter {
    let mut shorter = Shorter::default();
    for (record, timing) in good.iter().zip(timings) {
        let asked = record.asked.output_tokens;
        if timing.source == CountSource::Server && timing.output < asked {
            shorter.answers += 1;
            shorter.tokens += timing.output;
            shorter.asked += asked;
        }
    }
    shorter
}

/// Goodput by what clients experience: times from being due.
fn goodput(bounds: &Objectives, timings: &[Timing], sent: usize, duration: f64) -> Goodput {
    let good: Vec<Observed> = timings.iter().map(Timing::observed).collect();
    Goodput::of(bounds, &good, sent, duration)
}

#[cfg(test)]
mod tests;
