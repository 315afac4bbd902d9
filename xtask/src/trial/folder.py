"""The weights of a Llama in a GGUF file as a folder of bf16 safetensors, rounded once."""

import json
import os
import struct

import numpy as np

NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            kind, count = self.number("<I"), self.number("<Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(NUMBERS[kind])


def values(data, at, kind, shape):
    count = int(np.prod(shape))
    if kind in (F32, F16):
        found = np.frombuffer(data, np.float32 if kind == F32 else np.float16, count, at)
    elif kind == Q4_1:
        blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("least", "<f2"), ("quants", "u1", 16)]), count // 32, at)
        quants = np.concatenate([blocks["quants"] & 15, blocks["quants"] >> 4], axis=1).astype(np.float32)
        found = quants * blocks["scale"].astype(np.float32)[:, None] + blocks["least"].astype(np.float32)[:, None]
    elif kind == Q8_0:
        blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("quants", "i1", 32)]), count // 32, at)
        found = blocks["quants"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]
    else:
        raise SystemExit(f"no reader for tensors of kind {kind}")
    return found.astype(np.float32).reshape(shape)


def separate(rows, heads):
    """Neighbours that are rotated together become halves of their head."""
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def rounded(floats):
    bits = np.ascontiguousarray(floats).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def name_of(name):
    stem, end = name.rsplit(".", 1)
    if stem.startswith("blk."):
        _, layer, inner = stem.split(".")
        return f"model.layers.{layer}.{NAMES[inner]}.{end}"
    return f"{NAMES[stem]}.{end}"


def write(gguf, folder):
    reader = Reader(open(gguf, "rb").read())
    assert reader.number("<I") == 0x46554747, "not a GGUF file"
    reader.number("<I")
    tensors, pairs = reader.number("<Q"), reader.number("<Q")
    meta = {reader.text(): reader.value(reader.number("<I")) for _ in range(pairs)}
    entries = []
    for _ in range(tensors):
        name, shape = reader.text(), [reader.number("<Q") for _ in range(reader.number("<I"))]
        entries.append((name, shape[::-1], reader.number("<I"), reader.number("<Q")))
    grid = meta.get("general.alignment", 32)
    base = -(-reader.at // grid) * grid
    heads, kv = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    header, parts, at = {}, [], 0
    for name, shape, kind, offset in entries:
        if name.startswith("rope_freqs"):
            continue
        found = values(reader.data, base + offset, kind, shape)
        if ".attn_q." in name or ".attn_k." in name:
            found = separate(found, heads if ".attn_q." in name else kv)
        part = rounded(found).tobytes()
        header[name_of(name)] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    os.makedirs(folder, exist_ok=True)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.writelines(parts)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "bfloat16",
        "hidden_size": meta["llama.embedding_length"], "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"], "num_attention_heads": heads, "num_key_value_heads": kv,
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": meta["llama.attention.layer_norm_rms_epsilon"], "rope_theta": meta["llama.rope.freq_base"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]), "tie_word_embeddings": "lm_head.weight" not in header,
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"), "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
    }
    with open(f"{folder}/config.json", "w") as out:
        json.dump(config, out, indent=1)
    print(f"{len(header)} tensors, {at >> 20} MiB", end="")
