//! The report as one page: no script, no address of anything else, readable in light and in dark.

use minijinja::Environment;
use minijinja::value::{Serde, Value};
use serde_json::json;

use super::charts::{Course, Effect, Mark, Step, colour, history, intervals, scatter, side};
use super::load;
use super::{Report, accelerators};
use crate::finding::Kind;
use crate::metric::{Better, written};
use crate::run::{Outcome, Run};
use crate::verdict::{chance, percent};

const PAGE: &str = include_str!("page.html");
/// A change of level is drawn when chance explains it less often than this.
const TOLD_BELOW: f64 = 0.05;

/// The whole page.
pub(crate) fn html(report: &Report) -> String {
    let mut environment = Environment::new();
    environment
        .add_template("page.html", PAGE)
        .expect("the template is part of the program");
    let template = environment
        .get_template("page.html")
        .expect("the template was just added");
    let failed = report
        .evidence
        .iter()
        .filter(|one| !one.run.finished())
        .count();
    let values = json!({
        "title": report.title,
        "made": report.made,
        "machines": accelerators::machines(report),
        "tiles": [
            { "value": report.evidence.len(), "label": "runs" },
            { "value": report.subjects.len(), "label": "subjects" },
            { "value": report.loads.len(), "label": "loads" },
            { "value": failed, "label": "failed" },
        ],
        "subjects": report.subjects.iter().enumerate().map(|(place, name)| {
            json!({ "name": name, "colour": colour(place) })
        }).collect::<Vec<_>>(),
        "effects": effects_chart(report),
        "verdicts": verdicts(report),
        "findings": findings(report),
        "curves": curves(report),
        "loads": report.loads.iter().map(|load| load::section(report, load)).collect::<Vec<_>>(),
        "histories": histories(report),
        "runs": report.evidence.iter().map(|one| run_row(report, &one.run)).collect::<Vec<_>>(),
    });
    template
        .render(Value::from(Serde(values)))
        .expect("the template renders any content")
}

pub(super) fn subject_place(report: &Report, name: &str) -> usize {
    report
        .subjects
        .iter()
        .position(|subject| subject == name)
        .unwrap_or(0)
}

fn effects_chart(report: &Report) -> Option<String> {
    let mut effects = Vec::new();
    for pair in &report.pairs {
        for comparison in &pair.comparisons {
            for found in &comparison.answers {
                let answer = &found.answer;
                effects.push(Effect {
                    name: pair.second.clone(),
                    what: format!("{} · {}", found.metric.name, comparison.load),
                    better: found.metric.better,
                    size: answer.effect,
                    interval: answer
                        .interval
                        .map(|interval| (interval.low, interval.high)),
                    runs: answer.runs,
                    verdict: answer.verdict,
                    words: format!(
                        "A {} · B {}: {}",
                        pair.first,
                        pair.second,
                        answer.sentence()
                    ),
                });
            }
        }
    }
    (!effects.is_empty()).then(|| intervals(&effects))
}

