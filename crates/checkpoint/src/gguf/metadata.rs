//! Typed questions to the key-values of a GGUF file.

use super::value::{Array, Value};
use super::{GgufError, Header};

/// The key-values of a file. A missing key is `None`; a value of the wrong type is an error.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    header: &'a Header,
    bytes: &'a [u8],
}

/// Dimensions of a model as GGUF names them, below its architecture's prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperParameters {
    /// `general.architecture`: llama, qwen2, …
    pub architecture: String,
    /// Number of layers.
    pub block_count: usize,
    /// Longest sequence the model was trained for.
    pub context_length: usize,
    /// Hidden size.
    pub embedding_length: usize,
    /// Inner size of the feed-forward part.
    pub feed_forward_length: usize,
    /// Query heads.
    pub head_count: usize,
    /// Key and value heads.
    pub head_count_kv: usize,
    /// Elements of a key head, when it is not `embedding_length / head_count`.
    pub key_length: Option<usize>,
    /// Elements of a value head, when it is not `embedding_length / head_count`.
    pub value_length: Option<usize>,
    /// Elements of a head that are rotated, when not all are.
    pub rope_dimension_count: Option<usize>,
    /// Base of the rotation frequencies.
    pub rope_freq_base: Option<f32>,
    /// The same of layers that look back a window alone.
    pub rope_freq_base_swa: Option<f32>,
    /// How positions beyond the trained ones are treated.
    pub rope_scaling: Option<RopeScaling>,
    /// Epsilon of the norms.
    pub rms_epsilon: f32,
    /// Number of tokens, when stated.
    pub vocab_size: Option<usize>,
    /// Tokens the attention looks back, when limited.
    pub sliding_window: Option<usize>,
}

/// Scaling of rotary positions as GGUF states it (llama 3's frequency factors are a tensor instead).
#[derive(Debug, Clone, PartialEq)]
pub struct RopeScaling {
    /// `none`, `linear`, `yarn`, `longrope`.
    pub kind: String,
    /// By how much positions are stretched.
    pub factor: Option<f32>,
    /// Longest sequence before stretching.
    pub original_context_length: Option<usize>,
}

