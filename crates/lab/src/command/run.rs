//! `lab run`: a matrix of subjects and loads.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};

use super::{Console, Failure, STORE, compare, make_store};
use crate::columns::{Columns, counted};
use crate::compare::{Manner, compare as compare_arms};
use crate::finding::Finding;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::matrix::tell::{Language, Teller};
use crate::matrix::{
    Cell, Expectation, Matrix, Plan, PlanError, Session, Summary, ask, cells, expected_seconds,
    mistakes, preflight, remembered,
};
use crate::metric::Metric;
use crate::moment::length;
use crate::run::{Evidence, Origin, Run, SubjectFacts};
use crate::store::Store;
use crate::subject::Places;

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab run",
    about: "Runs a plan: every load on every subject, so many times, in an order that lets a drift of \
            the machine weigh on all alike. A session that was interrupted is gone on with; cells that \
            are done are not done again. Ends with 1 when a cell failed and with 130 when interrupted.",
    positionals: &[Positional {
        name: "PLAN",
        takes: Takes::One,
        help: "A file with subjects and loads (docs/guides/compare-servers.md).",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::switch(
                "dry-run",
                "Show cells, warnings and the expected time, and stop.",
            ),
            FlagSpec::switch(
                "ask",
                "Start every subject once before, and compare what they say about themselves.",
            ),
            FlagSpec::switch(
                "new",
                "Begin anew even if a session of this plan is unfinished.",
            ),
            FlagSpec::switch("retry-failed", "Run cells again that failed."),
            FlagSpec::choice("language", &["en", "zh"], "The language of the log.")
                .default(Preset::Text("en")),
            FlagSpec::words("metric", "Metrics of the verdicts at the end.")
                .default(Preset::Words(&["request_throughput"])),
        ],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let path = PathBuf::from(&parsed.words()[0]);
    let text = fs::read_to_string(&path).map_err(|source| Failure::File {
        path: path.clone(),
        source,
    })?;
    let plan = Plan::parse(&text)?;
    let mistakes = mistakes(&plan, console.services.check_serve);
    if !mistakes.is_empty() {
        return Err(PlanError::Mistakes(mistakes).into());
    }
    let metrics = super::arms::metrics(parsed)?;
    let mut store = make_store(parsed, console)?;
    let all = cells(&plan);
    if parsed.switch("retry-failed")
        && let Some(session) = Session::latest(&store, &text)
    {
        session.forget_failures(&mut store)?;
    }
    let unfinished = if parsed.switch("new") {
        None
    } else {
        Session::unfinished(&store, &text)?
    };
    let program = std::env::current_exe().map_err(|source| Failure::File {
        path: "our own program".into(),
        source,
    })?;
    let interrupt = Interrupt::listening();
    let facts = if parsed.switch("ask") {
        asked((&plan, &program), (&store, &interrupt), console)?
    } else {
        known((&plan, &program), &store)?
    };
    if interrupt.asked() {
        return Ok(130);
    }
    for finding in preflight(&plan, &facts) {
        console.warn(&format!("! {finding}"));
    }
    if parsed.switch("dry-run") {
        let pending = match &unfinished {
            Some(session) => session.pending(&store, all)?,
            None => all,
        };
        return dry_run(&plan, &pending, &store, console);
    }
    let session = match unfinished {
        Some(session) => {
            let left = session.pending(&store, all.clone())?.len();
            console.say(&format!(
                "going on with {}: {left} of {} cells left",
                session.name,
                all.len()
            ));
            session
        }
        None => Session::begin(&store, (&plan.name, &text), all.len())?,
    };
    let facts = facts.into_iter().enumerate();
    let met = facts.filter(|(_, facts)| facts.info.is_some()).collect();
    let running = Running {
        plan: &plan,
        session: &session,
        program,
        met,
        interrupt: &interrupt,
    };
    let summary = go(parsed, running, all, &mut store, console)?;
    conclude(&summary, (&plan, &session), (&store, &metrics), console)
}

fn places(program: &Path) -> Places {
    Places {
        values: vec![("self", program.display().to_string())],
    }
}

/// What subjects say about themselves, each started for it.
fn asked(
    (plan, program): (&Plan, &Path),
    (store, interrupt): (&Store, &Interrupt),
    console: &mut Console<'_>,
) -> Result<Vec<SubjectFacts>, Failure> {
    let mut facts = Vec::new();
    for (one, trouble) in ask(plan, (store, &places(program)), interrupt)? {
        if let Some(trouble) = trouble {
            console.warn(&format!("! {} could not be asked: {trouble}", one.name));
        }
        facts.push(one);
    }
    Ok(facts)
}

