use std::path::{Path, PathBuf};

use checkpoint::Checkpoint;
use serde::Deserialize;

use crate::config::TokenIds;
use crate::{ModelSpec, OpenError, spec_from_config, spec_from_gguf};

/// A model's files, opened and understood; nothing is loaded yet.
#[derive(Debug)]
pub struct OpenedModel {
    /// Its dimensions.
    pub spec: ModelSpec,
    /// Its weights, and for GGUF its metadata too.
    pub checkpoint: Checkpoint,
}

/// Opens a GGUF file, or a folder with one, or a folder with safetensors and a config.json.
pub fn open(path: &Path) -> Result<OpenedModel, OpenError> {
    let checkpoint = checkpoint::open(path)?;
    let spec = match &checkpoint {
        Checkpoint::Gguf(source) => {
            spec_from_gguf(&source.metadata(), source).map_err(|source| OpenError::Spec {
                path: path.to_owned(),
                source,
            })?
        }
        Checkpoint::Safetensors(_) => read_spec(&folder_of(path))?,
    };
    Ok(OpenedModel { spec, checkpoint })
}

/// Reads the config.json of a folder, with the end tokens that its generation_config.json adds.
pub fn read_spec(folder: &Path) -> Result<ModelSpec, OpenError> {
    let path = folder.join("config.json");
    let mut spec =
        spec_from_config(&read_json(&path)?).map_err(|source| OpenError::Spec { path, source })?;
    let path = folder.join("generation_config.json");
    if path.exists() {
        let config: GenerationConfig =
            serde_json::from_slice(&read_json(&path)?).map_err(|error| OpenError::Spec {
                path,
                source: error.into(),
            })?;
        for id in config
            .eos_token_id
            .map_or_else(Vec::new, TokenIds::into_vec)
        {
            if !spec.end_tokens.contains(&id) {
                spec.end_tokens.push(id);
            }
        }
    }
    Ok(spec)
}

#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<TokenIds>,
}

fn folder_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    path.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Descriptions are a few kilobytes; whatever is much larger is something else.
fn read_json(path: &Path) -> Result<Vec<u8>, OpenError> {
    const LIMIT: u64 = 4 << 20;
    let io = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > LIMIT {
        return Err(OpenError::TooLarge {
            path: path.to_owned(),
            length,
            limit: LIMIT,
        });
    }
    std::fs::read(path).map_err(io)
}
