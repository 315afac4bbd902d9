//! What a client left behind, made into figures.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use bench::clock::Nanos;
use bench::record::RequestRecord;
use serde_json::Value;

use super::Outputs;
use crate::figures::Figures;
use crate::finding::{Finding, Kind};
use crate::import::{self, ImportedRun};
use crate::os::exit_code;
use crate::subject::Leftover;

/// A load that came to a result.
#[derive(Debug)]
pub(crate) struct LoadResult {
    /// What was measured.
    pub(crate) figures: Figures,
    /// The client's options, as far as it repeated them.
    pub(crate) settings: BTreeMap<String, Value>,
    /// Its requests, when it kept them.
    pub(crate) records: Vec<RequestRecord>,
    /// What it warned of.
    pub(crate) findings: Vec<Finding>,
    /// A moment of our clock and the same moment of the records'.
    pub(crate) moment: Option<(Instant, Nanos)>,
}

impl LoadResult {
    /// Reads what a client wrote. A result line is more precise than the printed table, so it goes
    /// before; figures that only the table has are added.
    pub(super) fn read(
        outputs: &Outputs,
        code: i32,
        left_behind: Vec<Leftover>,
        first_seen: Option<Instant>,
    ) -> Result<Self, String> {
        let printed = last_run(&outputs.out);
        let written = last_run(&outputs.result);
        let mut records = records(&outputs.records);
        let first = records.first().map(|record| record.finished);
        records.sort_by_key(|record| (record.row, record.round));
        if code != 0 {
            return Err(format!("the client ended with code {}", exit_code(code)));
        }
        if printed.is_none() && written.is_none() {
            return Err("the client printed no result".to_owned());
        }
        let mut whole = Self {
            figures: Figures::default(),
            settings: BTreeMap::new(),
            records,
            findings: Vec::new(),
            moment: first_seen.zip(first),
        };
        for found in [printed, written].into_iter().flatten() {
            for (name, value) in found.run.figures.iter() {
                whole.figures.set(name, value);
            }
            whole.settings.extend(found.run.load.settings);
            if whole.records.is_empty() {
                whole.records = found.records;
            }
            // what figures show is noticed again when the run is whole
            let said = found.run.findings.into_iter().filter(|finding| {
                matches!(
                    finding.kind,
                    Kind::ClientLimited | Kind::CacheHits | Kind::ColdRun
                ) || finding.text.starts_with("prompts have")
            });
            whole.findings.extend(said);
        }
        whole
            .findings
            .extend(left_behind.into_iter().map(|leftover| {
                let text = format!(
                    "the client left {} running; it was killed",
                    leftover.command
                );
                Finding::new(Kind::LeftBehind, text)
            }));
        Ok(whole)
    }
}

fn last_run(path: &Path) -> Option<ImportedRun> {
    let bytes = fs::read(path).ok()?;
    import::runs("client", &String::from_utf8_lossy(&bytes)).pop()
}

/// The requests of a record file in the order in which they ended. Its first line names the run; a last line may be cut.
fn records(path: &Path) -> Vec<RequestRecord> {
    let Ok(file) = fs::File::open(path) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect()
}
