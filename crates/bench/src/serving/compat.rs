//! A run in the reference's manner: its arithmetic, its table, its result line.

use super::error::ServingError;
use super::options::Options;
use super::prepare::{Prepared, prepare};
use super::run::{Ran, run, server_info};
use super::surroundings::Surroundings;
use crate::dataset::{Prompt, Row};
use crate::layout::{Heading, reference_table};
use crate::measure::cache::CacheHits;
use crate::measure::goodput::{Goodput, Observed};
use crate::measure::reference::{
    Circumstances, Figures, Seen, Spread, View, figures_of, per_second,
};
use crate::record::RequestRecord;
use crate::result::{Field, ResultLine, Style, append};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the benchmark; what the process returns.
pub(super) fn serve(
    mut options: Options,
    surroundings: &mut Surroundings<'_>,
) -> Result<u8, ServingError> {
    let mut prepared = prepare(&mut options, surroundings)?;
    let rows: Vec<Arc<Row>> = prepared
        .dataset
        .rows
        .iter()
        .cloned()
        .map(Arc::new)
        .collect();
    prepared.dataset.rows.truncate(1);
    let ran = run(&options, &prepared, &rows, surroundings)?;
    let report = Report::of(&options, &prepared, &ran);
    if report.figures.completed == 0 {
        surroundings.warn(
            "UserWarning: All requests failed. This is likely due to a misconfiguration on the \
             benchmark arguments.",
        );
    }
    // The reference has no word for them; its table stays as it is.
    let failed = ran
        .outcome
        .records
        .len()
        .saturating_sub(report.figures.completed);
    if failed > 0 && !ran.outcome.interrupted {
        surroundings.warn(&format!(
            "warning: {failed} of {} requests failed and are left out ({}); --strict counts them",
            ran.outcome.records.len(),
            report.first_failure()
        ));
    }
    if options.given.switch("plot-throughput") {
        surroundings.show(&super::sparks::plot(&report.per_second()));
    }
    let table = report.table(&options, &prepared, &ran);
    surroundings.show(&table);
    let info = server_info(&options, &prepared);
    let line = report.line(&options, &ran, info);
    let path = output_file(&options);
    let written = append(&path, &line.text(Style::Reference))
        .map_err(|source| ServingError::Output { path, source });
    let run = (ran.outcome.records.as_slice(), rows.as_slice());
    super::page::write(
        &options,
        &prepared,
        run,
        (&table, report.goodput.as_ref()),
        surroundings,
    )?;
    written?;
    if ran.outcome.interrupted {
        surroundings.warn(&interruption(&ran.outcome.records, rows.len()));
        return Ok(130);
    }
    Ok(u8::from(report.figures.completed == 0))
}

/// What is said of a run that a person ended.
pub(super) fn interruption(records: &[RequestRecord], rows: usize) -> String {
    let done = records.iter().filter(|record| record.succeeded()).count();
    format!("interrupted: {done} of {rows} requests are done")
}

/// Where the result line goes.
pub(super) fn output_file(options: &Options) -> PathBuf {
    if let Some(path) = options
        .given
        .text("output-file")
        .filter(|path| !path.is_empty())
    {
        return path.into();
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (month, day) = crate::os::local_month_day(now.as_secs());
    let text = |name: &str| options.given.text(name).unwrap_or_default().to_owned();
    let count = |name: &str| options.given.integer(name).unwrap_or_default();
    let start = format!(
        "{}_{month:02}{day:02}_{}",
        text("backend"),
        count("num-prompts")
    );
    let dataset = text("dataset-name");
    let lengths = format!(
        "{}_{}",
        count("random-input-len"),
        count("random-output-len")
    );
    match dataset.as_str() {
        "image" => {
            let (images, resolution) = (count("image-count"), text("image-resolution"));
            format!("{start}_{lengths}_{images}imgs_{resolution}.jsonl")
        }
        name if name.starts_with("random") => format!("{start}_{lengths}.jsonl"),
        name => format!("{start}_{name}.jsonl"),
    }
    .into()
}

struct Report<'a> {
    view: View,
    records: &'a [RequestRecord],
    seen: Vec<Seen>,
    figures: Figures,
    goodput: Option<Goodput>,
    cache: Option<CacheHits>,
}

