//! What the reference gets wrong, on records small enough to be worked out by hand.

use super::*;
use crate::measure::reference::{Circumstances, View, figures};
use crate::record::{Asked, Chunk, Due, Failure, Usage};
use crate::release::Release;

const MS: u64 = 1_000_000;

fn vocabulary() -> Vocabulary {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
    Vocabulary::from_path(path).unwrap()
}

/// A request due, let go and sent at these milliseconds, with chunks of (moment, tokens so far).
fn record(row: usize, due: u64, sent: u64, chunks: &[(u64, u32)]) -> RequestRecord {
    let asked = Asked {
        prompt_tokens: 10,
        text_tokens: 10,
        vision_tokens: 0,
        output_tokens: 99,
    };
    let times = Due {
        scheduled: Nanos(due * MS),
        released: Nanos(sent * MS),
    };
    let mut record = RequestRecord::begun(row, 0, times, Nanos(sent * MS), asked);
    record.chunks = chunks
        .iter()
        .map(|(at, tokens)| Chunk {
            at: Nanos(at * MS),
            tokens: *tokens,
            text_end: 0,
        })
        .collect();
    record.finished = record
        .chunks
        .last()
        .map_or(Nanos(sent * MS), |chunk| chunk.at);
    let tokens = chunks
        .last()
        .map(|(_, tokens)| u64::from(*tokens))
        .filter(|tokens| *tokens > 0);
    record.usage = Usage {
        output_tokens: tokens,
        prompt_tokens: Some(12),
        ..Usage::default()
    };
    record
}

