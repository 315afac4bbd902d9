//! `lab list`: the runs of the store.

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};
use serde_json::json;

use super::{Console, Failure, JSON, STORE, count_of_runs, open_store};
use crate::columns::Columns;
use crate::metric::written;
use crate::run::{Outcome, Run};
use crate::store::Selection;

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab list",
    about: "Lists runs, oldest first. Which ones is said by key=pattern pairs joined by commas (id, \
            subject, load, model, session, file, note, flag.NAME, env.NAME, version.NAME; * stands \
            for anything), or by a subject's name: `file=a.jsonl`, `subject=ours*,load=burst`.",
    positionals: &[Positional {
        name: "SELECTION",
        takes: Takes::Maybe(""),
        help: "Which runs; all when left out.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::integer("last", "Only this many, the newest.").default(Preset::Integer(0)),
            JSON,
        ],
    }],
};

const SHOWN: &[(&str, &str)] = &[
    ("req/s", "request_throughput"),
    ("out tok/s", "output_throughput"),
    ("TTFT ms", "mean_ttft_ms"),
    ("TPOT ms", "mean_tpot_ms"),
];

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let mut runs = match parsed.words().first() {
        Some(text) => store.select(&text.parse::<Selection>()?)?,
        None => store.runs()?,
    };
    let last = parsed.integer("last").unwrap_or(0);
    if last > 0 {
        let surplus = runs.len().saturating_sub(last as usize);
        runs.drain(..surplus);
    }
    if parsed.switch("json") {
        console.show_json(&json!(runs));
        return Ok(0);
    }
    let mut heads = vec!["id", "where", "subject", "load", "#"];
    heads.extend(SHOWN.iter().map(|(head, _)| *head));
    heads.push("findings");
    let mut table = Columns::headed(&heads);
    for run in &runs {
        table.add(line(run));
    }
    console.show(&table.text());
    console.say(&count_of_runs(runs.len()));
    Ok(0)
}

fn line(run: &Run) -> Vec<String> {
    let mut cells = vec![
        run.short_id().to_owned(),
        run.place(),
        run.subject.name.clone(),
        run.load.name.clone(),
        run.repeat.to_string(),
    ];
    for (_, metric) in SHOWN {
        let value = run.figures.get(metric);
        cells.push(value.map_or("–".to_owned(), |value| written(metric, value)));
    }
    let mut kinds: Vec<&str> = run
        .findings
        .iter()
        .map(|finding| finding.kind.title())
        .collect();
    kinds.dedup();
    cells.push(match &run.outcome {
        Outcome::Finished => kinds.join(", "),
        Outcome::Failed { reason, .. } => format!("failed: {reason}"),
    });
    cells
}
