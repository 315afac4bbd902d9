//! `lab show`: everything about one run.

use std::fs;

use flags::{Command, Group, Parsed, Positional, Takes};

use super::{Console, Failure, STORE, open_store};
use crate::columns::Columns;
use crate::metric::{METRICS, Metric, written};
use crate::run::{Origin, Outcome, Run};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab show",
    about: "Shows one run: where it comes from, the server, the load, figures and findings.",
    positionals: &[Positional {
        name: "ID",
        takes: Takes::One,
        help: "The beginning of its identifier.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[STORE],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let run = store.one(&parsed.words()[0])?;
    console.say(&format!("run {}, repeat {} of", run.id, run.repeat));
    console.say(&format!("  subject  {}", run.subject.name));
    console.say(&format!("  load     {}", run.load.name));
    origin(&run, console);
    subject(&run, console);
    let mut table = Columns::headed(&["figure", "value", "unit"]);
    for metric in METRICS {
        if let Some(value) = run.figures.get(metric.name) {
            table.add(vec![
                metric.name.into(),
                metric.written(value),
                metric.unit.into(),
            ]);
        }
    }
    for (name, value) in run
        .figures
        .iter()
        .filter(|(name, _)| Metric::named(name).is_none())
    {
        table.add(vec![name.into(), written(name, value), String::new()]);
    }
    if run.finished() {
        console.say("");
        console.show(&table.text());
    }
    if !run.findings.is_empty() {
        console.say("");
    }
    for finding in &run.findings {
        console.say(&format!("! {finding}"));
    }
    let folder = store.folder(&run.id);
    let files = fs::read_dir(&folder).map_err(|source| Failure::File {
        path: folder.clone(),
        source,
    })?;
    let mut names: Vec<String> = files
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    console.say(&format!("\n{}: {}", folder.display(), names.join(", ")));
    Ok(0)
}

fn origin(run: &Run, console: &mut Console<'_>) {
    console.say(&format!("  from     {}", run.place()));
    if let Origin::Imported {
        section,
        note,
        layout,
        ..
    } = &run.origin
    {
        console.say(&format!("  layout   {layout}"));
        if !section.is_empty() {
            console.say(&format!("  section  {}", section.join(" / ")));
        }
        if let Some(note) = note {
            console.say(&format!("  remark   {note}"));
        }
    }
    if let Outcome::Failed {
        reason,
        exit_code,
        last_lines,
    } = &run.outcome
    {
        let code = exit_code
            .map(|code| format!(" (exit code {code})"))
            .unwrap_or_default();
        console.say(&format!("  failed   {reason}{code}"));
        for line in last_lines {
            console.say(&format!("           | {line}"));
        }
    }
}

fn subject(run: &Run, console: &mut Console<'_>) {
    if let Some(command) = &run.subject.command {
        console.say(&format!("  server   {}", command.text));
    }
    for (name, value) in &run.subject.environment {
        console.say(&format!("           {name}={value}"));
    }
    for (name, version) in &run.subject.versions {
        console.say(&format!("  version  {name} {version}"));
    }
    if let Some(command) = &run.load.command {
        console.say(&format!("  client   {command}"));
    }
    if let Some(machine) = &run.machine {
        console.say(&format!("  machine  {}", machine.sentence()));
    }
}
