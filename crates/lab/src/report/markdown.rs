//! The report as Markdown: a table of contents, verdicts, tables, commands, printed results.

use std::fmt::Write as _;

use super::{Report, accelerators};
use crate::columns::counted;
use crate::metric::{Metric, written};
use crate::run::{Outcome, Run};
use crate::statistics::{mean, standard_deviation};

/// The columns of the tables of loads: a head, and the metrics in it.
const COLUMNS: &[(&str, &[&str])] = &[
    ("req/s", &["request_throughput"]),
    ("in / out tok/s", &["input_throughput", "output_throughput"]),
    (
        "TTFT mean / median / P99 ms",
        &["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms"],
    ),
    (
        "TPOT mean / median / P99 ms",
        &["mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms"],
    ),
    (
        "ITL mean / median / P99 ms",
        &["mean_itl_ms", "median_itl_ms", "p99_itl_ms"],
    ),
];

/// The whole report, or without its single runs.
pub(crate) fn markdown(report: &Report, whole: bool) -> String {
    let mut out = Text::default();
    out.line(&format!("# {}\n", report.title));
    let failed = report
        .evidence
        .iter()
        .filter(|one| !one.run.finished())
        .count();
    let failures = if failed > 0 {
        format!(", {failed} failed")
    } else {
        String::new()
    };
    out.line(&format!(
        "{}{failures} of {} under {}. Made {} from the store; every number is that \
         of the runs named beside it.\n",
        counted(report.evidence.len(), "run"),
        counted(report.subjects.len(), "subject"),
        counted(report.loads.len(), "load"),
        report.made
    ));
    contents(report, &mut out);
    verdicts(report, &mut out);
    findings(report, &mut out);
    loads(report, &mut out);
    for subject in &report.subjects {
        subject_section(report, subject, whole, &mut out);
    }
    out.text
}

#[derive(Default)]
struct Text {
    text: String,
}

impl Text {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes all that is written to it");
    }

    fn fenced(&mut self, language: &str, body: &str) {
        // a fence longer than any in the body
        let longest = body
            .split(|letter| letter != '`')
            .map(str::len)
            .max()
            .unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        self.line(&format!(
            "{fence}{language}\n{}\n{fence}\n",
            body.trim_end()
        ));
    }
}

/// A heading as link targets spell it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Text that cannot break a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn contents(report: &Report, out: &mut Text) {
    out.line("## Table of contents\n");
    let mut headings = vec!["Table of contents".to_owned()];
    if !report.pairs.is_empty() {
        headings.push("What it shows".to_owned());
    }
    if !report.findings.is_empty() {
        headings.push("What to know".to_owned());
    }
    headings.push("Loads".to_owned());
    out.line(&format!("- [{}](#{})", report.title, anchor(&report.title)));
    for heading in headings.iter().chain(&report.subjects) {
        out.line(&format!("  - [{heading}](#{})", anchor(heading)));
    }
    out.line("");
}

fn verdicts(report: &Report, out: &mut Text) {
    if report.pairs.is_empty() {
        return;
    }
    out.line("## What it shows\n");
    for pair in &report.pairs {
        out.line(&format!("**A** {} · **B** {}\n", pair.first, pair.second));
        out.line("| load | metric | A | B | verdict | runs |\n|---|---|---|---|---|---|");
        for comparison in &pair.comparisons {
            for found in &comparison.answers {
                let answer = &found.answer;
                let side = |mean: f64, deviation: f64, runs: usize| {
                    let name = found.metric.name;
                    let spread = format!(" ± {}", written(name, deviation));
                    written(name, mean) + if runs > 1 { &spread } else { "" }
                };
                let short = |ids: &[String]| {
                    let ids = ids.iter().map(|id| id.get(..8).unwrap_or(id));
                    ids.collect::<Vec<_>>().join(" ")
                };
                out.line(&format!(
                    "| {} | {} | {} | {} | {} | A: {}; B: {} |",
                    cell(&comparison.load),
                    found.metric.name,
                    side(answer.means.0, answer.deviations.0, answer.runs.0),
                    side(answer.means.1, answer.deviations.1, answer.runs.1),
                    cell(&answer.sentence()),
                    short(&found.runs.0),
                    short(&found.runs.1),
                ));
            }
        }
        out.line("");
    }
}

fn findings(report: &Report, out: &mut Text) {
    if report.findings.is_empty() {
        return;
    }
    out.line("## What to know\n");
    for (finding, about) in &report.findings {
        let shown = about.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
        let more = match about.len().saturating_sub(6) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (title, text) = (finding.kind.title(), &finding.text);
        out.line(&format!("- **{title}**: {text} ({shown}{more})"));
    }
    out.line("");
}

