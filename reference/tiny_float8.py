"""Projections of a tiny model as e4m3 codes and scales, with the names and shapes that FP8 checkpoints have.

A case is a dict: `scales` (their dtype) and `block` ([rows, columns]), `channel` (a scale a row) or neither (a scale a
tensor); `skip` names modules that stay as they are.
"""

import torch

LARGEST = 448.0


def blocks_of(case: dict, shape: torch.Size) -> list[int]:
    """Rows and columns that share a scale."""
    if "block" in case:
        return case["block"]
    return [1 if case.get("channel") else shape[0], shape[1]]


@torch.no_grad()
def quantise_float8(model, case: dict) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint; the model's own weights become the numbers that they stand for."""
    tensors = {}
    for name, weight in model.named_parameters():
        module = name.removesuffix(".weight")
        if not name.endswith("_proj.weight") or module in case.get("skip", []):
            continue
        rows, cols = weight.shape
        height, width = blocks_of(case, weight.shape)
        codes = torch.empty(rows, cols, dtype=torch.float8_e4m3fn)
        scales = torch.empty(-(-rows // height), -(-cols // width), dtype=case["scales"])
        for i in range(scales.shape[0]):
            for j in range(scales.shape[1]):
                place = slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width)
                scales[i, j] = (weight[place].abs().max() / LARGEST).to(case["scales"])
                scale = scales[i, j].float()
                codes[place] = (weight[place] / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
                weight[place] = codes[place].float() * scale
        tensors[name] = codes
        if "block" in case:
            tensors[f"{module}.weight_scale_inv"] = scales
        elif case.get("channel"):
            tensors[f"{module}.weight_scale"] = scales
        else:
            tensors[f"{module}.weight_scale"] = scales.reshape(())
            tensors[f"{module}.input_scale"] = torch.tensor(0.25)
    return tensors


def describe_float8(case: dict) -> dict:
    """What config.json says about it."""
    if case.get("channel"):
        weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
        return {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
    if "block" not in case:
        return {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    return {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": case["block"],
            "modules_to_not_convert": ["lm_head", *case.get("skip", [])]}
