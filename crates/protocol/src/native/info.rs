use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of `/model_info`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelInfo {
    /// Where the model was loaded from.
    pub model_path: String,
    /// Where the tokenizer was loaded from.
    pub tokenizer_path: String,
    /// Whether it generates text.
    pub is_generation: bool,
    /// Sampling parameters the operator set for everybody.
    pub preferred_sampling_params: Option<Value>,
    /// Which weights answer.
    pub weight_version: String,
    /// Whether it takes images.
    pub has_image_understanding: bool,
    /// Whether it takes sounds.
    pub has_audio_understanding: bool,
    /// The kind of model, as its configuration names it.
    pub model_type: Option<String>,
    /// The architectures, as its configuration names them.
    pub architectures: Option<Vec<String>>,
}
