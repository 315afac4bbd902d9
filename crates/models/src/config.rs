use checkpoint::WeightSource;
use checkpoint::gguf::Metadata;
use ops::{Activation, Heads};
use serde::Deserialize;
use tensor::DType;

use crate::registry::{self, Architecture, Bias};
use crate::rope::{RopeScaling, RopeSpec};
use crate::spec::Biases;
use crate::{ModelSpec, SpecError};

/// The part of config.json that dense decoders need.
#[derive(Deserialize)]
struct Config {
    architectures: Option<Vec<String>>,
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
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    tie_word_embeddings: Option<bool>,
    eos_token_id: Option<TokenIds>,
    use_sliding_window: Option<bool>,
    #[serde(alias = "dtype")]
    torch_dtype: Option<String>,
}

#[derive(Clone, Deserialize)]
struct RopeConfig {
    #[serde(alias = "type")]
    rope_type: Option<String>,
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
    let config: Config = serde_json::from_slice(json)?;
    let class = config
        .architectures
        .as_ref()
        .and_then(|names| names.first())
        .map_or("", String::as_str);
    let architecture = registry::by_class(class)?;
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
    let configured = config.attention_bias.unwrap_or(false);
    let spec = ModelSpec {
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
            qkv: has_bias(architecture.qkv_bias, configured),
            output: has_bias(architecture.output_bias, configured),
            mlp: config.mlp_bias.unwrap_or(false),
        },
        head_norm: architecture.head_norm,
        tied: config.tie_word_embeddings.unwrap_or(false),
        activation: activation(config.hidden_act.as_deref())?,
        end_tokens: config
            .eos_token_id
            .map_or_else(Vec::new, TokenIds::into_vec),
        dtype: dtype(config.torch_dtype.as_deref()),
    };
    checked(spec)
}

/// Reads the metadata of a GGUF file; which tensors it has settles what the metadata does not say.
pub fn spec_from_gguf(
    metadata: &Metadata<'_>,
    weights: &dyn WeightSource,
) -> Result<ModelSpec, SpecError> {
    let sizes = metadata.hyper_parameters()?;
    let architecture: &Architecture = registry::by_gguf(&sizes.architecture)?;
    let heads = Heads {
        query: sizes.head_count,
        kv: sizes.head_count_kv,
        dim: sizes
            .key_length
            .unwrap_or(sizes.embedding_length / sizes.head_count.max(1)),
    };
    let has = |name: &str| weights.find(name).is_some();
    let table = weights
        .find("model.embed_tokens.weight")
        .map(|table| table.shape[0]);
    let dim = sizes.rope_dimension_count.unwrap_or(heads.dim);
    let scaling = gguf_scaling(weights, sizes.rope_scaling.as_ref())?;
    let spec = ModelSpec {
        architecture: architecture.name,
        model_type: architecture.model_type,
        layers: sizes.block_count,
        hidden: sizes.embedding_length,
        feed_forward: sizes.feed_forward_length,
        heads,
        vocabulary: table.or(sizes.vocab_size).unwrap_or(0),
        context_length: sizes.context_length,
        norm_eps: sizes.rms_epsilon,
        rope: RopeSpec {
            base: sizes.rope_freq_base.map_or(10_000.0, f64::from),
            dim,
            scaling,
        },
        biases: Biases {
            qkv: has("model.layers.0.self_attn.q_proj.bias"),
            output: has("model.layers.0.self_attn.o_proj.bias"),
            mlp: has("model.layers.0.mlp.gate_proj.bias"),
        },
        head_norm: architecture.head_norm,
        tied: !has("lm_head.weight"),
        activation: Activation::Silu,
        end_tokens: ["eos", "eot"]
            .iter()
            .filter_map(|name| metadata.token_id(name).transpose())
            .collect::<Result<_, _>>()?,
        dtype: None,
    };
    checked(spec)
}

