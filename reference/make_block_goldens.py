"""Makes crates/checkpoint/tests/goldens/blocks.safetensors: random GGUF blocks and the values the `gguf` package reads.

Needs numpy, gguf and safetensors. Usage: python make_block_goldens.py OUT.safetensors
"""

import sys
from importlib.metadata import version

import gguf
import numpy as np
from safetensors.numpy import save_file

BLOCKS = 6
# where each format keeps its f16 scales; random bits there would mostly be useless numbers or not finite
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def main(path: str) -> None:
    random = np.random.default_rng(20)
    tensors = {}
    for name, places in SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for place in places:
            scales = random.normal(0, 0.05, BLOCKS).astype(np.float16)
            scales[0], scales[1] = np.float16(6e-8), np.float16(-65504)  # the smallest and the largest halves
            blocks[:, place:place + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.values"] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    versions = {"gguf": version("gguf"), "numpy": np.__version__}
    save_file(tensors, path, metadata=versions)


if __name__ == "__main__":
    main(sys.argv[1])
