use ops::{Activation, Device, Heads, Sizes};
use tensor::DType;

use crate::Quantisation;
use crate::error::TooLarge;
use crate::inventory;
use crate::rope::RopeSpec;

/// A decoder's resolved dimensions; read once from config.json or GGUF metadata and immutable afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The class that the model calls itself, such as `LlamaForCausalLM`.
    pub architecture: &'static str,
    /// The family, such as `llama`.
    pub model_type: &'static str,
    /// Its layers, in their order.
    pub layers: Vec<LayerSpec>,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Inner width of the gated layer.
    pub feed_forward: usize,
    /// Attention heads.
    pub heads: Heads,
    /// Number of tokens.
    pub vocabulary: usize,
    /// Longest sequence the model was trained for.
    pub context_length: usize,
    /// Keeps the norms' root away from zero.
    pub norm_eps: f32,
    /// Rotations of queries and keys; each layer has one of them.
    pub ropes: Vec<RopeSpec>,
    /// Factor of attention's scores.
    pub attention_scale: f32,
    /// Projections that add a bias.
    pub biases: Biases,
    /// How queries and keys are normalised before they are rotated.
    pub query_key_norm: QueryKeyNorm,
    /// Norms of a layer.
    pub norms: Norms,
    /// Factor of the embeddings.
    pub embedding_scale: f32,
    /// The output head is the embedding table.
    pub tied: bool,
    /// Curve of the gated layer.
    pub activation: Activation,
    /// Tokens that end an output.
    pub end_tokens: Vec<u32>,
    /// Type of the weights as the description states it.
    pub dtype: Option<DType>,
    /// How projections are written.
    pub quantisation: Quantisation,
}

/// What sets a layer apart from others of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Positions that a token sees, itself included; all when absent.
    pub window: Option<usize>,
    /// Which rotation it has.
    pub rope: usize,
}

impl LayerSpec {
    /// Sees everything, by the first rotation.
    pub const FULL: Self = Self {
        window: None,
        rope: 0,
    };

    /// One of a model in which layers that see a window alone have the second rotation.
    pub(crate) fn of(is_full: bool, window: usize) -> Self {
        if is_full {
            return Self::FULL;
        }
        Self {
            window: Some(window),
            rope: 1,
        }
    }
}

/// How queries and keys are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Not at all.
    None,
    /// Every head by itself.
    Head,
    /// All heads together.
    Width,
}

/// Where a layer normalises, and how checkpoints hold the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norms {
    /// After attention and after the gated layer too, not only before them.
    pub around: bool,
    /// One is to be added to the stored factors.
    pub plus_one: bool,
}

/// Which projections add a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value.
    pub qkv: bool,
    /// The attention's output.
    pub output: bool,
    /// The gated layer.
    pub mlp: bool,
}

impl ModelSpec {
    /// Bytes of keys and values that one token takes.
    pub fn kv_bytes_per_token(&self, dtype: DType) -> usize {
        2 * self.layers.len() * self.heads.kv_width() * dtype.size()
    }

    /// What kernels may be limited in.
    pub fn sizes(&self) -> Sizes {
        let heads = self.heads;
        let qkv = heads.query_width() + 2 * heads.kv_width();
        Sizes {
            heads,
            hidden: self.hidden,
            outputs: qkv.max(2 * self.feed_forward).max(self.vocabulary),
        }
    }

    /// Refuses a device whose kernels do not take the model's sizes.
    pub fn check_device(&self, device: &dyn Device) -> Result<(), TooLarge> {
        let beyond = self.sizes().beyond(&device.largest());
        if beyond.is_empty() {
            return Ok(());
        }
        Err(TooLarge {
            device: device.info().name.clone(),
            beyond,
        })
    }

    /// Numbers that were trained.
    pub fn parameters(&self) -> usize {
        let sizes = inventory::tensors(self).into_iter();
        sizes
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum()
    }
}
