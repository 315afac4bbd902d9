"""The golden models in transformers on this GPU, beside what our engine computed with them here.

Usage: python3 same_gpu.py GOLDENS LOGITS [DEVICE]; LOGITS is what `gpu_goldens --logits` wrote. transformers runs each model in
f32 (the reference) and in bf16 (what this number format allows). Ours must be as near the reference as its own bf16 is,
and choose its token wherever the reference is sure. GGUF and FP8 files are left to `gpu_goldens`: transformers would widen them first.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

# a token is judged when the reference prefers it by this share of the logits' size, as in gpu_goldens
SURE = 0.1
# times the distance of bf16 in transformers, and what is allowed beside it
NEAR, ROUNDING = 1.5, 1e-3


def load(folder: Path, dtype: torch.dtype, device: str) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()


@torch.inference_mode()
def logits_of(model: torch.nn.Module, tokens: list[int]) -> np.ndarray:
    return model(torch.tensor([tokens], device=model.device)).logits[0].float().cpu().numpy()


def greedy(model: torch.nn.Module, prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits_of(model, tokens)[-1].argmax()))
    return tokens


def distances(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)


def sure(reference: np.ndarray) -> np.ndarray:
    ordered = np.sort(reference, axis=1)
    return ordered[:, -1] - ordered[:, -2] > SURE * np.sqrt((reference**2).mean(axis=1))


def compare(folder: Path, ours: np.ndarray, device: str) -> bool:
    golden = load_file(folder / "golden.safetensors")
    tokens = golden["tokens"].astype(np.int64).tolist()
    length = int(golden["prompt_length"].reshape(-1)[0])
    model = load(folder, torch.float32, device)
    reference = logits_of(model, tokens)
    bf16 = logits_of(load(folder, torch.bfloat16, device), tokens)
    ours = ours.reshape(reference.shape)
    mine, theirs = distances(ours, reference).mean(), distances(bf16, reference).mean()
    judged = sure(reference)
    differ = int((ours.argmax(axis=1) != reference.argmax(axis=1))[judged].sum())
    same = greedy(model, tokens[:length], len(tokens) - length) == tokens
    well = bool(mine <= NEAR * theirs + ROUNDING and differ == 0 and same)
    print(f"{folder.name:24} {'passed' if well else 'FAILED'}: ours {mine:.1e} from transformers' f32 on {device}, its bf16 {theirs:.1e}; "
          f"{differ} of {int(judged.sum())} sure tokens differ; its greedy tokens are {'' if same else 'NOT '}those of the golden")
    return well


def main(goldens: Path, logits: Path, device: str) -> int:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    well, left = True, []
    for folder in sorted(goldens.iterdir()):
        config = folder / "config.json"
        if not config.exists() or "quantization_config" in json.loads(config.read_text()):
            left.append(folder.name)
            continue
        well &= compare(folder, np.fromfile(logits / f"{folder.name}.f32", dtype="<f4"), device)
    print(f"left to gpu_goldens: {', '.join(left)}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "cuda"))
