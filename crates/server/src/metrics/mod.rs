//! What Prometheus is told, under the names that SGLang's dashboards look for.

mod exposition;
#[cfg(test)]
mod families;
mod histogram;
mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use engine::EngineStats;

pub(crate) use exposition::Exposition;
use histogram::Histogram;
use http::HttpRequests;
pub(crate) use http::count_request;

use crate::config::StartTimes;

/// The type of an exposition.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const TIME_TO_FIRST_TOKEN: &[f64] = &[
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0,
];

const INTER_TOKEN_LATENCY: &[f64] = &[
    0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080,
    0.100, 0.200, 0.400, 0.600, 0.800, 1.0, 2.0, 4.0, 6.0, 8.0,
];

const END_TO_END_LATENCY: &[f64] = &[
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0, 600.0, 1200.0, 1800.0, 2400.0,
];

const QUEUE_TIME: &[f64] = &[
    0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0,
    80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0,
    1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0,
];

const RETRACTIONS: &[f64] = &[
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0,
    75.0, 100.0,
];

/// From a millisecond to twenty minutes, each bound 1.62 times the one before.
const STAGE: &[f64] = &{
    let mut bounds = [0.001; 30];
    let (mut index, mut factor) = (1, 1.62);
    while index < bounds.len() {
        bounds[index] = 0.001 * factor;
        factor *= 1.62;
        index += 1;
    }
    bounds
};

/// Counters and histograms of requests. Gauges are read from the engine when somebody asks.
#[derive(Debug)]
pub(crate) struct Metrics {
    model_name: String,
    start_times: StartTimes,
    pub(crate) http: Arc<HttpRequests>,
    prompt_tokens: AtomicU64,
    generation_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    requests: AtomicU64,
    aborted: AtomicU64,
    time_to_first_token: Histogram,
    inter_token_latency: Histogram,
    end_to_end_latency: Histogram,
    queue_time: Histogram,
    retractions: Histogram,
    stages: [Histogram; STAGES.len()],
}

/// What a sequence goes through before its second token, as SGLang calls it.
const STAGES: [&str; 3] = ["request_process", "prefill_waiting", "prefill_forward"];

/// Seconds in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StageSeconds {
    /// From the arrival to the engine's queue: text, template, tokens.
    pub(crate) request_process: f64,
    /// In the queue.
    pub(crate) prefill_waiting: f64,
    /// From the queue to the first token; absent when there was none.
    pub(crate) prefill_forward: Option<f64>,
}

/// What the engine has room for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Sequences that may run at once.
    pub(crate) rows: u32,
    /// Tokens in KV memory.
    pub(crate) tokens: u64,
}

/// A sequence that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FinishedSequence {
    pub(crate) prompt_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) cached_tokens: usize,
    pub(crate) retractions: u32,
    pub(crate) stages: StageSeconds,
    pub(crate) end_to_end_seconds: f64,
}

impl Metrics {
    pub(crate) fn new(model_name: &str, start_times: StartTimes) -> Self {
        Self {
            model_name: model_name.to_owned(),
            start_times,
            http: Arc::default(),
            prompt_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            cached_tokens: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            time_to_first_token: Histogram::new(TIME_TO_FIRST_TOKEN),
            inter_token_latency: Histogram::new(INTER_TOKEN_LATENCY),
            end_to_end_latency: Histogram::new(END_TO_END_LATENCY),
            queue_time: Histogram::new(QUEUE_TIME),
            retractions: Histogram::new(RETRACTIONS),
            stages: STAGES.map(|_| Histogram::new(STAGE)),
        }
    }

    pub(crate) fn first_token(&self, seconds: f64) {
        self.time_to_first_token.observe(seconds, 1);
    }

    /// `tokens` tokens came together, so long after the ones before.
    pub(crate) fn later_tokens(&self, seconds: f64, tokens: usize) {
        if tokens > 0 {
            self.inter_token_latency
                .observe(seconds / tokens as f64, tokens as u64);
        }
    }

    pub(crate) fn finished(&self, sequence: &FinishedSequence) {
        let add = |counter: &AtomicU64, count: usize| {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        };
        add(&self.prompt_tokens, sequence.prompt_tokens);
        add(&self.generation_tokens, sequence.completion_tokens);
        add(&self.cached_tokens, sequence.cached_tokens);
        add(&self.requests, 1);
        self.end_to_end_latency
            .observe(sequence.end_to_end_seconds, 1);
        let stages = sequence.stages;
        self.queue_time.observe(stages.prefill_waiting, 1);
        let seconds = [
            Some(stages.request_process),
            Some(stages.prefill_waiting),
            stages.prefill_forward,
        ];
        for (histogram, seconds) in self.stages.iter().zip(seconds) {
            if let Some(seconds) = seconds {
                histogram.observe(seconds, 1);
            }
        }
        self.retractions.observe(f64::from(sequence.retractions), 1);
    }

