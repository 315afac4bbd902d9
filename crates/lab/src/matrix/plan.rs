//! The file that describes a matrix.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::command_line::words;
use crate::os::Signal;
use crate::subject::{Container, NoSuchPreset, Preset, Ready, Stop, Subject};

/// More repeats than this are a mistake.
const MOST_REPEATS: u32 = 1000;

/// Bytes of a server's log that are kept unless the plan says otherwise.
const LOG_LIMIT: u64 = 8 << 20;

/// What can be wrong with a plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// It is no TOML, or has fields that no plan has.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// Nothing to do.
    #[error("the plan has no {0}")]
    None(&'static str),
    /// Two of one name.
    #[error("the plan has two {what}s named {name:?}")]
    Twice {
        /// Subject or load.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number out of bounds.
    #[error("repeats is {0}, it must be between 1 and {MOST_REPEATS}")]
    Repeats(u32),
    /// A preset that does not exist.
    #[error("subject {subject:?}: {source}")]
    Preset {
        /// The subject.
        subject: String,
        /// Which preset.
        source: NoSuchPreset,
    },
    /// A subject that cannot be started.
    #[error("subject {0:?} has neither a preset nor a command")]
    NoCommand(String),
    /// A preset without a model.
    #[error("subject {0:?} needs a model")]
    NoModel(String),
    /// A load that is nothing, or two things.
    #[error("load {0:?} needs either bench or command")]
    NoLoad(String),
    /// A time that is none.
    #[error("{0:?} is no length of time (such as 500ms, 90s, 5m, 1h)")]
    Length(String),
    /// Command lines that would fail once they are run.
    #[error("the plan cannot be run:\n  {}", .0.join("\n  "))]
    Mistakes(Vec<String>),
    /// A signal that is none.
    #[error("{0:?} is no signal to stop with (TERM, INT, KILL)")]
    Signal(String),
}

/// A matrix: subjects, loads, how often, in which order.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Its name.
    pub(crate) name: String,
    /// How often each pair is run.
    pub(crate) repeats: u32,
    /// How long servers live.
    pub(crate) servers: Servers,
    /// The order of cells.
    pub(crate) order: Order,
    /// How long one load may take.
    pub(crate) time_limit: Duration,
    /// What the subjects are meant to differ in.
    pub(crate) variable: Option<String>,
    /// The servers.
    pub(crate) subjects: Vec<Subject>,
    /// The loads.
    pub(crate) loads: Vec<LoadPlan>,
}

/// How long servers live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Servers {
    /// One per cell.
    #[default]
    Fresh,
    /// One as long as cells of the same subject follow each other.
    PerTurn,
    /// One per subject, all of them at once, until the end.
    Kept,
}

/// The order of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// A B B A: a drift hits all arms alike.
    #[default]
    Interleaved,
    /// All repeats of a pair, then the next pair.
    Listed,
}

/// One load.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan {
    /// Its name.
    pub(crate) name: String,
    /// What puts it on.
    pub(crate) driver: DriverPlan,
    /// How long it is expected to take.
    pub(crate) expect: Option<Duration>,
    /// How long it may take, when that is not what the plan says of all.
    pub(crate) time_limit: Option<Duration>,
}

