//! The hub's own cache folder: blobs named by their hash, snapshots of links to them, and references.
//! Other tools read and write it too.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::HubError;
use crate::reference::{HubId, is_name};

/// One repository's part of the cache.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The part of a repository; nothing is created.
    pub(crate) fn of(root: &Path, id: &HubId) -> Self {
        let name = format!("models--{}", id.repository.replace('/', "--"));
        Self {
            folder: root.join(name),
        }
    }

    /// The access token that other tools keep beside the cache.
    pub(crate) fn token(root: &Path) -> Option<String> {
        let text = fs::read_to_string(root.parent()?.join("token")).ok()?;
        Some(text.trim().to_owned()).filter(|token| !token.is_empty())
    }

    /// Where the bytes with this hash lie, or will.
    pub(crate) fn blob(&self, hash: &str) -> Result<PathBuf, HubError> {
        let blobs = self.folder.join("blobs");
        fs::create_dir_all(&blobs).map_err(HubError::io("create", &blobs))?;
        Ok(blobs.join(hash))
    }

    /// The folder of a revision's files, when there is one.
    pub(crate) fn snapshot(&self, revision: &str) -> Option<(PathBuf, String)> {
        let commit = fs::read_to_string(self.reference(revision)).ok()?;
        let commit = commit.trim().to_owned();
        let folder = self.folder.join("snapshots").join(&commit);
        (is_name(&commit) && folder.is_dir()).then_some((folder, commit))
    }

    /// Lets other tools find a blob under its name, as the revision's.
    pub(crate) fn name(
        &self,
        (revision, commit): (&str, &str),
        file: &str,
        hash: &str,
    ) -> Result<(), HubError> {
        let link = self.folder.join("snapshots").join(commit).join(file);
        let up = "../".repeat(2 + file.split('/').count() - 1);
        place(&link, |link| {
            match symlink(format!("{up}blobs/{hash}"), link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        })?;
        place(&self.reference(revision), |path| fs::write(path, commit))
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.folder.join("refs").join(revision)
    }
}

fn place(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), HubError> {
    let folder = path.parent().expect("it lies in the repository's folder");
    fs::create_dir_all(folder).map_err(HubError::io("create", folder))?;
    make(path).map_err(HubError::io("create", path))
}
