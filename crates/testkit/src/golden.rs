//! Tiny models and what the reference library computed with them.

use std::path::{Path, PathBuf};

use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{Encoding, WeightSource, widen};
use tensor::DType;

use crate::material::workspace;

/// One tiny model and its results.
pub struct Golden {
    /// Its folder's name.
    pub name: String,
    /// The checkpoint: a GGUF file, or a folder of safetensors.
    pub model: PathBuf,
    /// The prompt and what greedy decoding added to it.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_length: usize,
    /// One row a token.
    pub logits: Vec<Vec<f32>>,
}

impl Golden {
    /// Those of this repository.
    pub fn all() -> Vec<Self> {
        let goldens = Self::in_folder(&workspace().join("crates/models/tests/goldens"));
        assert!(goldens.len() >= 15, "goldens are missing");
        goldens
    }

    /// All of a folder, by name.
    pub fn in_folder(folder: &Path) -> Vec<Self> {
        let entries = folder.read_dir().expect("a folder of goldens");
        let mut folders: Vec<PathBuf> = entries
            .map(|entry| entry.expect("readable").path())
            .collect();
        folders.sort_unstable();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    fn read(folder: &Path) -> Self {
        let file = SafetensorsSource::open(&folder.join("golden.safetensors")).expect("readable");
        let integers = |name: &str| -> Vec<u32> {
            let (words, _) = file.bytes(name).expect("present").as_chunks();
            words.iter().map(|four| u32::from_le_bytes(*four)).collect()
        };
        let logits = file.find("logits").expect("present");
        let mut numbers = vec![0.0; logits.elements()];
        widen(
            Encoding::Plain(DType::F32),
            file.bytes("logits").expect("present"),
            &mut numbers,
        )
        .expect("plain numbers");
        let gguf = folder.join("model.gguf");
        let name = folder.file_name().expect("a folder with a name");
        Self {
            name: name.to_string_lossy().into_owned(),
            model: if gguf.exists() {
                gguf
            } else {
                folder.to_owned()
            },
            tokens: integers("tokens"),
            prompt_length: integers("prompt_length")[0] as usize,
            logits: numbers
                .chunks(logits.shape[1])
                .map(<[f32]>::to_vec)
                .collect(),
        }
    }

    /// The tokens that are given.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt_length]
    }
}

/// ‖found − expected‖ / ‖expected‖; infinite where it is not a number.
pub fn distance(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len(), "rows of one vocabulary");
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pairs = found.iter().zip(expected);
    let error = squares(&mut pairs.map(|(&f, &e)| f64::from(f) - f64::from(e)));
    let distance = (error / squares(&mut expected.iter().map(|&e| f64::from(e)))).sqrt();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}

/// The token with the largest logit, and by how much it leads.
pub fn best(logits: &[f32]) -> (u32, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0] as u32, logits[order[0]] - logits[order[1]])
}
