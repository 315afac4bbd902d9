//! One go at a plan: where it stands, and how it is found again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Cell;
use crate::moment;
use crate::run::{Origin, Outcome, identifier};
use crate::store::{Store, StoreError, disk, write_whole};

const FACTS: &str = "session.json";
const PLAN: &str = "plan.toml";

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Its name: the plan's and when it began.
    pub(crate) name: String,
    /// The digest of the plan.
    digest: String,
    /// When it began, in UTC.
    began: String,
    /// How many cells it has.
    cells: usize,
}

impl Session {
    /// A new session of a plan.
    pub(crate) fn begin(
        store: &Store,
        plan: (&str, &str),
        cells: usize,
    ) -> Result<Self, StoreError> {
        let (name, text) = plan;
        let began = moment::now();
        let stamp: String = began.chars().filter(char::is_ascii_alphanumeric).collect();
        // processes are known by this name, so that no other session may have it
        let chance = format!("{:?} {}", SystemTime::now(), std::process::id());
        let chance = identifier(&[&store.session_folder(name).display().to_string(), &chance]);
        let name = format!("{name}-{stamp}-{}", &chance[..6]);
        let session = Self {
            name,
            digest: identifier(&[text]),
            began,
            cells,
        };
        let folder = session.folder(store);
        let json = serde_json::to_string_pretty(&session).unwrap_or_default() + "\n";
        fs::create_dir_all(&folder)
            .and_then(|()| write_whole(&folder.join(PLAN), text.as_bytes()))
            .and_then(|()| write_whole(&folder.join(FACTS), json.as_bytes()))
            .map_err(|source| disk(&folder, source))?;
        Ok(session)
    }

    /// The newest session of the same plan that is not complete.
    pub(crate) fn unfinished(store: &Store, text: &str) -> Result<Option<Self>, StoreError> {
        let digest = identifier(&[text]);
        let mut found: Vec<Self> = Self::all(store);
        found.retain(|session| session.digest == digest);
        found.sort_by(|one, two| two.began.cmp(&one.began));
        for session in found {
            if session.done(store)?.len() < session.cells {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// The newest session of the same plan.
    pub(crate) fn latest(store: &Store, text: &str) -> Option<Self> {
        let digest = identifier(&[text]);
        let mut found: Vec<Self> = Self::all(store);
        found.retain(|session| session.digest == digest);
        found
            .into_iter()
            .max_by(|one, two| one.began.cmp(&two.began))
    }

    fn all(store: &Store) -> Vec<Self> {
        let entries = fs::read_dir(store.session_folder(""))
            .into_iter()
            .flatten()
            .flatten();
        let sessions = entries.filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join(FACTS)).ok()?;
            serde_json::from_str(&text).ok()
        });
        sessions.collect()
    }

    /// The places of cells that have a run in the store, failed ones included.
    pub(crate) fn done(&self, store: &Store) -> Result<BTreeSet<usize>, StoreError> {
        let runs = store.runs()?.into_iter();
        let places = runs.filter_map(|run| match run.origin {
            Origin::Measured { session, cell, .. } if session == self.name => Some(cell),
            _ => None,
        });
        Ok(places.collect())
    }

    /// Takes failed runs out of the store, so that their cells are run again.
    pub(crate) fn forget_failures(&self, store: &mut Store) -> Result<usize, StoreError> {
        let failed: Vec<String> = store
            .runs()?
            .into_iter()
            .filter(|run| {
                let ours = matches!(&run.origin, Origin::Measured { session, .. } if *session == self.name);
                ours && matches!(run.outcome, Outcome::Failed { .. })
            })
            .map(|run| run.id)
            .collect();
        for id in &failed {
            store.remove(id)?;
        }
        Ok(failed.len())
    }

    /// Its folder.
    pub(crate) fn folder(&self, store: &Store) -> PathBuf {
        store.session_folder(&self.name)
    }

    /// What the processes of a cell are known by, those of each role apart; all of them begin with
    /// the session's own mark.
    pub(crate) fn mark(&self, cell: &Cell, role: &str) -> String {
        format!("{}{}/{role}", self.own_mark(), cell.place)
    }

    /// What all processes of the session are known by.
    pub(crate) fn own_mark(&self) -> String {
        format!("{}/", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_session_of_the_same_plan_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let session = Session::begin(&store, ("x", "plan"), 3).unwrap();
        let second = Session::begin(&store, ("x", "other"), 3).unwrap();
        assert_ne!(session.name, second.name);
        assert_eq!(
            Session::unfinished(&store, "plan").unwrap(),
            Some(session.clone())
        );
        assert_eq!(Session::unfinished(&store, "third").unwrap(), None);
        let empty = Session::begin(&store, ("x", "nothing to do"), 0).unwrap();
        assert_eq!(Session::unfinished(&store, "nothing to do").unwrap(), None);
        assert!(empty.folder(&store).join(PLAN).exists());
        let cell = Cell {
            place: 2,
            subject: 0,
            load: 0,
            repeat: 1,
        };
        assert!(
            session
                .mark(&cell, "server")
                .starts_with(&session.own_mark())
        );
    }
}
