//! Records on disk while the load lasts, so that nothing done is lost.

use super::error::ServingError;
use super::resume::Seam;
use crate::load::Onlooker;
use crate::pace::LoadState;
use crate::record::{Failure, RequestRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a record file is of: runs with the same may be continued by each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunIdentity {
    /// The digest of the dataset's rows.
    pub(super) dataset: String,
    /// The digest of the tokenizer.
    pub(super) tokenizer: String,
    /// The backend and the model.
    pub(super) backend: String,
    /// The model named in requests.
    pub(super) model: String,
    /// How many rows there are in all.
    pub(super) rows: usize,
    /// How requests leave: the pace, its rate, the gate.
    #[serde(default)]
    pub(super) load: String,
}

/// Writes each record as it comes; a full disk is remembered, not fatal.
pub(super) struct RecordFile {
    path: PathBuf,
    out: Option<BufWriter<File>>,
    trouble: Option<io::Error>,
}

impl RecordFile {
    /// A new file that begins with the run's identity.
    pub(super) fn create(path: &Path, identity: &RunIdentity) -> Result<Self, ServingError> {
        let failed = |source| ServingError::Output {
            path: path.to_owned(),
            source,
        };
        let file = File::create(path).map_err(failed)?;
        let mut writing = Self {
            path: path.to_owned(),
            out: Some(BufWriter::new(file)),
            trouble: None,
        };
        writing.line(identity);
        writing.check()?;
        Ok(writing)
    }

    /// The file of an earlier run, to be written on: whole lines of finished requests are kept.
    pub(super) fn take_up(
        path: &Path,
        identity: &RunIdentity,
        records: &[RequestRecord],
    ) -> Result<Self, ServingError> {
        let failed = |source| ServingError::Output {
            path: path.to_owned(),
            source,
        };
        let fresh = path.with_extension("taken-up");
        let mut writing = Self::create(&fresh, identity)?;
        for record in records {
            writing.line(record);
        }
        writing.check()?;
        std::fs::rename(&fresh, path).map_err(failed)?;
        path.clone_into(&mut writing.path);
        Ok(writing)
    }

    fn line(&mut self, value: &impl Serialize) {
        let Some(out) = &mut self.out else { return };
        let mut line = serde_json::to_vec(value).expect("a record is serialised");
        line.push(b'\n');
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            self.out = None;
            self.trouble = Some(error);
        }
    }

    /// What went wrong while writing, once.
    pub(super) fn check(&mut self) -> Result<(), ServingError> {
        match self.trouble.take() {
            Some(source) => Err(ServingError::Output {
                path: self.path.clone(),
                source,
            }),
            None => Ok(()),
        }
    }
}

/// Reads a record file: the run it is of, and the requests that are done.
///
/// Abandoned requests are not done; a last line that was cut short is passed over.
pub(super) fn read(path: &Path) -> Result<(RunIdentity, Vec<RequestRecord>), ServingError> {
    let cannot = |reason: String| ServingError::Resume {
        path: path.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    let lines: Vec<String> = BufReader::new(file)
        .lines()
        .collect::<Result<_, _>>()
        .map_err(|error| cannot(error.to_string()))?;
    let (first, rest) = lines
        .split_first()
        .ok_or_else(|| cannot("it is empty".to_owned()))?;
    let identity = serde_json::from_str(first)
        .map_err(|_| cannot("its first line does not say which run it is of".to_owned()))?;
    let mut records = Vec::new();
    for (place, line) in rest.iter().enumerate() {
        match serde_json::from_str::<RequestRecord>(line) {
            Ok(record) if record.failure == Some(Failure::Abandoned) => {}
            Ok(record) => records.push(record),
            Err(_) if place + 1 == rest.len() => {}
            Err(error) => return Err(cannot(format!("line {}: {error}", place + 2))),
        }
    }
    Ok((identity, records))
}

/// The rows of which every round is on record.
pub(super) fn finished_rows(
    records: &[RequestRecord],
    rounds: impl Fn(usize) -> usize,
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut counts = std::collections::BTreeMap::<usize, usize>::new();
    for record in records {
        *counts.entry(record.row).or_default() += 1;
    }
    for (row, count) in counts {
        if count >= rounds(row) {
            seen.insert(row);
        }
    }
    seen
}

/// Hands records to the file before another onlooker sees them.
pub(super) struct Recorded<'a> {
    pub(super) file: Option<&'a mut RecordFile>,
    /// Where the moments of this session belong on the file's time line.
    pub(super) seam: Option<Seam>,
    pub(super) inner: &'a mut dyn Onlooker,
}

impl Onlooker for Recorded<'_> {
    fn sent(&mut self, row: usize, round: usize) {
        self.inner.sent(row, round);
    }

    fn finished(&mut self, record: &RequestRecord, state: &LoadState) {
        if let Some(file) = &mut self.file {
            match self.seam {
                None => file.line(record),
                Some(seam) => file.line(&seam.joined(record.clone())),
            }
        }
        self.inner.finished(record, state);
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }

    fn look(&mut self, state: &LoadState, waiting: usize) {
        self.inner.look(state, waiting);
    }
}
