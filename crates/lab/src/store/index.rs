//! The index: an SQLite file that says what is in which folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, params};

use super::{RUN, StoreError, UNFINISHED, disk};
use crate::moment;
use crate::run::{Origin, Run};

/// Counted up when the tables change; an index of another version is made again.
const VERSION: i64 = 2;

const TABLES: &str = "
    DROP TABLE IF EXISTS figures;
    DROP TABLE IF EXISTS runs;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        moment TEXT NOT NULL,
        source TEXT NOT NULL,
        place INTEGER NOT NULL,
        subject TEXT NOT NULL,
        load TEXT NOT NULL,
        finished INTEGER NOT NULL,
        json TEXT NOT NULL
    );
    CREATE INDEX runs_by_time ON runs (moment, source, place);
    CREATE TABLE figures (
        run TEXT NOT NULL REFERENCES runs (id),
        metric TEXT NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (metric, run)
    ) WITHOUT ROWID;
";

/// One value of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The run.
    pub run: String,
    /// When it was measured or taken in, in UTC.
    pub moment: String,
    /// The subject.
    pub subject: String,
    /// The load.
    pub load: String,
    /// The figure.
    pub value: f64,
}

#[derive(Debug)]
pub(super) struct Index {
    connection: Connection,
}

impl Index {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != VERSION {
            connection.execute_batch(TABLES)?;
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        Ok(Self { connection })
    }

    /// Takes in folders that are new and forgets those that are gone.
    pub(super) fn catch_up(&mut self, runs: &Path) -> Result<(), StoreError> {
        let mut present = BTreeSet::new();
        for entry in fs::read_dir(runs).map_err(|source| disk(runs, source))? {
            let entry = entry.map_err(|source| disk(runs, source))?;
            if let Some(name) = entry.file_name().to_str()
                && !name.starts_with(UNFINISHED)
                && entry.path().join(RUN).exists()
            {
                present.insert(name.to_owned());
            }
        }
        let known = self.known()?;
        for gone in known.difference(&present) {
            self.forget(gone)?;
        }
        for new in present.difference(&known) {
            let folder = runs.join(new);
            let path = folder.join(RUN);
            let text = fs::read_to_string(&path).map_err(|source| disk(&path, source))?;
            let run: Run = serde_json::from_str(&text)
                .map_err(|source| StoreError::Damaged { path, source })?;
            self.insert(&run, &folder)?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, id: &str) -> Result<(), StoreError> {
        let change = self.connection.transaction()?;
        change.execute("DELETE FROM figures WHERE run = ?1", [id])?;
        change.execute("DELETE FROM runs WHERE id = ?1", [id])?;
        change.commit()?;
        Ok(())
    }

    fn known(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut statement = self.connection.prepare("SELECT id FROM runs")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    pub(super) fn insert(&mut self, run: &Run, folder: &Path) -> Result<(), StoreError> {
        let (moment, source, place) = when(run, folder);
        let json = serde_json::to_string(run).map_err(|source| StoreError::Damaged {
            path: folder.to_owned(),
            source,
        })?;
        let change = self.connection.transaction()?;
        change.execute(
            "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                run.id,
                moment,
                source,
                place,
                run.subject.name,
                run.load.name,
                run.finished(),
                json
            ],
        )?;
        for (metric, value) in run.figures.iter() {
            change.execute(
                "INSERT OR REPLACE INTO figures VALUES (?1, ?2, ?3)",
                params![run.id, metric, value],
            )?;
        }
        change.commit()?;
        Ok(())
    }

    pub(super) fn runs(&self) -> Result<Vec<Run>, StoreError> {
        let query = "SELECT json FROM runs ORDER BY moment, source, place, id";
        let mut statement = self.connection.prepare(query)?;
        let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut runs = Vec::new();
        for text in texts {
            let run = serde_json::from_str(&text?).map_err(|source| StoreError::Damaged {
                path: "index.sqlite".into(),
                source,
            })?;
            runs.push(run);
        }
        Ok(runs)
    }

    pub(super) fn history(&self, metric: &str) -> Result<Vec<Sample>, StoreError> {
        let query = "SELECT id, moment, subject, load, value FROM figures JOIN runs ON id = run
            WHERE metric = ?1 AND finished ORDER BY moment, source, place, id";
        let mut statement = self.connection.prepare(query)?;
        let samples = statement.query_map([metric], |row| {
            Ok(Sample {
                run: row.get(0)?,
                moment: row.get(1)?,
                subject: row.get(2)?,
                load: row.get(3)?,
                value: row.get(4)?,
            })
        })?;
        Ok(samples.collect::<Result<_, _>>()?)
    }
}

/// When a run took place, or when its text was taken in; what it is part of; its place in that.
fn when(run: &Run, folder: &Path) -> (String, String, i64) {
    match &run.origin {
        Origin::Measured {
            started,
            session,
            cell,
            ..
        } => (started.clone(), session.clone(), *cell as i64),
        Origin::Imported { file, line, .. } => {
            let modified = fs::metadata(folder.join(RUN)).and_then(|facts| facts.modified());
            let since = modified
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            // texts are taken in by the hour, so that the runs of one stay together
            let hour = since.unwrap_or_default().as_secs() / 3600 * 3600;
            (moment::utc(hour), file.clone(), *line as i64)
        }
    }
}
