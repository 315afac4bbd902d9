//! `lab compare`: two arms and what can be said about them.

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};
use serde_json::{Value, json};

use super::{Console, Failure, JSON, STORE, arms, open_store, share};
use crate::compare::{Comparison, Manner, MetricAnswer, compare};
use crate::metric::written;
use crate::verdict::Demands;

pub(super) const METRIC: FlagSpec = FlagSpec::words("metric", "Metrics to compare, or all.")
    .default(Preset::Words(&["request_throughput"]));
pub(super) const LOAD: FlagSpec =
    FlagSpec::text("load", "Only loads of this name; * fits anything.");
pub(super) const LEVEL: FlagSpec =
    FlagSpec::text("level", "The level of confidence.").default(Preset::Text("95%"));
pub(super) const KEEP_COLD: FlagSpec = FlagSpec::switch("keep-cold", "Count cold first runs too.");
pub(super) const RESOLVE: FlagSpec =
    FlagSpec::text("resolve", "The difference to give a number of runs for.")
        .default(Preset::Text("2%"));

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab compare",
    about: "Compares two arms on every load they share. The answer is one sentence with the effect, its \
            interval and the runs that a smaller difference would take; what stands between the effect \
            and its cause is listed with it.",
    positionals: &[
        Positional {
            name: "A",
            takes: Takes::One,
            help: "The runs of one subject (see `lab list`).",
        },
        Positional {
            name: "B",
            takes: Takes::One,
            help: "The runs of another.",
        },
    ],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            METRIC,
            LOAD,
            LEVEL,
            RESOLVE,
            KEEP_COLD,
            FlagSpec::text("variable", "What the arms are meant to differ in."),
            JSON,
        ],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let load = parsed.text("load");
    let first = arms::arm(&store, &parsed.words()[0], load)?;
    let second = arms::arm(&store, &parsed.words()[1], load)?;
    arms::apart(&first, &second)?;
    let metrics = arms::metrics(parsed)?;
    let manner = Manner {
        demands: Demands {
            level: share(parsed, "level")?,
            resolve: share(parsed, "resolve")?,
        },
        keep_cold: parsed.switch("keep-cold"),
        variable: parsed.text("variable").map(str::to_owned),
    };
    let found = compare(&first, &second, &metrics, &manner);
    if parsed.switch("json") {
        console.show_json(&json!({
            "a": first[0].run.subject.name,
            "b": second[0].run.subject.name,
            "loads": found.iter().map(comparison_json).collect::<Vec<_>>(),
        }));
        return Ok(u8::from(found.is_empty()));
    }
    console.say(&format!("A  {}", first[0].run.subject.name));
    console.say(&format!("B  {}", second[0].run.subject.name));
    for comparison in &found {
        console.say("");
        console.show(&text(comparison));
    }
    if found.is_empty() {
        console.warn("the arms have no load in common");
        return Ok(1);
    }
    Ok(0)
}

/// A comparison for programs.
fn comparison_json(comparison: &Comparison) -> Value {
    json!({
        "load": comparison.load,
        "answers": comparison.answers.iter().map(answer_json).collect::<Vec<_>>(),
        "differences": comparison.differences,
        "findings": comparison.findings,
    })
}

/// An answer for programs.
pub(super) fn answer_json(found: &MetricAnswer) -> Value {
    let mut answer = json!(found.answer);
    answer["metric"] = found.metric.name.into();
    answer["unit"] = found.metric.unit.into();
    answer["sentence"] = found.answer.sentence().into();
    answer["unpaired_because"] = json!(found.unpaired);
    answer["run_ids"] = json!(found.runs);
    answer["left_out"] = json!(found.left_out);
    answer
}

/// A comparison as people read it.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut lines = vec![comparison.load.clone()];
    for difference in &comparison.differences {
        lines.push(format!("  differs  {difference}"));
    }
    for answer in &comparison.answers {
        lines.extend(answer_lines(answer));
    }
    if comparison.answers.is_empty() {
        lines.push("  no figure that both arms have can be compared".to_owned());
    }
    lines.extend(
        comparison
            .findings
            .iter()
            .map(|finding| format!("  ! {finding}")),
    );
    lines.join("\n") + "\n"
}

fn answer_lines(found: &MetricAnswer) -> Vec<String> {
    let (metric, answer) = (found.metric, &found.answer);
    let arm = |mean: f64, deviation: f64, runs: usize| {
        let (mean, deviation) = (written(metric.name, mean), written(metric.name, deviation));
        match runs {
            1 => format!("{mean} (1 run)"),
            _ => format!("{mean} ± {deviation} ({runs} runs)"),
        }
    };
    let (a, b) = (
        arm(answer.means.0, answer.deviations.0, answer.runs.0),
        arm(answer.means.1, answer.deviations.1, answer.runs.1),
    );
    let mut lines = vec![
        format!("  {}  A {a}  B {b}  {}", metric.name, metric.unit),
        format!("    {}", answer.sentence()),
    ];
    let mut details = answer.details();
    if let Some(why) = found.unpaired.filter(|_| answer.test.is_some()) {
        details = format!("{details} ({})", why.reason());
    }
    if !details.is_empty() {
        lines.push(format!("    {details}"));
    }
    lines
}
