//! Models of the Hugging Face hub. Bytes land in the hub's own cache, where other tools find them
//! and broken downloads resume; the store gets links to them once every hash is right.

use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};

use crate::digest::Expected;
use crate::error::HubError;
use crate::obtain::Part;
use crate::progress::Progress;
use crate::reference::HubId;
use crate::source::cached;
use crate::source::selection::{Selection, select};
use crate::source::wheel::PINNED;
use crate::store::{Draft, LocalModel};

/// How the hub is reached.
#[derive(Debug, Clone)]
pub struct HuggingFace {
    /// The address of a mirror, without a slash at the end; the client's own when absent.
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
    let remote = Remote::open(id, hub)?;
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

/// A file as the hub announces it.
struct RemoteFile {
    name: String,
    bytes: u64,
    hash: Expected,
}

struct Remote<'a> {
    id: &'a HubId,
    hub: &'a HuggingFace,
    api: Api,
    repo: ApiRepo,
}

impl<'a> Remote<'a> {
    fn open(id: &'a HubId, hub: &'a HuggingFace) -> Result<Self, HubError> {
        let mut builder =
            ApiBuilder::from_cache(Cache::new(hub.cache.clone())).with_progress(false);
        if let Some(endpoint) = &hub.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        if let Some(token) = &hub.token {
            builder = builder.with_token(Some(token.clone()));
        }
        let api = builder
            .build()
            .map_err(|error| unreachable(id, hub, error.to_string()))?;
        let repo = api.repo(repository(id));
        Ok(Self { id, hub, api, repo })
    }

    fn choose(&self, part: Part) -> Result<(Selection, String), HubError> {
        let info = self.repo.info().map_err(|error| self.explain(error))?;
        let listing: Vec<String> = info
            .siblings
            .into_iter()
            .map(|file| file.rfilename)
            .collect();
        Ok((select(self.id, part, &listing)?, info.sha))
    }

    fn facts(&self, name: &str) -> Result<RemoteFile, HubError> {
        let metadata = self
            .api
            .metadata(&self.repo.url(name))
            .map_err(|error| self.explain(error))?;
        let hash = self.trusted_hash(name, &metadata)?;
        Ok(RemoteFile {
            name: name.to_owned(),
            bytes: metadata.size() as u64,
            hash,
        })
    }

    /// The tag and the commit become path segments in the cache, so nothing else than hashes may pass.
    fn trusted_hash(&self, name: &str, metadata: &Metadata) -> Result<Expected, HubError> {
        let commit_fits = metadata
            .commit_hash()
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric());
        match Expected::from_etag(metadata.etag()) {
            Some(hash) if commit_fits => Ok(hash),
            _ => Err(self.bad_answer(format!("no hash for {name}"))),
        }
    }

    /// Downloads into the cache, going on where a broken transfer stopped for as long as it gets
    /// further; bytes that turn out wrong are dropped and fetched anew, once.
    fn bring(&self, file: &RemoteFile, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let blob = Cache::new(self.hub.cache.clone())
            .repo(repository(self.id))
            .blob_path(file.hash.text());
        let part = blob.with_extension("part");
        if blob.exists() && file.hash.check(&blob, file.bytes, progress).is_ok() {
            return Ok(blob);
        }
        let mut wrong = 0;
        let mut reached = length(&part);
        if reached > Some(file.bytes) {
            remove(&part)?;
            reached = None;
        }
        loop {
            let heard = Heard { progress, done: 0 };
            match self.repo.download_with_progress(&file.name, heard) {
                Ok(_) => match file.hash.check(&blob, file.bytes, progress) {
                    Ok(()) => return Ok(blob),
                    Err(error) if wrong > 0 => return remove(&blob).and(Err(error)),
                    Err(error) => {
                        tracing::warn!("{error}; downloading {} from the start", file.name);
                        remove(&blob)?;
                        wrong += 1;
                        reached = None;
                    }
                },
                Err(error) => {
                    let now = length(&part);
                    if now <= reached || answered(&error).is_some() {
                        return Err(self.explain(error));
                    }
                    progress.note(&format!("download of {} broke off, going on", file.name));
                    reached = now;
                }
            }
        }
    }

    fn explain(&self, error: ApiError) -> HubError {
        let id = self.id.repository.clone();
        match answered(&error) {
            Some(404) => HubError::NotFound {
                nearest: PINNED
                    .iter()
                    .find(|pin| alike(pin.name, &id))
                    .map(|pin| pin.name),
                revision: self.id.revision.clone(),
                id,
            },
            Some(status @ (401 | 403)) => HubError::Refused { id, status },
            Some(status) => self.bad_answer(format!("HTTP {status}")),
            None => match error {
                ApiError::RequestError(error) => unreachable(self.id, self.hub, error.to_string()),
                ApiError::IoError(source) => HubError::Io {
                    action: "download into",
                    path: self.hub.cache.clone(),
                    source,
                },
                error => self.bad_answer(error.to_string()),
            },
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

fn repository(id: &HubId) -> Repo {
    Repo::with_revision(id.repository.clone(), RepoType::Model, id.revision.clone())
}

fn unreachable(id: &HubId, hub: &HuggingFace, reason: String) -> HubError {
    HubError::Unreachable {
        id: id.repository.clone(),
        endpoint: hub.name(),
        reason,
    }
}

/// The status the hub answered with, when it answered at all.
fn answered(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => Some(status),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a lone name was probably meant for a pinned one.
fn alike(pinned: &str, id: &str) -> bool {
    let squeeze = |text: &str| text.to_lowercase().replace(['-', '_', '.'], "");
    let (pinned, id) = (
        squeeze(pinned),
        squeeze(id.rsplit('/').next().unwrap_or(id)),
    );
    !id.is_empty() && (pinned.contains(&id) || id.contains(&pinned))
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

/// Our progress, as the client crate speaks to it.
struct Heard<'a> {
    progress: &'a mut dyn Progress,
    done: u64,
}

impl hf_hub::api::Progress for Heard<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        self.done = 0;
        self.progress.start(filename, Some(size as u64));
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        self.progress.advance(self.done);
    }

    fn finish(&mut self) {
        self.progress.finish();
    }
}
