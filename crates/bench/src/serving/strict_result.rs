//! What a strict run came to: its table, its warnings, its result line.

use super::details;
use super::error::ServingError;
use super::options::Options;
use super::prepare::Prepared;
use super::strict::CacheState;
use super::warm_up::WarmUp;
use crate::client::Backend;
use crate::layout::{StrictHeading, strict_table};
use crate::measure::cache::CacheHits;
use crate::measure::own::ClientHealth;
use crate::measure::reference::Spread;
use crate::measure::strict::StrictFigures;
use crate::record::RequestRecord;
use crate::result::ResultLine;
use crate::stop::Stopped;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A strict run, measured.
pub(super) struct StrictResult {
    pub(super) figures: StrictFigures,
    pub(super) records: Vec<RequestRecord>,
    pub(super) rate: Option<f64>,
    pub(super) gate: Option<usize>,
    pub(super) pace: String,
    pub(super) warm_up: WarmUp,
    pub(super) cache: CacheState,
    pub(super) health: ClientHealth,
    /// What the server said about itself before and after.
    pub(super) server: (Option<Value>, Option<Value>),
    pub(super) provenance: Value,
    pub(super) backend: Backend,
    /// Records taken over from an interrupted run.
    pub(super) resumed: usize,
    /// How many requests there were to be, where that was known.
    pub(super) total_rows: Option<usize>,
    pub(super) interrupted: bool,
    pub(super) stopped: Option<Stopped>,
    pub(super) record_file: Option<PathBuf>,
    pub(super) can_be_resumed: bool,
    /// Whether answers were to have the length that was asked for.
    pub(super) fixed_length: bool,
    pub(super) record_trouble: Option<ServingError>,
}

impl StrictResult {
    pub(super) fn table(&self) -> String {
        let heading = StrictHeading {
            backend: self.backend.name(),
            pace: &self.pace,
            rate: self.rate,
            max_concurrency: self.gate.map(|gate| gate as u64),
            cache: self.cache.words(),
            embedding: self.backend.is_embedding(),
        };
        strict_table(&heading, &self.figures, &self.health)
    }

    /// What an interrupted run left out.
    pub(super) fn not_sent(&self) -> String {
        let left = self
            .total_rows
            .map(|rows| rows.saturating_sub(self.figures.sent));
        left.map_or_else(String::new, |left| format!(", {left} were not sent"))
    }

    /// How to go on with an interrupted run, where that is possible.
    pub(super) fn resume_hint(&self) -> String {
        match &self.record_file {
            Some(path) if self.can_be_resumed => {
                format!("; go on with --resume {}", path.display())
            }
            _ => String::new(),
        }
    }

    pub(super) fn line(&self, options: &Options, prepared: &Prepared) -> ResultLine {
        let mut line = ResultLine::default();
        line.add("mode", "strict");
        line.add("tag", options.given.text("tag").map(str::to_owned));
        line.add("backend", self.backend.name());
        line.add(
            "dataset_name",
            options.given.text("dataset-name").unwrap_or_default(),
        );
        line.add("pace", self.pace.as_str());
        match self.rate {
            Some(rate) => line.add_float("request_rate", rate),
            None => line.add("request_rate", "trace"),
        }
        line.add_float("achieved_request_rate", self.figures.achieved_rate);
        line.add("served_request_rate", self.figures.served_rate);
        line.add("max_concurrency", self.gate);
        self.add_counts(&mut line);
        self.add_times(&mut line);
        self.add_rest(&mut line);
        line.add("provenance", self.provenance.clone());
        line.add(
            "server_info",
            json!({ "before": self.server.0, "after": self.server.1 }),
        );
        line.add("warnings", self.warnings());
        if options.given.switch("output-details") {
            details::add(&mut line, &self.records, prepared);
        }
        line
    }

