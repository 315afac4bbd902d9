//! GGUF's tensor names and row orders, turned into those of Hugging Face checkpoints, which `models` speaks.

use super::{GgufError, Metadata, StoredTensor};
use crate::RowOrder;

/// Names outside of the layers.
const OUTER: [(&str, &str); 3] = [
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

/// Names within a layer.
const INNER: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Names that mean something else in files of an architecture, or are in no others.
const OTHERS: [(&str, &str, &str); 3] = [
    ("gemma3", "post_attention_norm", "post_attention_layernorm"),
    ("gemma3", "ffn_norm", "pre_feedforward_layernorm"),
    ("gemma3", "post_ffw_norm", "post_feedforward_layernorm"),
];

/// The Hugging Face name of a GGUF tensor of an architecture; names we do not know stay as they are.
///
/// `blk.3.attn_q.weight` becomes `model.layers.3.self_attn.q_proj.weight`.
pub fn hugging_face(name: &str, architecture: &str) -> String {
    renamed(name, architecture).unwrap_or_else(|| name.to_owned())
}

fn renamed(name: &str, architecture: &str) -> Option<String> {
    let (stem, kind) = name.rsplit_once('.')?;
    if !matches!(kind, "weight" | "bias") {
        return None;
    }
    if let Some((_, ours)) = OUTER.iter().find(|(theirs, _)| *theirs == stem) {
        return Some(format!("{ours}.{kind}"));
    }
    let (layer, inner) = stem.strip_prefix("blk.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let other = OTHERS
        .iter()
        .find(|(of, theirs, _)| (*of, *theirs) == (architecture, inner));
    let usual = || INNER.iter().find(|(theirs, _)| *theirs == inner);
    let ours = match other {
        Some((_, _, ours)) => ours,
        None => usual()?.1,
    };
    Some(format!("model.layers.{layer}.{ours}.{kind}"))
}

/// What an architecture's converter did to the rows of its tensors.
///
/// Hugging Face rotates element `i` of a head with element `i + half`; llama's GGUF files are written for rotating
/// neighbours `2i` and `2i + 1`, so the converter interleaves the halves of every query and key head. The other
/// architectures are stored as they are. Undoing it is a matter of reading rows in another order: [`RowOrder`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Renaming {
    /// Rows as in the original.
    Plain,
    /// Query and key heads have their halves interleaved.
    InterleavedHeads { query: usize, key: usize },
}

impl Renaming {
    pub(super) fn of(metadata: &Metadata<'_>) -> Result<Self, GgufError> {
        if metadata.text("general.architecture")? != Some("llama") {
            return Ok(Self::Plain);
        }
        let query = metadata.unsigned("llama.attention.head_count")?;
        let key = metadata.unsigned("llama.attention.head_count_kv")?;
        Ok(match (query, key) {
            (Some(query), key) => Self::InterleavedHeads {
                query,
                key: key.unwrap_or(query),
            },
            (None, _) => Self::Plain,
        })
    }

    pub(super) fn row_order(self, tensor: &StoredTensor) -> Result<RowOrder, GgufError> {
        let Self::InterleavedHeads { query, key } = self else {
            return Ok(RowOrder::Plain);
        };
        let heads = match tensor.name.rsplit('.').nth(1) {
            Some("attn_q") => query,
            Some("attn_k") => key,
            _ => return Ok(RowOrder::Plain),
        };
        let rows = tensor.shape.first().copied().unwrap_or(0);
        if heads == 0 || !rows.is_multiple_of(heads) || !(rows / heads).is_multiple_of(2) {
            return Err(GgufError::Shape {
                name: tensor.name.clone(),
                shape: tensor.shape.iter().map(|&n| n as u64).collect(),
                encoding: tensor.encoding.name(),
            });
        }
        Ok(RowOrder::InterleavedHalves {
            head_rows: rows / heads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_translated_and_unknown_ones_kept() {
        for (theirs, ours) in [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("output.weight", "lm_head.weight"),
            ("output_norm.weight", "model.norm.weight"),
            (
                "blk.0.attn_q.weight",
                "model.layers.0.self_attn.q_proj.weight",
            ),
            (
                "blk.17.attn_k.bias",
                "model.layers.17.self_attn.k_proj.bias",
            ),
            (
                "blk.2.attn_q_norm.weight",
                "model.layers.2.self_attn.q_norm.weight",
            ),
            (
                "blk.2.ffn_down.weight",
                "model.layers.2.mlp.down_proj.weight",
            ),
            (
                "blk.2.ffn_norm.weight",
                "model.layers.2.post_attention_layernorm.weight",
            ),
            ("rope_freqs.weight", "rope_freqs.weight"),
            ("blk.x.attn_q.weight", "blk.x.attn_q.weight"),
            ("blk.1.ssm_in.weight", "blk.1.ssm_in.weight"),
            ("blk.1.attn_q.scale", "blk.1.attn_q.scale"),
            ("", ""),
        ] {
            assert_eq!(hugging_face(theirs, "llama"), ours);
        }
        for (theirs, ours) in [
            (
                "blk.2.ffn_norm.weight",
                "model.layers.2.pre_feedforward_layernorm.weight",
            ),
            (
                "blk.2.post_attention_norm.weight",
                "model.layers.2.post_attention_layernorm.weight",
            ),
            (
                "blk.2.attn_norm.weight",
                "model.layers.2.input_layernorm.weight",
            ),
        ] {
            assert_eq!(hugging_face(theirs, "gemma3"), ours);
        }
    }
}
