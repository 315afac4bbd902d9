//! The folder of profiles, and the one that is recorded.
//!
//! Clients say where in the folder and how a profile's name begins; everything is opened from the folder's own handle, step
//! by step and without following links, so that nothing they say leads out of it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{EngineHandle, Recording};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use tokio::task::JoinHandle;

use crate::clock;

/// How long the end of the server waits for a trace to be written.
const LAST_TRACE: Duration = Duration::from_secs(30);

/// A folder that profiles are written to, and nothing else of the machine.
#[derive(Clone, Debug)]
pub struct ProfileFolder {
    /// As it was given, and without links.
    names: [PathBuf; 2],
    folder: Arc<OwnedFd>,
}

impl ProfileFolder {
    /// Opens the folder; where there is none it is made, for its owner alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(path)?;
        let whole = path.canonicalize()?;
        let folder = rustix::fs::open(&whole, FOLDER, Mode::empty())?;
        Ok(Self {
            names: [std::path::absolute(path)?, whole],
            folder: Arc::new(folder),
        })
    }

    /// The way from the folder to what a client names; none where that is not inside.
    pub(crate) fn inside(&self, asked: Option<&str>) -> Option<PathBuf> {
        let asked = Path::new(asked.unwrap_or_default());
        let way = if asked.is_absolute() {
            let mut rests = self.names.iter().map(|name| asked.strip_prefix(name));
            rests.find_map(Result::ok)?
        } else {
            asked
        };
        let is_plain =
            |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        way.components()
            .all(|part| is_plain(&part))
            .then(|| way.to_owned())
    }

    /// A new file in there, under a name that nobody can know before.
    pub(crate) fn create(&self, way: &Path, prefix: Option<&str>) -> io::Result<Unfinished> {
        let mut folder = self.folder.try_clone()?;
        for part in way.components() {
            let Component::Normal(name) = part else {
                continue;
            };
            match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        }
        let name = file_name(prefix);
        let draft = format!("{name}.unfinished");
        let file = rustix::fs::openat(&folder, &draft, NEW_FILE, Mode::RUSR | Mode::WUSR)?;
        Ok(Unfinished {
            folder,
            path: self.names[0].join(way).join(&name),
            name,
            draft,
            file: File::from(file),
        })
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A file of a trace that is not there yet; without a trace it goes again.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: OwnedFd,
    /// What it will be called.
    name: String,
    draft: String,
    path: PathBuf,
    file: File,
}

impl Unfinished {
    fn finish(mut self, trace: &str) -> io::Result<PathBuf> {
        self.file.write_all(trace.as_bytes())?;
        let (folder, name) = (&self.folder, &self.name);
        rustix::fs::renameat_with(folder, &self.draft, folder, name, RenameFlags::NOREPLACE)?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A whole one has another name by now.
        let _ = rustix::fs::unlinkat(&self.folder, &self.draft, AtFlags::empty());
    }
}

/// What the client adds may not lead out of the folder.
fn file_name(prefix: Option<&str>) -> String {
    let kept = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let prefix: String = prefix
        .unwrap_or_default()
        .chars()
        .filter(kept)
        .take(64)
        .collect();
    let prefix = prefix.trim_start_matches('.');
    let dash = if prefix.is_empty() { "" } else { "-" };
    let (seconds, random) = (clock::unix_seconds(), rand::random::<u64>());
    format!("{prefix}{dash}{seconds}-{random:016x}.trace.json")
}

/// The writer of the newest profile.
#[derive(Debug, Default)]
pub(crate) struct Profiles(Mutex<Option<JoinHandle<()>>>);

impl Profiles {
    /// Writes a recording to its file when it ends.
    pub(crate) fn keep(&self, recording: Recording, file: Unfinished) {
        let write = async move {
            let path = file.path.clone();
            let Some(trace) = recording.trace().await else {
                tracing::warn!(
                    "the engine ended before the trace {} was whole",
                    path.display()
                );
                return;
            };
            let written = tokio::task::spawn_blocking(move || file.finish(&trace)).await;
            match written
                .map_err(io::Error::other)
                .and_then(|written| written)
            {
                Ok(path) => {
                    tracing::info!("Profiling done. Traces are saved to: {}", path.display());
                }
                Err(error) => {
                    tracing::error!("the trace {} was not written: {error}", path.display());
                }
            }
        };
        let writer = tokio::spawn(write);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    }

    /// Ends a recording that runs and waits until its trace is written.
    pub(crate) async fn finish(&self, engine: &EngineHandle) {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer.filter(|writer| !writer.is_finished()) else {
            return;
        };
        // It may have ended by itself.
        let _ = engine.stop_profile();
        if tokio::time::timeout(LAST_TRACE, writer).await.is_err() {
            tracing::error!("the last trace was not written within {LAST_TRACE:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn nothing_that_a_client_says_leads_out_of_the_folder() {
        let home = tempfile::tempdir().expect("a folder");
        let real = home.path().join("real");
        let folder = ProfileFolder::open(&real).expect("it is made");
        let whole = real.canonicalize().expect("it is there");
        let inside = whole.join("a/b");
        for (asked, way) in [
            (None, Some("")),
            (Some("a/b"), Some("a/b")),
            (Some("./a"), Some("./a")),
            (inside.to_str(), Some("a/b")),
            (whole.to_str(), Some("")),
            (Some(".."), None),
            (Some("a/../../b"), None),
            (Some("/"), None),
            (home.path().to_str(), None),
            (whole.join("../real/a").to_str(), None),
        ] {
            assert_eq!(folder.inside(asked), way.map(PathBuf::from), "{asked:?}");
        }
        let elsewhere = tempfile::tempdir().expect("a folder");
        symlink(elsewhere.path(), real.join("link")).expect("a link");
        std::fs::write(real.join("file"), "").expect("a file");
        for way in ["link", "link/a", "a/../link", "file"] {
            assert!(
                folder.create(Path::new(way), None).is_err() || way.contains(".."),
                "{way}"
            );
        }
        assert_eq!(
            std::fs::read_dir(elsewhere.path())
                .expect("a folder")
                .count(),
            0
        );
    }

    #[test]
    fn a_profile_is_for_its_owner_alone_and_has_a_name_of_its_own() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = ProfileFolder::open(&home.path().join("new")).expect("it is made");
        let mode = |path: &Path| {
            let found = std::fs::metadata(path).expect("it is there");
            found.permissions().mode() & 0o777
        };
        assert_eq!(mode(&home.path().join("new")), 0o700);
        let mut paths = Vec::new();
        for _ in 0..2 {
            let file = folder
                .create(Path::new("a"), Some("../my x"))
                .expect("a file");
            paths.push(file.finish("{}").expect("it is written"));
        }
        assert_ne!(paths[0], paths[1]);
        for path in &paths {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a name");
            assert!(
                name.starts_with("myx-") && name.ends_with(".trace.json"),
                "{name}"
            );
            assert_eq!(
                (mode(path), std::fs::read_to_string(path).expect("text")),
                (0o600, "{}".to_owned())
            );
        }
        drop(folder.create(Path::new("a"), None).expect("a file"));
        let left = std::fs::read_dir(home.path().join("new/a"))
            .expect("a folder")
            .count();
        assert_eq!(left, 2);
    }
}