    fn add_counts(&self, line: &mut ResultLine) {
        let figures = &self.figures;
        line.add_float("duration", figures.duration);
        line.add("sent", figures.sent);
        line.add("completed", figures.completed);
        line.add("failed", figures.failed());
        let failures: serde_json::Map<String, Value> = figures
            .failures
            .iter()
            .map(|(name, count)| (name.clone(), json!(count)))
            .collect();
        line.add("failures", failures);
        line.add("interrupted", self.interrupted);
        line.add("resumed_records", self.resumed);
        line.add("total_input_tokens_dataset", figures.input_nominal);
        line.add("total_input_tokens_server", figures.input_actual);
        line.add("total_output_tokens", figures.output);
        line.add(
            "shorter_answers",
            json!({
                "answers": figures.shorter.answers,
                "tokens": figures.shorter.tokens,
                "asked": figures.shorter.asked,
            }),
        );
        let sources: Vec<&str> = figures
            .output_sources
            .iter()
            .map(|source| source.name())
            .collect();
        line.add("output_tokens_counted_by", sources);
        line.add_float(
            "request_throughput",
            figures.per_second(figures.completed as u64),
        );
        line.add_float("input_throughput", figures.per_second(figures.input()));
        line.add_float("output_throughput", figures.per_second(figures.output));
        line.add_float(
            "total_throughput",
            figures.per_second(figures.input() + figures.output),
        );
        line.add_float("max_output_tokens_per_s", figures.peak_output);
        line.add("max_concurrent_requests", figures.peak_requests);
        line.add_float("concurrency", figures.concurrency);
        line.add("accept_length", figures.accept_length);
    }

    fn add_times(&self, line: &mut ResultLine) {
        let figures = &self.figures;
        let spreads: [(&str, &Spread); 7] = [
            ("scheduled_e2e_latency", &figures.scheduled_e2e),
            ("e2e_latency", &figures.e2e),
            ("scheduled_ttft", &figures.scheduled_ttft),
            ("ttft", &figures.ttft),
            ("tpot", &figures.tpot),
            ("itl", &figures.itl),
            ("queue", &figures.queue),
        ];
        for (name, spread) in spreads {
            let values = [
                ("mean", spread.mean),
                ("median", spread.median),
                ("std", spread.deviation),
                ("p90", spread.p90),
                ("p95", spread.p95),
                ("p99", spread.p99),
                ("max", spread.max),
            ];
            for (kind, value) in values {
                line.add_float(format!("{kind}_{name}_ms"), value);
            }
        }
    }

    fn add_rest(&self, line: &mut ResultLine) {
        let figures = &self.figures;
        let goodput = figures.goodput.as_ref().map(|goodput| {
            let by_objective: serde_json::Map<String, Value> = goodput
                .by_objective
                .iter()
                .map(|(key, share)| (key.name().to_owned(), json!(share)))
                .collect();
            json!({
                "objectives": goodput.objectives,
                "request_goodput": goodput.per_second,
                "attainment": goodput.attainment,
                "attainment_by_objective": by_objective,
            })
        });
        line.add("goodput", goodput);
        let steady = figures.steady.ok().map(|steady| {
            json!({
                "seconds": steady.seconds(),
                "least_under_way": steady.threshold,
                "concurrency": steady.concurrency,
                "request_throughput": steady.request_throughput,
                "output_throughput": steady.output_throughput,
            })
        });
        line.add("steady_state", steady);
        let refused = figures.refused.iter();
        let mut refused: serde_json::Map<String, Value> = refused
            .map(|(key, reason)| ((*key).to_owned(), json!(reason)))
            .collect();
        if let Err(why) = &figures.steady {
            refused.insert("steady_state".to_owned(), json!(why.to_string()));
        }
        line.add("refused", refused);
        let hits = figures.cache.as_ref();
        line.add(
            "prefix_cache",
            json!({
                "at_start": self.cache.words(),
                "hit_rate": hits.map(CacheHits::rate),
                "cached_tokens": hits.map(|hits| hits.cached_tokens),
            }),
        );
        let health = &self.health;
        line.add(
            "client",
            json!({
                "limited": health.is_limited(),
                "limits": health.limits,
                "p99_read_lag_ms": health.read_lag * 1e3,
                "p99_send_lag_ms": health.send_lag * 1e3,
                "cpu_seconds": health.cpu,
                "busy_share": health.busy,
                "peak_memory_bytes": health.memory,
                "kernel_stamped_share": health.stamped,
                "threads": health.threads,
            }),
        );
        line.add(
            "warm_up",
            json!({
                "requests": self.warm_up.requests,
                "rounds": self.warm_up.rounds,
                "steady": self.warm_up.steady,
                "median_ttft_ms": self.warm_up.first_tokens.iter().map(|s| s * 1e3).collect::<Vec<_>>(),
            }),
        );
    }
}
