//! Models of the Hugging Face hub. Bytes land in the hub's own cache, where other tools find them
//! and broken downloads resume; the store gets links to them once every hash is right.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::digest::Expected;
use crate::error::HubError;
use crate::obtain::Part;
use crate::progress::Progress;
use crate::reference::HubId;
use crate::source::cache::Cache;
use crate::source::cached;
use crate::source::client::{Client, Fault};
use crate::source::selection::{Selection, select};
use crate::store::{Draft, LocalModel};

const ENDPOINT: &str = "https://huggingface.co";
const CHUNK: usize = 1 << 16;

/// How the hub is reached.
#[derive(Debug, Clone)]
pub struct HuggingFace {
    /// The address of a mirror, without a slash at the end; the public hub when absent.
    pub endpoint: Option<String>,
    /// The cache folder shared with other tools (`$HF_HOME/hub`).
    pub cache: PathBuf,
    /// The access token; without one the cache's own token file is used.
    pub token: Option<String>,
    /// Whether the hub must not be asked.
    pub offline: bool,
}

impl HuggingFace {
    /// How messages name it.
    fn name(&self) -> String {
        self.endpoint
            .clone()
            .unwrap_or_else(|| "the hub".to_owned())
    }
}

/// Fetches the model's files, checks each, and publishes the entry.
pub(crate) fn fetch(
    (id, part): (&HubId, Part),
    hub: &HuggingFace,
    mut draft: Draft<'_>,
    progress: &mut dyn Progress,
) -> Result<LocalModel, HubError> {
    let remote = Remote::new(id, hub);
    let asked = if hub.offline {
        Err(HubError::Offline { id: id.to_string() })
    } else {
        remote.choose(part)
    };
    let (selection, commit) = match asked {
        Ok(answer) => answer,
        Err(error @ (HubError::Offline { .. } | HubError::Unreachable { .. })) => {
            return cached::publish((id, part), &hub.cache, draft, progress)?.ok_or(error);
        }
        Err(error) => return Err(error),
    };
    for name in &selection.files {
        let file = remote.facts(name)?;
        let path = remote.bring(&file, progress)?;
        link(&path, &draft.folder().join(name))?;
        draft.add(name, file.bytes, file.hash.text());
    }
    let source = format!("hub {} at {commit}", id.repository);
    draft.publish(&id.to_string(), &source, &selection.main)
}

/// What the hub says about a repository.
#[derive(Deserialize)]
struct Description {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

/// A file as the hub announces it.
struct RemoteFile {
    name: String,
    bytes: u64,
    hash: Expected,
    commit: String,
}

/// How a transfer ended that did not end well.
enum Broken {
    /// The connection broke after bytes arrived, or before.
    Connection(String),
    /// Going on would not help.
    Final(HubError),
}

struct Remote<'a> {
    id: &'a HubId,
    hub: &'a HuggingFace,
    client: Client,
    cache: Cache,
}

impl<'a> Remote<'a> {
    fn new(id: &'a HubId, hub: &'a HuggingFace) -> Self {
        let endpoint = hub.endpoint.as_deref().unwrap_or(ENDPOINT);
        let token = hub.token.clone().or_else(|| Cache::token(&hub.cache));
        Self {
            id,
            hub,
            client: Client::new(endpoint, token),
            cache: Cache::of(&hub.cache, id),
        }
    }

    fn choose(&self, part: Part) -> Result<(Selection, String), HubError> {
        let path = format!(
            "/api/models/{}/revision/{}",
            self.id.repository,
            self.revision()
        );
        let text = self
            .client
            .text(&path)
            .map_err(|fault| self.explain(fault))?;
        let description: Description = serde_json::from_slice(&text)
            .map_err(|error| self.bad_answer(format!("a description that is not one: {error}")))?;
        let files = description.siblings.into_iter().map(|file| file.rfilename);
        let listing: Vec<String> = files.collect();
        Ok((select(self.id, part, &listing)?, description.sha))
    }

    /// As a segment of an address.
    fn revision(&self) -> String {
        self.id.revision.replace('/', "%2F")
    }

    fn path_of(&self, name: &str) -> String {
        format!("/{}/resolve/{}/{name}", self.id.repository, self.revision())
    }

    /// The tag and the commit become path segments in the cache, so nothing else than hashes may pass.
    fn facts(&self, name: &str) -> Result<RemoteFile, HubError> {
        let facts = self.client.facts(&self.path_of(name));
        let facts = facts.map_err(|fault| self.explain(fault))?;
        let hash = facts.etag.as_deref().and_then(Expected::from_etag);
        let hexadecimal = |commit: &String| commit.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let commit = facts.commit.filter(hexadecimal);
        match (hash, commit, facts.bytes) {
            (Some(hash), Some(commit), Some(bytes)) => Ok(RemoteFile {
                name: name.to_owned(),
                bytes,
                hash,
                commit,
            }),
            (_, _, None) => Err(self.bad_answer(format!("no size for {name}"))),
            _ => Err(self.bad_answer(format!("no hash for {name}"))),
        }
    }

