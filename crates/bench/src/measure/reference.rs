//! Records as the reference sees them, and its arithmetic over them.
//!
//! Defects are kept: this is for comparing with figures that the reference printed.

use super::statistics::{mean, median, pairwise_sum, percentile, standard_deviation};
use crate::client::{Backend, Family};
use crate::record::{Failure, RequestRecord};
use crate::release::Release;
use crate::vocabulary::Vocabulary;

/// How the reference would look at records.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The backend spoken to.
    pub backend: Backend,
    /// The release imitated.
    pub release: Release,
    /// Whether one gap is kept per native event, not per token, as in the LMDeploy client.
    pub gap_per_event: bool,
}

/// One request as the reference keeps it; times are seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Whether it counts as successful.
    pub success: bool,
    /// When it was sent.
    pub start: f64,
    /// From sending to the last line.
    pub latency: f64,
    /// From sending to the first text.
    pub ttft: f64,
    /// Chunks before the first gap: one, and those that came in no time at all.
    pub firsts: usize,
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens.
    pub prompt: u64,
}

impl View {
    /// One request as the reference would have kept it.
    pub fn see(self, record: &RequestRecord) -> Seen {
        let mut seen = Seen {
            success: self.counts(record),
            prompt: self.prompt(record),
            ..Seen::default()
        };
        // Two backends never set their start, which makes peaks meaningless.
        if !matches!(self.backend.family(), Family::Triton | Family::Truss) {
            seen.start = record.sent.seconds();
        }
        for chunk in &record.chunks {
            seen.ttft = chunk.at.seconds() - record.sent.seconds();
            seen.firsts += 1;
            if seen.ttft != 0.0 {
                break;
            }
        }
        if !seen.success {
            return seen;
        }
        seen.output = self.output(record);
        let end = match self.backend.family() {
            Family::Triton => record.chunks.last().map_or(record.sent, |chunk| chunk.at),
            _ => record.finished,
        };
        seen.latency = end.seconds() - record.sent.seconds();
        seen
    }

    /// The gaps between texts after the first, seconds.
    pub fn gaps(self, record: &RequestRecord) -> Vec<f64> {
        let mut gaps = Vec::with_capacity(record.chunks.len());
        self.each_gap(record, |gap, times| {
            gaps.extend(std::iter::repeat_n(gap, times));
        });
        gaps
    }

    /// Goes over a record's chunks, telling each gap and how many times it counts.
    fn each_gap(self, record: &RequestRecord, mut tell: impl FnMut(f64, usize)) {
        let per_token = self.backend.family() == Family::Native && !self.gap_per_event;
        let sent = record.sent.seconds();
        let (mut ttft, mut last, mut tokens) = (0.0, sent, 0);
        // Many chunks have the same moment, and a division takes its time.
        let (mut at, mut now) = (record.sent, sent);
        for chunk in &record.chunks {
            if chunk.at != at {
                (at, now) = (chunk.at, chunk.at.seconds());
            }
            if ttft == 0.0 {
                ttft = now - sent;
            } else if !per_token {
                tell(now - last, 1);
            } else if chunk.tokens == tokens {
                continue;
            } else if tokens.checked_add(1) == Some(chunk.tokens) {
                tell(now - last, 1);
            } else {
                let new = i64::from(chunk.tokens) - i64::from(tokens);
                tell((now - last) / new as f64, new.max(0) as usize);
            }
            (last, tokens) = (now, chunk.tokens);
        }
    }

    /// Whether the reference notices that a request failed.
    fn counts(self, record: &RequestRecord) -> bool {
        match &record.failure {
            None | Some(Failure::Unfinished) => true,
            Some(Failure::InStream { .. }) => {
                matches!(self.backend.family(), Family::Native | Family::Chat)
            }
            Some(_) => false,
        }
    }

    fn output(self, record: &RequestRecord) -> u64 {
        let asked = record.asked.output_tokens;
        match self.backend.family() {
            Family::Native if self.gap_per_event => asked,
            Family::Native => record
                .chunks
                .last()
                .map_or(asked, |chunk| chunk.tokens.into()),
            Family::Completions => record
                .chunks
                .last_count()
                .or(record.usage.output_tokens)
                .unwrap_or(asked),
            Family::Chat => record.usage.output_tokens.unwrap_or(asked),
            Family::Embeddings => 0,
            Family::Triton | Family::Truss => asked,
        }
    }

