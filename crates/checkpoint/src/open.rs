//! Finds out what a path holds.

use std::io::Read;
use std::path::Path;

use crate::gguf::{self, GgufSource};
use crate::safetensors::{INDEX_NAME, SafetensorsSource};
use crate::{CheckpointError, WeightSource};

/// An opened checkpoint of either format.
#[derive(Debug)]
pub enum Checkpoint {
    /// One GGUF file; its metadata describes the model too.
    Gguf(GgufSource),
    /// Safetensors files; the model is described by `config.json` beside them.
    Safetensors(SafetensorsSource),
}

impl Checkpoint {
    /// The weights, whatever the format.
    pub fn weights(&self) -> &dyn WeightSource {
        match self {
            Self::Gguf(source) => source,
            Self::Safetensors(source) => source,
        }
    }
}

/// Opens a GGUF file, a safetensors file, an index, or a folder that holds one of these.
///
/// In a folder safetensors come first (the index, then `model.safetensors`), then a file that is alone of its kind.
pub fn open(path: &Path) -> Result<Checkpoint, CheckpointError> {
    if !path.is_dir() {
        return open_file(path);
    }
    for name in [INDEX_NAME, "model.safetensors"] {
        let file = path.join(name);
        if file.exists() {
            return open_file(&file);
        }
    }
    for extension in ["safetensors", "gguf"] {
        let names = names_with_extension(path, extension)?;
        match names.as_slice() {
            [] => {}
            [name] => return open_file(&path.join(name)),
            _ => {
                return Err(CheckpointError::Ambiguous {
                    path: path.to_owned(),
                    names,
                });
            }
        }
    }
    Err(CheckpointError::NoWeights {
        path: path.to_owned(),
    })
}

fn open_file(path: &Path) -> Result<Checkpoint, CheckpointError> {
    if path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(".index.json"))
    {
        return SafetensorsSource::open_index(path).map(Checkpoint::Safetensors);
    }
    if starts_like_gguf(path)? {
        GgufSource::open(path).map(Checkpoint::Gguf)
    } else {
        SafetensorsSource::open(path).map(Checkpoint::Safetensors)
    }
}

/// The magic decides; a file too short to have one is judged by its name, so that the message fits.
fn starts_like_gguf(path: &Path) -> Result<bool, CheckpointError> {
    let io = |source| CheckpointError::Io {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(CheckpointError::NotAFile {
            path: path.to_owned(),
        });
    }
    let mut start = Vec::with_capacity(gguf::MAGIC.len());
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(gguf::MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(io)?;
    let named_so = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    Ok(named_so || start == gguf::MAGIC)
}

fn names_with_extension(folder: &Path, extension: &str) -> Result<Vec<String>, CheckpointError> {
    let io = |source| CheckpointError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let fits = path
            .extension()
            .is_some_and(|found| found.eq_ignore_ascii_case(extension));
        if fits && let Some(name) = path.file_name() {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
