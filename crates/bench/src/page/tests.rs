use super::*;
use crate::client::Backend;
use crate::clock::Nanos;
use crate::record::{Asked, Chunk, Due, Failure};
use crate::vocabulary::Vocabulary;

fn records() -> Vec<RequestRecord> {
    (0..30_u64)
        .map(|row| {
            let sent = Nanos(row * 40_000_000);
            let asked = Asked {
                prompt_tokens: 10,
                output_tokens: 8,
                ..Asked::default()
            };
            let mut record = RequestRecord::begun(row as usize, 0, Due::at(sent), sent, asked);
            record.chunks = (1..=8)
                .map(|token| Chunk {
                    at: Nanos(sent.0 + 80_000_000 + token * (15 + row) * 1_000_000),
                    tokens: token as u32,
                    text_end: 0,
                })
                .collect();
            record.finished = record.chunks.last().expect("there are eight").at;
            record.failure = (row == 7).then_some(Failure::Cut);
            record
        })
        .collect()
}

#[test]
fn a_page_is_whole_and_refers_to_nothing_outside() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
    let vocabulary = Vocabulary::from_path(data).unwrap();
    let backend = Backend::named("sglang").unwrap();
    let records = records();
    let figures = StrictFigures::of(&records, backend, &vocabulary, None);
    let good = records.iter().filter(|record| record.succeeded());
    let timings: Vec<Timing> = good
        .map(|record| Timing::of(record, backend.family(), &vocabulary))
        .collect();
    let html = page(&PageContent {
        title: "model <x> & more",
        subtitle: "sglang",
        records: &records,
        timings: &timings,
        figures: &figures,
        warnings: &["1 of 30 requests failed".to_owned()],
        table: "==",
        facts: "{}",
    });
    assert!(html.contains("model &lt;x&gt; &amp; more"));
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert_eq!(html.matches("<svg").count(), 2 + 4 + 3 + 1);
    assert_eq!(html.matches("<rect").count(), 30 * 3);
    assert!(html.contains("failed: connection closed early"));
    assert!(html.contains("Inter-token latency over the run"));
    for outside in [
        "http://", "https://", "src=", "<script", "@import", "NaN", "inf\"",
    ] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_run_without_success_still_has_a_page() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
    let vocabulary = Vocabulary::from_path(data).unwrap();
    let backend = Backend::named("sglang").unwrap();
    let figures = StrictFigures::of(&[], backend, &vocabulary, None);
    let html = page(&PageContent {
        title: "t",
        subtitle: "s",
        records: &[],
        timings: &[],
        figures: &figures,
        warnings: &[],
        table: "",
        facts: "",
    });
    assert!(html.contains("<b>n&#x2f;a</b>") && !html.contains("NaN"));
}
