//! Putting a load on a server: our own client or somebody else's, as a process of its own.
//!
//! A client is a process so that it can be timed out, killed and blamed without us.

mod result;
mod tokens;

pub(crate) use result::LoadResult;
pub(crate) use tokens::{RETOKENISED, retokenised, tokenizer_names};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command_line::quote;
use crate::interrupt::Interrupt;
use crate::matrix::DriverPlan;
use crate::os::{Signal, exit_code};
use crate::subject::{Launch, Log, Places, Process, Server, Stamps};

/// Bytes of a client's output that are kept.
const OUTPUT_LIMIT: u64 = 4 << 20;
/// How long a client may go on after its server has ended.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// How long a client may take to stop when asked.
const GRACE: Duration = Duration::from_secs(2);
/// Lines of output that are quoted.
const QUOTED: usize = 20;

/// The files of a load.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    /// What the client prints.
    pub(crate) out: PathBuf,
    /// What it prints to the side.
    pub(crate) err: PathBuf,
    /// Its result line.
    pub(crate) result: PathBuf,
    /// Its requests.
    pub(crate) records: PathBuf,
}

impl Outputs {
    /// Files in a folder.
    pub(crate) fn within(folder: &Path) -> Self {
        Self {
            out: folder.join("client.out"),
            err: folder.join("client.err"),
            result: folder.join("result.jsonl"),
            records: folder.join("requests.jsonl"),
        }
    }
}

/// A load that did not come to a result.
#[derive(Debug, Default)]
pub(crate) struct LoadFailure {
    /// Why, in a sentence.
    pub(crate) reason: String,
    /// The server's exit code, when that was why.
    pub(crate) exit_code: Option<i32>,
    /// The last lines of whoever failed.
    pub(crate) last_lines: Vec<String>,
}

/// What a load needs beside its server.
pub(crate) struct LoadContext<'a> {
    /// Where its files go.
    pub(crate) outputs: &'a Outputs,
    /// How long it may take.
    pub(crate) limit: Duration,
    /// What its processes are known by.
    pub(crate) mark: &'a str,
    /// Whether we were asked to stop.
    pub(crate) interrupt: &'a Interrupt,
}

/// The words of a client.
pub(crate) fn words(driver: &DriverPlan, places: &Places, outputs: &Outputs) -> Vec<String> {
    let fill = |words: &[String]| {
        words
            .iter()
            .map(|word| places.fill(word))
            .collect::<Vec<_>>()
    };
    match driver {
        DriverPlan::Command(words) => fill(words),
        DriverPlan::Bench(args) => {
            let mut whole = fill(&["{self}", "bench", "serving"].map(str::to_owned));
            whole.extend(fill(args));
            let path = |path: &Path| path.display().to_string();
            whole.extend(["--base-url".to_owned(), places.fill("{url}")]);
            whole.extend(["--output-file".to_owned(), path(&outputs.result)]);
            let imitates = |word: &String| {
                ["--reference", "--client", "--layout"]
                    .iter()
                    .any(|name| word.starts_with(name))
            };
            if !args.iter().any(imitates) {
                whole.extend(["--records".to_owned(), path(&outputs.records)]);
            }
            whole
        }
    }
}

/// A command as a person would type it.
pub(crate) fn line(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quote(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Puts a load on a server and waits until it is over, whatever ends it.
pub(crate) fn put(
    words: &[String],
    server: &mut Server,
    context: &LoadContext<'_>,
) -> Result<LoadResult, LoadFailure> {
    let outputs = context.outputs;
    let log = |path: &Path| Log::create(path, OUTPUT_LIMIT, None, Stamps::None);
    let launch = Launch {
        words: words.to_vec(),
        environment: std::collections::BTreeMap::new(),
        folder: None,
        mark: context.mark.to_owned(),
    };
    let started = log(&outputs.out)
        .and_then(|out| Ok((out, log(&outputs.err)?)))
        .and_then(|(out, err)| Process::start(&launch, out, err));
    let mut client = started.map_err(|error| LoadFailure {
        reason: format!("cannot start the client: {error}"),
        exit_code: None,
        last_lines: Vec::new(),
    })?;
    let began = Instant::now();
    let mut first = FirstRecord::new(&outputs.records);
    let ended = watch(&mut client, server, context, (began, &mut first));
    let (out, err) = (client.out.clone(), client.err.clone());
    let stopped = client.stop(Signal::Interrupt, GRACE);
    match ended {
        Err(failure) => Err(failure),
        Ok(code) => {
            LoadResult::read(outputs, code, stopped.left_behind, first.seen).map_err(|reason| {
                let mut last_lines = err.last_lines(QUOTED);
                if last_lines.is_empty() {
                    last_lines = out.last_lines(QUOTED);
                }
                LoadFailure {
                    reason,
                    exit_code: None,
                    last_lines,
                }
            })
        }
    }
}

/// Waits for the client; the server, the clock or a person may end it before.
fn watch(
    client: &mut Process,
    server: &mut Server,
    context: &LoadContext<'_>,
    (began, first): (Instant, &mut FirstRecord),
) -> Result<i32, LoadFailure> {
    let mut server_ended: Option<(i32, Instant)> = None;
    loop {
        first.look();
        if let Some(code) = client.exited()
            && server_ended.is_none()
            && server.exited().is_none()
        {
            return Ok(code);
        }
        if server_ended.is_none() {
            server_ended = server.exited().map(|code| (code, Instant::now()));
        }
        if let Some((code, since)) = server_ended
            && (client.exited().is_some() || since.elapsed() > AFTERWARDS)
        {
            let seconds = since.duration_since(began).as_secs_f64();
            return Err(LoadFailure {
                reason: format!(
                    "the server ended with code {} after {seconds:.1} s of load",
                    exit_code(code)
                ),
                exit_code: Some(code),
                last_lines: server.last_lines(),
            });
        }
        let mut failed = |reason: String| LoadFailure {
            reason,
            exit_code: None,
            last_lines: server.last_lines(),
        };
        if context.interrupt.asked() {
            return Err(failed("interrupted".to_owned()));
        }
        if began.elapsed() >= context.limit {
            let seconds = context.limit.as_secs_f64();
            return Err(failed(format!("the load was not over within {seconds} s")));
        }
        client.glance();
    }
}

/// When the first finished request was seen in the record file: what ties the client's clock to
/// ours.
struct FirstRecord {
    path: PathBuf,
    seen: Option<Instant>,
}

impl FirstRecord {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: None,
        }
    }

    fn look(&mut self) {
        if self.seen.is_none() {
            let text = std::fs::read(&self.path).unwrap_or_default();
            // the first line names the run
            let lines = text.iter().filter(|byte| **byte == b'\n').take(2).count();
            self.seen = (lines == 2).then(Instant::now);
        }
    }
}
