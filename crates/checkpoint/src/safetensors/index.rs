//! `model.safetensors.index.json`: which file holds which tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Component, Path};

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::SafetensorsError;
use crate::CheckpointError;

/// The name under which a sharded checkpoint's index lies in its folder.
pub const INDEX_NAME: &str = "model.safetensors.index.json";

/// The largest index seen in the wild has a few megabytes.
const LIMIT: u64 = 64 << 20;

#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Tensors by file. Read by hand because a JSON object may name a tensor twice.
struct WeightMap(BTreeMap<String, Vec<String>>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensor names and file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut seen = std::collections::HashSet::new();
                let mut by_shard: BTreeMap<String, Vec<String>> = BTreeMap::new();
                while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
                    if !seen.insert(tensor.clone()) {
                        return Err(A::Error::custom(format!("tensor {tensor} is named twice")));
                    }
                    by_shard.entry(shard).or_default().push(tensor);
                }
                Ok(WeightMap(by_shard))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Reads an index: the tensors each file should hold. File names are checked to lie beside the index.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Vec<String>>, CheckpointError> {
    let io = |source| CheckpointError::Io {
        path: path.to_owned(),
        source,
    };
    let blame = |source| CheckpointError::Safetensors {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(CheckpointError::NotAFile {
            path: path.to_owned(),
        });
    }
    if metadata.len() > LIMIT {
        return Err(blame(SafetensorsError::IndexTooLarge {
            length: metadata.len(),
            limit: LIMIT,
        }));
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(LIMIT).read_to_end(&mut text).map_err(io)?;
    parse(&text).map_err(blame)
}

fn parse(text: &[u8]) -> Result<BTreeMap<String, Vec<String>>, SafetensorsError> {
    let index: Index = serde_json::from_slice(text).map_err(SafetensorsError::Index)?;
    let WeightMap(by_shard) = index.weight_map;
    for shard in by_shard.keys() {
        let mut parts = Path::new(shard).components();
        let plain = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        );
        // Path drops trailing dots and slashes, so the text itself must be that one component too.
        let whole = !shard.contains(['/', '\\', '\0']) && shard.ends_with(".safetensors");
        if !plain || !whole {
            return Err(SafetensorsError::ShardName {
                name: shard.clone(),
            });
        }
    }
    Ok(by_shard)
}
