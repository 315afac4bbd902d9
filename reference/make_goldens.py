"""Makes crates/models/tests/goldens: tiny random models, and what `transformers` computes with them in f32 on a CPU.

Needs torch, transformers, gguf, safetensors and numpy. Usage: python make_goldens.py OUT_FOLDER [NAME ...]

Each folder holds a checkpoint as a user would have it (config.json and safetensors, or one GGUF file) and
golden.safetensors: `tokens` (a prompt and what greedy decoding adds to it), `prompt_length`, the `logits` of every
position, and the `margins` between the best and the second token where one was chosen. Weights are drawn wide, so that
the best token is well ahead of the second; a seed whose margins are small is skipped.
"""

import json
import shutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from tiny_float8 import describe_float8, quantise_float8
from tiny_gguf import write_gguf

GREEDY = 24
LEAST_MARGIN = 0.02
VERSIONS = {
    "torch": torch.__version__,
    "transformers": transformers.__version__,
    "gguf": version("gguf"),
    "numpy": np.__version__,
}


@dataclass
class Case:
    """One model: its architecture and dimensions, and how it is written."""

    name: str
    config: dict
    dtype: torch.dtype = torch.bfloat16
    shards: int = 1
    # config.json as older versions of the library wrote it: rope_theta and rope_scaling at the top
    old_config: bool = False
    # projections as e4m3 and scales, as tiny_float8.py writes them
    float8: dict = field(default_factory=dict)
    # GGUF instead of safetensors: number format by the last part of a tensor's name
    gguf: dict = field(default_factory=dict)
    prompt: int = 13


def llama(**changes) -> dict:
    base = dict(model_type="llama", hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=4, vocab_size=131, max_position_embeddings=128, rms_norm_eps=1e-5,
                tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                bos_token_id=1, eos_token_id=2)
    return base | changes


def qwen2(**changes) -> dict:
    return llama(model_type="qwen2", rms_norm_eps=1e-6,
                 rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}) | changes


def qwen3(**changes) -> dict:
    return qwen2(model_type="qwen3", head_dim=16) | changes


def gemma3(**changes) -> dict:
    rope = {"full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    return qwen3(model_type="gemma3_text", hidden_size=64, intermediate_size=32, num_hidden_layers=7, head_dim=8,
                 num_key_value_heads=2, query_pre_attn_scalar=24, sliding_window=8, rope_parameters=rope,
                 pad_token_id=0) | changes


LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

CASES = [
    Case("llama-tied", llama(tie_word_embeddings=True), torch.float32),
    Case("llama-gqa2", llama(num_key_value_heads=2, vocab_size=257), old_config=True),
    Case("llama-gqa4-biases", llama(num_attention_heads=8, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                    eos_token_id=[2, 7]), torch.float16),
    Case("llama-gqa8-wide-heads", llama(hidden_size=40, num_attention_heads=8, num_key_value_heads=1, head_dim=12,
                                        num_hidden_layers=3), torch.float32),
    Case("llama3-rope", llama(num_key_value_heads=2, hidden_size=64, rope_parameters=LLAMA3_ROPE,
                              max_position_embeddings=256), prompt=70),
    Case("llama3-rope-old-config", llama(num_key_value_heads=2, hidden_size=64, rope_parameters=LLAMA3_ROPE,
                                         tie_word_embeddings=True), torch.float16, old_config=True, prompt=70),
    Case("llama-sharded", llama(num_key_value_heads=2, num_hidden_layers=3), shards=3),
    Case("qwen2-tied", qwen2(num_key_value_heads=2, tie_word_embeddings=True), torch.float32),
    Case("qwen2-gqa7", qwen2(num_attention_heads=14, num_key_value_heads=2, hidden_size=56, vocab_size=151),
         old_config=True),
    Case("qwen3-tied", qwen3(num_key_value_heads=2, tie_word_embeddings=True)),
    Case("qwen3-gqa8", qwen3(num_attention_heads=8, num_key_value_heads=1, hidden_size=48, vocab_size=257),
         torch.float16, old_config=True),
    # hidden 64: the root that scales embeddings is the same in every type; tied, a model would repeat its last token
    Case("gemma3", gemma3(), prompt=40),
    Case("gemma3-old-config", gemma3(num_key_value_heads=1, head_dim=12, num_hidden_layers=6, hidden_size=32), torch.float32,
         old_config=True, prompt=40),
    Case("gguf-gemma3-q8_0", gemma3(query_pre_attn_scalar=16, head_dim=16), prompt=40, gguf={"": "Q8_0"}),
    Case("gguf-llama-q4_1", llama(hidden_size=64, intermediate_size=96, num_key_value_heads=2,
                                  tie_word_embeddings=True),
         gguf={"token_embd": "Q8_0", "": "Q4_1"}),
    Case("gguf-llama3-mixed", llama(hidden_size=64, intermediate_size=96, num_key_value_heads=1, head_dim=32,
                                    rope_parameters=LLAMA3_ROPE, attention_bias=True),
         gguf={"token_embd": "F16", "output": "BF16", "attn_q": "Q4_0", "attn_k": "Q5_0", "attn_v": "Q5_1",
               "attn_output": "Q8_0", "ffn_gate": "Q4_0", "ffn_up": "Q4_0", "ffn_down": "F32"}, prompt=70),
    Case("gguf-qwen2-k", qwen2(hidden_size=256, intermediate_size=256, num_attention_heads=4, num_key_value_heads=1,
                               head_dim=16, vocab_size=97),
         gguf={"token_embd": "Q5_0", "output": "Q6_K", "attn_q": "Q4_K", "attn_k": "Q4_K", "attn_v": "Q6_K",
               "attn_output": "Q5_1", "ffn_gate": "Q4_K", "ffn_up": "Q4_K", "ffn_down": "Q5_K"}),
    Case("gguf-qwen3-q8_0", qwen3(hidden_size=64, intermediate_size=96, num_key_value_heads=2,
                                  tie_word_embeddings=True),
         gguf={"": "Q8_0"}),
    Case("fp8-qwen3-blocks", qwen3(hidden_size=160, intermediate_size=160, num_attention_heads=2, num_key_value_heads=1,
                                   head_dim=64), float8={"block": [128, 128], "scales": torch.bfloat16}),
    Case("fp8-llama-odd-blocks", llama(hidden_size=64, intermediate_size=96, num_key_value_heads=1),
         float8={"block": [24, 32], "scales": torch.float32, "skip": ["model.layers.1.mlp.down_proj"]}),
    Case("fp8-llama-tensor", llama(hidden_size=64, intermediate_size=96, num_key_value_heads=2),
         float8={"scales": torch.float32}),
    Case("fp8-qwen2-channel", qwen2(hidden_size=64, intermediate_size=96, num_key_value_heads=2,
                                    tie_word_embeddings=True), float8={"channel": True, "scales": torch.float32}),
]