fn loads(report: &Report, out: &mut Text) {
    out.line("## Loads\n");
    for load in &report.loads {
        out.line(&format!("### {load}\n"));
        let heads: Vec<&str> = COLUMNS.iter().map(|(head, _)| *head).collect();
        out.line(&format!("| subject | n | {} | runs |", heads.join(" | ")));
        out.line(&format!("|---|---|{}---|", "---|".repeat(heads.len())));
        let mut cold = false;
        for subject in &report.subjects {
            let runs = report.cell(subject, load);
            if runs.is_empty() {
                continue;
            }
            let cells: Vec<String> = COLUMNS
                .iter()
                .map(|(_, metrics)| several(report, (subject, load), metrics))
                .collect();
            cold |= cells.iter().any(|cell| cell.contains('†'));
            let ids: Vec<&str> = runs.iter().map(|one| one.run.short_id()).collect();
            let (subject, count) = (cell(subject), runs.len());
            out.line(&format!(
                "| {subject} | {count} | {} | {} |",
                cells.join(" | "),
                ids.join(" ")
            ));
        }
        if cold {
            out.line("\n† without the first run, which was cold in an arm");
        }
        out.line("");
        let told = accelerators::sentences(report, load);
        for line in &told {
            out.line(&format!("- {line}"));
        }
        if !told.is_empty() {
            out.line("");
        }
    }
}

/// Means of metrics over runs; one metric alone has its deviation too.
fn several(report: &Report, cell: (&str, &str), metrics: &[&str]) -> String {
    let parts = metrics.iter().map(|metric| {
        let found = report.values(cell, metric);
        let values = found.counted();
        let mark = if found.cold { "†" } else { "" };
        match (values.len(), metrics.len()) {
            (0, _) => "–".to_owned(),
            (1, _) | (_, 2..) => written(metric, mean(&values)) + mark,
            _ => {
                let deviation = written(metric, standard_deviation(&values));
                format!("{} ± {deviation}{mark}", written(metric, mean(&values)))
            }
        }
    });
    parts.collect::<Vec<_>>().join(" / ")
}

fn subject_section(report: &Report, subject: &str, whole: bool, out: &mut Text) {
    out.line(&format!("## {subject}\n"));
    let runs = report.subject(subject);
    environment(&runs, out);
    let mut commands: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for run in &runs {
        let Some(command) = &run.subject.command else {
            continue;
        };
        let mut lines: Vec<String> = run
            .subject
            .environment
            .iter()
            .map(|(name, value)| format!("export {name}={value}"))
            .collect();
        lines.push(command.text.clone());
        let text = lines.join("\n");
        let like = without_port(&text);
        if !known.contains(&like) {
            known.push(like);
            commands.push(text);
        }
    }
    for command in commands.iter().take(3) {
        out.fenced("shell", command);
    }
    for run in runs.into_iter().filter(|_| whole) {
        run_block(report, run, out);
    }
}

/// A command without the port, which is another one for every run.
fn without_port(command: &str) -> String {
    let mut words = command.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--port" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

fn environment(runs: &[&Run], out: &mut Text) {
    let mut lines: Vec<String> = Vec::new();
    for run in runs {
        let facts = &run.subject;
        lines.extend(
            facts
                .model
                .as_ref()
                .map(|model| format!("- model: {model}")),
        );
        lines.extend(
            facts
                .versions
                .iter()
                .map(|(name, version)| format!("- {name}: {version}")),
        );
        lines.extend(
            run.machine
                .as_ref()
                .map(|machine| format!("- machine: {}", machine.sentence())),
        );
    }
    let mut seen: Vec<String> = Vec::new();
    lines.retain(|line| {
        let new = !seen.contains(line);
        seen.push(line.clone());
        new
    });
    for line in &lines {
        out.line(line);
    }
    if !lines.is_empty() {
        out.line("");
    }
}

fn run_block(report: &Report, run: &Run, out: &mut Text) {
    out.line(&format!(
        "`{}` · {} · repeat {} · {}\n",
        run.short_id(),
        run.load.name,
        run.repeat,
        run.place()
    ));
    if let Some(command) = &run.load.command {
        out.fenced("shell", command);
    }
    match (&run.outcome, report.tables.get(&run.id)) {
        (
            Outcome::Failed {
                reason,
                exit_code,
                last_lines,
            },
            _,
        ) => {
            let code = exit_code
                .map(|code| format!(" (exit code {code})"))
                .unwrap_or_default();
            out.line(&format!("Failed: {reason}{code}\n"));
            if !last_lines.is_empty() {
                out.fenced("text", &last_lines.join("\n"));
            }
        }
        (Outcome::Finished, Some(table)) => out.fenced("text", table),
        (Outcome::Finished, None) => {
            let lines = run
                .figures
                .iter()
                .map(|(name, value)| match Metric::named(name) {
                    Some(metric) => format!("{name}: {}", metric.with_unit(value)),
                    None => format!("{name}: {value}"),
                });
            out.fenced("text", &lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_linked_as_they_are_spelled() {
        assert_eq!(anchor("Qwen3-8B (TP 1)"), "qwen3-8b-tp-1");
        assert_eq!(anchor("gpt-oss-20b 融合前"), "gpt-oss-20b-融合前");
        assert_eq!(anchor("Server v0.5.1"), "server-v051");
    }

    #[test]
    fn fences_are_longer_than_what_they_hold() {
        let mut out = Text::default();
        out.fenced("text", "a\n````\nb");
        assert!(out.text.starts_with("`````text\n"));
        let mut out = Text::default();
        out.fenced("", "plain");
        assert_eq!(out.text, "```\nplain\n```\n\n");
    }
}
