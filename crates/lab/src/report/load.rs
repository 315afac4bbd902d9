//! What one load shows: its runs, its requests, its course.

use bench::page::svg::{Canvas, Curve, Domain, Point, cdf, percentiles, points};
use bench::record::RequestRecord;
use serde_json::json;

use super::charts::{Row, colour, directed, dots};
use super::html::subject_place;
use super::{Report, accelerators};
use crate::metric::{Metric, written};
use crate::requests::{Timed, gaps, time, times};
use crate::statistics::mean;

/// What a distribution is of.
#[derive(Clone, Copy)]
enum Part {
    /// A time of each request.
    Request(Timed),
    /// Every gap between two parts of a stream.
    Gap,
}

/// Distributions, the metric whose cold runs they leave out, and their titles.
const SPREADS: &[(Part, &str, &str)] = &[
    (
        Part::Request(Timed::First),
        "mean_ttft_ms",
        "time to first token, ms",
    ),
    (
        Part::Request(Timed::PerToken),
        "mean_tpot_ms",
        "time per output token, ms",
    ),
    (
        Part::Gap,
        "mean_itl_ms",
        "gap between parts of a stream, ms",
    ),
    (
        Part::Request(Timed::Whole),
        "mean_e2e_latency_ms",
        "whole request, ms",
    ),
];

/// Everything about one load, for the page.
pub(super) fn section(report: &Report, load: &str) -> serde_json::Value {
    let metrics = ["request_throughput", "mean_ttft_ms", "mean_tpot_ms"];
    let dots = metrics.iter().filter_map(|name| {
        let metric = Metric::named(name)?;
        let rows: Vec<Row> = report
            .subjects
            .iter()
            .filter_map(|subject| dot_row(report, subject, load, metric))
            .collect();
        (!rows.is_empty()).then(|| dots(&directed(metric), &rows))
    });
    let dots: Vec<String> = dots.collect();
    let spreads = SPREADS
        .iter()
        .filter_map(|(part, metric, title)| spread(report, load, (*part, metric), title));
    let spreads: Vec<serde_json::Value> = spreads.collect();
    let rows = report
        .subjects
        .iter()
        .filter_map(|subject| table_row(report, subject, load));
    let rows: Vec<serde_json::Value> = rows.collect();
    json!({
        "name": load,
        "cold": rows.iter().any(|row| row["values"].to_string().contains('†')),
        "subjects": key(report, load),
        "dots": dots,
        "spreads": spreads,
        "timelines": timelines(report, load),
        "rows": rows,
        "accelerators": accelerators::sentences(report, load),
        "courses": accelerators::courses(report, load),
    })
}

/// The subjects that have runs of a load, with their colours.
fn key(report: &Report, load: &str) -> Vec<serde_json::Value> {
    let with_runs = report
        .subjects
        .iter()
        .filter(|subject| !report.cell(subject, load).is_empty());
    with_runs
        .map(|name| json!({ "name": name, "colour": colour(subject_place(report, name)) }))
        .collect()
}

/// A distribution of requests, a curve per subject; cold runs are left out.
fn spread(
    report: &Report,
    load: &str,
    (part, metric): (Part, &str),
    title: &str,
) -> Option<serde_json::Value> {
    let curves = report.subjects.iter().filter_map(|subject| {
        let cold = report.values((subject, load), metric).cold;
        let warm = report
            .cell(subject, load)
            .into_iter()
            .skip(usize::from(cold));
        let mut values: Vec<f64> = warm
            .flat_map(|one| match part {
                Part::Request(timed) => times(&one.records, timed),
                Part::Gap => gaps(&one.records),
            })
            .collect();
        values.sort_by(f64::total_cmp);
        let class = colour(subject_place(report, subject));
        (values.len() > 1).then_some((subject, class, values))
    });
    let curves: Vec<(&String, String, Vec<f64>)> = curves.collect();
    let of = match part {
        Part::Request(_) => "share of requests %",
        Part::Gap => "share of gaps %",
    };
    let key = curves.iter().map(|(subject, class, values)| {
        json!({ "colour": class, "name": subject, "words": percentiles(values) })
    });
    let key: Vec<serde_json::Value> = key.collect();
    let drawn: Vec<Curve<'_>> = curves
        .iter()
        .map(|(_, class, sorted)| Curve { class, sorted })
        .collect();
    (!curves.is_empty()).then(|| {
        json!({
            "title": title,
            "key": key,
            "svg": cdf(Canvas::new(480.0, 260.0), ("ms", of), &drawn, None),
        })
    })
}

