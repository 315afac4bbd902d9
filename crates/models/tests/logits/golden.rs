//! What the reference library computed.

use std::path::{Path, PathBuf};

use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{Encoding, WeightSource, widen};
use tensor::DType;

/// One tiny model and its results.
pub(crate) struct Golden {
    pub(crate) name: String,
    /// The checkpoint: a GGUF file, or a folder of safetensors.
    pub(crate) model: PathBuf,
    /// The prompt and what greedy decoding added to it.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_length: usize,
    /// One row a token.
    pub(crate) logits: Vec<Vec<f32>>,
}

impl Golden {
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .expect("the folder of goldens")
            .map(|entry| {
                entry
                    .expect("readable")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort_unstable();
        assert!(names.len() >= 15, "goldens are missing: {names:?}");
        names
            .into_iter()
            .map(|name| Self::read(folder.join(&name), name))
            .collect()
    }

    fn read(folder: PathBuf, name: String) -> Self {
        let file = SafetensorsSource::open(&folder.join("golden.safetensors")).expect("readable");
        let integers = |name: &str| -> Vec<u32> {
            let bytes = file.bytes(name).expect("present");
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|four| u32::from_le_bytes(*four))
                .collect()
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
        Self {
            name,
            model: if gguf.exists() { gguf } else { folder },
            tokens: integers("tokens"),
            prompt_length: integers("prompt_length")[0] as usize,
            logits: numbers
                .chunks(logits.shape[1])
                .map(<[f32]>::to_vec)
                .collect(),
        }
    }
}

/// ‖found − expected‖ / ‖expected‖.
pub(crate) fn distance(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pairs = found.iter().zip(expected);
    let error = squares(&mut pairs.map(|(&f, &e)| f64::from(f) - f64::from(e)));
    (error / squares(&mut expected.iter().map(|&e| f64::from(e)))).sqrt()
}

/// The token with the largest logit.
pub(crate) fn best(logits: &[f32]) -> u32 {
    let largest = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    largest.expect("a vocabulary").0 as u32
}
