//! Results that people already have, as text: printed tables, logs, notebooks, result lines.
//!
//! A text is read line by line. What stands before a table (headings, commands, exports, echoes)
//! is remembered and becomes the facts about its run; the table itself becomes its figures, each
//! equal to what was printed.

mod arms;
mod context;
mod jsonl;
mod matrix_log;
mod python;
mod settings;
mod table;
mod versions;

pub use arms::UNNAMED;
pub use settings::load_name;

use bench::record::RequestRecord;

use crate::finding::{Finding, Kind};
use crate::run::Run;
use context::Context;
use table::Table;

/// A run that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// The run.
    pub run: Run,
    /// The lines it was read from.
    pub text: String,
    /// Its requests, when the text has them.
    pub records: Vec<RequestRecord>,
}

/// Names for what a text does not name, or names otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Of the subject of all its runs.
    pub subject: Option<String>,
    /// Of their load.
    pub load: Option<String>,
}

/// Reads every run of a text. `file` is the name to quote; a text without results gives no runs.
pub fn runs(file: &str, text: &str) -> Vec<ImportedRun> {
    runs_named(file, text, &Names::default())
}

/// Reads every run of a text, whose subject and load are called as is said.
pub fn runs_named(file: &str, text: &str, names: &Names) -> Vec<ImportedRun> {
    let lines: Vec<&str> = text.lines().collect();
    let mut context = Context::new(file, &lines);
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if Table::begins(line) {
            let (table, taken) = Table::read(lines[at + 1..].iter().copied());
            let text = lines[at..=at + taken].join("\n") + "\n";
            runs.push(context.table_run(&table, at + 1, text));
            at += taken + 1;
        } else if let Some(found) = jsonl::Found::read(line) {
            runs.push(found.into_run(&context, at + 1, line));
            at += 1;
        } else {
            let (whole, taken) = joined(&lines[at..]);
            context.take_in(&whole);
            at += taken;
        }
    }
    for found in &mut runs {
        if let Some(subject) = &names.subject {
            subject.clone_into(&mut found.run.subject.name);
        }
        if let Some(load) = &names.load {
            load.clone_into(&mut found.run.load.name);
        }
    }
    arms::name(&mut runs);
    let claims = versions::contradictions(&lines, &context);
    for found in &mut runs {
        let claims = claims
            .iter()
            .map(|claim| Finding::new(Kind::Version, claim));
        found.run.findings.extend(claims);
        let noticed = crate::check::of_run(&found.run, &found.records);
        found.run.findings.extend(noticed);
    }
    runs
}

/// A line and those that a backslash joins to it; how many there are.
fn joined(lines: &[&str]) -> (String, usize) {
    const MOST: usize = 200;
    let continued = |line: &&&str| line.trim_end().ends_with('\\');
    let taken = lines.iter().take(MOST).take_while(continued).count() + 1;
    let taken = taken.min(lines.len());
    let parts = lines[..taken]
        .iter()
        .map(|line| line.trim_end().trim_end_matches('\\').trim_end());
    (parts.collect::<Vec<_>>().join(" "), taken)
}

#[cfg(test)]
mod tests;
