use ops::{Activation, Heads};
use serde::Deserialize;
use tensor::DType;

use super::limits::{checked, layer_count};
use crate::quantisation::QuantisationConfig;
use crate::registry::{self, Architecture, Bias, Windows};
use crate::rope::{RopeScaling, RopeSpec};
use crate::spec::{Biases, LayerSpec};
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
    rope_parameters: Option<RopeSettings>,
    partial_rotary_factor: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    tie_word_embeddings: Option<bool>,
    eos_token_id: Option<TokenIds>,
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    layer_types: Option<Vec<String>>,
    rope_local_base_freq: Option<f64>,
    query_pre_attn_scalar: Option<f64>,
    hidden_activation: Option<String>,
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

/// For all layers, or for layers of each type.
#[derive(Deserialize)]
#[serde(untagged)]
enum RopeSettings {
    ByType {
        full_attention: RopeConfig,
        sliding_attention: RopeConfig,
    },
    All(RopeConfig),
}

impl RopeSettings {
    fn full(&self) -> &RopeConfig {
        match self {
            Self::All(rope)
            | Self::ByType {
                full_attention: rope,
                ..
            } => rope,
        }
    }
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
    let heads = Heads {
        query: config.num_attention_heads,
        kv: config
            .num_key_value_heads
            .unwrap_or(config.num_attention_heads),
        dim: config
            .head_dim
            .unwrap_or(config.hidden_size / config.num_attention_heads.max(1)),
    };
    let layers = layers(&config, architecture)?;
    let dtype = dtype(config.dtype.as_deref().or(config.torch_dtype.as_deref()));
    let scalar = config.query_pre_attn_scalar.unwrap_or(heads.dim as f64);
    let has_bias = |bias| match bias {
        Bias::Always => true,
        Bias::Never => false,
        Bias::Configured => config.attention_bias.unwrap_or(false),
    };
    checked(ModelSpec {
        architecture: architecture.name,
        model_type: architecture.model_type,
        ropes: ropes(&config, architecture, heads.dim)?,
        layers,
        hidden: config.hidden_size,
        feed_forward: config.intermediate_size,
        heads,
        vocabulary: config.vocab_size,
        context_length: config.max_position_embeddings,
        norm_eps: config.rms_norm_eps,
        attention_scale: (1.0 / scalar.sqrt()) as f32,
        biases: Biases {
            qkv: has_bias(architecture.qkv_bias),
            output: has_bias(architecture.output_bias),
            mlp: config.mlp_bias.unwrap_or(false),
        },
        query_key_norm: architecture.query_key_norm,
        norms: architecture.norms,
        embedding_scale: architecture.embedding_scale(config.hidden_size, dtype),
        tied: config.tie_word_embeddings.unwrap_or(architecture.tied),
        activation: activation(
            config.hidden_activation.or(config.hidden_act).as_deref(),
            architecture.activation,
        )?,
        dtype,
        end_tokens: config
            .eos_token_id
            .map_or_else(Vec::new, TokenIds::into_vec),
        quantisation,
    })
}

/// Which layers see a window alone: as the description lists them, else as the family has them.
fn layers(config: &Config, architecture: &Architecture) -> Result<Vec<LayerSpec>, SpecError> {
    let count = layer_count(config.num_hidden_layers)?;
    let unsupported = |what, found: String| SpecError::Option {
        what,
        found,
        supported: "full_attention, and sliding_attention in families that have it",
    };
    let Windows::Interleaved { period, .. } = architecture.windows else {
        return match config.use_sliding_window {
            Some(true) => Err(unsupported("use_sliding_window", "true".into())),
            _ => Ok(vec![LayerSpec::FULL; count]),
        };
    };
    let Some(window) = config.sliding_window else {
        return Err(SpecError::Missing {
            what: "sliding_window",
        });
    };
    let is_full = |layer: usize| match &config.layer_types {
        None => Ok((layer + 1).is_multiple_of(period)),
        Some(types) => match types.get(layer).map(String::as_str) {
            Some("full_attention") => Ok(true),
            Some("sliding_attention") => Ok(false),
            Some(other) => Err(unsupported("layer_types", other.to_owned())),
            None => Err(SpecError::Missing {
                what: "layer_types of every layer",
            }),
        },
    };
    (0..count)
        .map(|layer| Ok(LayerSpec::of(is_full(layer)?, window)))
        .collect()
}

/// The rotation of layers that see everything, then that of others.
fn ropes(
    config: &Config,
    architecture: &Architecture,
    head_dim: usize,
) -> Result<Vec<RopeSpec>, SpecError> {
    let stated = config.rope_parameters.as_ref().map(RopeSettings::full);
    let stated = stated.or(config.rope_scaling.as_ref());
    let full = rope(config, stated, config.rope_theta, head_dim)?;
    let Windows::Interleaved { base, .. } = architecture.windows else {
        return Ok(vec![full]);
    };
    let stated = match &config.rope_parameters {
        Some(RopeSettings::ByType {
            sliding_attention, ..
        }) => Some(sliding_attention),
        _ => None,
    };
    let base = config.rope_local_base_freq.unwrap_or(base);
    Ok(vec![full, rope(config, stated, Some(base), head_dim)?])
}

fn rope(
    config: &Config,
    stated: Option<&RopeConfig>,
    base: Option<f64>,
    head_dim: usize,
) -> Result<RopeSpec, SpecError> {
    let rotated = config.partial_rotary_factor.unwrap_or(1.0).clamp(0.0, 1.0);
    Ok(RopeSpec {
        base: stated
            .and_then(|rope| rope.rope_theta)
            .or(base)
            .unwrap_or(10_000.0),
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

fn activation(name: Option<&str>, usual: Activation) -> Result<Activation, SpecError> {
    match name {
        None => Ok(usual),
        Some("silu") => Ok(Activation::Silu),
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