    /// Downloads into the cache, going on where a broken transfer stopped for as long as it gets
    /// further; bytes that turn out wrong are dropped and fetched anew, once.
    fn bring(&self, file: &RemoteFile, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let blob = self.cache.blob(file.hash.text())?;
        let lock = blob.with_extension("lock");
        let held = File::create(&lock).map_err(HubError::io("create", &lock))?;
        held.lock().map_err(HubError::io("lock", &lock))?;
        let named = || {
            let version = (self.id.revision.as_str(), file.commit.as_str());
            self.cache.name(version, &file.name, file.hash.text())?;
            Ok(blob.clone())
        };
        if blob.exists() && file.hash.check(&blob, file.bytes, progress).is_ok() {
            return named();
        }
        let part = blob.with_extension("part");
        let mut wrong = 0;
        loop {
            let before = length(&part);
            match self.transfer(file, &part, progress) {
                Ok(()) => match file.hash.check(&part, file.bytes, progress) {
                    Ok(()) => {
                        fs::rename(&part, &blob).map_err(HubError::io("rename to", &blob))?;
                        return named();
                    }
                    Err(error) if wrong > 0 => return remove(&part).and(Err(error)),
                    Err(error) => {
                        tracing::warn!("{error}; downloading {} from the start", file.name);
                        remove(&part)?;
                        wrong += 1;
                    }
                },
                Err(Broken::Connection(_)) if length(&part) > before => {
                    progress.note(&format!("download of {} broke off, going on", file.name));
                }
                Err(Broken::Connection(reason)) => {
                    return Err(self.explain(Fault::Unreachable(reason)));
                }
                Err(Broken::Final(error)) => return Err(error),
            }
        }
    }

    /// Brings what is missing of a file, and not a byte more than was announced.
    fn transfer(
        &self,
        file: &RemoteFile,
        part: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(), Broken> {
        let ours = |action, error| Broken::Final(HubError::io(action, part)(error));
        let from = length(part).filter(|done| *done <= file.bytes).unwrap_or(0);
        progress.start(&file.name, Some(file.bytes));
        progress.advance(from);
        let answer = match self.client.bytes(&self.path_of(&file.name), from) {
            Ok(answer) => answer,
            // everything is there already, and there is no range after the end
            Err(Fault::Status(416)) if from == file.bytes => return Ok(()),
            Err(Fault::Unreachable(reason)) => return Err(Broken::Connection(reason)),
            Err(fault) => return Err(Broken::Final(self.explain(fault))),
        };
        // a server that ignores the range sends the file from its start
        let mut done = if answer.status() == 206 { from } else { 0 };
        let mut options = File::options();
        let options = options.create(true).append(done > 0).write(true);
        let out = options.truncate(done == 0).open(part);
        let mut out = out.map_err(|error| ours("open", error))?;
        let rest = (file.bytes - done).saturating_add(1);
        let mut body = answer.into_body().into_reader().take(rest);
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = body.read(&mut chunk);
            let read = read.map_err(|error| Broken::Connection(error.to_string()))?;
            if read == 0 {
                break;
            }
            let written = out.write_all(&chunk[..read]);
            written.map_err(|error| ours("write", error))?;
            done += read as u64;
            progress.advance(done);
        }
        if done < file.bytes {
            return Err(Broken::Connection("the connection ended early".to_owned()));
        }
        out.sync_all().map_err(|error| ours("write", error))?;
        progress.finish();
        Ok(())
    }

    fn explain(&self, fault: Fault) -> HubError {
        let id = self.id.repository.clone();
        match fault {
            Fault::Status(404) => HubError::NotFound {
                revision: self.id.revision.clone(),
                id,
            },
            Fault::Status(status @ (401 | 403)) => HubError::Refused { id, status },
            Fault::Status(status) => self.bad_answer(format!("HTTP {status}")),
            Fault::Unreachable(reason) => HubError::Unreachable {
                id,
                endpoint: self.hub.name(),
                reason,
            },
            Fault::Nonsense(reason) => self.bad_answer(reason),
        }
    }

    fn bad_answer(&self, reason: String) -> HubError {
        let (id, endpoint) = (self.id.repository.clone(), self.hub.name());
        HubError::BadAnswer {
            id,
            endpoint,
            reason,
        }
    }
}

fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|facts| facts.len())
}

fn remove(path: &Path) -> Result<(), HubError> {
    fs::remove_file(path).map_err(HubError::io("remove", path))
}

/// A hard link keeps the entry whole when the cache is cleared; over file systems a soft one must do.
pub(crate) fn link(from: &Path, to: &Path) -> Result<(), HubError> {
    let folder = to
        .parent()
        .expect("an entry's file lies in the entry's folder");
    fs::create_dir_all(folder).map_err(HubError::io("create", folder))?;
    let from = fs::canonicalize(from).map_err(HubError::io("find", from))?;
    fs::hard_link(&from, to)
        .or_else(|_| std::os::unix::fs::symlink(&from, to))
        .map_err(HubError::io("link", to))
}