impl<'a> Report<'a> {
    fn of(options: &Options, prepared: &Prepared, ran: &'a Ran) -> Self {
        let records = ran.outcome.records.as_slice();
        let view = View {
            backend: prepared.backend,
            release: options.release,
            gap_per_event: false,
        };
        let conversations = prepared
            .dataset
            .rows
            .iter()
            .any(|row| matches!(row.prompt, Prompt::Turns(_)));
        let seen: Vec<Seen> = records.iter().map(|record| view.see(record)).collect();
        let figures = figures_of(
            records,
            &seen,
            &Circumstances {
                view,
                duration: ran.duration,
                accept_length: ran.accept_length,
                vocabulary: &prepared.vocabulary,
                conversations,
            },
        );
        let good: Vec<Observed> = seen
            .iter()
            .filter(|seen| seen.success)
            .map(observed)
            .collect();
        let goodput = options
            .objectives
            .as_ref()
            .map(|bounds| Goodput::of(bounds, &good, records.len(), ran.duration));
        let cache = options.given.switch("cache-report").then(|| {
            let pairs = records.iter().zip(&seen).filter(|(_, seen)| seen.success);
            CacheHits::of(pairs.map(|(record, seen)| (record, seen.prompt)))
        });
        Self {
            view,
            records,
            seen,
            figures,
            goodput,
            cache,
        }
    }

    /// Why the first request that does not count does not.
    fn first_failure(&self) -> String {
        let pairs = self.records.iter().zip(&self.seen);
        let failures = pairs.filter(|(_, seen)| !seen.success);
        let first = failures.map(|(record, _)| record.failure.as_ref()).next();
        let words = first.flatten().map(ToString::to_string);
        words.unwrap_or_else(|| "without a reason".to_owned())
    }

    fn per_second(&self) -> (Vec<f64>, Vec<f64>) {
        per_second(self.view, self.records, &self.seen)
    }

    fn table(&self, options: &Options, prepared: &Prepared, ran: &Ran) -> String {
        let dataset = options.given.text("dataset-name").unwrap_or_default();
        let heading = Heading {
            backend: prepared.backend.name(),
            rate: ran.rate,
            max_concurrency: ran.gate.map(|gate| gate as u64),
            embedding: prepared.backend.is_embedding(),
            images: ["image", "mmmu"].contains(&dataset),
        };
        let (goodput, cache) = (self.goodput.as_ref(), self.cache.as_ref());
        reference_table(options.layout, &heading, &self.figures, goodput, cache)
    }

    fn line(&self, options: &Options, ran: &Ran, info: Option<Value>) -> ResultLine {
        let mut line = ResultLine::default();
        let given = &options.given;
        line.add("tag", given.text("tag").map(str::to_owned));
        line.add("backend", given.text("backend").unwrap_or_default());
        line.add(
            "dataset_name",
            given.text("dataset-name").unwrap_or_default(),
        );
        match ran.rate {
            Some(rate) => line.add_float("request_rate", rate),
            None => line.add("request_rate", "trace"),
        }
        line.add("max_concurrency", given.integer("max-concurrency"));
        line.add("sharegpt_output_len", given.integer("sharegpt-output-len"));
        line.add("random_input_len", given.integer("random-input-len"));
        line.add("random_output_len", given.integer("random-output-len"));
        line.add_float(
            "random_range_ratio",
            given.float("random-range-ratio").unwrap_or_default(),
        );
        line.add("server_info", info);
        self.add_figures(&mut line, options);
        self.add_goodput(&mut line);
        self.add_cache(&mut line);
        if given.switch("output-details") {
            self.add_details(&mut line);
        }
        line
    }