/// What puts a load on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DriverPlan {
    /// Our own client with these arguments.
    Bench(Vec<String>),
    /// Somebody else's command, whose table we read.
    Command(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    name: String,
    #[serde(default = "three")]
    repeats: u32,
    #[serde(default)]
    servers: Servers,
    #[serde(default)]
    order: Order,
    time_limit: Option<String>,
    log_limit: Option<u64>,
    variable: Option<String>,
    #[serde(default, rename = "subject")]
    subjects: Vec<SubjectFile>,
    #[serde(default, rename = "load")]
    loads: Vec<LoadFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectFile {
    name: String,
    preset: Option<String>,
    program: Option<String>,
    command: Option<Words>,
    model: Option<String>,
    args: Option<Words>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    folder: Option<PathBuf>,
    #[serde(default)]
    ready: ReadyFile,
    #[serde(default)]
    stop: StopFile,
    info: Option<String>,
    #[serde(default)]
    flush: bool,
    container: Option<ContainerFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyFile {
    path: Option<String>,
    line: Option<String>,
    within: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StopFile {
    signal: Option<String>,
    grace: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerFile {
    image: String,
    runtime: Option<String>,
    options: Option<Words>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadFile {
    name: String,
    bench: Option<Words>,
    command: Option<Words>,
    expect: Option<String>,
    time_limit: Option<String>,
}

/// Words as a line or as a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

impl Words {
    fn words(self) -> Vec<String> {
        match self {
            Self::Line(line) => words(&line),
            Self::List(list) => list,
        }
    }
}

fn three() -> u32 {
    3
}

impl Plan {
    /// Reads a plan.
    pub(crate) fn parse(text: &str) -> Result<Self, PlanError> {
        let file: PlanFile = toml::from_str(text)?;
        let log_limit = file.log_limit.unwrap_or(LOG_LIMIT);
        if file.repeats == 0 || file.repeats > MOST_REPEATS {
            return Err(PlanError::Repeats(file.repeats));
        }
        let subjects: Vec<Subject> = file
            .subjects
            .into_iter()
            .map(|one| subject(one, log_limit))
            .collect::<Result<_, _>>()?;
        let loads: Vec<LoadPlan> = file.loads.into_iter().map(load).collect::<Result<_, _>>()?;
        unique(
            "subject",
            subjects.iter().map(|subject| subject.name.as_str()),
        )?;
        unique("load", loads.iter().map(|load| load.name.as_str()))?;
        Ok(Self {
            name: file.name,
            repeats: file.repeats,
            servers: file.servers,
            order: file.order,
            time_limit: length(file.time_limit.as_deref(), Duration::from_mins(30))?,
            variable: file.variable,
            subjects,
            loads,
        })
    }
}

fn unique<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            let name = name.to_owned();
            return Err(PlanError::Twice { what, name });
        }
        seen.push(name);
    }
    if seen.is_empty() {
        Err(PlanError::None(what))
    } else {
        Ok(())
    }
}

fn subject(file: SubjectFile, log_limit: u64) -> Result<Subject, PlanError> {
    let preset = file.preset.as_deref().map(str::parse::<Preset>).transpose();
    let preset = preset.map_err(|source| PlanError::Preset {
        subject: file.name.clone(),
        source,
    })?;
    let given = file
        .command
        .map(Words::words)
        .filter(|words| !words.is_empty());
    let mut start = match (given, preset) {
        (Some(words), _) => words,
        (None, Some(preset)) => preset
            .words()
            .iter()
            .map(|word| (*word).to_owned())
            .collect(),
        (None, None) => return Err(PlanError::NoCommand(file.name)),
    };
    if file.model.is_none() && start.iter().any(|word| word.contains("{model}")) {
        return Err(PlanError::NoModel(file.name));
    }
    if let Some(program) = file.program {
        start[0] = program;
    }
    start.extend(file.args.map(Words::words).unwrap_or_default());
    let path = file
        .ready
        .path
        .or_else(|| preset.map(|preset| preset.ready_path().to_owned()));
    let line = preset.and_then(Preset::ready_line).map(str::to_owned);
    let signal = match file
        .stop
        .signal
        .as_deref()
        .map(|word| word.trim_start_matches("SIG"))
    {
        None | Some("TERM") => Signal::Terminate,
        Some("INT") => Signal::Interrupt,
        Some("KILL") => Signal::Kill,
        Some(other) => return Err(PlanError::Signal(other.to_owned())),
    };
    let flush_path = preset.and_then(Preset::flush_path).filter(|_| file.flush);
    Ok(Subject {
        name: file.name,
        words: start,
        environment: file.environment,
        folder: file.folder,
        model: file.model,
        ready: Ready {
            path,
            line: file.ready.line.or(line),
            within: length(file.ready.within.as_deref(), Duration::from_mins(10))?,
        },
        stop: Stop {
            signal,
            grace: length(file.stop.grace.as_deref(), Duration::from_secs(30))?,
        },
        info_path: file
            .info
            .or_else(|| preset.map(|preset| preset.info_path().to_owned())),
        flush_path: flush_path.map(str::to_owned),
        log_limit,
        container: file.container.map(|container| Container {
            runtime: container.runtime.unwrap_or_else(|| "docker".to_owned()),
            image: container.image,
            options: container.options.map(Words::words).unwrap_or_default(),
        }),
    })
}

fn load(file: LoadFile) -> Result<LoadPlan, PlanError> {
    let driver = match (file.bench, file.command) {
        (Some(bench), None) => DriverPlan::Bench(bench.words()),
        (None, Some(command)) => DriverPlan::Command(command.words()),
        _ => return Err(PlanError::NoLoad(file.name)),
    };
    let given = |text: Option<String>| {
        text.map(|text| length(Some(&text), Duration::ZERO))
            .transpose()
    };
    let (expect, time_limit) = (given(file.expect)?, given(file.time_limit)?);
    Ok(LoadPlan {
        name: file.name,
        driver,
        expect,
        time_limit,
    })
}

/// A length of time such as `90s`.
fn length(text: Option<&str>, otherwise: Duration) -> Result<Duration, PlanError> {
    let Some(text) = text else {
        return Ok(otherwise);
    };
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * seconds)
    });
    let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    length.ok_or_else(|| PlanError::Length(text.to_owned()))
}

#[cfg(test)]
mod tests;
