//! Runs on disk: one folder each, whole or not at all, and an index over all of them.
//!
//! The folders are the truth. The index can be deleted at any time; it is made again from them.

mod index;
mod selection;

pub use index::Sample;
pub use selection::{NotASelection, Selection};

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use bench::record::RequestRecord;

use crate::run::{Evidence, Run};
use index::Index;

const RUN: &str = "run.json";
const RECORDS: &str = "records.jsonl";
/// Folders that are still being written begin with this.
const UNFINISHED: &str = ".new-";

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is none where one is to be read.
    #[error("there is no store in {}: `lab run` and `lab import` make one, --store names another", root.display())]
    Absent {
        /// The folder.
        root: PathBuf,
    },
    /// A file that is not what it should be.
    #[error("{} is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The index.
    #[error("the index of the store: {0}")]
    Index(#[from] rusqlite::Error),
    /// The index is not what was written.
    #[error("the index of the store is damaged: {0}")]
    IndexDamaged(String),
    /// Nothing fits.
    #[error("no run fits {wanted:?}{}", hint(wanted, subjects))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// The subjects that there are.
        subjects: Vec<String>,
    },
    /// Several fit where one is wanted.
    #[error("{wanted:?} fits several: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// Some of what fits.
        candidates: Vec<String>,
    },
}

impl StoreError {
    /// Whether another command line would have done, as nothing is wrong with the store.
    pub(crate) fn is_mistyped(&self) -> bool {
        matches!(
            self,
            Self::Absent { .. } | Self::Unknown { .. } | Self::Ambiguous { .. }
        )
    }
}

/// Subjects that an error lists.
const SHOWN: usize = 12;

/// What to ask for instead.
fn hint(wanted: &str, subjects: &[String]) -> String {
    if subjects.is_empty() {
        return "; the store has no runs yet".to_owned();
    }
    if let Some(near) = flags::nearest(wanted, subjects.iter().map(String::as_str)) {
        return format!("; did you mean {near:?}?");
    }
    let more = match subjects.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = subjects
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>();
    format!("; there are subjects {}{more}", shown.join(" | "))
}

/// A run on its way into the store.
#[derive(Debug)]
pub struct Parcel<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its requests.
    pub records: &'a [RequestRecord],
    /// Texts that belong to it: a name each.
    pub texts: Vec<(&'a str, &'a str)>,
    /// Files that belong to it: a name each, and where they are now.
    pub files: Vec<(&'a str, PathBuf)>,
}

/// Whether a run was new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was not there.
    New,
    /// It was there already.
    Known,
}

/// A folder of runs.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    index: Index,
    note: Option<String>,
}

impl Store {
    /// Opens a store that is there; a mistyped folder is not made into one.
    pub fn existing(root: &Path) -> Result<Self, StoreError> {
        if !root.join("runs").is_dir() {
            let root = root.to_owned();
            return Err(StoreError::Absent { root });
        }
        Self::open(root)
    }

