//! From records to charts.

use super::PageContent;
use super::svg::{Bar, Canvas, Curve, Point, Series, Stretch, bars, cdf, lines, points};
use crate::clock::Nanos;
use crate::measure::overlap::levels;
use crate::measure::percentile;
use crate::measure::timing::Timing;
use crate::put::put;
use crate::record::RequestRecord;
use serde::Serialize;
use std::collections::BTreeMap;

/// Charts of more points than this show a sample.
const MOST_POINTS: usize = 3000;
const MOST_BARS: usize = 220;
/// A time line has about this many steps.
const STEPS: f64 = 240.0;

/// A figure at the top of the page.
#[derive(Serialize)]
pub(super) struct Tile {
    label: &'static str,
    value: String,
    unit: &'static str,
}

/// A chart and its heading.
#[derive(Serialize)]
pub(super) struct Chart {
    title: &'static str,
    svg: String,
}

/// All charts of a page.
pub(super) struct Charts {
    pub(super) tiles: Vec<Tile>,
    pub(super) throughput: String,
    pub(super) concurrency: String,
    pub(super) distributions: Vec<Chart>,
    pub(super) timelines: Vec<Chart>,
    pub(super) waterfall: String,
    pub(super) waterfall_note: String,
}

impl Charts {
    pub(super) fn of(content: &PageContent<'_>) -> Self {
        let first = content
            .records
            .iter()
            .map(|record| record.scheduled.min(record.sent))
            .min();
        let first = first.unwrap_or_default();
        let last = content
            .records
            .iter()
            .map(|record| record.finished)
            .max()
            .unwrap_or_default();
        let run = Span {
            first,
            seconds: last.seconds_since(first).max(1e-3),
        };
        let (waterfall, waterfall_note) = waterfall(content.records, run);
        Self {
            tiles: tiles(content),
            throughput: throughput(content.timings, run),
            concurrency: concurrency(content.records, run),
            distributions: distributions(content.timings),
            timelines: timelines(content.timings, run),
            waterfall,
            waterfall_note,
        }
    }
}

/// The time a page covers.
#[derive(Clone, Copy)]
struct Span {
    first: Nanos,
    seconds: f64,
}

impl Span {
    fn at(self, moment: Nanos) -> f64 {
        moment.seconds_since(self.first)
    }

    fn range(self) -> (f64, f64) {
        (0.0, self.seconds)
    }
}

fn tiles(content: &PageContent<'_>) -> Vec<Tile> {
    let figures = content.figures;
    let number = |value: f64| {
        if value.is_nan() {
            return "n/a".to_owned();
        }
        let digits = if value.abs() >= 100.0 { 0 } else { 2 };
        format!("{value:.digits$}")
    };
    let tile = |label, value: f64, unit| Tile {
        label,
        value: number(value),
        unit,
    };
    vec![
        tile("output", figures.per_second(figures.output), "tok/s"),
        tile(
            "rate",
            figures.per_second(figures.completed as u64),
            "req/s",
        ),
        tile("TTFT p50", figures.ttft.median, "ms"),
        tile("TTFT p99", figures.ttft.p99, "ms"),
        tile("TPOT p50", figures.tpot.median, "ms"),
        tile("ITL p99", figures.itl.p99, "ms"),
        tile("E2E p99", figures.e2e.p99, "ms"),
        Tile {
            label: "failed",
            value: format!("{} / {}", figures.failed(), figures.sent),
            unit: "",
        },
    ]
}

fn throughput(timings: &[Timing], run: Span) -> String {
    let width = (run.seconds / STEPS).max(0.05);
    let mut steps = vec![0.0; (run.seconds / width).ceil() as usize + 1];
    for arrival in timings.iter().flat_map(|timing| &timing.arrivals) {
        let step = (run.at(arrival.at) / width) as usize;
        if let Some(step) = steps.get_mut(step) {
            *step += f64::from(arrival.tokens) / width;
        }
    }
    let line: Vec<(f64, f64)> = steps
        .iter()
        .enumerate()
        .map(|(step, rate)| ((step as f64 + 0.5) * width, *rate))
        .collect();
    let series = Series {
        class: "c1",
        points: &line,
        steps: false,
    };
    lines(
        Canvas::new(960.0, 210.0),
        run.range(),
        ("seconds", "output tokens / s"),
        &[series],
    )
}

fn concurrency(records: &[RequestRecord], run: Span) -> String {
    let spans: Vec<(Nanos, Nanos)> = records
        .iter()
        .map(|record| (record.sent, record.finished))
        .collect();
    let mut line: Vec<(f64, f64)> = levels(&spans)
        .iter()
        .map(|level| (run.at(level.from), level.under_way as f64))
        .collect();
    if line.len() > MOST_POINTS {
        line = sampled(&line, MOST_POINTS).copied().collect();
    }
    line.push((run.seconds, 0.0));
    let series = Series {
        class: "c2",
        points: &line,
        steps: true,
    };
    lines(
        Canvas::new(960.0, 170.0),
        run.range(),
        ("seconds", "requests under way"),
        &[series],
    )
}