/// What is known of subjects without starting them: their command lines, and what they said when
/// they were started alike before.
fn known((plan, program): (&Plan, &Path), store: &Store) -> Result<Vec<SubjectFacts>, Failure> {
    let runs = store.runs()?;
    let facts = plan.subjects.iter().map(|subject| {
        let plain = subject.facts(&places(program));
        remembered(&plain, &runs).unwrap_or(plain)
    });
    Ok(facts.collect())
}

/// What is run, and what is known of it.
struct Running<'a> {
    plan: &'a Plan,
    session: &'a Session,
    program: PathBuf,
    met: BTreeMap<usize, SubjectFacts>,
    interrupt: &'a Interrupt,
}

fn go(
    parsed: &Parsed,
    running: Running<'_>,
    all: Vec<Cell>,
    store: &mut Store,
    console: &mut Console<'_>,
) -> Result<Summary, Failure> {
    let session = running.session;
    let log = session.folder(store).join("log.txt");
    let file = appended(&log)?;
    let pending = session.pending(store, all)?;
    let language = parsed.text("language").unwrap_or("en");
    let mut matrix = Matrix {
        plan: running.plan,
        session,
        store,
        program: running.program,
        interrupt: running.interrupt,
        teller: Teller {
            language: language.parse::<Language>().unwrap_or_default(),
            person: console.out,
            file: Some(file),
        },
        machine: Machine::look(),
        met: running.met,
        tokenizers: console.services.tokenizers,
    };
    Ok(matrix.run(&pending)?)
}

fn appended(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })
}

fn dry_run(
    plan: &Plan,
    pending: &[Cell],
    store: &Store,
    console: &mut Console<'_>,
) -> Result<u8, Failure> {
    let runs = store.runs()?;
    let mut table = Columns::headed(&["cell", "subject", "load", "repeat", "expected"]);
    for cell in pending {
        let seconds = expected_seconds(plan, cell, &runs);
        table.add(vec![
            cell.place.to_string(),
            plan.subjects[cell.subject].name.clone(),
            plan.loads[cell.load].name.clone(),
            cell.repeat.to_string(),
            seconds.map_or("unknown".to_owned(), length),
        ]);
    }
    console.show(&table.text());
    let expected = Expectation::of(plan, pending, &runs);
    let limit = length(plan.time_limit.as_secs_f64());
    let known =
        (expected.unknown < pending.len()).then(|| format!("about {}", length(expected.seconds)));
    let unknown = (expected.unknown > 0).then(|| {
        let count = expected.unknown;
        format!("{count} of which nothing is known yet (at most {limit} each, plus their starts)")
    });
    let expected: Vec<String> = known.into_iter().chain(unknown).collect();
    let cells = counted(pending.len(), "cell");
    console.say(&format!("{cells}, {}", expected.join(" and ")));
    Ok(0)
}

/// Says how it went and what the arms show.
fn conclude(
    summary: &Summary,
    (plan, session): (&Plan, &Session),
    (store, metrics): (&Store, &[&'static Metric]),
    console: &mut Console<'_>,
) -> Result<u8, Failure> {
    let failed = match summary.failed {
        0 => String::new(),
        count => format!(", {count} failed"),
    };
    let (name, finished) = (&session.name, summary.finished);
    console.say(&format!(
        "{name}: {} done{failed}",
        counted(finished, "cell")
    ));
    if summary.interrupted {
        console.say("interrupted; the same command goes on from here");
        return Ok(130);
    }
    let of_session = |run: &Run| match &run.origin {
        Origin::Measured { session: name, .. } => *name == session.name,
        Origin::Imported { .. } => false,
    };
    let runs: Vec<Run> = store.runs()?.into_iter().filter(of_session).collect();
    let arm = |name: &str| -> Result<Vec<Evidence>, Failure> {
        let of_arm = runs
            .iter()
            .filter(|run| run.subject.name == name && run.finished());
        Ok(store.evidence(of_arm.cloned().collect())?)
    };
    let manner = Manner {
        variable: plan.variable.clone(),
        ..Manner::default()
    };
    let first = arm(&plan.subjects[0].name)?;
    for subject in plan.subjects.iter().skip(1) {
        let second = arm(&subject.name)?;
        let found = compare_arms(&first, &second, metrics, &manner);
        if !found.is_empty() {
            console.say(&format!(
                "\nA  {}\nB  {}",
                plan.subjects[0].name, subject.name
            ));
        }
        for comparison in &found {
            console.say("");
            console.show(&compare::text(comparison));
        }
    }
    let mut noticed: Vec<&Finding> = runs.iter().flat_map(|run| &run.findings).collect();
    noticed.sort_by_key(|finding| (finding.kind, finding.text.clone()));
    noticed.dedup();
    if !noticed.is_empty() {
        let things = match noticed.len() {
            1 => "1 thing was".to_owned(),
            count => format!("{count} things were"),
        };
        console.say(&format!(
            "\n{things} noticed in single runs (`peregrine lab list session={}`)",
            session.name
        ));
    }
    Ok(u8::from(summary.failed > 0))
}