fn strict(records: &[RequestRecord], backend: &str) -> StrictFigures {
    StrictFigures::of(
        records,
        Backend::named(backend).unwrap(),
        &vocabulary(),
        None,
    )
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

#[test]
fn latency_counts_from_the_schedule_and_from_the_send() {
    let found = strict(&[record(0, 100, 400, &[(500, 1), (700, 3)])], "sglang");
    close(found.ttft.mean, 100.0);
    close(found.scheduled_ttft.mean, 400.0);
    close(found.e2e.mean, 300.0);
    close(found.scheduled_e2e.mean, 600.0);
    close(found.queue.mean, 300.0);
}

#[test]
fn tokens_that_came_together_share_their_gap_and_peaks_count_them_all() {
    let counted = record(0, 0, 0, &[(100, 2), (160, 5), (260, 6)]);
    let found = strict(std::slice::from_ref(&counted), "vllm");
    // three tokens in 60 ms, one in 100 ms
    close(found.itl.mean, (20.0 * 3.0 + 100.0) / 4.0);
    close(found.itl.max, 100.0);
    close(found.tpot.mean, 160.0 / 5.0);
    close(found.peak_output, 6.0);
    let view = View {
        backend: Backend::named("vllm").unwrap(),
        release: Release::USUAL,
        gap_per_event: false,
    };
    let circumstances = Circumstances {
        view,
        duration: 1.0,
        accept_length: None,
        vocabulary: &vocabulary(),
        conversations: false,
    };
    let reference = figures(&[counted], &circumstances);
    close(reference.itl.mean, 80.0);
    close(reference.peak_output, 3.0);
}

#[test]
fn tokens_nobody_counted_are_counted_by_their_text() {
    let mut uncounted = record(0, 0, 0, &[(100, 0), (200, 0)]);
    uncounted.text = "the sea is calm".to_owned();
    let ends = [7, 15].into_iter();
    uncounted.chunks = uncounted
        .chunks
        .iter()
        .zip(ends)
        .map(|(chunk, text_end)| Chunk { text_end, ..chunk })
        .collect();
    uncounted.usage = Usage::default();
    let vocabulary = vocabulary();
    let found = strict(std::slice::from_ref(&uncounted), "vllm");
    assert_eq!(found.output, vocabulary.count("the sea is calm") as u64);
    assert_eq!(found.output_sources, [CountSource::Text]);
    assert_eq!(found.input_actual, None);
    let pieces = [vocabulary.count("the sea"), vocabulary.count(" is calm")];
    close(found.itl.mean, 100.0 / pieces[1] as f64);
    uncounted.text.clear();
    let found = strict(&[uncounted], "vllm");
    assert_eq!(
        (found.output, found.output_sources),
        (99, vec![CountSource::Asked])
    );
}

#[test]
fn peak_concurrency_is_overlap_and_not_a_second_touched() {
    // one after another within a second
    let records: Vec<RequestRecord> = (0..5)
        .map(|row| {
            record(
                row,
                row as u64 * 100,
                row as u64 * 100,
                &[(row as u64 * 100 + 90, 1)],
            )
        })
        .collect();
    assert_eq!(strict(&records, "sglang").peak_requests, Some(1));
}

#[test]
fn failures_are_counted_by_reason_and_left_out_of_times() {
    let mut records: Vec<RequestRecord> = (0..4)
        .map(|row| record(row, 0, 0, &[(100, 1), (200, 2)]))
        .collect();
    records[1].failure = Some(Failure::Cut);
    records[2].failure = Some(Failure::Cut);
    records[3].failure = Some(Failure::Empty);
    let found = strict(&records, "sglang");
    assert_eq!((found.sent, found.completed, found.failed()), (4, 1, 3));
    assert_eq!(found.failures[0], ("connection closed early".to_owned(), 2));
    close(found.failed_share(), 0.75);
    assert_eq!(
        (found.output, found.input_nominal, found.input_actual),
        (2, 10, Some(12))
    );
}

#[test]
fn nothing_at_all_is_not_a_crash() {
    let mut failed = record(0, 0, 0, &[]);
    failed.failure = Some(Failure::Empty);
    for records in [vec![], vec![failed]] {
        let found = strict(&records, "sglang");
        assert_eq!(found.completed, 0);
        assert!(found.e2e.p99.is_nan() && found.steady.is_err());
    }
}

#[test]
fn the_achieved_rate_is_that_of_the_sends() {
    let records: Vec<RequestRecord> = (0..11)
        .map(|row| record(row, 0, row as u64 * 50, &[(1000, 1)]))
        .collect();
    close(strict(&records, "sglang").achieved_rate, 20.0);
}

#[test]
fn tool_calls_are_tokens_like_others() {
    let mut calling = record(0, 0, 0, &[]);
    calling.finished = Nanos(150 * MS);
    calling.usage.output_tokens = Some(11);
    calling.tool_calls.text = "find the sea".to_owned();
    calling.tool_calls.chunks = [(50, 4), (100, 8), (150, 12)]
        .map(|(at, text_end)| Chunk {
            at: Nanos(at * MS),
            tokens: 0,
            text_end,
        })
        .into_iter()
        .collect();
    let found = strict(std::slice::from_ref(&calling), "sglang-oai-chat");
    close(found.ttft.mean, 50.0);
    close(found.e2e.mean, 150.0);
    close(found.tpot.mean, 10.0);
    close(found.itl.max, 50.0);
    // Without a count of the server's, names and arguments are counted like text.
    calling.usage = Usage::default();
    let found = strict(&[calling], "sglang-oai-chat");
    let tokens = vocabulary().count("find the sea") as u64;
    assert_eq!(
        (found.output, found.output_sources),
        (tokens, vec![CountSource::Text])
    );
}

#[test]
fn answers_that_the_server_ended_early_are_told_from_the_others() {
    let mut records = vec![
        record(0, 0, 0, &[(100, 1), (200, 99)]),
        record(1, 0, 0, &[(100, 1), (200, 40)]),
        record(2, 0, 0, &[(100, 0)]),
    ];
    records[2].usage = Usage::default();
    let found = strict(&records, "sglang-oai");
    let shorter = Shorter {
        answers: 1,
        tokens: 40,
        asked: 99,
    };
    assert_eq!(found.shorter, shorter);
}

#[test]
fn a_resumed_run_keeps_its_times_and_refuses_what_needs_all_that_was_under_way() {
    let records = [record(0, 0, 0, &[(100, 1), (200, 3)])];
    let whole = strict(&records, "sglang");
    let resumed = whole.clone().of_resumed();
    assert_eq!((resumed.ttft, resumed.e2e), (whole.ttft, whole.e2e));
    close(resumed.duration, whole.duration);
    assert!(resumed.concurrency.is_nan() && resumed.peak_output.is_nan());
    assert!(resumed.achieved_rate.is_nan() && resumed.peak_requests.is_none());
    assert_eq!(resumed.steady, Err(NotSteady::Resumed));
    let keys: Vec<&str> = resumed.refused.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
}
