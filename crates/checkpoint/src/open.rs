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
    match format_of(path)? {
        Some(Format::Gguf) => GgufSource::open(path).map(Checkpoint::Gguf),
        Some(Format::Safetensors) => SafetensorsSource::open(path).map(Checkpoint::Safetensors),
        None => Err(CheckpointError::NotAModel {
            path: path.to_owned(),
        }),
    }
}

/// Safetensors are the length of the header in eight bytes, and the header, which is JSON.
const JSON_AT: usize = 8;

enum Format {
    Gguf,
    Safetensors,
}

/// The first bytes decide; where they say nothing, the name does, so that the message fits.
fn format_of(path: &Path) -> Result<Option<Format>, CheckpointError> {
    let io = |source| CheckpointError::Io {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(CheckpointError::NotAFile {
            path: path.to_owned(),
        });
    }
    let mut start = Vec::with_capacity(JSON_AT + 1);
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(JSON_AT as u64 + 1)
        .read_to_end(&mut start)
        .map_err(io)?;
    let named = |wanted: &str| {
        path.extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
    };
    Ok(if named("gguf") || start.starts_with(gguf::MAGIC) {
        Some(Format::Gguf)
    } else if named("safetensors") || start.get(JSON_AT) == Some(&b'{') {
        Some(Format::Safetensors)
    } else {
        None
    })
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