    fn prompt(self, record: &RequestRecord) -> u64 {
        let told = record.usage.prompt_tokens.filter(|tokens| *tokens > 0);
        let tells = !matches!(
            self.backend.family(),
            Family::Triton | Family::Truss | Family::Embeddings
        );
        told.filter(|_| self.release.has(21) && tells)
            .unwrap_or(record.asked.prompt_tokens)
    }
}

/// Mean, median, spread and percentiles of one kind of time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Standard deviation of the population.
    pub deviation: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of times in seconds; not numbers when there are none.
    pub fn of(seconds: Vec<f64>) -> Self {
        let (mean, deviation) = (mean(&seconds), standard_deviation(&seconds));
        let mut sorted = seconds;
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            mean: mean * 1000.0,
            median: median(&sorted) * 1000.0,
            deviation: deviation * 1000.0,
            p90: percentile(&sorted, 90.0) * 1000.0,
            p95: percentile(&sorted, 95.0) * 1000.0,
            p99: percentile(&sorted, 99.0) * 1000.0,
            max: sorted.last().copied().unwrap_or(f64::NAN) * 1000.0,
        }
    }

    /// The spread, with nothing taken for one zero.
    fn or_zero(seconds: Vec<f64>) -> Self {
        Self::of(if seconds.is_empty() {
            vec![0.0]
        } else {
            seconds
        })
    }
}

/// The reference's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Successful requests.
    pub completed: usize,
    /// Prompt tokens of the successful ones, by the dataset.
    pub input: u64,
    /// The part of them that is text.
    pub input_text: u64,
    /// The part of them that is images.
    pub input_vision: u64,
    /// Output tokens.
    pub output: u64,
    /// Output tokens by encoding the texts again.
    pub output_retokenized: u64,
    /// Seconds.
    pub duration: f64,
    /// Time to the first token.
    pub ttft: Spread,
    /// Time per output token after the first.
    pub tpot: Spread,
    /// Gaps between tokens or chunks.
    pub itl: Spread,
    /// Whole requests.
    pub e2e: Spread,
    /// Mean number of requests under way.
    pub concurrency: f64,
    /// Mean accepted length of speculative decoding, by the server.
    pub accept_length: Option<f64>,
    /// The most token instants in one second.
    pub peak_output: f64,
    /// The most requests that touch one second.
    pub peak_requests: u64,
    /// Output tokens of each request, zero for failed ones.
    pub output_lengths: Vec<u64>,
}

impl Figures {
    /// Successful requests per second.
    pub fn request_throughput(&self) -> f64 {
        self.completed as f64 / self.duration
    }

    /// Prompt tokens per second.
    pub fn input_throughput(&self) -> f64 {
        self.input as f64 / self.duration
    }

    /// Output tokens per second.
    pub fn output_throughput(&self) -> f64 {
        self.output as f64 / self.duration
    }

    /// All tokens per second.
    pub fn total_throughput(&self) -> f64 {
        (self.input + self.output) as f64 / self.duration
    }
}

/// What figures are made of beside records.
pub struct Circumstances<'a> {
    /// How records are looked at.
    pub view: View,
    /// How long the run took, in seconds.
    pub duration: f64,
    /// The server's accepted length.
    pub accept_length: Option<f64>,
    /// Counts tokens of texts.
    pub vocabulary: &'a Vocabulary,
    /// Whether rows are conversations, whose prompt tokens the reference does not add up.
    pub conversations: bool,
}

/// The reference's figures over records in the order of rows.
pub fn figures(records: &[RequestRecord], circumstances: &Circumstances<'_>) -> Figures {
    let view = circumstances.view;
    let seen: Vec<Seen> = records.iter().map(|record| view.see(record)).collect();
    figures_of(records, &seen, circumstances)
}

