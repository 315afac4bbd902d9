//! What the tests against scripted servers share.

use bench::client::{Backend, Client, Extras, Manner, Sampling, Url};
use bench::dataset::Row;
use bench::load::{Load, LoadOutcome, Onlooker};
use bench::pace::{LoadState, Pace};
use bench::record::RequestRecord;
use bench::release::Release;
use bench::stop::StopRules;
use std::sync::Arc;
use std::time::Duration;

pub struct Nobody;

impl Onlooker for Nobody {
    fn finished(&mut self, _: &RequestRecord, _: &LoadState) {}
    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn look(&mut self, _: &LoadState, _: usize) {}
}

pub fn manner(base: &str, backend: &str) -> Manner {
    Manner {
        backend: Backend::named(backend).unwrap(),
        base: Url::parse(base).unwrap(),
        release: Release::USUAL,
        model: "scripted".to_owned(),
        headers: Vec::new(),
        stream: true,
        ignore_eos: true,
        sampling: Sampling {
            temperature: 0.0,
            top_p: 1.0,
        },
        extras: Extras {
            start: -1,
            ..Extras::default()
        },
        extra_body: serde_json::Map::new(),
        ask_usage: false,
        bare: false,
    }
}

/// Rows whose prompts are their numbers.
pub fn numbered(count: usize, output_tokens: u64) -> Vec<Arc<Row>> {
    (0..count)
        .map(|row| Arc::new(Row::text(format!("row {row}"), 2, output_tokens)))
        .collect()
}

pub fn drive(
    client: &mut Client,
    rows: &[Arc<Row>],
    pace: Box<dyn Pace>,
    gate: Option<usize>,
) -> LoadOutcome {
    let load = Load {
        rows,
        adapters: &[],
        pace,
        gate,
        stop: StopRules::default(),
        skip: &|_| false,
    };
    bench::load::run(client, load, &mut Nobody)
}
