//! Every request as a bar: waiting, prefill, stream.

use super::{Chart, Key, Span, sampled};
use crate::page::svg::{Bar, Canvas, Stretch, bars};
use crate::put::put;
use crate::record::RequestRecord;

const MOST_BARS: usize = 220;
/// Of more requests than there is room for, failed ones may take so many bars.
const MOST_FAILED: usize = MOST_BARS / 2;

/// The bars of all requests, or of some when there are many.
pub(super) fn waterfall(records: &[RequestRecord], run: Span) -> Chart {
    let mut order: Vec<&RequestRecord> = records.iter().collect();
    order.sort_by_key(|record| record.scheduled);
    let (shown, note) = chosen(&order);
    let bars_shown: Vec<Bar> = shown.iter().map(|record| bar(record, run)).collect();
    let height = 60.0 + (shown.len() as f64 * 5.0).clamp(60.0, 900.0);
    let mut key = vec![
        Key::new("w1", "waiting to be sent"),
        Key::new("w2", "to the first token"),
        Key::new("w3", "streaming"),
    ];
    let failed = records.iter().filter(|record| !record.succeeded()).count();
    if failed > 0 {
        key.push(Key::new("w4", format!("failed ({failed})")));
    }
    Chart {
        title: "Every request",
        key,
        note,
        svg: bars(
            Canvas::new(960.0, height),
            run.range(),
            "seconds",
            &bars_shown,
        ),
    }
}

/// The requests to draw and how they were chosen: failed ones first, as they are few and matter.
fn chosen<'a>(order: &[&'a RequestRecord]) -> (Vec<&'a RequestRecord>, String) {
    let all = order.len();
    if all <= MOST_BARS {
        return (order.to_vec(), format!("all {all} requests"));
    }
    let (good, failed): (Vec<_>, Vec<_>) = order.iter().partition(|record| record.succeeded());
    let mut shown: Vec<&RequestRecord> = sampled(&failed, MOST_FAILED).copied().collect();
    let bad = shown.len();
    shown.extend(sampled(&good, MOST_BARS - bad));
    shown.sort_by_key(|record| record.scheduled);
    let mut note = format!("{} of {all} requests, evenly chosen", shown.len());
    if bad > 0 {
        put(
            &mut note,
            format_args!(", {bad} of {} failed ones among them", failed.len()),
        );
    }
    (shown, note)
}

fn bar(record: &RequestRecord, run: Span) -> Bar {
    let [due, sent, end] = [record.scheduled, record.sent, record.finished].map(|at| run.at(at));
    let first = record.first_token().map_or(end, |at| run.at(at));
    let failed = record.failure.as_ref();
    let (waiting, streaming) = if failed.is_some() {
        ("w4", "w4")
    } else {
        ("w2", "w3")
    };
    let stretch = |class, from, to| Stretch { class, from, to };
    let mut words = format!(
        "row {}: due {due:.3} s, sent {sent:.3} s, first token {first:.3} s, end {end:.3} s, {} tokens",
        record.row,
        record
            .usage
            .output_tokens
            .unwrap_or(record.chunks.len() as u64),
    );
    if let Some(failure) = failed {
        put(&mut words, format_args!(", failed: {}", failure.name()));
    }
    let stretches = vec![
        stretch("w1", due, sent),
        stretch(waiting, sent, first),
        stretch(streaming, first, end),
    ];
    Bar { stretches, words }
}
