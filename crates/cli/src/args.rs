//! The flags of `serve` and its kin: SGLang's whole table, what each flag does here, and our own.

mod choices;
mod config_file;
mod device;
mod disaggregation;
mod entry;
mod experts;
mod graphs;
mod http;
mod kernels;
mod log;
mod lora;
mod media;
mod memory;
mod model;
mod own;
mod parallel;
mod retired;
mod schedule;
mod speculate;
mod state_space;
mod tiers;

use std::fs;

use flags::{Command, FlagError, FlagSpec, Group, Parsed, Positional, Value};
use serde_json::{Map, json};

use self::config_file::BadLine;
use self::entry::{Effect, Entry, Substitute};

/// The groups in the order of `--help` and of the echo.
const GROUPS: &[(&str, &[Entry])] = &[
    ("model", model::ENTRIES),
    ("device", device::ENTRIES),
    ("memory", memory::ENTRIES),
    ("scheduling", schedule::ENTRIES),
    ("HTTP", http::ENTRIES),
    ("logs and metrics", log::ENTRIES),
    ("several devices", parallel::ENTRIES),
    ("not in SGLang", own::ENTRIES),
    ("kernels", kernels::ENTRIES),
    ("graphs and compilation", graphs::ENTRIES),
    ("speculative decoding", speculate::ENTRIES),
    ("mixture of experts", experts::ENTRIES),
    ("memory beyond the device", tiers::ENTRIES),
    ("other kinds of layers", state_space::ENTRIES),
    ("adapters", lora::ENTRIES),
    ("images, sound and video", media::ENTRIES),
    (
        "prefill and decode on separate servers",
        disaggregation::ENTRIES,
    ),
    ("old spellings", retired::ENTRIES),
];

/// A command that takes the server's flags, some words and some flags of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerCommand {
    /// What a person types.
    pub(crate) program: &'static str,
    /// What it does.
    pub(crate) about: &'static str,
    /// Its words.
    pub(crate) positionals: &'static [Positional],
    /// Its own flags.
    pub(crate) own: &'static [FlagSpec],
}

/// A parsed command line with what is to be said about it.
#[derive(Debug, Clone)]
pub(crate) struct ServerArgs {
    /// The values.
    pub(crate) parsed: Parsed,
    /// Old spellings that were used, as lines for the log.
    pub(crate) notes: Vec<String>,
    /// Flags that were given and change nothing.
    pub(crate) notices: Vec<Notice>,
}

/// A flag that was given and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// With dashes.
    pub(crate) flag: String,
    /// Why.
    pub(crate) reason: String,
}

impl std::fmt::Display for Notice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} accepted, no effect: {}", self.flag, self.reason)
    }
}

