//! Small valid files to damage.

/// Builds a GGUF file piece by piece.
pub(crate) struct GgufWriter {
    keys: Vec<u8>,
    key_count: u64,
    table: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
    pub(crate) version: u32,
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl GgufWriter {
    pub(crate) fn new() -> Self {
        let (keys, table, data) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            keys,
            key_count: 0,
            table,
            tensor_count: 0,
            data,
            version: 3,
        }
    }

    /// A key with the number of its type and the bytes of its value.
    pub(crate) fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.extend(text(key));
        self.keys.extend(kind.to_le_bytes());
        self.keys.extend(value);
        self.key_count += 1;
        self
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.key(key, 8, &text(value))
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.key(key, 4, &value.to_le_bytes())
    }

    /// An array of elements that are already bytes.
    pub(crate) fn array(self, key: &str, kind: u32, elements: &[Vec<u8>]) -> Self {
        let head = [
            &kind.to_le_bytes()[..],
            &(elements.len() as u64).to_le_bytes(),
        ]
        .concat();
        self.key(key, 9, &[head, elements.concat()].concat())
    }

    /// A tensor; dimensions innermost first, as in the file.
    pub(crate) fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, data: &[u8]) -> Self {
        let offset = self.data.len() as u64;
        self = self.tensor_at(name, dimensions, kind, offset);
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self
    }

    /// A line of the tensor table with nothing behind it.
    pub(crate) fn tensor_at(
        mut self,
        name: &str,
        dimensions: &[u64],
        kind: u32,
        offset: u64,
    ) -> Self {
        self.table.extend(text(name));
        self.table.extend((dimensions.len() as u32).to_le_bytes());
        for dimension in dimensions {
            self.table.extend(dimension.to_le_bytes());
        }
        self.table.extend(kind.to_le_bytes());
        self.table.extend(offset.to_le_bytes());
        self.tensor_count += 1;
        self
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.tensor_count.to_le_bytes());
        file.extend(self.key_count.to_le_bytes());
        file.extend(&self.keys);
        file.extend(&self.table);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(&self.data);
        file
    }
}

/// A GGUF file with every kind of value and several number formats.
pub(crate) fn small_gguf() -> GgufWriter {
    let words: Vec<Vec<u8>> = ["<s>", "a", "b", "ab"].into_iter().map(text).collect();
    let scores: Vec<Vec<u8>> = [0.5f32, 1.0, -2.0, 3.0]
        .map(|f| f.to_le_bytes().to_vec())
        .to_vec();
    let kinds: Vec<Vec<u8>> = [3i32, 1, 1, 1].map(|f| f.to_le_bytes().to_vec()).to_vec();
    let inner = [
        &4u32.to_le_bytes()[..],
        &2u64.to_le_bytes(),
        &[1, 0, 0, 0, 2, 0, 0, 0],
    ]
    .concat();
    GgufWriter::new()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 128)
        .u32("llama.embedding_length", 32)
        .u32("llama.feed_forward_length", 64)
        .u32("llama.attention.head_count", 2)
        .u32("llama.attention.head_count_kv", 1)
        .key(
            "llama.attention.layer_norm_rms_epsilon",
            6,
            &1e-5f32.to_le_bytes(),
        )
        .key("llama.rope.freq_base", 6, &10_000f32.to_le_bytes())
        .key("a.u8", 0, &[200])
        .key("a.i8", 1, &[200])
        .key("a.u16", 2, &[1, 2])
        .key("a.i16", 3, &[1, 200])
        .key("a.i32", 5, &(-5i32).to_le_bytes())
        .key("a.bool", 7, &[1])
        .key("a.u64", 10, &u64::MAX.to_le_bytes())
        .key("a.i64", 11, &(-5i64).to_le_bytes())
        .key("a.f64", 12, &2.5f64.to_le_bytes())
        .array("a.nested", 9, &[inner.clone(), inner])
        .text("tokenizer.ggml.model", "gpt2")
        .array("tokenizer.ggml.tokens", 8, &words)
        .array("tokenizer.ggml.scores", 6, &scores)
        .array("tokenizer.ggml.token_type", 5, &kinds)
        .array("tokenizer.ggml.merges", 8, &[text("a b")])
        .u32("tokenizer.ggml.eos_token_id", 2)
        .tensor("token_embd.weight", &[32, 4], 8, &[1; 4 * 34])
        .tensor("blk.0.attn_q.weight", &[32, 32], 3, &[1; 32 * 20])
        .tensor("blk.0.attn_k.weight", &[32, 16], 1, &[1; 16 * 32 * 2])
        .tensor("blk.0.attn_norm.weight", &[32], 0, &[1; 128])
        .tensor("blk.0.ffn_down.weight", &[256, 2], 14, &[1; 420])
}

/// A safetensors file with a few tensors and metadata.
pub(crate) fn small_safetensors() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"#,
        r#""model.norm.weight":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},"#,
        r#""model.embed_tokens.weight":{"dtype":"BF16","shape":[4,8],"data_offsets":[32,96]},"#,
        r#""lm_head.weight":{"dtype":"F16","shape":[4,8],"data_offsets":[96,160]},"#,
        r#""position_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[160,176]}}"#
    );
    safetensors(header, 176)
}

/// A safetensors file with this header and so many bytes of data.
pub(crate) fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), &vec![1; data]].concat()
}