/// The tokenizer inside a GGUF file. Arrays are read when iterated.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a> {
    /// `gpt2` (byte-level BPE), `llama` (sentence piece), …
    pub model: &'a str,
    /// Which rule cuts text into words.
    pub pre: Option<&'a str>,
    /// Texts of the tokens by id.
    pub tokens: Array<'a>,
    /// Kinds of the tokens by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub kinds: Option<Array<'a>>,
    /// Scores of the tokens by id.
    pub scores: Option<Array<'a>>,
    /// Pairs to merge, `left right`, best first.
    pub merges: Option<Array<'a>>,
    /// Jinja text of the chat template.
    pub chat_template: Option<&'a str>,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(header: &'a Header, bytes: &'a [u8]) -> Self {
        Self { header, bytes }
    }

    /// All keys in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.header.keys.iter().map(String::as_str)
    }

    /// The value of a key as it is.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.header.value(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Text(range)) => std::str::from_utf8(&self.bytes[range.clone()])
                .map(Some)
                .map_err(|_| GgufError::Text {
                    what: key.to_owned(),
                }),
            Some(other) => Err(wrong(key, "a text", other)),
        }
    }

    /// A count, an id or a size.
    pub fn unsigned(&self, key: &str) -> Result<Option<usize>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(found)) => usize::try_from(*found)
                .map(Some)
                .map_err(|_| wrong(key, "a number from 0", &Value::Integer(*found))),
            Some(other) => Err(wrong(key, "an integer", other)),
        }
    }

    /// A finite real number.
    pub fn float(&self, key: &str) -> Result<Option<f32>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Float(found)) if (*found as f32).is_finite() => Ok(Some(*found as f32)),
            Some(other) => Err(wrong(key, "a finite real number", other)),
        }
    }

    /// A truth value.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(found)) => Ok(Some(*found)),
            Some(other) => Err(wrong(key, "true or false", other)),
        }
    }

    /// An array.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array { kind, count, range }) => {
                Ok(Some(Array::new(*kind, *count, &self.bytes[range.clone()])))
            }
            Some(other) => Err(wrong(key, "an array", other)),
        }
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> Result<&'a str, GgufError> {
        required("general.architecture", self.text("general.architecture")?)
    }

    /// The id of a special token: `bos`, `eos`, `unknown`, `padding`, `eot`, …
    pub fn token_id(&self, name: &str) -> Result<Option<u32>, GgufError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match self.unsigned(&key)? {
            None => Ok(None),
            Some(id) => u32::try_from(id)
                .map(Some)
                .map_err(|_| wrong(&key, "a token id", &Value::Integer(id as i128))),
        }
    }

    /// The dimensions of the model.
    pub fn hyper_parameters(&self) -> Result<HyperParameters, GgufError> {
        let architecture = self.architecture()?;
        let key = |name: &str| format!("{architecture}.{name}");
        let size = |name: &str| self.unsigned(&key(name));
        let required_size = |name: &str| required(&key(name), self.unsigned(&key(name))?);
        let head_count = self.same_for_all_layers(&key("attention.head_count"))?;
        let head_count = required(&key("attention.head_count"), head_count)?;
        let epsilon = key("attention.layer_norm_rms_epsilon");
        Ok(HyperParameters {
            architecture: architecture.to_owned(),
            block_count: required_size("block_count")?,
            context_length: required_size("context_length")?,
            embedding_length: required_size("embedding_length")?,
            feed_forward_length: required(
                &key("feed_forward_length"),
                self.same_for_all_layers(&key("feed_forward_length"))?,
            )?,
            head_count,
            head_count_kv: self
                .same_for_all_layers(&key("attention.head_count_kv"))?
                .unwrap_or(head_count),
            key_length: size("attention.key_length")?,
            value_length: size("attention.value_length")?,
            rope_dimension_count: size("rope.dimension_count")?,
            rope_freq_base: self.float(&key("rope.freq_base"))?,
            rope_freq_base_swa: self.float(&key("rope.freq_base_swa"))?,
            rope_scaling: self.rope_scaling(architecture)?,
            rms_epsilon: required(&epsilon, self.float(&epsilon)?)?,
            vocab_size: size("vocab_size")?,
            sliding_window: size("attention.sliding_window")?,
        })
    }

    fn rope_scaling(&self, architecture: &str) -> Result<Option<RopeScaling>, GgufError> {
        let key = |name: &str| format!("{architecture}.rope.scaling.{name}");
        let Some(kind) = self.text(&key("type"))? else {
            return Ok(None);
        };
        Ok(Some(RopeScaling {
            kind: kind.to_owned(),
            factor: self.float(&key("factor"))?,
            original_context_length: self.unsigned(&key("original_context_length"))?,
        }))
    }

    /// A size that may be written once or once per layer; layers that differ are refused.
    fn same_for_all_layers(&self, key: &str) -> Result<Option<usize>, GgufError> {
        let Some(Value::Array { .. }) = self.value(key) else {
            return self.unsigned(key);
        };
        let Some(array) = self.array(key)? else {
            return Ok(None);
        };
        let mut sizes = array.numbers();
        let first = sizes.next();
        match &first {
            Some(Value::Integer(size)) if sizes.all(|size| Some(size) == first) => {
                usize::try_from(*size)
                    .map(Some)
                    .map_err(|_| wrong(key, "a number from 0", &Value::Integer(*size)))
            }
            _ => Err(GgufError::Value {
                key: key.to_owned(),
                wanted: "the same in all layers",
                found: "different from layer to layer".to_owned(),
            }),
        }
    }

    /// The tokenizer, if the file has one.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary<'a>>, GgufError> {
        let Some(model) = self.text("tokenizer.ggml.model")? else {
            return Ok(None);
        };
        let Some(tokens) = self.array("tokenizer.ggml.tokens")? else {
            return Ok(None);
        };
        Ok(Some(Vocabulary {
            model,
            pre: self.text("tokenizer.ggml.pre")?,
            tokens,
            kinds: self.array("tokenizer.ggml.token_type")?,
            scores: self.array("tokenizer.ggml.scores")?,
            merges: self.array("tokenizer.ggml.merges")?,
            chat_template: self.text("tokenizer.chat_template")?,
        }))
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, GgufError> {
    value.ok_or_else(|| GgufError::NoKey {
        key: key.to_owned(),
    })
}

fn wrong(key: &str, wanted: &'static str, found: &Value) -> GgufError {
    let found = match found {
        Value::Integer(number) => format!("{number}"),
        Value::Float(number) => format!("{number}"),
        Value::Bool(flag) => format!("{flag}"),
        Value::Text(_) => "a text".to_owned(),
        Value::Array { count, .. } => format!("an array of {count}"),
    };
    GgufError::Value {
        key: key.to_owned(),
        wanted,
        found,
    }
}