    pub(crate) fn aborted(&self) {
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything as Prometheus reads it.
    pub(crate) fn exposition(&self, stats: &EngineStats, room: Room, unknown: u64) -> String {
        let labels = [
            ("model_name", self.model_name.as_str()),
            ("engine_type", "unified"),
            ("tp_rank", "0"),
            ("pp_rank", "0"),
        ];
        let mut out = Exposition::new("sglang:", &labels);
        gauges(&mut out, stats, room);
        start_gauges(&mut out, self.start_times);
        let counters = [
            (
                "prompt_tokens_total",
                "Number of prefill tokens processed.",
                &self.prompt_tokens,
            ),
            (
                "generation_tokens_total",
                "Number of generation tokens processed.",
                &self.generation_tokens,
            ),
            (
                "cached_tokens_total",
                "Number of cached prompt tokens.",
                &self.cached_tokens,
            ),
            (
                "num_requests_total",
                "Number of requests processed.",
                &self.requests,
            ),
            (
                "num_aborted_requests_total",
                "Number of requests aborted.",
                &self.aborted,
            ),
        ];
        for (name, help, counter) in counters {
            out.counter(name, help, counter.load(Ordering::Relaxed));
        }
        let evicted = stats.scheduler.evicted_tokens;
        out.counter(
            "evicted_tokens_total",
            "Number of cached tokens given up.",
            evicted,
        );
        out.counter(
            "unknown_request_members_total",
            "Number of members of requests that were not known and ignored.",
            unknown,
        );
        self.histograms(&mut out);
        self.http.write(&mut out);
        out.finish()
    }

    fn histograms(&self, out: &mut Exposition) {
        let histograms = [
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &self.time_to_first_token,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                &self.inter_token_latency,
            ),
            (
                "e2e_request_latency_seconds",
                "Histogram of end-to-end request latency in seconds.",
                &self.end_to_end_latency,
            ),
            (
                "queue_time_seconds",
                "Histogram of queueing time in seconds.",
                &self.queue_time,
            ),
            (
                "num_retractions",
                "Histogram of retractions per request.",
                &self.retractions,
            ),
        ];
        for (name, help, histogram) in histograms {
            out.histogram(name, help, histogram);
        }
        let stages = STAGES.into_iter().zip(&self.stages);
        out.histograms(
            "per_stage_req_latency_seconds",
            "The latency of each stage of requests.",
            ("stage", stages),
        );
    }
}

fn gauges(out: &mut Exposition, stats: &EngineStats, room: Room) {
    let now = &stats.scheduler;
    let utilization = f64::from(now.running) / f64::from(room.rows.max(1));
    let gauges = [
        (
            "num_running_reqs",
            "The number of running requests.",
            f64::from(now.running),
        ),
        (
            "num_used_tokens",
            "The number of used tokens.",
            now.used_tokens as f64,
        ),
        ("token_usage", "The token usage.", now.token_usage()),
        (
            "gen_throughput",
            "The generation throughput (token/s).",
            stats.throughput_at(Instant::now()),
        ),
        (
            "num_queue_reqs",
            "The number of requests in the waiting queue.",
            now.waiting as f64,
        ),
        (
            "cache_hit_rate",
            "The prefix cache hit rate.",
            now.cache_hit_rate(),
        ),
        (
            "max_total_num_tokens",
            "Maximum total number of tokens in the KV cache pool.",
            room.tokens as f64,
        ),
        (
            "num_retracted_reqs",
            "The number of retracted requests.",
            now.retracted as f64,
        ),
        (
            "new_token_ratio",
            "The new token ratio.",
            now.new_token_ratio,
        ),
        (
            "is_cuda_graph",
            "Whether the batch is using CUDA graph.",
            f64::from(u8::from(stats.captured)),
        ),
        ("utilization", "The share of rows in use.", utilization),
    ];
    for (name, help, value) in gauges {
        out.gauge(name, help, value);
    }
    for (name, help) in IDLE {
        out.gauge(name, help, 0.0);
    }
}

