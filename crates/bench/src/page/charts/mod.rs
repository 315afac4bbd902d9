//! From records to charts.

mod course;
mod requests;
mod waterfall;

use super::PageContent;
use crate::clock::Nanos;
use crate::measure::goodput::ObjectiveKey;
use crate::record::RequestRecord;
use serde::Serialize;

/// A figure at the top of the page.
#[derive(Serialize)]
pub(super) struct Tile {
    label: String,
    value: String,
    unit: &'static str,
    /// Whether its label needs the room of two.
    long: bool,
}

/// A chart, its heading and what its colours mean.
#[derive(Serialize)]
pub(super) struct Chart {
    title: &'static str,
    key: Vec<Key>,
    note: String,
    svg: String,
}

/// What a colour means.
#[derive(Serialize)]
pub(super) struct Key {
    class: &'static str,
    words: String,
}

impl Key {
    fn new(class: &'static str, words: impl Into<String>) -> Self {
        Self {
            class,
            words: words.into(),
        }
    }
}

/// Charts that stand together.
#[derive(Serialize)]
pub(super) struct Group {
    /// How they are laid out: a class of the page.
    class: &'static str,
    charts: Vec<Chart>,
}

/// All charts of a page, from top to bottom.
pub(super) fn groups(content: &PageContent<'_>) -> Vec<Group> {
    let run = Span::of(content.records);
    let (records, timings) = (content.records, content.timings);
    let load = [
        Some(course::throughput(timings, run)),
        Some(course::concurrency(records, run)),
        course::failures(records, run),
    ];
    let over_time = [
        Some(requests::timeline(content, run, requests::FIRST_TOKEN)),
        course::gaps(timings, run),
        Some(requests::timeline(content, run, requests::WHOLE)),
        Some(waterfall::waterfall(records, run)),
    ];
    let group = |class, charts| Group { class, charts };
    vec![
        group("stack", load.into_iter().flatten().collect()),
        group("pair", requests::distributions(content)),
        group("stack", over_time.into_iter().flatten().collect()),
    ]
}

/// The time a page covers.
#[derive(Clone, Copy)]
struct Span {
    first: Nanos,
    seconds: f64,
}

impl Span {
    fn of(records: &[RequestRecord]) -> Self {
        let starts = records.iter().map(|one| one.scheduled.min(one.sent));
        let first = starts.min().unwrap_or_default();
        let last = records.iter().map(|one| one.finished).max();
        Self {
            first,
            seconds: last.unwrap_or_default().seconds_since(first).max(1e-3),
        }
    }

    fn at(self, moment: Nanos) -> f64 {
        moment.seconds_since(self.first)
    }

    fn range(self) -> (f64, f64) {
        (0.0, self.seconds)
    }
}

/// The figures at the top of a page.
pub(super) fn tiles(content: &PageContent<'_>) -> Vec<Tile> {
    let figures = content.figures;
    let number = |value: f64| {
        if value.is_nan() {
            return "n/a".to_owned();
        }
        let digits = if value.abs() >= 100.0 { 0 } else { 2 };
        format!("{value:.digits$}")
    };
    let tile = |label: &str, value: f64, unit| Tile {
        label: label.to_owned(),
        value: number(value),
        unit,
        long: false,
    };
    let mut tiles = vec![
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
            label: "failed".to_owned(),
            value: format!("{} / {}", figures.failed(), figures.sent),
            unit: "",
            long: false,
        },
    ];
    if let Some(goodput) = &figures.goodput {
        tiles.push(tile("goodput", goodput.per_second, "req/s"));
        tiles.push(Tile {
            label: format!("within SLO ({})", goodput.objectives),
            value: format!("{:.1} %", goodput.attainment * 100.0),
            unit: "",
            long: true,
        });
    }
    tiles
}

/// The bound that was set for a time, in milliseconds.
fn objective(content: &PageContent<'_>, key: ObjectiveKey) -> Option<f64> {
    let bounds = content.figures.goodput.as_ref()?.bounds.each();
    let bound = bounds.iter().find(|objective| objective.key == key)?;
    Some(bound.milliseconds)
}

/// At most `most` items, evenly chosen.
fn sampled<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = items.len().min(most);
    (0..count).map(move |place| &items[place * items.len() / count])
}
