//! Figures without the reference's defects.

use super::cache::CacheHits;
use super::goodput::{Goodput, Objectives, Observed};
use super::overlap::{levels, peak};
use super::reference::Spread;
use super::steady::Window;
use super::timing::{CountSource, Timing};
use crate::client::Backend;
use crate::clock::Nanos;
use crate::record::RequestRecord;
use crate::vocabulary::Vocabulary;
use std::collections::BTreeMap;

/// A run is steady where at least this share of its peak number of requests was under way.
pub const STEADY_SHARE: f64 = 0.8;

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
    /// Who counted them: every source that was needed.
    pub output_sources: Vec<CountSource>,
    /// The most output tokens in any one second.
    pub peak_output: f64,
    /// The most requests ever under way at once.
    pub peak_requests: usize,
    /// The mean number under way.
    pub concurrency: f64,
    /// Requests per second as they were sent.
    pub achieved_rate: f64,
    /// Requests per second as they were due.
    pub scheduled_rate: f64,
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
    /// The steady part.
    pub steady: Option<Steady>,
    /// Goodput under the objectives.
    pub goodput: Option<Goodput>,
}

/// What the steady part of a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Its length in seconds.
    pub seconds: f64,
    /// The least number under way in it.
    pub threshold: usize,
    /// Requests per second.
    pub request_throughput: f64,
    /// Output tokens per second.
    pub output_throughput: f64,
    /// The mean number under way.
    pub concurrency: f64,
}

impl StrictFigures {
    /// The figures of records.
    pub fn of(
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
            output_sources: sources(&timings),
            peak_output: peak_output(&timings),
            peak_requests: peak(&levels(&spans)),
            concurrency: under_way / duration,
            achieved_rate: rate(records.iter().map(|record| record.sent)),
            scheduled_rate: rate(records.iter().map(|record| record.scheduled)),
            scheduled_e2e: spread(|timing| timing.scheduled_e2e),
            e2e: spread(|timing| timing.e2e),
            scheduled_ttft: spread(|timing| timing.scheduled_ttft),
            ttft: spread(|timing| timing.ttft),
            tpot: Spread::of(per_token),
            itl: Spread::of(gaps),
            queue: spread(|timing| timing.queue),
            cache: cache(&good),
            accept_length: accept_length(&good),
            steady: steady(&timings),
            goodput: objectives.map(|bounds| goodput(bounds, &timings, records.len(), duration)),
        }
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

fn steady(timings: &[Timing]) -> Option<Steady> {
    let window = Window::of(timings, STEADY_SHARE)?;
    Some(Steady {
        seconds: window.seconds(),
        threshold: window.threshold,
        request_throughput: window.request_throughput(timings),
        output_throughput: window.output_throughput(timings),
        concurrency: window.mean_concurrency(timings),
    })
}

/// Goodput by what clients experience: times from being due.
fn goodput(bounds: &Objectives, timings: &[Timing], sent: usize, duration: f64) -> Goodput {
    let good: Vec<Observed> = timings
        .iter()
        .map(|timing| Observed {
            ttft: timing.scheduled_ttft,
            tpot: timing.tpot().unwrap_or(0.0),
            e2el: timing.scheduled_e2e,
        })
        .collect();
    Goodput::of(bounds, &good, sent, duration)
}

#[cfg(test)]
mod tests;
