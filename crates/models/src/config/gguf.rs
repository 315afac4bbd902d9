use checkpoint::WeightSource;
use checkpoint::gguf::{HyperParameters, Metadata};
use ops::Heads;

use super::limits::{checked, layer_count};
use crate::registry::{self, Architecture, Windows};
use crate::rope::{RopeScaling, RopeSpec};
use crate::spec::{Biases, LayerSpec, Norms};
use crate::{ModelSpec, Quantisation, SpecError};

/// Reads the metadata of a GGUF file; which tensors it has settles what the metadata does not say.
pub fn spec_from_gguf(
    metadata: &Metadata<'_>,
    weights: &dyn WeightSource,
) -> Result<ModelSpec, SpecError> {
    let architecture = registry::by_gguf(metadata.architecture()?)?;
    let sizes = metadata.hyper_parameters()?;
    refuse_unsupported(&sizes, architecture)?;
    let heads = Heads {
        query: sizes.head_count,
        kv: sizes.head_count_kv,
        dim: sizes
            .key_length
            .unwrap_or(sizes.embedding_length / sizes.head_count.max(1)),
    };
    let has = |name: &str| weights.find(name).is_some();
    let table = weights.find("model.embed_tokens.weight");
    let rows = table.and_then(|table| table.shape.first().copied());
    checked(ModelSpec {
        architecture: architecture.name,
        model_type: architecture.model_type,
        layers: layers(layer_count(sizes.block_count)?, &sizes, architecture),
        hidden: sizes.embedding_length,
        feed_forward: sizes.feed_forward_length,
        heads,
        vocabulary: rows.or(sizes.vocab_size).unwrap_or(0),
        context_length: sizes.context_length,
        norm_eps: sizes.rms_epsilon,
        ropes: ropes(&sizes, architecture, heads.dim, scaling(weights, &sizes)?),
        attention_scale: 1.0 / (heads.dim as f32).sqrt(),
        biases: Biases {
            qkv: has("model.layers.0.self_attn.q_proj.bias"),
            output: has("model.layers.0.self_attn.o_proj.bias"),
            mlp: has("model.layers.0.mlp.gate_proj.bias"),
        },
        query_key_norm: architecture.query_key_norm,
        // factors are stored as they are used
        norms: Norms {
            plus_one: false,
            ..architecture.norms
        },
        embedding_scale: architecture.embedding_scale(sizes.embedding_length, None),
        tied: !has("lm_head.weight"),
        activation: architecture.activation,
        end_tokens: end_tokens(metadata)?,
        dtype: None,
        quantisation: Quantisation::AsStored,
    })
}

fn end_tokens(metadata: &Metadata<'_>) -> Result<Vec<u32>, SpecError> {
    let mut ids = Vec::new();
    for name in ["eos", "eot", "eom"] {
        if let Some(id) = metadata.token_id(name)?
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Which layers see a window alone.
fn layers(count: usize, sizes: &HyperParameters, architecture: &Architecture) -> Vec<LayerSpec> {
    match (architecture.windows, sizes.sliding_window) {
        (Windows::Interleaved { period, .. }, Some(window)) => (0..count)
            .map(|layer| LayerSpec::of((layer + 1).is_multiple_of(period), window))
            .collect(),
        _ => vec![LayerSpec::FULL; count],
    }
}

/// The rotation of layers that see everything, then that of others.
fn ropes(
    sizes: &HyperParameters,
    architecture: &Architecture,
    head_dim: usize,
    scaling: RopeScaling,
) -> Vec<RopeSpec> {
    let dim = sizes.rope_dimension_count.unwrap_or(head_dim);
    let full = RopeSpec {
        base: sizes.rope_freq_base.map_or(10_000.0, f64::from),
        dim,
        scaling,
    };
    match architecture.windows {
        Windows::Never => vec![full],
        Windows::Interleaved { base, .. } => {
            let base = sizes.rope_freq_base_swa.map_or(base, f64::from);
            let scaling = RopeScaling::None;
            vec![full, RopeSpec { base, dim, scaling }]
        }
    }
}

fn refuse_unsupported(
    sizes: &HyperParameters,
    architecture: &Architecture,
) -> Result<(), SpecError> {
    if sizes.value_length.is_some() && sizes.value_length != sizes.key_length {
        return Err(SpecError::Option {
            what: "attention.value_length",
            found: format!("{:?} beside {:?}", sizes.value_length, sizes.key_length),
            supported: "keys and values of one size",
        });
    }
    match (sizes.sliding_window, architecture.windows) {
        (Some(window), Windows::Never) if window < sizes.context_length => Err(SpecError::Option {
            what: "attention.sliding_window",
            found: window.to_string(),
            supported: "models that attend to the whole sequence",
        }),
        _ => Ok(()),
    }
}

/// Llama 3's scaling is a tensor of factors; other kinds are named in the metadata.
fn scaling(weights: &dyn WeightSource, sizes: &HyperParameters) -> Result<RopeScaling, SpecError> {
    if let Some(tensor) = weights.find("rope_freqs.weight") {
        let unreadable = || SpecError::Option {
            what: "rope_freqs.weight",
            found: tensor.encoding.name().to_owned(),
            supported: "F32",
        };
        let bytes = weights.bytes(&tensor.name).map_err(|_| unreadable())?;
        let mut factors = vec![0.0; tensor.elements()];
        checkpoint::widen(tensor.encoding, bytes, &mut factors).map_err(|_| unreadable())?;
        return Ok(RopeScaling::Factors(factors));
    }
    let Some(stated) = &sizes.rope_scaling else {
        return Ok(RopeScaling::None);
    };
    match stated.kind.as_str() {
        "none" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear {
            factor: stated.factor.map_or(1.0, f64::from),
        }),
        other => Err(SpecError::Option {
            what: "rope scaling",
            found: other.to_owned(),
            supported: "none, linear, llama3",
        }),
    }
}
