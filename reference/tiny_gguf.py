"""Writes a tiny transformers model as GGUF, and gives the model the values that the file holds."""

from pathlib import Path

import gguf
import numpy as np
import torch

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# what some architectures call otherwise
GEMMA3 = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
# formats the gguf package can read but not write, with the places and sizes of their scales for random blocks
RANDOM_BLOCKS = {"Q4_K": {0: 5e-4, 2: 4e-3}, "Q5_K": {0: 2.5e-4, 2: 4e-3}, "Q6_K": {208: 6e-5}}


def gguf_name(name: str, architecture: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, inner = stem.split(".", 3)
        names = TENSORS | GEMMA3 if architecture == "gemma3" else TENSORS
        return f"blk.{layer}.{names[inner]}.{kind}"
    return f"{TENSORS[stem]}.{kind}"


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """Stores the two halves of each head as neighbours, for kernels that rotate neighbours."""
    pairs = values.reshape(heads, 2, values.shape[0] // heads // 2, -1)
    return pairs.swapaxes(1, 2).reshape(values.shape)


def separate(values: np.ndarray, heads: int) -> np.ndarray:
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(values.shape)


def encode(values: np.ndarray, kind: gguf.GGMLQuantizationType, random: np.random.Generator) -> np.ndarray:
    """The file's bytes; for formats nobody here can quantise to, random blocks with values of the same size."""
    scales = RANDOM_BLOCKS.get(kind.name)
    if scales is None:
        return gguf.quants.quantize(values, kind)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (values.size // elements, size), dtype=np.uint8)
    for place, scale in scales.items():
        drawn = (scale * random.uniform(0.5, 1.5, len(blocks))).astype(np.float16)
        blocks[:, place:place + 2] = drawn.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(values.shape[0], -1)


def format_of(name: str, values: np.ndarray, formats: dict[str, str]) -> gguf.GGMLQuantizationType:
    part = name.rsplit(".", 2)[-2]
    chosen = "F32" if values.ndim == 1 else formats.get(part, formats.get("", "F32"))
    return gguf.GGMLQuantizationType[chosen]


def rope_factors(model) -> np.ndarray:
    """What llama 3's scaling divides each frequency by, as converters write it."""
    config = model.config
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    base = config.rope_parameters["rope_theta"]
    plain = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)
    return (plain / model.model.rotary_emb.inv_freq).numpy()


@torch.no_grad()
def write_gguf(path: Path, model, formats: dict[str, str], seed: int) -> None:
    config = model.config
    architecture = config.model_type.removesuffix("_text")
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture)
    add_metadata(writer, config)
    if config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(model).astype(np.float32))
    permuted = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, weight in model.named_parameters():
        # gemma's converter adds what the model adds to its norms
        added = 1.0 if architecture == "gemma3" and "norm" in name else 0.0
        values = weight.numpy() + np.float32(added)
        stored_name = gguf_name(name, architecture)
        heads = permuted.get(stored_name.rsplit(".", 2)[-2]) if architecture == "llama" else None
        kind = format_of(stored_name, values, formats)
        stored = encode(interleave(values, heads) if heads else values, kind, random)
        writer.add_tensor(stored_name, stored, raw_dtype=kind)
        read = gguf.quants.dequantize(stored, kind).reshape(values.shape)
        weight.copy_(torch.from_numpy((separate(read, heads) if heads else read) - np.float32(added)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_metadata(writer: gguf.GGUFWriter, config) -> None:
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if head * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(head)
        writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    rope = config.rope_parameters
    if "full_attention" in rope:
        rope = rope["full_attention"]
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{token}" for token in range(config.vocab_size)])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
