//! `lab report`: Markdown and a page from the store.

use std::path::Path;

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};

use super::{Console, Failure, STORE, arms, count_of_runs, open_store};
use crate::compare::Manner;
use crate::report::{Report, html, markdown};
use crate::store::{Selection, write_whole};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab report",
    about: "Writes what runs show. One Markdown file with verdicts, tables, commands and printed results, \
            and one page with plots that stands alone.",
    positionals: &[Positional {
        name: "SELECTION",
        takes: Takes::Maybe(""),
        help: "Which runs (see `lab list`); all when left out.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::text("title", "The title.").default(Preset::Text("Benchmark report")),
            FlagSpec::text("markdown", "Where the Markdown goes.")
                .default(Preset::Text("report.md")),
            FlagSpec::text("html", "Where the page goes.").default(Preset::Text("report.html")),
            FlagSpec::words("metric", "Metrics to compare, or all.").default(Preset::Words(&[
                "request_throughput",
                "mean_ttft_ms",
                "mean_tpot_ms",
            ])),
            FlagSpec::switch("brief", "Leave single runs out of the Markdown."),
            FlagSpec::switch("keep-cold", "Count cold first runs too."),
            FlagSpec::text("variable", "What the arms are meant to differ in."),
        ],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let runs = match parsed.words().first() {
        Some(text) => store.select(&text.parse::<Selection>()?)?,
        None => store.runs()?,
    };
    if runs.is_empty() {
        return Err(Failure::Usage("the store is empty".to_owned()));
    }
    let manner = Manner {
        keep_cold: parsed.switch("keep-cold"),
        variable: parsed.text("variable").map(str::to_owned),
        ..Manner::default()
    };
    let title = parsed.text("title").unwrap_or_default();
    let report = Report::of(&store, (title, runs), &arms::metrics(parsed)?, &manner)?;
    let whole = !parsed.switch("brief");
    for (flag, text) in [
        ("markdown", markdown(&report, whole)),
        ("html", html(&report)),
    ] {
        let path = Path::new(parsed.text(flag).unwrap_or_default());
        write_whole(path, text.as_bytes()).map_err(|source| Failure::File {
            path: path.to_owned(),
            source,
        })?;
        let runs = count_of_runs(report.evidence.len());
        console.say(&format!("{}: {runs}", path.display()));
    }
    Ok(0)
}
