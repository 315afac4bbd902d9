//! The index: an SQLite file that says what is in which folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, params};

use super::{RUN, StoreError, UNFINISHED, disk};
use crate::moment;
use crate::run::{Origin, Run, identifier};

/// Counted up when the tables change; an index of another version is made again.
const VERSION: i64 = 3;

const TABLES: &str = "
    DROP TABLE IF EXISTS figures;
    DROP TABLE IF EXISTS runs;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        moment TEXT NOT NULL,
        source TEXT NOT NULL,
        place INTEGER NOT NULL,
        json TEXT NOT NULL,
        digest TEXT NOT NULL
    );
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

/// A run as the index has it.
struct Row {
    moment: String,
    json: String,
}

impl Index {
    /// Opens the index of these folders. One that is damaged is made again from them; what was wrong
    /// with it comes along.
    pub(super) fn of(path: &Path, runs: &Path) -> Result<(Self, Option<String>), StoreError> {
        let open = || -> Result<Self, StoreError> {
            let mut index = Self::open(path)?;
            index.check()?;
            index.catch_up(runs)?;
            Ok(index)
        };
        match open() {
            Err(error) if is_damage(&error) => {
                for end in ["", "-journal", "-wal", "-shm"] {
                    let mut file = path.as_os_str().to_owned();
                    file.push(end);
                    match fs::remove_file(&file) {
                        Err(source) if source.kind() != io::ErrorKind::NotFound => {
                            return Err(disk(Path::new(&file), source));
                        }
                        _ => {}
                    }
                }
                Ok((open()?, Some(error.to_string())))
            }
            other => other.map(|index| (index, None)),
        }
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != VERSION {
            connection.execute_batch(TABLES)?;
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        Ok(Self { connection })
    }

    /// Whether the file is whole and every row is what was written.
    fn check(&self) -> Result<(), StoreError> {
        let found: String = self
            .connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(StoreError::IndexDamaged(found));
        }
        self.rows().map(drop)
    }

    /// Every row, oldest first.
    fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let query = "SELECT id, moment, source, place, json, digest FROM runs
            ORDER BY moment, source, place, id";
        let mut statement = self.connection.prepare(query)?;
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let (id, moment, source): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let (place, json, written): (i64, String, String) =
                (row.get(3)?, row.get(4)?, row.get(5)?);
            if digest(&id, (&moment, &source, place), &json) != written {
                return Err(StoreError::IndexDamaged(format!(
                    "run {id} is not what was written"
                )));
            }
            rows.push(Row { moment, json });
        }
        Ok(rows)
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
        self.connection
            .execute("DELETE FROM runs WHERE id = ?1", [id])?;
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
        let digest = digest(&run.id, (&moment, &source, place), &json);
        self.connection.execute(
            "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![run.id, moment, source, place, json, digest],
        )?;
        Ok(())
    }

    /// Every run with its moment, oldest first.
    pub(super) fn runs(&self) -> Result<Vec<(String, Run)>, StoreError> {
        let runs = self.rows()?.into_iter().map(|row| {
            let run = serde_json::from_str(&row.json)
                .map_err(|error| StoreError::IndexDamaged(error.to_string()))?;
            Ok((row.moment, run))
        });
        runs.collect()
    }

    pub(super) fn history(&self, metric: &str) -> Result<Vec<Sample>, StoreError> {
        let runs = self.runs()?.into_iter().filter(|(_, run)| run.finished());
        let samples = runs.filter_map(|(moment, run)| {
            Some(Sample {
                value: run.figures.get(metric)?,
                run: run.id,
                moment,
                subject: run.subject.name,
                load: run.load.name,
            })
        });
        Ok(samples.collect())
    }
}

/// What tells a row that was written from one that rotted.
fn digest(id: &str, (moment, source, place): (&str, &str, i64), json: &str) -> String {
    identifier(&[id, moment, source, &place.to_string(), json])
}

/// Whether an error says that the index itself is at fault, and not the disk or another process.
fn is_damage(error: &StoreError) -> bool {
    use rusqlite::Error;
    match error {
        StoreError::Index(Error::SqliteFailure(failure, _)) => matches!(
            failure.code,
            // a statement that does not fit the tables is the third
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
        ),
        StoreError::IndexDamaged(_)
        | StoreError::Index(
            Error::FromSqlConversionFailure(..)
            | Error::InvalidColumnType(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::QueryReturnedNoRows
            | Error::Utf8Error(..)
            | Error::SqlInputError { .. },
        ) => true,
        _ => false,
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
