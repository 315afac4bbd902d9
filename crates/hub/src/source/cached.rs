//! A model that another tool already brought into the hub's cache, used when the hub cannot be asked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::digest::Expected;
use crate::error::HubError;
use crate::obtain::Part;
use crate::progress::Progress;
use crate::reference::HubId;
use crate::source::cache::Cache;
use crate::source::hugging_face::link;
use crate::source::selection::{INDEX, select};
use crate::store::{Draft, LocalModel};

/// Publishes the cached model when all of it is there and every hash is right.
pub(crate) fn publish(
    (id, part): (&HubId, Part),
    cache: &Path,
    mut draft: Draft<'_>,
    progress: &mut dyn Progress,
) -> Result<Option<LocalModel>, HubError> {
    let Some((snapshot, commit)) = Cache::of(cache, id).snapshot(&id.revision) else {
        return Ok(None);
    };
    let Ok(selection) = select(id, part, &listing(&snapshot)) else {
        return Ok(None);
    };
    let whole = part == Part::Whole;
    if whole
        && !shards(&snapshot)
            .iter()
            .all(|shard| selection.files.contains(shard))
    {
        return Ok(None);
    }
    for name in &selection.files {
        let path = snapshot.join(name);
        let Some((blob, hash, bytes)) = blob_of(&path) else {
            return Ok(None);
        };
        hash.check(&blob, bytes, progress)?;
        link(&blob, &draft.folder().join(name))?;
        draft.add(name, bytes, hash.text());
    }
    let source = format!("hub cache {} at {commit}", id.repository);
    draft
        .publish(&id.to_string(), &source, &selection.main)
        .map(Some)
}

fn listing(snapshot: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(snapshot) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The files that the index of a sharded model names.
fn shards(snapshot: &Path) -> BTreeSet<String> {
    let parse =
        || serde_json::from_slice::<serde_json::Value>(&fs::read(snapshot.join(INDEX)).ok()?).ok();
    let index = parse().unwrap_or_default();
    let map = index
        .get("weight_map")
        .and_then(serde_json::Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(_, file)| Some(file.as_str()?.to_owned()))
        .collect()
}

/// The file a snapshot's link points to; it is named by its own hash.
fn blob_of(path: &Path) -> Option<(PathBuf, Expected, u64)> {
    let blob = fs::canonicalize(path).ok()?;
    let hash = Expected::from_etag(blob.file_name()?.to_str()?)?;
    let bytes = fs::metadata(&blob).ok()?.len();
    Some((blob, hash, bytes))
}