    fn add_figures(&self, line: &mut ResultLine, options: &Options) {
        let figures = &self.figures;
        line.add_float("duration", figures.duration);
        line.add("completed", figures.completed);
        line.add("total_input_tokens", figures.input);
        line.add("total_input_text_tokens", figures.input_text);
        line.add("total_input_vision_tokens", figures.input_vision);
        line.add("total_output_tokens", figures.output);
        line.add(
            "total_output_tokens_retokenized",
            figures.output_retokenized,
        );
        line.add_float("request_throughput", figures.request_throughput());
        line.add_float("input_throughput", figures.input_throughput());
        line.add_float("output_throughput", figures.output_throughput());
        line.add_float("total_throughput", figures.total_throughput());
        let many = options.release.has(13);
        let mut spread = |name: &str, spread: &Spread, p95: bool| {
            line.add_float(format!("mean_{name}_ms"), spread.mean);
            line.add_float(format!("median_{name}_ms"), spread.median);
            line.add_float(format!("std_{name}_ms"), spread.deviation);
            if many {
                line.add_float(format!("p90_{name}_ms"), spread.p90);
            }
            if many || p95 {
                line.add_float(format!("p95_{name}_ms"), spread.p95);
            }
            line.add_float(format!("p99_{name}_ms"), spread.p99);
        };
        spread("e2e_latency", &figures.e2e, false);
        spread("ttft", &figures.ttft, false);
        spread("tpot", &figures.tpot, false);
        spread("itl", &figures.itl, true);
        line.add_float("concurrency", figures.concurrency);
        match figures.accept_length {
            Some(length) => line.add_float("accept_length", length),
            None => line.add("accept_length", Value::Null),
        }
        line.add_float("max_output_tokens_per_s", figures.peak_output);
        line.add("max_concurrent_requests", figures.peak_requests);
    }

    fn add_goodput(&self, line: &mut ResultLine) {
        let Some(goodput) = &self.goodput else { return };
        let bounds = goodput.bounds.each();
        let bounds: Map<String, Value> = bounds
            .iter()
            .map(|bound| (bound.key.name().to_owned(), json!(bound.milliseconds)))
            .collect();
        let shares = goodput.by_objective.iter();
        let shares: Map<String, Value> = shares
            .map(|(key, share)| (key.name().to_owned(), json!(share)))
            .collect();
        line.add("goodput_slos_ms", bounds);
        line.add_float("request_goodput", goodput.per_second);
        line.add_float("slo_attainment", goodput.attainment);
        line.add("slo_attainment_by_metric", shares);
    }

    fn add_cache(&self, line: &mut ResultLine) {
        let Some(cache) = &self.cache else { return };
        let places = cache.places;
        let storage = places
            .map(|places| places.storage)
            .filter(|storage| *storage > 0);
        line.add(
            "cache_report",
            json!({
                "total_prompt_tokens": cache.prompt_tokens,
                "total_cached_tokens": cache.cached_tokens,
                "cache_hit_rate_pct": (cache.rate() * 10_000.0).round() / 100.0,
                "device_cached_tokens": places.map(|places| places.device),
                "host_cached_tokens": places.map(|places| places.host),
                "storage_cached_tokens": storage,
                "storage_backend": cache.storage_backend,
            }),
        );
    }

    fn add_details(&self, line: &mut ResultLine) {
        let prompts: Vec<u64> = self.seen.iter().map(|seen| seen.prompt).collect();
        line.add("input_lens", prompts);
        line.add("output_lens", self.figures.output_lengths.clone());
        let firsts = self.seen.iter().map(|seen| seen.ttft).collect();
        line.add_field("ttfts", Field::Floats(firsts));
        let gaps = self.records.iter().map(|record| self.view.gaps(record));
        let gaps = gaps.collect();
        line.add_field("itls", Field::FloatLists(gaps));
        let pairs = || self.records.iter().zip(&self.seen);
        let texts: Vec<&str> = pairs()
            .map(|(record, seen)| {
                if seen.success {
                    record.text.as_str()
                } else {
                    ""
                }
            })
            .collect();
        line.add("generated_texts", texts);
        let errors: Vec<String> = pairs()
            .map(|(record, seen)| match &record.failure {
                Some(failure) if !seen.success => failure.to_string(),
                _ => String::new(),
            })
            .collect();
        line.add("errors", errors);
        if self.cache.is_some() {
            let usages = || self.records.iter().map(|record| &record.usage);
            let cached: Vec<u64> = usages()
                .map(|usage| usage.cached_tokens.unwrap_or(0))
                .collect();
            line.add("cached_tokens", cached);
            let details: Vec<Value> = usages()
                .map(|usage| json!(usage.cached_tokens_details))
                .collect();
            line.add("cached_tokens_details", details);
        }
    }
}

/// The times of one request; a single token has none per token.
pub(super) fn observed(seen: &Seen) -> Observed {
    let tpot = if seen.output > 1 {
        (seen.latency - seen.ttft) / (seen.output - 1) as f64
    } else {
        0.0
    };
    Observed {
        ttft: seen.ttft,
        tpot,
        e2el: seen.latency,
    }
}
