use super::*;
use crate::client::Backend;
use crate::clock::Nanos;
use crate::measure::goodput::Objectives;
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

/// The page of records, with objectives when there are some.
fn page_of(records: &[RequestRecord], objectives: &[&str]) -> String {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
    let vocabulary = Vocabulary::from_path(data).unwrap();
    let backend = Backend::named("sglang").unwrap();
    let objectives = Objectives::from_words(objectives.iter().copied()).unwrap();
    let objectives = Some(&objectives).filter(|objectives| !objectives.each().is_empty());
    let figures = StrictFigures::of(records, backend, &vocabulary, objectives);
    let good = records.iter().filter(|record| record.succeeded());
    let timings: Vec<Timing> = good
        .map(|record| Timing::of(record, backend.family(), &vocabulary))
        .collect();
    page(&PageContent {
        title: "model <x> & more",
        subtitle: "sglang",
        records,
        timings: &timings,
        figures: &figures,
        counts_from_due: true,
        warnings: &["1 of 30 requests failed".to_owned()],
        table: "==",
        facts: "{}",
    })
}

/// The drawing under a heading.
fn chart<'a>(html: &'a str, title: &str) -> &'a str {
    let from = html.split(&format!("<h2>{title}</h2>")).nth(1);
    let chart = from.unwrap_or_else(|| panic!("no {title} in the page"));
    chart.split("</svg>").next().unwrap()
}

/// Where the steps of a line are: pixels across and up.
fn steps(path: &str) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (0.0, 0.0);
    let mut all = Vec::new();
    for (at, letter) in path.match_indices(['M', 'H', 'V']) {
        let rest = &path[at + 1..];
        let end = rest.find(|sign: char| sign.is_alphabetic());
        let numbers = rest[..end.unwrap_or(rest.len())].split(' ');
        let numbers: Vec<f64> = numbers.map(|number| number.parse().unwrap()).collect();
        match (letter, numbers.as_slice()) {
            ("M", [across, up]) => (x, y) = (*across, *up),
            ("H", [across]) => x = *across,
            ("V", [up]) => y = *up,
            other => panic!("{other:?}"),
        }
        all.push((x, y));
    }
    all
}

/// The paths of a class.
fn paths<'a>(chart: &'a str, class: &str) -> Vec<&'a str> {
    let open = format!("<path class=\"{class}\" d=\"");
    let after = chart.split(open.as_str()).skip(1);
    after.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// Four streams of a token every 20 ms for two seconds, a stall of 1.5 s, and as much again.
fn stalled() -> Vec<RequestRecord> {
    let mut records = records();
    records.truncate(4);
    for record in &mut records {
        record.failure = None;
        let start = record.sent.0 + 100_000_000;
        record.chunks = (0..200_u64)
            .map(|token| Chunk {
                at: Nanos(start + token * 20_000_000 + if token < 100 { 0 } else { 1_500_000_000 }),
                tokens: token as u32 + 1,
                text_end: 0,
            })
            .collect();
        record.finished = record.chunks.last().unwrap().at;
    }
    records
}