fn distributions(timings: &[Timing]) -> Vec<Chart> {
    let sorted = |values: Vec<f64>| {
        let mut values: Vec<f64> = values.into_iter().map(|seconds| seconds * 1e3).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let chart = |title, class, values: Vec<f64>, x_title| {
        let sorted = sorted(values);
        let svg = if sorted.is_empty() {
            String::new()
        } else {
            cdf(
                Canvas::new(470.0, 230.0),
                x_title,
                &Curve {
                    class,
                    sorted: &sorted,
                },
            )
        };
        Chart { title, svg }
    };
    vec![
        chart(
            "Time to first token",
            "c1",
            timings.iter().map(|t| t.ttft).collect(),
            "TTFT ms",
        ),
        chart(
            "Inter-token latency",
            "c2",
            timings.iter().flat_map(Timing::gaps).collect(),
            "ITL ms",
        ),
        chart(
            "Time per output token",
            "c4",
            timings.iter().filter_map(Timing::tpot).collect(),
            "TPOT ms",
        ),
        chart(
            "Whole request",
            "c3",
            timings.iter().map(|t| t.e2e).collect(),
            "E2E ms",
        ),
    ]
}

fn timelines(timings: &[Timing], run: Span) -> Vec<Chart> {
    let chart = |title, class, value: fn(&Timing) -> f64, y_title| {
        let all: Vec<Point> = sampled(timings, MOST_POINTS)
            .map(|timing| Point {
                moment: run.at(timing.sent),
                value: value(timing) * 1e3,
                words: format!(
                    "sent at {:.2} s: {:.1} ms",
                    run.at(timing.sent),
                    value(timing) * 1e3
                ),
            })
            .collect();
        let svg = points(
            Canvas::new(960.0, 190.0),
            run.range(),
            ("sent at, seconds", y_title),
            (class, &all),
        );
        Chart { title, svg }
    };
    let first = chart(
        "Time to first token over the run",
        "c1",
        |timing| timing.ttft,
        "TTFT ms",
    );
    let whole = chart(
        "Whole request over the run",
        "c3",
        |timing| timing.e2e,
        "E2E ms",
    );
    let gaps = gap_line(timings, run).map(|svg| Chart {
        title: "Inter-token latency over the run: median, and 99th percentile above it",
        svg,
    });
    [Some(first), gaps, Some(whole)]
        .into_iter()
        .flatten()
        .collect()
}

/// Gaps between tokens, by when they ended; nothing where there are none.
fn gap_line(timings: &[Timing], run: Span) -> Option<String> {
    let width = (run.seconds / STEPS).max(0.05);
    let mut steps: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for timing in timings {
        let ends = timing.arrivals.iter().skip(1);
        let ends = ends.flat_map(|end| std::iter::repeat_n(end.at, end.tokens as usize));
        for (end, gap) in ends.zip(timing.gaps()) {
            let step = (run.at(end) / width) as usize;
            steps.entry(step).or_default().push(gap * 1e3);
        }
    }
    for gaps in steps.values_mut() {
        gaps.sort_by(f64::total_cmp);
    }
    let line = |percent: f64| -> Vec<(f64, f64)> {
        let moment = |step: usize| (step as f64 + 0.5) * width;
        let points = steps.iter();
        points
            .map(|(step, gaps)| (moment(*step), percentile(gaps, percent)))
            .collect()
    };
    let (middle, high) = (line(50.0), line(99.0));
    let series = |class, points| Series {
        class,
        points,
        steps: false,
    };
    let chart = || {
        lines(
            Canvas::new(960.0, 190.0),
            run.range(),
            ("seconds", "ITL ms"),
            &[series("c3", &high), series("c2", &middle)],
        )
    };
    (!steps.is_empty()).then(chart)
}

fn waterfall(records: &[RequestRecord], run: Span) -> (String, String) {
    let mut order: Vec<&RequestRecord> = records.iter().collect();
    order.sort_by_key(|record| record.scheduled);
    let shown: Vec<Bar> = sampled(&order, MOST_BARS)
        .map(|record| bar(record, run))
        .collect();
    let height = 60.0 + (shown.len() as f64 * 5.0).clamp(60.0, 900.0);
    let svg = bars(Canvas::new(960.0, height), run.range(), "seconds", &shown);
    let note = if shown.len() < records.len() {
        format!(
            "{} of {} requests, evenly chosen",
            shown.len(),
            records.len()
        )
    } else {
        format!("all {} requests", records.len())
    };
    (svg, note)
}

fn bar(record: &RequestRecord, run: Span) -> Bar {
    let [due, sent, end] = [record.scheduled, record.sent, record.finished].map(|at| run.at(at));
    let first = record.chunks.first().map_or(end, |chunk| run.at(chunk.at));
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

/// At most `most` items, evenly chosen.
fn sampled<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = items.len().min(most);
    (0..count).map(move |place| &items[place * items.len() / count])
}