/// A command line that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgsError {
    /// It does not follow the table.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// A flag asks for what is not here and must not be ignored.
    #[error("{flag} cannot be followed: {reason}")]
    Refused {
        /// With dashes.
        flag: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The file of `--config` cannot be read.
    #[error("cannot read --config {path}")]
    Unreadable {
        /// As given.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file of `--config` is not a flat list of flags.
    #[error("--config {path} is not a flat list of flags")]
    BadConfig {
        /// As given.
        path: String,
        /// Which line.
        source: BadLine,
    },
}

impl ArgsError {
    /// Whether nothing is wrong and help was asked for.
    pub(crate) fn is_help(&self) -> bool {
        matches!(self, Self::Flags(FlagError::HelpAsked))
    }
}

impl ServerCommand {
    /// Parses the words after the command's name, merging the file of `--config`.
    pub(crate) fn parse(&self, words: &[String]) -> Result<ServerArgs, ArgsError> {
        let mut parsed = self.parse_words(words)?;
        if let Some(path) = parsed.text("config").map(str::to_owned) {
            let text = fs::read_to_string(&path).map_err(|source| ArgsError::Unreadable {
                path: path.clone(),
                source,
            })?;
            let mut merged = config_file::words(&text).map_err(|source| ArgsError::BadConfig {
                path: path.clone(),
                source,
            })?;
            merged.extend_from_slice(words);
            parsed = self.parse_words(&merged)?;
        }
        refuse(&parsed)?;
        let notes = substitute(&mut parsed);
        let notices = notices(&parsed);
        Ok(ServerArgs {
            parsed,
            notes,
            notices,
        })
    }

    fn parse_words(&self, words: &[String]) -> Result<Parsed, FlagError> {
        self.with_command(|_| true, |command| command.parse(words))
    }

    /// The help text: honoured flags, and the others when all are asked for.
    pub(crate) fn help(&self, all: bool) -> String {
        let shown = |effect: &Effect| all || effect.is_honoured();
        let text = self.with_command(shown, |command| command.help());
        if all {
            return text;
        }
        let idle = entries()
            .filter(|entry| !entry.effect.is_honoured())
            .count();
        format!(
            "{text}\n{idle} more flags of SGLang are accepted, each with a line that says why it has no \
             effect;\n--help-all lists them.\n"
        )
    }

    /// One line for usage errors.
    pub(crate) fn usage(&self) -> String {
        self.with_command(|_| false, |command| command.usage())
    }

    fn with_command<T>(
        &self,
        shown: impl Fn(&Effect) -> bool,
        then: impl FnOnce(Command<'_>) -> T,
    ) -> T {
        let tables: Vec<(&str, Vec<FlagSpec>)> = GROUPS
            .iter()
            .map(|(title, entries)| {
                (
                    *title,
                    described(entries.iter().filter(|e| shown(&e.effect))),
                )
            })
            .collect();
        let own = Group {
            title: "this command",
            flags: self.own,
        };
        let shared = tables.iter().map(|(title, flags)| Group { title, flags });
        let groups: Vec<Group<'_>> = std::iter::once(own).chain(shared).collect();
        then(Command {
            program: self.program,
            about: self.about,
            positionals: self.positionals,
            groups: &groups,
        })
    }
}

/// The flags of a group; one without effect is described by its reason.
fn described<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<FlagSpec> {
    let describe = |entry: &Entry| match entry.effect {
        Effect::Idle(reason) | Effect::Refused(reason) => FlagSpec {
            help: reason,
            ..entry.flag
        },
        _ => entry.flag,
    };
    entries.map(describe).collect()
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    GROUPS.iter().flat_map(|(_, entries)| entries.iter())
}

/// Whether a flag does something here.
pub(crate) fn is_honoured(flag: &FlagSpec) -> bool {
    let entry = entries().find(|entry| entry.flag.name == flag.name);
    entry.is_some_and(|entry| entry.effect.is_honoured())
}

/// Refuses flags that ask for what is not here and must not be ignored; their defaults ask for nothing.
fn refuse(parsed: &Parsed) -> Result<(), ArgsError> {
    for entry in entries() {
        let Effect::Refused(reason) = entry.effect else {
            continue;
        };
        let asks = match parsed.value(entry.flag.name) {
            Value::None | Value::Switch(false) => false,
            Value::Text(text) => !["", "{}"].contains(&text.trim()),
            Value::Switch(true) | Value::Integer(_) | Value::Float(_) => true,
            Value::List(values) => !values.is_empty(),
        };
        if asks {
            let flag = format!("--{}", entry.flag.name);
            return Err(ArgsError::Refused { flag, reason });
        }
    }
    Ok(())
}

/// Gives old spellings their meaning; returns what to say about them.
fn substitute(parsed: &mut Parsed) -> Vec<String> {
    let mut notes = Vec::new();
    for entry in entries() {
        let Effect::Retired(substitute) = entry.effect else {
            continue;
        };
        let name = entry.flag.name;
        if !parsed.given(name) {
            continue;
        }
        let (flag, value, please) = match substitute {
            Substitute::Value(flag, value) => {
                (flag, Value::Text(value.to_owned()), format!("to '{value}'"))
            }
            Substitute::CopyOf(flag, from) => (
                flag,
                parsed.value(from).clone(),
                format!("to the same value as `--{from}`"),
            ),
        };
        notes.push(format!(
            "NOTE: --{name} is deprecated. Please set `--{flag}` {please} instead."
        ));
        if !parsed.given(flag) {
            parsed.set(flag, value);
        }
    }
    notes
}

fn notices(parsed: &Parsed) -> Vec<Notice> {
    idle(parsed, |effect| match effect {
        Effect::Idle(reason) => Some(reason),
        _ => None,
    })
}

/// Flags that were given and change nothing on this device, though they may on another.
pub(crate) fn notices_on_device(parsed: &Parsed, on_cpu: bool) -> Vec<Notice> {
    idle(parsed, |effect| match effect {
        Effect::ByDevice(reasons) if on_cpu => reasons.on_cpu,
        Effect::ByDevice(reasons) => reasons.on_gpu,
        _ => None,
    })
}

fn idle(parsed: &Parsed, reason: impl Fn(Effect) -> Option<&'static str>) -> Vec<Notice> {
    let given = entries().filter(|entry| parsed.given(entry.flag.name));
    let idle = given.filter_map(|entry| {
        Some(Notice {
            flag: format!("--{}", entry.flag.name),
            reason: reason(entry.effect)?.to_owned(),
        })
    });
    idle.collect()
}

/// All values by their names in SGLang, for `/server_info`.
pub(crate) fn as_json(parsed: &Parsed) -> Map<String, serde_json::Value> {
    let settings = parsed.settings().iter();
    settings
        .map(|setting| (setting.flag.echo_key(), json_value(&setting.value)))
        .collect()
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::None => serde_json::Value::Null,
        Value::Switch(on) => json!(on),
        Value::Text(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::List(values) => values.iter().map(json_value).collect(),
    }
}

#[cfg(test)]
mod tests;