/// Gauges of what this server does not do; SGLang's servers say zero where it is switched off.
const IDLE: [(&str, &str); 6] = [
    (
        "num_grammar_queue_reqs",
        "The number of requests waiting for a grammar.",
    ),
    ("num_paused_reqs", "The number of paused requests."),
    (
        "spec_accept_length",
        "The average acceptance length of speculative decoding.",
    ),
    (
        "spec_accept_rate",
        "The average acceptance rate of speculative decoding.",
    ),
    (
        "swa_token_usage",
        "The token usage of sliding-window layers.",
    ),
    ("mamba_usage", "The usage of state-space layers."),
];

fn start_gauges(out: &mut Exposition, times: StartTimes) {
    let gauges = [
        (
            "engine_startup_time",
            "The time taken for the engine to start up.",
            times.engine,
        ),
        (
            "engine_load_weights_time",
            "The time taken for the engine to load weights.",
            times.weights,
        ),
    ];
    for (name, help, time) in gauges {
        out.gauge(name, help, time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    #[test]
    fn requests_are_counted_and_timed() {
        let metrics = Metrics::new(
            "a \"model\"",
            StartTimes {
                engine: Duration::from_millis(2500),
                weights: Duration::from_millis(750),
            },
        );
        metrics.first_token(0.15);
        metrics.later_tokens(0.009, 3);
        metrics.later_tokens(0.0, 0);
        metrics.finished(&FinishedSequence {
            prompt_tokens: 5,
            completion_tokens: 4,
            cached_tokens: 2,
            retractions: 0,
            stages: StageSeconds {
                request_process: 0.002,
                prefill_waiting: 0.05,
                prefill_forward: Some(0.1),
            },
            end_to_end_seconds: 0.2,
        });
        metrics.aborted();
        let text = metrics.exposition(&EngineStats::default(), Room::default(), 3);
        let chosen: Vec<&str> = text
            .lines()
            .filter(|line| {
                line.contains("_total{")
                    || line.contains("inter_token") && !line.contains("le=\"0.0")
                    || line.contains("num_running_reqs")
                    || line.contains(":engine_")
                    || line.contains("per_stage") && !line.contains("_bucket")
            })
            .collect();
        expect![[r#"
            # HELP sglang:num_running_reqs The number of running requests.
            # TYPE sglang:num_running_reqs gauge
            sglang:num_running_reqs{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 0.0
            # HELP sglang:engine_startup_time The time taken for the engine to start up.
            # TYPE sglang:engine_startup_time gauge
            sglang:engine_startup_time{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 2.5
            # HELP sglang:engine_load_weights_time The time taken for the engine to load weights.
            # TYPE sglang:engine_load_weights_time gauge
            sglang:engine_load_weights_time{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 0.75
            sglang:prompt_tokens_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 5.0
            sglang:generation_tokens_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 4.0
            sglang:cached_tokens_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 2.0
            sglang:num_requests_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 1.0
            sglang:num_aborted_requests_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 1.0
            sglang:evicted_tokens_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 0.0
            sglang:unknown_request_members_total{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 3.0
            # HELP sglang:inter_token_latency_seconds Histogram of inter-token latency in seconds.
            # TYPE sglang:inter_token_latency_seconds histogram
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="0.1"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="0.2"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="0.4"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="0.6"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="0.8"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="1.0"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="2.0"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="4.0"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="6.0"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="8.0"} 3.0
            sglang:inter_token_latency_seconds_bucket{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",le="+Inf"} 3.0
            sglang:inter_token_latency_seconds_sum{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 0.009
            sglang:inter_token_latency_seconds_count{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0"} 3.0
            # HELP sglang:per_stage_req_latency_seconds The latency of each stage of requests.
            # TYPE sglang:per_stage_req_latency_seconds histogram
            sglang:per_stage_req_latency_seconds_sum{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="request_process"} 0.002
            sglang:per_stage_req_latency_seconds_count{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="request_process"} 1.0
            sglang:per_stage_req_latency_seconds_sum{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="prefill_waiting"} 0.05
            sglang:per_stage_req_latency_seconds_count{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="prefill_waiting"} 1.0
            sglang:per_stage_req_latency_seconds_sum{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="prefill_forward"} 0.1
            sglang:per_stage_req_latency_seconds_count{model_name="a \"model\"",engine_type="unified",tp_rank="0",pp_rank="0",stage="prefill_forward"} 1.0"#]]
        .assert_eq(&chosen.join("\n"));
    }
}