#[test]
fn a_page_is_whole_and_refers_to_nothing_outside() {
    let html = page_of(&records(), &[]);
    assert!(html.contains("model &lt;x&gt; &amp; more"));
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert_eq!(html.matches("<svg").count(), 3 + 4 + 4);
    assert_eq!(
        chart(&html, "Every request").matches("<rect").count(),
        30 * 3
    );
    assert!(html.contains("failed: connection closed early"));
    assert!(html.contains("Inter-token latency over the run"));
    assert!(!html.contains("SLO"));
    for outside in [
        "http://", "https://", "src=", "<script", "@import", "NaN", "inf\"",
    ] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_legend_speaks_of_failures_only_where_there_are_some() {
    let mut records = records();
    let failed = page_of(&records, &[]);
    assert!(chart(&failed, "Every request").contains("</i>failed (1)</span>"));
    assert!(failed.contains("<span>all 30 requests</span>"));
    records.retain(RequestRecord::succeeded);
    let html = page_of(&records, &[]);
    assert!(!chart(&html, "Every request").contains("failed"));
    assert!(!html.contains("<h2>Failures"));
}

#[test]
fn failures_are_drawn_when_they_happened_and_by_their_reason() {
    let mut records = records();
    for record in &mut records[20..24] {
        record.failure = Some(Failure::Empty);
    }
    let html = page_of(&records, &[]);
    let chart = chart(&html, "Failures, by the moment at which they ended");
    assert!(chart.contains(">empty answer · 4</text>"));
    assert!(chart.contains(">connection closed early · 1</text>"));
    assert!(chart.contains("<title>1 × connection closed early</title>"));
}

#[test]
fn every_failed_request_is_among_the_bars_of_a_long_run() {
    let mut records: Vec<RequestRecord> = (0..1000).flat_map(|_| records()).take(1000).collect();
    for (place, record) in records.iter_mut().enumerate() {
        record.scheduled = Nanos(place as u64 * 1_000_000);
        record.failure = [500, 501, 503].contains(&place).then_some(Failure::Cut);
    }
    let html = page_of(&records, &[]);
    let note = "220 of 1000 requests, evenly chosen, 3 of 3 failed ones among them";
    assert!(html.contains(note));
    let bars = chart(&html, "Every request");
    assert_eq!(bars.matches("failed: connection closed early").count(), 3);
}

#[test]
fn a_stall_is_a_plateau_as_long_as_it_was() {
    let html = page_of(&stalled(), &[]);
    let chart = chart(&html, "Inter-token latency over the run");
    assert!(chart.contains("ITL ms, log scale"));
    let second = (960.0 - 64.0 - 14.0) / 5.7;
    for class in ["line c2", "line c3", "line c4"] {
        let [path] = paths(chart, class)[..] else {
            panic!("one line of {class}");
        };
        let steps = steps(path);
        let top = steps.iter().map(|step| step.1).fold(f64::MAX, f64::min);
        let high = steps.iter().filter(|step| step.1 < top + 0.5);
        let (first, last) = high.fold((f64::MAX, 0.0_f64), |(first, last), step| {
            (first.min(step.0), last.max(step.0))
        });
        let length = (last - first) / second;
        assert!((1.2..1.8).contains(&length), "{class}: {length} s");
        let moved = |two: &[(f64, f64)]| {
            let (across, up) = (two[1].0 - two[0].0, two[1].1 - two[0].1);
            across.abs().min(up.abs())
        };
        assert!(
            steps.windows(2).all(|two| moved(two) < 0.01),
            "no slope in {path}"
        );
    }
}

#[test]
fn a_time_without_streams_breaks_the_line() {
    let mut records = stalled();
    for (place, record) in records.iter_mut().enumerate() {
        record.chunks = (0..20)
            .map(|token| Chunk {
                at: Nanos((place as u64 * 100 + token) * 20_000_000),
                tokens: token as u32 + 1,
                text_end: 0,
            })
            .collect();
        record.sent = Nanos(place as u64 * 2_000_000_000);
        record.finished = record.chunks.last().unwrap().at;
    }
    let html = page_of(&records, &[]);
    let chart = chart(&html, "Inter-token latency over the run");
    assert_eq!(paths(chart, "line c2").len(), 4);
}

#[test]
fn the_distribution_of_gaps_ends_at_the_longest() {
    let html = page_of(&stalled(), &[]);
    let chart = chart(&html, "Inter-token latency");
    assert!(chart.contains("p99 20 · max 1520"), "{chart}");
    let path = steps(paths(chart, "line c2")[0]);
    let (before, last) = (path[path.len() - 9].0, path[path.len() - 1].0);
    assert!(last - before > 200.0, "the tail is drawn: {before} {last}");
}

#[test]
fn throughput_is_a_mean_over_a_second_above_its_steps() {
    let html = page_of(&stalled(), &[]);
    let throughput = chart(&html, "Throughput");
    assert!(throughput.contains("moving mean over 1 s"));
    assert_eq!(paths(throughput, "line c1").len(), 1);
    assert_eq!(paths(throughput, "area c1").len(), 1);
    let short = page_of(&records(), &[]);
    assert!(!chart(&short, "Throughput").contains("moving mean"));
}

#[test]
fn objectives_are_lines_and_tiles() {
    let html = page_of(&stalled(), &["ttft:80", "tpot:30", "e2e:9000"]);
    assert!(html.contains("within SLO (ttft:80 tpot:30 e2el:9000)"));
    assert!(html.contains("<span>goodput, req&#x2f;s</span>"));
    for (title, words) in [
        ("Time to first token", "SLO 80 ms: 0.0 % within"),
        ("Time per output token", "SLO 30 ms: 100.0 % within"),
        ("Whole request", "SLO 9000 ms: 100.0 % within"),
        ("Time to first token over the run", "SLO 80 ms<"),
        ("Whole request over the run", "SLO 9000 ms<"),
    ] {
        let chart = chart(&html, title);
        assert!(chart.contains(words), "{title}");
        assert_eq!(chart.matches("class=\"limit\"").count(), 1, "{title}");
    }
}

#[test]
fn times_from_being_due_are_shown_where_requests_waited_for_their_turn() {
    let mut records = records();
    assert!(!page_of(&records, &[]).contains("from being due"));
    for record in &mut records[10..] {
        record.scheduled = Nanos(record.sent.0 - 300_000_000);
    }
    let html = page_of(&records, &["ttft:300"]);
    let chart = chart(&html, "Time to first token");
    assert!(chart.contains("from being sent") && chart.contains("from being due"));
    assert!(chart.contains("SLO 300 ms: 31.0 % within"), "{chart}");
    assert!(html.contains("due at, seconds"));
}

#[test]
fn nothing_is_wider_than_a_narrow_screen_but_what_scrolls() {
    let html = page_of(&records(), &[]);
    assert_eq!(html.matches("<div class=\"scroll\"><svg").count(), 3 + 4);
    assert!(html.contains(".scroll { overflow-x: auto; }"));
    let columns = html
        .split("minmax(")
        .skip(1)
        .map(|rest| rest.split("1fr").next().unwrap());
    for column in columns {
        assert!(
            column.starts_with("112px") || column.starts_with("min("),
            "{column}"
        );
    }
}

#[test]
fn a_run_without_success_still_has_a_page() {
    let html = page_of(&[], &[]);
    assert!(html.contains("<b>n&#x2f;a</b>") && !html.contains("NaN"));
}