def random_model(config: dict, seed: int):
    """A model with wide weights, so that layers outweigh embeddings; norms are around 1, everything else around 0."""
    torch.manual_seed(seed)
    settings = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                # gemma adds one to what is stored
                weight.normal_(0.0 if config["model_type"].startswith("gemma") else 1.0, 0.1)
            else:
                weight.normal_(0.0, 1.3 / config["hidden_size"] ** 0.5)
    return model


@torch.no_grad()
def decode(model, prompt: list[int]) -> dict[str, torch.Tensor]:
    """Greedy decoding by running the whole sequence each time: slow, and without a cache to be wrong about."""
    tokens = list(prompt)
    margins = []
    for _ in range(GREEDY):
        last = model(torch.tensor([tokens])).logits[0, -1]
        best = last.topk(2)
        margins.append(best.values[0] - best.values[1])
        tokens.append(int(best.indices[0]))
    return {
        "tokens": torch.tensor(tokens, dtype=torch.int32),
        "prompt_length": torch.tensor([len(prompt)], dtype=torch.int32),
        "logits": model(torch.tensor([tokens])).logits[0].contiguous(),
        "margins": torch.stack(margins),
    }


def old_config(config: dict) -> dict:
    """The rope settings where they were before version 5 of the library, and the old name of the dtype."""
    rope = dict(config.pop("rope_parameters"))
    if "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        del config["layer_types"]
        rope = dict(rope["full_attention"])
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype", "float32")
    return config


def write_safetensors(case: Case, model, folder: Path) -> None:
    state = {name: weight.detach().to(case.dtype).contiguous() for name, weight in model.state_dict().items()}
    if case.config["tie_word_embeddings"]:
        del state["lm_head.weight"]
    config = json.loads(model.config.to_json_string())
    config["dtype"] = str(case.dtype).removeprefix("torch.")
    config["architectures"] = [type(model).__name__]
    config = old_config(config) if case.old_config else config
    if case.float8:
        state |= case.float8["tensors"]
        config["quantization_config"] = describe_float8(case.float8)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if case.shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for shard in range(case.shards):
        name = f"model-{shard + 1:05}-of-{case.shards:05}.safetensors"
        part = {tensor: state[tensor] for tensor in sorted(state)[shard :: case.shards]}
        save_file(part, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def rounded(case: Case, model) -> None:
    """The weights as the file will hold them."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(case.dtype).float())


def make(case: Case, out: Path) -> None:
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for seed in range(1000):
        model = random_model(case.config, seed)
        if case.gguf:
            write_gguf(folder / "model.gguf", model, case.gguf, seed)
        else:
            rounded(case, model)
            if case.float8:
                case.float8["tensors"] = quantise_float8(model, case.float8)
        prompt = np.random.default_rng(seed).integers(0, case.config["vocab_size"], case.prompt)
        golden = decode(model, [int(token) for token in prompt])
        distinct = len(set(golden["tokens"][case.prompt:].tolist()))
        if golden["margins"].min() > LEAST_MARGIN and distinct > GREEDY // 4:
            break
    else:
        raise SystemExit(f"{case.name}: no seed has decisive margins")
    if not case.gguf:
        write_safetensors(case, model, folder)
    save_file(golden, folder / "golden.safetensors", metadata=VERSIONS | {"seed": str(seed)})
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{case.name}: seed {seed}, least margin {golden['margins'].min():.3f}, {distinct} tokens, {size} bytes")


def main() -> None:
    out, wanted = Path(sys.argv[1]), set(sys.argv[2:])
    for case in CASES:
        if not wanted or case.name in wanted:
            make(case, out)


if __name__ == "__main__":
    main()
