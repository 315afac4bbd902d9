//! `lab log`: a session as the log of a matrix runner, from the store.

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};

use super::{Console, Failure, STORE, open_store};
use crate::matrix::tell::{Event, Language, text};
use crate::run::{Origin, Outcome, Run};
use crate::store::{Selection, Store};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab log",
    about: "Writes runs as the log of a matrix runner, in English or in Chinese.",
    positionals: &[Positional {
        name: "SELECTION",
        takes: Takes::One,
        help: "Which runs (see `lab list`), such as session=NAME.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::choice("language", &["en", "zh"], "The language of the log.")
                .default(Preset::Text("en")),
        ],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let mut runs = store.select(&parsed.words()[0].parse::<Selection>()?)?;
    runs.sort_by_key(|run| match &run.origin {
        Origin::Measured { session, cell, .. } => (session.clone(), *cell),
        Origin::Imported { file, line, .. } => (file.clone(), *line),
    });
    let language = parsed.text("language").unwrap_or("en");
    let language = language.parse::<Language>().unwrap_or_default();
    for run in &runs {
        console.show(&cell(run, &store, language));
    }
    let folder = store.folder("").display().to_string();
    console.show(&text(Event::Done { file: &folder }, language));
    Ok(0)
}

/// What happened in one cell, as far as it was kept.
fn cell(run: &Run, store: &Store, language: Language) -> String {
    let (server, client) = (run.subject.name.as_str(), run.load.name.as_str());
    let mut told = text(Event::Cell { server, client }, language);
    let mut tell = |event: Event<'_>| told.push_str(&text(event, language));
    if let Some(command) = &run.subject.command {
        let mut environment = String::new();
        for (name, value) in &run.subject.environment {
            environment.extend([name.as_str(), "=", value.as_str(), " "]);
        }
        // a command that was read from a text still has its assignments
        let bare = command
            .text
            .strip_prefix(&environment)
            .unwrap_or(&command.text);
        let command = format!("{environment}{bare}");
        tell(Event::Start {
            server,
            command: &command,
        });
    }
    let measured = match &run.origin {
        Origin::Measured {
            ready_by,
            ended_by_itself,
            ..
        } => Some((ready_by.as_str(), *ended_by_itself)),
        Origin::Imported { .. } => None,
    };
    if let Some((sign, _)) = measured.filter(|(sign, _)| !sign.is_empty()) {
        tell(Event::Ready { server, sign });
    }
    if let Some(command) = &run.load.command {
        tell(Event::Load {
            server,
            client,
            command,
        });
    }
    let out = store
        .text(&run.id, "client.out")
        .or_else(|| store.text(&run.id, "table.txt"));
    let err = store.text(&run.id, "client.err").unwrap_or_default();
    if let Some(out) = out {
        tell(Event::Output {
            out: &out,
            err: &err,
        });
    }
    match &run.outcome {
        Outcome::Finished => tell(Event::Ended { client, code: 0 }),
        Outcome::Failed {
            reason, last_lines, ..
        } => tell(Event::Failed { reason, last_lines }),
    }
    tell(Event::Stop { server });
    if let Some(gracefully) = measured.and_then(|(_, gracefully)| gracefully) {
        tell(Event::Stopped { server, gracefully });
    }
    told
}
