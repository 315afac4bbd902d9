use half::{bf16, f16};
use ops::Activation;
use tensor::DType;

use crate::arch::{gemma3, llama, qwen2, qwen3};
use crate::{Norms, QueryKeyNorm, SpecError};

/// What tells one decoder of the common shape from another.
pub(crate) struct Architecture {
    /// The class name in config.json.
    pub(crate) name: &'static str,
    /// `model_type` in config.json.
    pub(crate) model_type: &'static str,
    /// `general.architecture` in GGUF files.
    pub(crate) gguf: &'static str,
    /// Biases of the query, key and value projections.
    pub(crate) qkv_bias: Bias,
    /// Biases of the attention's output projection.
    pub(crate) output_bias: Bias,
    /// How queries and keys are normalised.
    pub(crate) query_key_norm: QueryKeyNorm,
    /// Norms of a layer, as safetensors hold them; GGUF files hold factors as they are used.
    pub(crate) norms: Norms,
    /// Layers that see a window alone, and everything that comes with them.
    pub(crate) windows: Windows,
    /// Embeddings are multiplied with the root of the hidden size.
    pub(crate) scaled_embeddings: bool,
    /// The output head is the embedding table where nothing is said.
    pub(crate) tied: bool,
    /// Curve of the gated layer, where files do not say.
    pub(crate) activation: Activation,
}

impl Architecture {
    /// The factor of embeddings: the reference library rounds it to the type of the weights.
    pub(crate) fn embedding_scale(&self, hidden: usize, dtype: Option<DType>) -> f32 {
        if !self.scaled_embeddings {
            return 1.0;
        }
        let root = (hidden as f32).sqrt();
        match dtype {
            Some(DType::BF16) => bf16::from_f32(root).to_f32(),
            Some(DType::F16) => f16::from_f32(root).to_f32(),
            _ => root,
        }
    }
}

/// Which layers see a window alone.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Windows {
    /// None; models that are configured so are refused.
    Never,
    /// All but every n-th; those that see everything have another rotation.
    Interleaved {
        /// Every layer of this number sees everything.
        period: usize,
        /// Base of the rotation of layers with a window.
        base: f64,
    },
}

/// Norms before attention and before the gated layer alone.
pub(crate) const BEFORE: Norms = Norms {
    around: false,
    plus_one: false,
};

/// Whether a projection adds a bias.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bias {
    /// In every model of the family.
    Always,
    /// In none.
    Never,
    /// As `attention_bias` says.
    Configured,
}

static ARCHITECTURES: [&Architecture; 4] = [
    &gemma3::ARCHITECTURE,
    &llama::ARCHITECTURE,
    &qwen2::ARCHITECTURE,
    &qwen3::ARCHITECTURE,
];

/// Class names of everything that can be loaded.
pub fn architectures() -> Vec<&'static str> {
    ARCHITECTURES
        .iter()
        .map(|architecture| architecture.name)
        .collect()
}

pub(crate) fn by_class(name: &str) -> Result<&'static Architecture, SpecError> {
    find(name, |architecture| architecture.name == name)
}

pub(crate) fn by_model_type(name: &str) -> Result<&'static Architecture, SpecError> {
    find(name, |architecture| architecture.model_type == name)
}

pub(crate) fn by_gguf(name: &str) -> Result<&'static Architecture, SpecError> {
    find(name, |architecture| architecture.gguf == name)
}

fn find(
    name: &str,
    wanted: impl Fn(&Architecture) -> bool,
) -> Result<&'static Architecture, SpecError> {
    ARCHITECTURES
        .iter()
        .copied()
        .find(|architecture| wanted(architecture))
        .ok_or_else(|| SpecError::Architecture {
            name: name.to_owned(),
            supported: architectures(),
        })
}