fn dot_row(report: &Report, subject: &str, load: &str, metric: &Metric) -> Option<Row> {
    let found = report.values((subject, load), metric.name);
    let values = found.all.iter().enumerate().map(|(place, (value, run))| {
        let cold = if found.cold && place == 0 {
            ", cold"
        } else {
            ""
        };
        let words = format!("run {}: {}{cold}", run.short_id(), metric.with_unit(*value));
        (*value, words)
    });
    let values: Vec<(f64, String)> = values.collect();
    (!values.is_empty()).then(|| Row {
        name: subject.to_owned(),
        subject: subject_place(report, subject),
        values,
        cold: found.cold,
    })
}

/// The time to the first token of each request, over the time of one run of each subject. All
/// panels have the same scales, so that they can be held against each other.
fn timelines(report: &Report, load: &str) -> Vec<serde_json::Value> {
    let runs = report.subjects.iter().filter_map(|subject| {
        let cell = report.cell(subject, load);
        let one = cell.into_iter().find(|one| one.records.len() > 1)?;
        Some((subject, one.run.short_id(), first_tokens(&one.records)))
    });
    let runs: Vec<(&String, &str, Vec<Point>)> = runs.collect();
    let all = runs.iter().flat_map(|(_, _, points)| points);
    let last = all.clone().map(|point| point.moment).fold(0.0, f64::max);
    let domain = Domain::of(all.map(|point| point.value)).from_zero();
    let titles = ("seconds since the first request", "TTFT ms");
    let panels = runs.iter().map(|(subject, id, marks)| {
        let class = colour(subject_place(report, subject));
        let canvas = Canvas::new(480.0, 190.0);
        let svg = points(canvas, ((0.0, last), domain), titles, (&class, marks), None);
        json!({
            "title": format!("{subject}, run {id}: time to first token"),
            "svg": svg,
        })
    });
    panels.collect()
}

fn first_tokens(records: &[RequestRecord]) -> Vec<Point> {
    let good: Vec<&RequestRecord> = records.iter().filter(|record| record.succeeded()).collect();
    let starts = good.iter().map(|record| record.sent.seconds());
    let start = starts.fold(f64::INFINITY, f64::min);
    let marks = good.iter().filter_map(|record| {
        let value = time(record, Timed::First)?;
        Some(Point {
            moment: record.sent.seconds() - start,
            value,
            words: format!("request {}: {value:.1} ms", record.row),
        })
    });
    marks.collect()
}

fn table_row(report: &Report, subject: &str, load: &str) -> Option<serde_json::Value> {
    let cell = report.cell(subject, load);
    let names = [
        "request_throughput",
        "output_throughput",
        "mean_ttft_ms",
        "p99_ttft_ms",
        "mean_tpot_ms",
        "p99_itl_ms",
    ];
    let values = names.iter().map(|name| {
        let found = report.values((subject, load), name);
        let values = found.counted();
        let mark = if found.cold { "†" } else { "" };
        if values.is_empty() {
            "–".to_owned()
        } else {
            written(name, mean(&values)) + mark
        }
    });
    let values: Vec<String> = values.collect();
    (!cell.is_empty()).then(|| {
        json!({
            "subject": subject,
            "colour": colour(subject_place(report, subject)),
            "count": cell.len(),
            "values": values,
            "runs": cell.iter().map(|one| one.run.short_id()).collect::<Vec<_>>(),
        })
    })
}
