//! The table of a comparison in Markdown.

use std::fmt::Write as _;

use super::floor::Floor;
use super::results::{Measure, Results, Series, Way};

const OURS: &str = "ours";
const MEGABYTE: f64 = 1e6;

/// One line of the table.
struct Line {
    measure: Measure,
    title: &'static str,
    /// What ours divided by theirs should be.
    wanted: Wanted,
    /// Shown values are divided by this.
    unit: f64,
}

enum Wanted {
    AtLeast(f64),
    AtMost(f64),
    Nothing,
}

const LINES: &[Line] = &[
    Line {
        measure: Measure::Decode,
        title: "one stream, decoding, tokens/s",
        wanted: Wanted::AtLeast(1.1),
        unit: 1.0,
    },
    Line {
        measure: Measure::Prompt,
        title: "prompt of 512 tokens, tokens/s",
        wanted: Wanted::AtLeast(2.0),
        unit: 1.0,
    },
    Line {
        measure: Measure::Concurrent,
        title: "16 streams, 128 in, 128 out, output tokens/s",
        wanted: Wanted::AtLeast(2.5),
        unit: 1.0,
    },
    Line {
        measure: Measure::MemoryLoaded,
        title: "resident before the first request, MB",
        wanted: Wanted::Nothing,
        unit: MEGABYTE,
    },
    Line {
        measure: Measure::Memory,
        title: "resident after the load, MB",
        wanted: Wanted::AtMost(1.2),
        unit: MEGABYTE,
    },
    Line {
        measure: Measure::MemoryPeak,
        title: "resident at most, MB",
        wanted: Wanted::Nothing,
        unit: MEGABYTE,
    },
];

/// Medians with their spread, the ratio, what it should be, and how far we are from the floor.
pub(crate) fn markdown(results: &Results, peer: &str, floor: Option<&Floor>) -> String {
    let mut out = format!(
        "| measure | ours | {peer} | ours/{peer} | wanted | floor | measured/floor |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for line in LINES {
        let ours = results.best(OURS, line.measure);
        let theirs = results.best(peer, line.measure);
        let ratio = ours.zip(theirs).map(|(a, b)| a.median() / b.median());
        let floor = floor.and_then(|floor| floor_of(floor, line.measure));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            line.title,
            value(ours, line.unit),
            value(theirs, line.unit),
            ratio.map_or_else(nothing, |ratio| format!("**{ratio:.2}**")),
            wanted(&line.wanted, ratio),
            floor.map_or_else(nothing, |floor| format!("{:.0}", floor / line.unit)),
            floor
                .zip(ours)
                .map_or_else(nothing, |(floor, ours)| distance(line, floor, ours)),
        );
    }
    out
}

fn nothing() -> String {
    "–".to_owned()
}

fn value(series: Option<&Series>, unit: f64) -> String {
    let Some(series) = series else {
        return nothing();
    };
    let (low, high) = series.spread();
    let tool = match series.way() {
        Way::Tool => ", its own tool",
        Way::Http => "",
    };
    let (median, low, high) = (series.median() / unit, low / unit, high / unit);
    let clean = if series.is_clean() { "" } else { ", not clean" };
    format!("{median:.1} ({low:.1}–{high:.1}{tool}{clean})")
}

fn wanted(wanted: &Wanted, ratio: Option<f64>) -> String {
    let (text, met) = match *wanted {
        Wanted::AtLeast(bar) => (format!("≥ {bar}"), ratio.map(|ratio| ratio >= bar)),
        Wanted::AtMost(bar) => (format!("≤ {bar}"), ratio.map(|ratio| ratio <= bar)),
        Wanted::Nothing => return nothing(),
    };
    match met {
        Some(true) => format!("{text}, met"),
        Some(false) => format!("{text}, **not met**"),
        None => text,
    }
}

fn floor_of(floor: &Floor, measure: Measure) -> Option<f64> {
    match measure {
        Measure::Decode => Some(floor.decode),
        Measure::Prompt => Some(floor.prompt),
        Measure::Concurrent => Some(floor.concurrent),
        Measure::Memory => Some(floor.memory),
        Measure::MemoryLoaded | Measure::MemoryPeak => None,
    }
}

/// How many times the floor's time (or memory) we need; 1 is perfect.
fn distance(line: &Line, floor: f64, ours: &Series) -> String {
    let ratio = match line.measure {
        Measure::Memory => ours.median() / floor,
        _ => floor / ours.median(),
    };
    format!("{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versus::results::Sample;

    #[test]
    fn the_table_compares_medians_and_says_what_is_met() {
        let mut results = Results::default();
        let mut add = |name, measure, way, values: &[f64]| {
            for &value in values {
                results.add(name, measure, way, Sample { value, others: 0.0 });
            }
        };
        add("ours", Measure::Decode, Way::Http, &[120.0, 110.0, 130.0]);
        add("peer", Measure::Decode, Way::Http, &[90.0]);
        add("peer", Measure::Decode, Way::Tool, &[100.0]);
        add("ours", Measure::Memory, Way::Http, &[260e6]);
        add("peer", Measure::Memory, Way::Http, &[200e6]);
        let floor = Floor {
            decode: 240.0,
            prompt: 1.0,
            concurrent: 1.0,
            memory: 100e6,
            products: 1.0,
        };
        let table = markdown(&results, "peer", Some(&floor));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| one stream, decoding, tokens/s | 120.0 (110.0–130.0) | 100.0 (100.0–100.0, its own tool) \
             | **1.20** | ≥ 1.1, met | 240 | 2.00 |"
        );
        assert_eq!(
            lines[6],
            "| resident after the load, MB | 260.0 (260.0–260.0) | 200.0 (200.0–200.0) | **1.30** | \
             ≤ 1.2, **not met** | 100 | 2.60 |"
        );
        assert_eq!(
            lines[3],
            "| prompt of 512 tokens, tokens/s | – | – | – | ≥ 2 | 1 | – |"
        );
    }
}