    /// Opens the store in a folder, which is made if it is not there.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let runs = root.join("runs");
        fs::create_dir_all(&runs).map_err(|source| disk(&runs, source))?;
        let path = root.join("index.sqlite");
        let (index, damage) = Index::of(&path, &runs)?;
        let note = damage.map(|what| {
            format!(
                "{what}; {} was made again from the runs, which are whole",
                path.display()
            )
        });
        Ok(Self {
            root: root.to_owned(),
            index,
            note,
        })
    }

    /// What was wrong with the store when it was opened, and mended.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The folder of a run.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.root.join("runs").join(id)
    }

    /// The folder of a session of the matrix.
    pub fn session_folder(&self, session: &str) -> PathBuf {
        self.root.join("sessions").join(session)
    }

    /// Puts a run into the store. Its folder appears under its name when all of it is written.
    pub fn add(&mut self, parcel: &Parcel<'_>) -> Result<Added, StoreError> {
        let folder = self.folder(&parcel.run.id);
        if folder.exists() {
            return Ok(Added::Known);
        }
        let unfinished = self.folder(&format!("{UNFINISHED}{}", parcel.run.id));
        let write = || -> io::Result<()> {
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)?;
            }
            fs::create_dir(&unfinished)?;
            let json = serde_json::to_string_pretty(parcel.run)? + "\n";
            write_whole(&unfinished.join(RUN), json.as_bytes())?;
            if !parcel.records.is_empty() {
                let mut lines = Vec::new();
                for record in parcel.records {
                    serde_json::to_writer(&mut lines, record)?;
                    lines.push(b'\n');
                }
                write_whole(&unfinished.join(RECORDS), &lines)?;
            }
            for (name, text) in &parcel.texts {
                write_whole(&unfinished.join(name), text.as_bytes())?;
            }
            for (name, from) in parcel.files.iter().filter(|(_, from)| from.exists()) {
                fs::copy(from, unfinished.join(name))?;
            }
            fs::rename(&unfinished, &folder)
        };
        write().map_err(|source| disk(&folder, source))?;
        self.index.insert(parcel.run, &folder)?;
        Ok(Added::New)
    }

    /// Writes what is known of a run anew, once more was learned about it.
    pub fn amend(&mut self, run: &Run) -> Result<(), StoreError> {
        let folder = self.folder(&run.id);
        let path = folder.join(RUN);
        let json = serde_json::to_string_pretty(run).map_err(|source| StoreError::Damaged {
            path: path.clone(),
            source,
        })?;
        write_whole(&path, (json + "\n").as_bytes()).map_err(|source| disk(&path, source))?;
        self.index.insert(run, &folder)
    }

    /// Takes a run out of the store.
    pub fn remove(&mut self, id: &str) -> Result<(), StoreError> {
        let folder = self.folder(id);
        fs::remove_dir_all(&folder).map_err(|source| disk(&folder, source))?;
        self.index.forget(id)
    }

    /// Every run, oldest first.
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        Ok(self.index.runs()?.into_iter().map(|(_, run)| run).collect())
    }

    /// The subjects of runs, each once, in the order of their names.
    fn subjects(runs: &[Run]) -> Vec<String> {
        let mut names: Vec<String> = runs.iter().map(|run| run.subject.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The runs that a selection fits, oldest first.
    pub fn select(&self, selection: &Selection) -> Result<Vec<Run>, StoreError> {
        let runs = self.runs()?;
        let subjects = Self::subjects(&runs);
        let chosen: Vec<Run> = runs.into_iter().filter(|run| selection.fits(run)).collect();
        if chosen.is_empty() {
            let wanted = selection.to_string();
            return Err(StoreError::Unknown { wanted, subjects });
        }
        Ok(chosen)
    }

    /// The one run whose identifier begins like this.
    pub fn one(&self, start: &str) -> Result<Run, StoreError> {
        let runs = self.runs()?;
        let subjects = Self::subjects(&runs);
        let fitting = runs.into_iter().filter(|run| run.id.starts_with(start));
        let mut fitting: Vec<Run> = fitting.collect();
        match (fitting.pop(), fitting.is_empty()) {
            (Some(run), true) => Ok(run),
            (None, _) => Err(StoreError::Unknown {
                wanted: start.to_owned(),
                subjects,
            }),
            (Some(last), false) => Err(StoreError::Ambiguous {
                wanted: start.to_owned(),
                candidates: fitting
                    .into_iter()
                    .chain([last])
                    .map(|run| run.id)
                    .take(8)
                    .collect(),
            }),
        }
    }

    /// Runs with their requests.
    pub fn evidence(&self, runs: Vec<Run>) -> Result<Vec<Evidence>, StoreError> {
        let evidence = runs.into_iter().map(|run| {
            let records = self.records(&run.id)?;
            Ok(Evidence { run, records })
        });
        evidence.collect()
    }

    /// The requests of a run; none when they were not kept.
    pub fn records(&self, id: &str) -> Result<Vec<RequestRecord>, StoreError> {
        let path = self.folder(id).join(RECORDS);
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(disk(&path, source)),
        };
        let mut records = Vec::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|source| disk(&path, source))?;
            if line.trim().is_empty() {
                continue;
            }
            let record = serde_json::from_str(&line).map_err(|source| StoreError::Damaged {
                path: path.clone(),
                source,
            })?;
            records.push(record);
        }
        Ok(records)
    }

    /// A text that belongs to a run, if it has one of this name.
    pub fn text(&self, id: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.folder(id).join(name)).ok()
    }

    /// The history of a metric, oldest first.
    pub fn history(&self, metric: &str) -> Result<Vec<Sample>, StoreError> {
        self.index.history(metric)
    }
}

pub(crate) fn disk(path: &Path, source: io::Error) -> StoreError {
    StoreError::Disk {
        path: path.to_owned(),
        source,
    }
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let mut file = fs::File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests;
