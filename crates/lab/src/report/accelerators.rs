//! How GPUs were doing under a load, and which machines there were.

use bench::page::svg::{Canvas, Domain, Look, Series, lines};
use serde_json::json;

use super::Report;
use super::charts::colour;
use super::html::subject_place;
use crate::machine::{Machine, Moment};
use crate::statistics::mean;

/// A sentence for each subject whose runs watched a GPU.
pub(super) fn sentences(report: &Report, load: &str) -> Vec<String> {
    let told = report.subjects.iter().filter_map(|subject| {
        let runs = report.cell(subject, load);
        let values = |name: &str| -> Vec<f64> {
            let found = runs.iter().filter_map(|one| one.run.figures.get(name));
            found.collect()
        };
        let clocks = values("gpu_clock_mhz");
        if clocks.is_empty() {
            return None;
        }
        let hottest = values("gpu_temperature_c").into_iter().fold(0.0, f64::max);
        let energy = values("energy_per_token_j");
        let energy = if energy.is_empty() {
            String::new()
        } else {
            format!(", {:.2} mJ an output token", 1e3 * mean(&energy))
        };
        Some(format!(
            "{subject}: GPU clock {:.0} MHz, power {:.0} W, {hottest:.0} °C at most, clocks held down in {:.0} % of the time{energy}",
            mean(&clocks),
            mean(&values("gpu_power_w")),
            mean(&values("gpu_held_down")),
        ))
    });
    told.collect()
}

/// What is drawn of a moment.
type Drawn = fn(&Moment) -> f64;

/// Clock and power over one run of each subject that watched its GPUs, in the colours
/// of subjects.
pub(super) fn courses(report: &Report, load: &str) -> Vec<serde_json::Value> {
    let runs = report.subjects.iter().filter_map(|subject| {
        let cell = report.cell(subject, load);
        let watched = |id: &str| report.courses.get(id).filter(|course| !course.is_empty());
        let (id, course) = cell
            .iter()
            .find_map(|one| Some((one.run.short_id(), watched(&one.run.id)?)))?;
        let class = colour(subject_place(report, subject));
        Some((format!("{subject}, run {id}"), class, course))
    });
    let runs: Vec<(String, String, &Vec<Moment>)> = runs.collect();
    if runs.is_empty() {
        return Vec::new();
    }
    let charts: [(&str, &str, Drawn); 2] = [
        ("GPU clock, mean of GPUs", "MHz", |moment| moment.clock),
        ("GPU power, sum of GPUs", "W", |moment| moment.power),
    ];
    let key = runs.iter();
    let key = key.map(|(name, colour, _)| json!({ "name": name, "colour": colour }));
    let key: Vec<serde_json::Value> = key.collect();
    let drawn = charts.iter().map(|(title, unit, value)| {
        let paths: Vec<[Vec<(f64, f64)>; 1]> = runs
            .iter()
            .map(|(_, _, course)| {
                let points = course.iter().map(|moment| (moment.second, value(moment)));
                [points.collect()]
            })
            .collect();
        let all = paths.iter().flatten().flatten();
        let last = all.clone().map(|point| point.0).fold(0.0, f64::max);
        let domain = Domain::of(all.map(|point| point.1));
        let series: Vec<Series<'_>> = runs
            .iter()
            .zip(&paths)
            .map(|((_, class, _), stretches)| Series {
                class,
                stretches,
                steps: false,
                look: Look::Line,
            })
            .collect();
        let (canvas, titles) = (Canvas::new(480.0, 180.0), ("seconds", *unit));
        let svg = lines(canvas, (0.0, last), titles, domain, &series);
        json!({ "title": title, "key": key, "svg": svg })
    });
    drawn.collect()
}

/// Each machine once.
pub(super) fn machines(report: &Report) -> Vec<String> {
    let known = report
        .evidence
        .iter()
        .filter_map(|one| one.run.machine.as_ref());
    let mut sentences: Vec<String> = known.map(Machine::sentence).collect();
    sentences.sort();
    sentences.dedup();
    sentences
}
