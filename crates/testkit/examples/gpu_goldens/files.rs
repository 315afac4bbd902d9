//! A sharded checkpoint of random numbers, as large as wanted, equal every time.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::{Map, Value, json};

/// A model in the manner of Qwen3-8B.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) vocabulary: usize,
    /// As safetensors name it: BF16 or F16.
    pub(crate) dtype: &'static str,
}

const HIDDEN: usize = 4096;
const INNER: usize = 12288;
const HEAD: usize = 128;
const QUERY: usize = 32 * HEAD;
const KV: usize = 8 * HEAD;
/// Bytes after which the next tensor goes to the next file.
const SHARD: usize = 500 << 20;

impl Shape {
    /// Names of the matrices that become one weight each, in the order of loading.
    pub(crate) fn weights(self) -> Vec<Vec<String>> {
        let mut weights = vec![vec!["model.embed_tokens.weight".to_owned()]];
        for layer in 0..self.layers {
            for parts in [
                &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"][..],
                &["self_attn.o_proj"],
                &["mlp.gate_proj", "mlp.up_proj"],
                &["mlp.down_proj"],
            ] {
                let names = parts
                    .iter()
                    .map(|part| format!("model.layers.{layer}.{part}.weight"));
                weights.push(names.collect());
            }
        }
        weights.push(vec!["lm_head.weight".to_owned()]);
        weights
    }

    fn tensors(self) -> Vec<(String, Vec<usize>)> {
        let matrices = self.weights().into_iter().flatten();
        let mut tensors: Vec<_> = matrices
            .map(|name| {
                let shape = match name.rsplit('.').nth(1) {
                    Some("q_proj") => [QUERY, HIDDEN],
                    Some("k_proj" | "v_proj") => [KV, HIDDEN],
                    Some("o_proj") => [HIDDEN, QUERY],
                    Some("gate_proj" | "up_proj") => [INNER, HIDDEN],
                    Some("down_proj") => [HIDDEN, INNER],
                    _ => [self.vocabulary, HIDDEN],
                };
                (name, shape.to_vec())
            })
            .collect();
        tensors.push(("model.norm.weight".to_owned(), vec![HIDDEN]));
        for layer in 0..self.layers {
            for (part, width) in [
                ("input_layernorm", HIDDEN),
                ("post_attention_layernorm", HIDDEN),
                ("self_attn.q_norm", HEAD),
                ("self_attn.k_norm", HEAD),
            ] {
                let name = format!("model.layers.{layer}.{part}.weight");
                tensors.push((name, vec![width]));
            }
        }
        tensors
    }

    fn config(self) -> Value {
        json!({
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_act": "silu",
            "hidden_size": HIDDEN,
            "intermediate_size": INNER,
            "head_dim": HEAD,
            "num_attention_heads": QUERY / HEAD,
            "num_key_value_heads": KV / HEAD,
            "num_hidden_layers": self.layers,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": 128,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "tie_word_embeddings": false,
            "eos_token_id": 0,
            "torch_dtype": "bfloat16",
        })
    }

    /// Writes a folder that loads like a real model's; gives the bytes of its tensors.
    pub(crate) fn write(self, folder: &Path) -> anyhow::Result<usize> {
        std::fs::create_dir_all(folder)?;
        let mut shards: Vec<Vec<(String, Vec<usize>)>> = vec![Vec::new()];
        let (mut bytes, mut total) = (0, 0);
        for tensor in self.tensors() {
            if bytes > SHARD {
                shards.push(Vec::new());
                bytes = 0;
            }
            let size = 2 * tensor.1.iter().product::<usize>();
            (bytes, total) = (bytes + size, total + size);
            shards.last_mut().expect("there is one").push(tensor);
        }
        let name = |at: usize| format!("model-{:05}-of-{:05}.safetensors", at + 1, shards.len());
        let mut map = Map::new();
        for (at, tensors) in shards.iter().enumerate() {
            map.extend(
                tensors
                    .iter()
                    .map(|(tensor, _)| (tensor.clone(), json!(name(at)))),
            );
        }
        std::thread::scope(|scope| {
            let names = (0..shards.len()).map(name);
            let writers: Vec<_> = names
                .zip(&shards)
                .map(|(name, tensors)| {
                    let path = folder.join(name);
                    scope.spawn(move || write_shard(&path, tensors, self.dtype))
                })
                .collect();
            let mut ended = writers.into_iter();
            ended.try_for_each(|writer| writer.join().expect("writing does not panic"))
        })?;
        let index = json!({"metadata": {"total_size": total}, "weight_map": map});
        std::fs::write(
            folder.join("model.safetensors.index.json"),
            index.to_string(),
        )?;
        std::fs::write(folder.join("config.json"), self.config().to_string())?;
        Ok(total)
    }
}

fn write_shard(path: &Path, tensors: &[(String, Vec<usize>)], dtype: &str) -> anyhow::Result<()> {
    let mut header = Map::new();
    let mut end = 0;
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        let described = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        header.insert(name.clone(), described);
    }
    let header = Value::Object(header).to_string();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ tensors[0].0.len() as u64 ^ (end as u64) << 8;
    for _ in 0..end / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // four halves below two in size: the highest bit of each exponent is zero
        file.write_all(&(state & 0xbfff_bfff_bfff_bfff).to_le_bytes())?;
    }
    file.flush()?;
    Ok(())
}
