//! One attempt at a cell: its files, its places, and what it came to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bench::clock::Nanos;

use super::plan::LoadPlan;
use super::{Cell, Session};
use crate::check;
use crate::driver::{LoadFailure, LoadResult, Outputs};
use crate::figures::Figures;
use crate::finding::{Finding, Kind};
use crate::machine::Machine;
use crate::run::{LoadFacts, Origin, Outcome, Run, ServerUse, SubjectFacts, identifier};
use crate::store::{Parcel, Store, StoreError};
use crate::subject::{Places, Stopped};

/// Lines this close to a request are quoted with it, in seconds.
const AROUND: f64 = 0.2;

/// A folder for the files of one cell, gone when the cell is.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// One attempt at a cell.
pub(super) struct Attempt {
    pub(super) cell: Cell,
    /// When it began, in UTC.
    pub(super) started: String,
    pub(super) scratch: Scratch,
    pub(super) places: Places,
}

/// What an attempt came to.
pub(super) struct Report {
    pub(super) subject: SubjectFacts,
    pub(super) command: String,
    pub(super) ready_after: f64,
    pub(super) ready_by: String,
    pub(super) ended_by_itself: Option<bool>,
    pub(super) server: ServerUse,
    /// Whether the prefix cache was emptied before the load.
    pub(super) flushed: bool,
    pub(super) ending: Result<LoadResult, LoadFailure>,
    pub(super) figures: Figures,
    pub(super) findings: Vec<Finding>,
    pub(super) server_log: String,
    /// A moment of the server's log, in seconds, and the same of the records' clock.
    pub(super) moment: Option<(f64, Nanos)>,
}

impl Report {
    /// Stores the run that this attempt came to; what was noticed about it.
    pub(super) fn store(
        mut self,
        attempt: &Attempt,
        (session, load): (&Session, &LoadPlan),
        machine: &Machine,
        store: &mut Store,
    ) -> Result<Vec<Finding>, StoreError> {
        let (outcome, result) =
            match std::mem::replace(&mut self.ending, Err(LoadFailure::default())) {
                Ok(result) => (Outcome::Finished, Some(result)),
                Err(failure) => (failure.into(), None),
            };
        let mut settings = result
            .as_ref()
            .map(|result| result.settings.clone())
            .unwrap_or_default();
        if self.flushed {
            settings.insert("flush_cache".to_owned(), true.into());
        }
        let records = result
            .as_ref()
            .map(|result| result.records.as_slice())
            .unwrap_or_default();
        let mut run = Run {
            id: identifier(&[
                &session.name,
                &attempt.cell.place.to_string(),
                &attempt.started,
            ]),
            subject: self.subject.clone(),
            load: LoadFacts {
                name: load.name.clone(),
                command: Some(self.command.clone()).filter(|command| !command.is_empty()),
                settings,
            },
            repeat: attempt.cell.repeat,
            origin: Origin::Measured {
                session: session.name.clone(),
                cell: attempt.cell.place,
                started: attempt.started.clone(),
                ready_after: self.ready_after,
                ready_by: self.ready_by.clone(),
                ended_by_itself: self.ended_by_itself,
                server: self.server,
            },
            outcome,
            figures: self.figures.clone(),
            machine: Some(machine.clone()),
            findings: std::mem::take(&mut self.findings),
        };
        if let Some(result) = &result {
            run.findings.extend(result.findings.iter().cloned());
            let noticed =
                check::of_run_within(&run, records, &|from, to| self.log_between(from, to));
            run.findings.extend(noticed);
        }
        let outputs = Outputs::within(attempt.scratch.path());
        let gpus = attempt.scratch.path().join(crate::machine::ACCELERATORS);
        store.add(&Parcel {
            run: &run,
            records,
            texts: vec![("server.log", &self.server_log)],
            files: vec![
                ("client.out", outputs.out),
                ("client.err", outputs.err),
                ("result.jsonl", outputs.result),
                (crate::machine::ACCELERATORS, gpus),
            ],
        })?;
        Ok(run.findings)
    }

    /// The lines of the server's log around a stretch of the records' clock.
    fn log_between(&self, from: Nanos, to: Nanos) -> Vec<String> {
        let Some((seconds, moment)) = self.moment else {
            return Vec::new();
        };
        let on_log = |at: Nanos| seconds + at.seconds() - moment.seconds();
        let (from, to) = (on_log(from) - AROUND, on_log(to) + AROUND);
        let lines = self.server_log.lines().filter_map(|line| {
            let (stamp, text) = line.strip_prefix('[')?.split_once("] ")?;
            let after: f64 = stamp.trim().parse().ok()?;
            (after >= from && after <= to).then(|| text.to_owned())
        });
        lines.collect()
    }
}

impl From<LoadFailure> for Outcome {
    fn from(failure: LoadFailure) -> Self {
        Self::Failed {
            reason: failure.reason,
            exit_code: failure.exit_code,
            last_lines: failure.last_lines,
        }
    }
}

/// What stopping a server brought to light.
pub(super) fn after_stop(stopped: &Stopped) -> Vec<Finding> {
    let mut findings = Vec::new();
    for leftover in &stopped.left_behind {
        let text = format!(
            "the server left {} running; it was killed",
            leftover.command
        );
        findings.push(Finding::new(Kind::LeftBehind, text));
    }
    if stopped.log_cut > 0 {
        let text = format!(
            "{} bytes of the server's log were not kept",
            stopped.log_cut
        );
        findings.push(Finding::new(Kind::LogCut, text));
    }
    findings
}