/// The same over requests that were looked at before.
pub fn figures_of(
    records: &[RequestRecord],
    seen: &[Seen],
    circumstances: &Circumstances<'_>,
) -> Figures {
    let view = circumstances.view;
    let good = || seen.iter().zip(records).filter(|(seen, _)| seen.success);
    let by_text = circumstances
        .accept_length
        .is_some_and(|length| length > 0.0)
        && matches!(view.backend.name(), "sglang-oai" | "sglang-oai-chat");
    let mut gaps = Vec::with_capacity(good().map(|(_, record)| record.chunks.len()).sum());
    for (seen, record) in good() {
        if by_text {
            let own = view.gaps(record);
            gaps.extend(gaps_by_text(&own, seen, record, circumstances.vocabulary));
        } else {
            view.each_gap(record, |gap, times| {
                if times == 1 {
                    gaps.push(gap);
                } else {
                    gaps.extend(std::iter::repeat_n(gap, times));
                }
            });
        }
    }
    let per_token: Vec<f64> = good()
        .filter(|(seen, _)| seen.output > 1)
        .map(|(seen, _)| (seen.latency - seen.ttft) / (seen.output - 1) as f64)
        .collect();
    let firsts: Vec<f64> = good().map(|(seen, _)| seen.ttft).collect();
    let latencies: Vec<f64> = good().map(|(seen, _)| seen.latency).collect();
    let sum = |count: fn(&RequestRecord) -> u64| {
        if circumstances.conversations {
            0
        } else {
            good().map(|(_, record)| count(record)).sum()
        }
    };
    let (peak_output, peak_requests) = peaks(view, records, seen);
    let encoded = good().map(|(_, record)| circumstances.vocabulary.count(&record.text) as u64);
    Figures {
        completed: latencies.len(),
        input: sum(|record| record.asked.prompt_tokens),
        input_text: sum(|record| record.asked.text_tokens),
        input_vision: sum(|record| record.asked.vision_tokens),
        output: seen.iter().map(|seen| seen.output).sum(),
        output_retokenized: encoded.sum(),
        duration: circumstances.duration,
        concurrency: pairwise_sum(&latencies) / circumstances.duration,
        ttft: Spread::or_zero(firsts),
        tpot: Spread::or_zero(per_token),
        itl: Spread::or_zero(gaps),
        e2e: Spread::of(latencies),
        accept_length: circumstances.accept_length,
        peak_output,
        peak_requests,
        output_lengths: seen.iter().map(|seen| seen.output).collect(),
    }
}

/// Each chunk's gap, shared out over the tokens of its text.
fn gaps_by_text(
    own: &[f64],
    seen: &Seen,
    record: &RequestRecord,
    vocabulary: &Vocabulary,
) -> Vec<f64> {
    let mut gaps = Vec::new();
    for (gap, text) in own.iter().zip(record.chunk_texts().skip(seen.firsts)) {
        let tokens = vocabulary.count(text);
        gaps.extend(std::iter::repeat_n(gap / tokens as f64, tokens));
    }
    gaps
}

/// The tokens and requests of every second from the first start on.
pub fn per_second(view: View, records: &[RequestRecord], seen: &[Seen]) -> (Vec<f64>, Vec<f64>) {
    let good = || seen.iter().zip(records).filter(|(seen, _)| seen.success);
    let first = good()
        .map(|(seen, _)| seen.start)
        .fold(f64::INFINITY, f64::min);
    let last = good()
        .map(|(seen, _)| seen.start + seen.latency)
        .fold(f64::NEG_INFINITY, f64::max);
    if good().next().is_none() {
        return (Vec::new(), Vec::new());
    }
    let seconds = (last - first).ceil() as usize + 1;
    let mut tokens = vec![0.0; seconds];
    let mut requests = vec![0.0; seconds];
    for (seen, record) in good() {
        let mut moment = seen.start + seen.ttft;
        let mut add = |moment: f64, count: f64| {
            let second = usize::try_from((moment - first) as i64);
            if let Some(tokens) = second.ok().and_then(|at| tokens.get_mut(at)) {
                *tokens += count;
            }
        };
        let mut together = 1;
        view.each_gap(record, |gap, times| {
            if gap == 0.0 || times == 0 {
                together += times;
                return;
            }
            add(moment, together as f64);
            for _ in 1..times {
                moment += gap;
                add(moment, 1.0);
            }
            moment += gap;
            together = 1;
        });
        add(moment, together as f64);
        let from = (seen.start - first) as usize;
        let to = ((seen.start + seen.latency) - first) as usize;
        for requests in requests.iter_mut().take(to + 1).skip(from) {
            *requests += 1.0;
        }
    }
    (tokens, requests)
}

fn peaks(view: View, records: &[RequestRecord], seen: &[Seen]) -> (f64, u64) {
    let (tokens, requests) = per_second(view, records, seen);
    let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    (highest(&tokens), highest(&requests) as u64)
}

#[cfg(test)]
mod tests;
