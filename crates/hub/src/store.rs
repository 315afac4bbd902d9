//! Where models live: one folder per model under a root, whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HubError;
use crate::progress::Progress;
use crate::reference::is_name;

const MANIFEST: &str = "manifest.json";
const LOCKS: &str = ".locks";

/// A model on this machine, ready to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// A name for people and for `/v1/models`.
    pub name: String,
    /// A folder with config and safetensors, or one GGUF file.
    pub path: PathBuf,
}

/// A model of the store, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    /// By which it is asked for.
    pub name: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// What would be opened.
    pub path: PathBuf,
}

/// The folder that holds pulled models.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What an entry says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    name: String,
    source: String,
    /// The file to open; empty when the folder itself is the model.
    main: String,
    files: Vec<StoredFile>,
}

/// One file of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    pub name: String,
    pub bytes: u64,
    pub hash: String,
}

impl Store {
    /// A store in this folder, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every model that is here whole, by name; none where there is no folder yet.
    pub fn models(&self) -> Result<Vec<StoredModel>, HubError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(HubError::io("read", &self.root))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let entries = names.filter(|name| !name.starts_with('.'));
        let mut models: Vec<StoredModel> = entries
            .filter_map(|entry| {
                let manifest = self.manifest(&entry)?;
                let LocalModel { name, path } = self.find(&entry)?;
                let bytes = manifest.files.iter().map(|file| file.bytes).sum();
                Some(StoredModel { name, bytes, path })
            })
            .collect();
        models.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(models)
    }

    fn manifest(&self, entry: &str) -> Option<Manifest> {
        let manifest = fs::read(self.root.join(entry).join(MANIFEST)).ok()?;
        serde_json::from_slice(&manifest).ok()
    }

    /// The model of an entry when it is here with all its files at their right sizes.
    pub(crate) fn find(&self, entry: &str) -> Option<LocalModel> {
        let folder = self.root.join(entry);
        let manifest = self.manifest(entry)?;
        let whole = manifest.files.iter().all(|file| {
            let size = fs::metadata(folder.join(&file.name)).map(|facts| facts.len());
            file.name.split('/').all(is_name) && size.is_ok_and(|size| size == file.bytes)
        });
        if !whole {
            tracing::warn!(
                "{} is incomplete, it will be fetched again",
                folder.display()
            );
            return None;
        }
        let path = if manifest.main.is_empty() {
            folder
        } else {
            folder.join(&manifest.main)
        };
        Some(LocalModel {
            name: manifest.name,
            path,
        })
    }

    /// Makes this process the only one that brings the entry; waits while another does.
    pub(crate) fn lock(&self, entry: &str, progress: &mut dyn Progress) -> Result<Lock, HubError> {
        let folder = self.root.join(LOCKS);
        fs::create_dir_all(&folder).map_err(HubError::io("create", &folder))?;
        let path = folder.join(format!("{entry}.lock"));
        let file = File::create(&path).map_err(HubError::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.note(&format!(
                    "waiting for another process that is fetching {entry}"
                ));
                file.lock().map_err(HubError::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(HubError::io("lock", &path)(error)),
        }
        Ok(Lock { _file: file })
    }

    /// Opens an empty folder beside the entry; it becomes the entry on [`Draft::publish`].
    pub(crate) fn draft<'a>(&'a self, entry: &str, lock: &'a Lock) -> Result<Draft<'a>, HubError> {
        let folder = self.root.join(format!(".draft-{entry}"));
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(HubError::io("remove", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(HubError::io("create", &folder))?;
        Ok(Draft {
            store: self,
            _lock: lock,
            entry: entry.to_owned(),
            folder,
            files: Vec::new(),
        })
    }
}

/// Held while an entry is brought; released when dropped or when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// An entry in the making; removed unless published.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    store: &'a Store,
    _lock: &'a Lock,
    entry: String,
    folder: PathBuf,
    files: Vec<StoredFile>,
}

impl Draft<'_> {
    /// Where its files go.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file that is complete, checked and in the folder.
    pub(crate) fn add(&mut self, name: &str, bytes: u64, hash: &str) {
        self.files.push(StoredFile {
            name: name.to_owned(),
            bytes,
            hash: hash.to_owned(),
        });
    }

    /// Makes it the entry in one step, replacing what was there.
    pub(crate) fn publish(
        mut self,
        name: &str,
        source: &str,
        main: &str,
    ) -> Result<LocalModel, HubError> {
        let manifest = Manifest {
            name: name.to_owned(),
            source: source.to_owned(),
            main: main.to_owned(),
            files: std::mem::take(&mut self.files),
        };
        let text =
            serde_json::to_vec_pretty(&manifest).expect("a manifest has only texts and numbers");
        let path = self.folder.join(MANIFEST);
        let mut file = File::create(&path).map_err(HubError::io("create", &path))?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .map_err(HubError::io("write", &path))?;
        let entry = self.store.root.join(&self.entry);
        if entry.exists() {
            fs::remove_dir_all(&entry).map_err(HubError::io("remove", &entry))?;
        }
        fs::rename(&self.folder, &entry).map_err(HubError::io("rename to", &entry))?;
        let path = if main.is_empty() {
            entry
        } else {
            entry.join(main)
        };
        Ok(LocalModel {
            name: name.to_owned(),
            path,
        })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.folder.exists() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A file name for a model: slashes become double dashes, other odd letters a dash.
pub(crate) fn entry_name(text: &str) -> String {
    let spaced = text.replace('/', "--");
    spaced
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-@".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    fn publish(store: &Store, content: &[u8]) -> LocalModel {
        let lock = store.lock("m", &mut Silent).unwrap();
        let mut draft = store.draft("m", &lock).unwrap();
        fs::write(draft.folder().join("m.gguf"), content).unwrap();
        draft.add("m.gguf", content.len() as u64, "00");
        draft.publish("m", "test", "m.gguf").unwrap()
    }

    #[test]
    fn an_entry_appears_whole_and_is_replaced_whole() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(root.path().join("models"));
        assert_eq!(store.find("m"), None);
        let first = publish(&store, b"one");
        assert_eq!(store.find("m"), Some(first));
        let second = publish(&store, b"two!");
        assert_eq!(fs::read(second.path).unwrap(), b"two!");
    }

    #[test]
    fn the_models_of_a_store_are_those_that_are_whole() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(root.path().join("models"));
        assert_eq!(store.models().unwrap(), []);
        let model = publish(&store, b"whole");
        fs::create_dir(store.root().join("other")).unwrap();
        let expected = StoredModel {
            name: model.name,
            bytes: 5,
            path: model.path.clone(),
        };
        assert_eq!(store.models().unwrap(), [expected]);
        fs::write(&model.path, b"cut").unwrap();
        assert_eq!(store.models().unwrap(), []);
    }

    #[test]
    fn an_abandoned_draft_leaves_nothing_and_a_stale_one_is_cleared() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(root.path());
        let stale = root.path().join(".draft-m");
        fs::create_dir_all(&stale).unwrap();
        fs::write(stale.join("left over"), b"x").unwrap();
        let lock = store.lock("m", &mut Silent).unwrap();
        let draft = store.draft("m", &lock).unwrap();
        assert_eq!(fs::read_dir(draft.folder()).unwrap().count(), 0);
        drop(draft);
        assert!(!stale.exists());
        assert_eq!(store.find("m"), None);
    }

    #[test]
    fn a_missing_cut_or_strayed_file_makes_an_entry_absent() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(root.path());
        let model = publish(&store, b"whole");
        fs::write(&model.path, b"cut").unwrap();
        assert_eq!(store.find("m"), None);
        fs::remove_file(&model.path).unwrap();
        assert_eq!(store.find("m"), None);
        publish(&store, b"whole");
        let manifest = root.path().join("m").join(MANIFEST);
        let strayed = fs::read_to_string(&manifest)
            .unwrap()
            .replace("\"m.gguf\"", "\"../m.gguf\"");
        fs::write(root.path().join("m.gguf"), b"whole").unwrap();
        fs::write(&manifest, strayed).unwrap();
        assert_eq!(store.find("m"), None);
    }

    #[test]
    fn entry_names_are_single_safe_path_segments() {
        assert_eq!(
            entry_name("Qwen/Qwen3-8B@refs/pr/1:Q4 K"),
            "Qwen--Qwen3-8B@refs--pr--1-Q4-K"
        );
    }
}
