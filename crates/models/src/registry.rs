use crate::SpecError;
use crate::arch::{llama, qwen2, qwen3};

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
    /// Query and key heads are normalised.
    pub(crate) head_norm: bool,
}

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

static ARCHITECTURES: [&Architecture; 3] = [
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
