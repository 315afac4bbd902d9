//! `--print-requests`: a line when a request begins and one when it ends.

use super::prepare::Prepared;
use crate::dataset::Row;
use crate::load::Onlooker;
use crate::pace::LoadState;
use crate::python_text;
use crate::random::NumpyRandom;
use crate::record::RequestRecord;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Prints requests as they come and go.
pub(super) struct RequestPrinter<'a> {
    out: &'a mut dyn Write,
    url: String,
    model: String,
    rows: &'a [Arc<Row>],
    random: NumpyRandom,
    begun: BTreeMap<(usize, usize), (String, f64)>,
}

impl<'a> RequestPrinter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, prepared: &Prepared, rows: &'a [Arc<Row>]) -> Self {
        let url = prepared.control.url(prepared.backend.path());
        let random = NumpyRandom::seeded(now().to_bits() as u32);
        Self {
            out,
            url,
            model: prepared.model.clone(),
            rows,
            random,
            begun: BTreeMap::new(),
        }
    }

    /// A random identifier in the usual grouping.
    fn identifier(&mut self) -> String {
        let mut word = || self.random.integer(0, u64::from(u32::MAX)) as u32;
        let (a, b, c, d) = (word(), word(), word(), word());
        format!(
            "{a:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{d:08x}",
            b >> 16,
            b & 0xfff,
            0x8000 | ((c >> 16) & 0x3fff),
            c & 0xffff
        )
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

impl Onlooker for RequestPrinter<'_> {
    fn sent(&mut self, row: usize, round: usize) {
        let (identifier, time) = (self.identifier(), now());
        let asked = self.rows[row].asked;
        let text = |text: &str| python_text::repr(&Value::from(text));
        // What cannot be printed is no reason to end a run.
        writeln!(
            self.out,
            "rid={identifier} time={} message=\"request start\" request_func_input=\"\
             RequestFuncInput(prompt='...', api_url={}, prompt_len={}, output_len={}, model={}, \
             lora_name=None, image_data=None, extra_request_body={{}}, timestamp=None)\"",
            python_text::float(time),
            text(&self.url),
            asked.prompt_tokens,
            asked.output_tokens,
            text(&self.model),
        )
        .ok();
        self.begun.insert((row, round), (identifier, time));
    }

    fn finished(&mut self, record: &RequestRecord, _: &LoadState) {
        let begun = self
            .begun
            .remove(&(record.row, record.round))
            .unwrap_or_default();
        let (identifier, began) = begun;
        let time = now();
        let success = python_text::repr(&Value::from(record.succeeded()));
        let error = record
            .failure
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let ttft = record
            .chunks
            .first()
            .map_or(0.0, |chunk| chunk.at.seconds_since(record.sent));
        writeln!(
            self.out,
            "rid={identifier} time={} time_delta={} message=\"request end\" output=\"\
             RequestFuncOutput(generated_text='...', success={success}, latency={}, ttft={}, \
             prompt_len={}, error={}, output_len={}, start_time={})\"",
            python_text::float(time),
            python_text::float(time - began),
            python_text::float(record.finished.seconds_since(record.sent)),
            python_text::float(ttft),
            record.asked.prompt_tokens,
            python_text::repr(&Value::from(error)),
            record
                .usage
                .output_tokens
                .unwrap_or(record.asked.output_tokens),
            python_text::float(record.sent.seconds()),
        )
        .ok();
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn look(&mut self, _: &LoadState, _: usize) {}
}