/// Pairs of arms with a row per load and metric.
fn verdicts(report: &Report) -> Vec<serde_json::Value> {
    let pairs = report.pairs.iter().map(|pair| {
        let mut rows = Vec::new();
        for comparison in &pair.comparisons {
            for one in &comparison.answers {
                rows.push(json!({
                    "load": comparison.load,
                    "metric": one.metric.name,
                    "sentence": one.answer.sentence(),
                    "left_out": one.left_out.iter().map(|id| short(id)).collect::<Vec<_>>(),
                }));
            }
        }
        let mut differs: Vec<String> = Vec::new();
        for difference in pair.comparisons.iter().flat_map(|one| &one.differences) {
            let text = difference.to_string();
            if !differs.contains(&text) {
                differs.push(text);
            }
        }
        json!({ "first": pair.first, "second": pair.second, "rows": rows, "differs": differs })
    });
    pairs.collect()
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Findings by kind, in the order of kinds.
fn findings(report: &Report) -> Vec<serde_json::Value> {
    let mut kinds: Vec<Kind> = report
        .findings
        .iter()
        .map(|(finding, _)| finding.kind)
        .collect();
    kinds.dedup();
    kinds.sort();
    kinds.dedup();
    let groups = kinds.into_iter().map(|kind| {
        let of_kind = report
            .findings
            .iter()
            .filter(|(finding, _)| finding.kind == kind);
        let texts: Vec<_> = of_kind
            .map(|(finding, about)| json!({ "text": finding.text, "about": about.join(", ") }))
            .collect();
        json!({ "kind": kind.title(), "texts": texts })
    });
    groups.collect()
}

/// Throughput against latency, for the latencies that enough runs have.
fn curves(report: &Report) -> Vec<serde_json::Value> {
    let charts = [
        ("mean_ttft_ms", "mean time to first token, ms"),
        ("mean_tpot_ms", "mean time per output token, ms"),
    ];
    let drawn = charts.iter().filter_map(|(metric, title)| {
        let marks: Vec<Mark> = finished(report)
            .filter_map(|run| mark(report, run, metric))
            .collect();
        (marks.len() > 1).then(|| {
            let x_title = "output tokens per second, higher is better →";
            let drawn = scatter((x_title, &format!("← {title}")), &marks);
            json!({
                "title": format!("{title}: lower is better"),
                "svg": drawn.svg,
                "joined": drawn.joined,
            })
        })
    });
    drawn.collect()
}

fn mark(report: &Report, run: &Run, metric: &str) -> Option<Mark> {
    let x = run.figures.get("output_throughput")?;
    let y = run.figures.get(metric)?;
    let cold = cold(report, run, metric) || cold(report, run, "output_throughput");
    Some(Mark {
        cold,
        subject: subject_place(report, &run.subject.name),
        load: run.load.name.clone(),
        steps: steps(run),
        x,
        y,
        words: format!(
            "{} · {} · run {}: {x:.1} tok/s, {y:.1} ms{}",
            run.subject.name,
            run.load.name,
            run.short_id(),
            if cold { ", cold" } else { "" }
        ),
    })
}

/// Whether a run is the cold one of its cell.
fn cold(report: &Report, run: &Run, metric: &str) -> bool {
    let found = report.values((&run.subject.name, &run.load.name), metric);
    found.cold
        && found
            .all
            .first()
            .is_some_and(|(_, first)| first.id == run.id)
}

/// Options that set how intense a load is.
const INTENSITIES: &[&str] = &["max_concurrency", "request_rate"];
/// Options that say how long a load is, where it goes and what is kept, rather than what it is.
const INCIDENTAL: &[&str] = &[
    "base_url",
    "cache_at_start",
    "disable_tqdm",
    "host",
    "model",
    "num_prompts",
    "output_details",
    "output_file",
    "port",
    "print_requests",
    "seed",
    "served_model_name",
    "tag",
    "warmup_requests",
];

/// The sweeps that a load may be a step of: all its options but one of intensity. A load of which
/// not even the dataset is known is a step of none.
fn steps(run: &Run) -> Vec<Step> {
    let settings = &run.load.settings;
    if !settings.contains_key("dataset_name") {
        return Vec::new();
    }
    let numbers = INTENSITIES.iter().filter_map(|name| {
        let value = settings.get(*name)?;
        let intensity = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        let rest = settings
            .iter()
            .filter(|(other, _)| other != name && !INCIDENTAL.contains(&other.as_str()));
        let rest: Vec<String> = rest
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Some(Step {
            sweep: format!("{name} of {}", rest.join(" ")),
            intensity,
        })
    });
    numbers.collect()
}

fn finished(report: &Report) -> impl Iterator<Item = &Run> {
    report
        .evidence
        .iter()
        .map(|one| &one.run)
        .filter(|run| run.finished())
}

fn histories(report: &Report) -> Vec<serde_json::Value> {
    let drawn = report.histories.iter().map(|(metric, found)| {
        let shift = found.shift().filter(|shift| shift.p < TOLD_BELOW);
        let marked = shift.map(|shift| {
            let worse = match metric.better {
                Better::Higher => shift.after < shift.before,
                Better::Lower => shift.after > shift.before,
                Better::Neither => false,
            };
            (shift.at, worse)
        });
        let words = shift.map(|shift| {
            format!(
                "level changed at run {}: {} to {} ({}), p {}",
                shift.at + 1,
                written(metric.name, shift.before),
                written(metric.name, shift.after),
                percent(shift.after / shift.before - 1.0),
                chance(shift.p)
            )
        });
        let values = found.samples.iter().map(|sample| {
            let words = format!(
                "run {}: {}",
                short(&sample.run),
                metric.with_unit(sample.value)
            );
            (sample.value, words)
        });
        let course = Course {
            title: format!("{} {}", metric.name, metric.unit),
            values: values.collect(),
            shift: marked,
        };
        json!({
            "title": format!(
                "{} · {} · {}{}",
                metric.name,
                found.subject,
                found.load,
                side(metric.better)
            ),
            "words": words,
            "svg": history(&course),
        })
    });
    drawn.collect()
}

fn run_row(report: &Report, run: &Run) -> serde_json::Value {
    let outcome = match &run.outcome {
        Outcome::Finished => String::new(),
        Outcome::Failed { reason, .. } => reason.clone(),
    };
    json!({
        "id": run.short_id(),
        "place": run.place(),
        "subject": run.subject.name,
        "load": run.load.name,
        "repeat": run.repeat,
        "outcome": outcome,
        "server": run.subject.command.as_ref().map(|command| &command.text),
        "client": run.load.command,
        "machine": run.machine.as_ref().map(crate::machine::Machine::sentence),
        "table": report.tables.get(&run.id),
    })
}
