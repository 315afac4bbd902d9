//! `--output-details`: every request in the result line.

use super::prepare::Prepared;
use crate::measure::timing::Timing;
use crate::record::{Failure, RequestRecord};
use crate::result::{Field, ResultLine};

/// Adds one entry per request to each of the reference's arrays, and the moments it leaves out.
/// A request that failed has no times.
pub(super) fn add(line: &mut ResultLine, records: &[RequestRecord], prepared: &Prepared) {
    let family = prepared.backend.family();
    let timings: Vec<Option<Timing>> = records
        .iter()
        .map(|record| {
            let timing = || Timing::of(record, family, &prepared.vocabulary);
            record.succeeded().then(timing)
        })
        .collect();
    let each = |time: fn(&Timing) -> f64| {
        let times = timings.iter().map(Option::as_ref);
        Field::Floats(times.map(|timing| timing.map_or(f64::NAN, time)).collect())
    };
    let inputs: Vec<u64> = records
        .iter()
        .map(|record| {
            let told = record.usage.prompt_tokens;
            told.unwrap_or(record.asked.prompt_tokens)
        })
        .collect();
    let outputs = timings.iter().map(Option::as_ref);
    let outputs: Vec<u64> = outputs
        .map(|timing| timing.map_or(0, |timing| timing.output))
        .collect();
    let gaps = timings.iter().map(Option::as_ref);
    let gaps = gaps.map(|timing| timing.map_or_else(Vec::new, |timing| timing.gaps().collect()));
    let texts: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
    let errors: Vec<String> = records
        .iter()
        .map(|record| {
            let failure = record.failure.as_ref();
            failure.map(Failure::to_string).unwrap_or_default()
        })
        .collect();
    line.add("input_lens", inputs);
    line.add("output_lens", outputs);
    line.add_field("ttfts", each(|timing| timing.ttft));
    line.add_field("scheduled_ttfts", each(|timing| timing.scheduled_ttft));
    line.add_field("e2e_latencies", each(|timing| timing.e2e));
    line.add_field("itls", Field::FloatLists(gaps.collect()));
    line.add("generated_texts", texts);
    line.add("errors", errors);
}
