//! The command line of the laboratory.

mod arms;
mod compare;
mod gate;
mod import;
mod list;
mod log;
mod report;
mod run;
mod show;
mod trend;

use std::io::{self, Write};
use std::path::PathBuf;

use flags::{Command, FlagError, FlagSpec, Parsed, Preset};

use crate::Services;
use crate::columns::counted;
use crate::matrix::PlanError;
use crate::store::{NotASelection, Store, StoreError};

/// Where results are told.
pub(crate) struct Console<'a> {
    /// What was asked for.
    pub(crate) out: &'a mut dyn Write,
    /// Everything else.
    pub(crate) err: &'a mut dyn Write,
    /// What the rest of the binary does for us.
    pub(crate) services: Services<'a>,
}

impl Console<'_> {
    /// Prints a line; a closed output is no reason to stop working.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.out, "{line}").ok();
    }

    /// Prints text that has its own line ends.
    pub(crate) fn show(&mut self, text: &str) {
        self.out.write_all(text.as_bytes()).ok();
    }

    /// Prints an answer for programs.
    pub(crate) fn show_json(&mut self, answer: &serde_json::Value) {
        self.say(&format!("{answer:#}"));
    }

    /// Prints a line to the side.
    pub(crate) fn warn(&mut self, line: &str) {
        writeln!(self.err, "{line}").ok();
    }
}

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is wrong.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// A value of the command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Nobody can mean these runs.
    #[error(transparent)]
    Selection(#[from] NotASelection),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Flags(error) => error.exit_code(),
            Self::Usage(_) | Self::Selection(_) | Self::Plan(_) => 2,
            Self::Store(error) if error.is_mistyped() => 2,
            Self::Store(_) | Self::File { .. } => 1,
        }
    }
}

/// A subcommand.
struct Entry {
    name: &'static str,
    command: Command<'static>,
    run: fn(&Parsed, &mut Console<'_>) -> Result<u8, Failure>,
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "run",
        command: run::COMMAND,
        run: run::run,
    },
    Entry {
        name: "import",
        command: import::COMMAND,
        run: import::run,
    },
    Entry {
        name: "list",
        command: list::COMMAND,
        run: list::run,
    },
    Entry {
        name: "show",
        command: show::COMMAND,
        run: show::run,
    },
    Entry {
        name: "compare",
        command: compare::COMMAND,
        run: compare::run,
    },
    Entry {
        name: "gate",
        command: gate::COMMAND,
        run: gate::run,
    },
    Entry {
        name: "trend",
        command: trend::COMMAND,
        run: trend::run,
    },
    Entry {
        name: "report",
        command: report::COMMAND,
        run: report::run,
    },
    Entry {
        name: "log",
        command: log::COMMAND,
        run: log::run,
    },
];

/// The flag that every command has.
const STORE: FlagSpec = FlagSpec::text("store", "The folder in which runs are kept.")
    .default(Preset::Text("peregrine-lab"));

/// The flag of commands whose answer a program may read.
const JSON: FlagSpec = FlagSpec::switch("json", "Answer in JSON, for programs.");

/// The store, to look into.
fn open_store(parsed: &Parsed, console: &mut Console<'_>) -> Result<Store, Failure> {
    let folder = parsed.text("store").unwrap_or("peregrine-lab");
    Ok(noted(Store::existing(folder.as_ref())?, console))
}

/// The store, to put runs into.
fn make_store(parsed: &Parsed, console: &mut Console<'_>) -> Result<Store, Failure> {
    let folder = parsed.text("store").unwrap_or("peregrine-lab");
    Ok(noted(Store::open(folder.as_ref())?, console))
}

/// The store, once it is said what was wrong with it.
fn noted(store: Store, console: &mut Console<'_>) -> Store {
    if let Some(note) = store.note() {
        console.warn(&format!("! {note}"));
    }
    store
}

/// Runs `lab` with the words after its name, on these outputs; what the process returns.
pub(crate) fn main(args: &[String], console: &mut Console<'_>) -> u8 {
    let (name, rest) = match args.split_first() {
        None => {
            console.show(&help());
            return 2;
        }
        Some((name, _)) if matches!(name.as_str(), "help" | "-h" | "--help") => {
            console.show(&help());
            return 0;
        }
        Some((name, rest)) => (name.as_str(), rest),
    };
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
        let nearest = flags::nearest(name, ENTRIES.iter().map(|entry| entry.name));
        let hint = nearest
            .map(|name| format!("; did you mean {name}?"))
            .unwrap_or_default();
        console.warn(&format!(
            "usage: peregrine lab COMMAND [options]\nperegrine lab: error: unknown command \
             '{name}'{hint} (`peregrine lab --help` lists them)"
        ));
        return 2;
    };
    let done = entry.command.parse(rest).map_err(Failure::from);
    match done.and_then(|parsed| (entry.run)(&parsed, console)) {
        Ok(code) => code,
        Err(failure) => {
            tell(&failure, entry, console);
            failure.exit_code()
        }
    }
}

fn tell(failure: &Failure, entry: &Entry, console: &mut Console<'_>) {
    match failure {
        Failure::Flags(FlagError::HelpAsked) => console.show(&entry.command.help()),
        Failure::Flags(_) | Failure::Usage(_) => {
            console.warn(entry.command.usage().trim_end());
            console.warn(&format!("{}: error: {failure}", entry.command.program));
        }
        _ => console.warn(&format!("{}: error: {failure}", entry.command.program)),
    }
}

fn help() -> String {
    let mut lines = vec!["usage: peregrine lab COMMAND [options]\n\ncommands:".to_owned()];
    for entry in ENTRIES {
        let purpose = entry.command.about.split(['.', ':']).next();
        let purpose = purpose.unwrap_or_default();
        lines.push(format!("  {:<8} {purpose}", entry.name));
    }
    lines.push("\n`peregrine lab COMMAND --help` lists the options of a command.\n".to_owned());
    lines.join("\n")
}

/// `1 run`, `5 runs`.
fn count_of_runs(count: usize) -> String {
    counted(count, "run")
}

/// A share such as `3%` or `0.03`.
fn share(parsed: &Parsed, name: &str) -> Result<f64, Failure> {
    let text = parsed.text(name).unwrap_or_default();
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent
            .trim()
            .parse::<f64>()
            .ok()
            .map(|percent| percent / 100.0),
        None => text.trim().parse().ok(),
    };
    let proper = number.filter(|share| (0.0..1.0).contains(share));
    proper.ok_or_else(|| {
        let wanted = "a share such as 3%, at least 0% and below 100%";
        Failure::Usage(format!("--{name} is {wanted}, got '{text}'"))
    })
}
