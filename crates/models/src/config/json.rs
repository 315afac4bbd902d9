use ops::{Activation, Heads};
use serde::Deserialize;
use tensor::DType;

use super::limits::checked;
use crate::quantisation::QuantisationConfig;
use crate::registry::{self, Bias};
use crate::rope::{RopeScaling, RopeSpec};
use crate::spec::Biases;
use crate::{ModelSpec, Quantisation, SpecError};

/// What tells whether we know the model at all; looked at first, because other models have other fields.
#[derive(Deserialize)]
struct Class {
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
    quantization_config: Option<QuantisationConfig>,
}

/// The part of config.json that dense decoders need.
#[derive(Deserialize)]
struct Config {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    hidden_act: Option<String>,
    rope_theta: Option<f64>,
    rope_scaling: Option<RopeConfig>,
    rope_parameters: Option<RopeConfig>,
    partial_rotary_factor: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    tie_word_embeddings: Option<bool>,
    eos_token_id: Option<TokenIds>,
    use_sliding_window: Option<bool>,
    torch_dtype: Option<String>,
    dtype: Option<String>,
}

/// `rope_type` was called `type` once, and some files have both.
#[derive(Deserialize)]
struct RopeConfig {
    rope_type: Option<String>,
    #[serde(rename = "type")]
    old_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum TokenIds {
    One(u32),
    Many(Vec<u32>),
}

impl TokenIds {
    pub(crate) fn into_vec(self) -> Vec<u32> {
        match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        }
    }
}

/// Reads a config.json.
pub fn spec_from_config(json: &[u8]) -> Result<ModelSpec, SpecError> {
    let class: Class = serde_json::from_slice(json)?;
    let architecture = match class.architectures.as_deref() {
        Some([name, ..]) => registry::by_class(name)?,
        _ => registry::by_model_type(class.model_type.as_deref().unwrap_or(""))?,
    };
    let quantisation = class
        .quantization_config
        .map_or(Ok(Quantisation::AsStored), QuantisationConfig::understood)?;
    let config: Config = serde_json::from_slice(json)?;
    if config.use_sliding_window == Some(true) {
        return Err(SpecError::Option {
            what: "use_sliding_window",
            found: "true".into(),
            supported: "models that attend to the whole sequence",
        });
    }
    let heads = Heads {
        query: config.num_attention_heads,
        kv: config
            .num_key_value_heads
            .unwrap_or(config.num_attention_heads),
        dim: config
            .head_dim
            .unwrap_or(config.hidden_size / config.num_attention_heads.max(1)),
    };
    let has_bias = |bias| match bias {
        Bias::Always => true,
        Bias::Never => false,
        Bias::Configured => config.attention_bias.unwrap_or(false),
    };
    checked(ModelSpec {
        architecture: architecture.name,
        model_type: architecture.model_type,
        layers: config.num_hidden_layers,
        hidden: config.hidden_size,
        feed_forward: config.intermediate_size,
        heads,
        vocabulary: config.vocab_size,
        context_length: config.max_position_embeddings,
        norm_eps: config.rms_norm_eps,
        rope: rope(&config, heads.dim)?,
        biases: Biases {
            qkv: has_bias(architecture.qkv_bias),
            output: has_bias(architecture.output_bias),
            mlp: config.mlp_bias.unwrap_or(false),
        },
        head_norm: architecture.head_norm,
        tied: config.tie_word_embeddings.unwrap_or(false),
        activation: activation(config.hidden_act.as_deref())?,
        dtype: dtype(config.dtype.or(config.torch_dtype).as_deref()),
        end_tokens: config
            .eos_token_id
            .map_or_else(Vec::new, TokenIds::into_vec),
        quantisation,
    })
}

fn rope(config: &Config, head_dim: usize) -> Result<RopeSpec, SpecError> {
    let stated = config
        .rope_parameters
        .as_ref()
        .or(config.rope_scaling.as_ref());
    let base = stated
        .and_then(|rope| rope.rope_theta)
        .or(config.rope_theta)
        .unwrap_or(10_000.0);
    let rotated = config.partial_rotary_factor.unwrap_or(1.0).clamp(0.0, 1.0);
    Ok(RopeSpec {
        base,
        dim: (head_dim as f64 * rotated) as usize,
        scaling: stated.map_or(Ok(RopeScaling::None), scaling)?,
    })
}

fn scaling(rope: &RopeConfig) -> Result<RopeScaling, SpecError> {
    let wanted = |what, value: Option<f64>| value.ok_or(SpecError::Missing { what });
    let kind = rope.rope_type.as_deref().or(rope.old_type.as_deref());
    match kind.unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear {
            factor: wanted("factor", rope.factor)?,
        }),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: wanted("factor", rope.factor)?,
            low: wanted("low_freq_factor", rope.low_freq_factor)?,
            high: wanted("high_freq_factor", rope.high_freq_factor)?,
            original: wanted(
                "original_max_position_embeddings",
                rope.original_max_position_embeddings,
            )?,
        }),
        other => Err(SpecError::Option {
            what: "rope scaling",
            found: other.to_owned(),
            supported: "default, linear, llama3",
        }),
    }
}

fn activation(name: Option<&str>) -> Result<Activation, SpecError> {
    match name {
        None | Some("silu") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh") => Ok(Activation::GeluTanh),
        Some(other) => Err(SpecError::Option {
            what: "hidden_act",
            found: other.to_owned(),
            supported: "silu, gelu_pytorch_tanh",
        }),
    }
}

fn dtype(name: Option<&str>) -> Option<DType> {
    match name? {
        "float32" => Some(DType::F32),
        "float16" => Some(DType::F16),
        "bfloat16" => Some(DType::BF16),
        _ => None,
    }
}