fn gguf_scaling(
    weights: &dyn WeightSource,
    stated: Option<&checkpoint::gguf::RopeScaling>,
) -> Result<RopeScaling, SpecError> {
    if let Some(tensor) = weights.find("rope_freqs.weight") {
        let mut factors = vec![0.0; tensor.elements()];
        let unreadable = || SpecError::Option {
            what: "rope_freqs.weight",
            found: tensor.encoding.name().to_owned(),
            supported: "F32",
        };
        let bytes = weights.bytes(&tensor.name).map_err(|_| unreadable())?;
        checkpoint::widen(tensor.encoding, bytes, &mut factors).map_err(|_| unreadable())?;
        return Ok(RopeScaling::Factors(factors));
    }
    match stated.map(|scaling| (scaling.kind.as_str(), scaling.factor)) {
        None | Some(("none", _)) => Ok(RopeScaling::None),
        Some(("linear", factor)) => Ok(RopeScaling::Linear {
            factor: factor.map_or(1.0, f64::from),
        }),
        Some((other, _)) => Err(SpecError::Option {
            what: "rope scaling",
            found: other.to_owned(),
            supported: "none, linear, llama3",
        }),
    }
}

fn has_bias(bias: Bias, configured: bool) -> bool {
    match bias {
        Bias::Always => true,
        Bias::Never => false,
        Bias::Configured => configured,
    }
}

fn rope(config: &Config, dim: usize) -> Result<RopeSpec, SpecError> {
    let stated = config
        .rope_scaling
        .as_ref()
        .or(config.rope_parameters.as_ref());
    let base = config
        .rope_theta
        .or_else(|| stated.and_then(|rope| rope.rope_theta))
        .unwrap_or(10_000.0);
    let scaling = match stated.and_then(|rope| rope.rope_type.as_deref().map(|kind| (kind, rope))) {
        None | Some(("default", _)) => RopeScaling::None,
        Some(("linear", rope)) => RopeScaling::Linear {
            factor: rope.factor.unwrap_or(1.0),
        },
        Some(("llama3", rope)) => RopeScaling::Llama3 {
            factor: rope.factor.unwrap_or(8.0),
            low: rope.low_freq_factor.unwrap_or(1.0),
            high: rope.high_freq_factor.unwrap_or(4.0),
            original: rope.original_max_position_embeddings.unwrap_or(8192.0),
        },
        Some((other, _)) => {
            return Err(SpecError::Option {
                what: "rope scaling",
                found: other.to_owned(),
                supported: "default, linear, llama3",
            });
        }
    };
    Ok(RopeSpec { base, dim, scaling })
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

/// Refuses dimensions that would divide by zero or ask for absurd memory later.
fn checked(spec: ModelSpec) -> Result<ModelSpec, SpecError> {
    const LARGEST: usize = 1 << 24;
    let sizes = [
        ("hidden size", spec.hidden),
        ("layer count", spec.layers),
        ("feed-forward size", spec.feed_forward),
        ("query heads", spec.heads.query),
        ("key heads", spec.heads.kv),
        ("head size", spec.heads.dim),
        ("vocabulary size", spec.vocabulary),
        ("context length", spec.context_length),
    ];
    for (what, found) in sizes {
        if found == 0 || found > LARGEST {
            return Err(SpecError::Dimension {
                what,
                found,
                reason: "must be from 1 to 16777216",
            });
        }
    }
    if !spec.heads.query.is_multiple_of(spec.heads.kv) {
        let reason = "must be a multiple of the key heads";
        return Err(SpecError::Dimension {
            what: "query heads",
            found: spec.heads.query,
            reason,
        });
    }
    if !spec.rope.dim.is_multiple_of(2) || spec.rope.dim > spec.heads.dim {
        let reason = "must be even and at most the head size";
        return Err(SpecError::Dimension {
            what: "rotated elements",
            found: spec.rope.dim,
            reason,
        });
    }
    if let RopeScaling::Factors(factors) = &spec.rope.scaling
        && factors.len() != spec.rope.dim / 2
    {
        let reason = "must be half of the rotated elements";
        return Err(SpecError::Dimension {
            what: "rope factors",
            found: factors.len(),
            reason,
        });
    }
    Ok(spec)
}
