//! Flags about kernels.

use flags::{FlagSpec, Preset, Takes};

use super::choices::ATTENTION;
use super::entry::{Entry, idle};

const ONE_KERNEL: &str = "each device has one kernel for this and uses it";
const OWN_ATTENTION: &str =
    "every name is mapped to the device's own attention, which suits all lengths and batches";
const OTHER_HARDWARE: &str = "it concerns hardware that this version does not run on";
const NO_GRAMMAR: &str = "structured output is not in this version";
const FULL_LOGITS: &str = "logits are computed in f32 already";

pub(super) const ENTRIES: &[Entry] = &[
    idle(ONE_KERNEL, FlagSpec::text("quantization-param-path", "")),
    idle(
        OWN_ATTENTION,
        FlagSpec::choice("attention-backend", ATTENTION, ""),
    ),
    idle(
        OWN_ATTENTION,
        FlagSpec::choice("prefill-attention-backend", ATTENTION, ""),
    ),
    idle(
        OWN_ATTENTION,
        FlagSpec::choice("decode-attention-backend", ATTENTION, ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::choice("sampling-backend", &["flashinfer", "pytorch", "ascend"], ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::choice(
            "fp8-gemm-backend",
            &[
                "auto",
                "deep_gemm",
                "flashinfer_trtllm",
                "cutlass",
                "triton",
                "aiter",
                "flashinfer_cutlass",
                "flashinfer_deepgemm",
                "flashinfer_cutedsl",
            ],
            "",
        )
        .stored_as("fp8_gemm_runner_backend")
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("enable-flashinfer-autotune", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("triton-attention-reduce-in-fp32", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::integer("triton-attention-num-kv-splits", "").default(Preset::Integer(8)),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::integer("triton-attention-split-tile-size", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("flashinfer-mla-disable-ragged", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("disable-chunked-prefix-cache", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("enable-fused-qk-norm-rope", ""),
    ),
    idle(ONE_KERNEL, FlagSpec::on_off("enable-tf32-matmul", "")),
    idle(
        ONE_KERNEL,
        FlagSpec::choice(
            "prefill-kv-cache-dequant-dtype",
            &["auto", "nvfp4", "fp8_e4m3"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::choice(
            "fp4-gemm-backend",
            &[
                "auto",
                "flashinfer_cudnn",
                "flashinfer_cutedsl",
                "flashinfer_cutlass",
                "flashinfer_trtllm",
                "marlin",
            ],
            "",
        )
        .stored_as("fp4_gemm_runner_backend")
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::choice(
            "bf16-gemm-backend",
            &["auto", "cutedsl", "gemv", "torch"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::switch("disable-flashinfer-autotune", ""),
    ),
    idle(
        ONE_KERNEL,
        FlagSpec::text("flashinfer-autotune-skip-ops", "").takes(Takes::Some),
    ),
    idle(OTHER_HARDWARE, FlagSpec::switch("mlx-enable-sampling", "")),
    idle(
        OTHER_HARDWARE,
        FlagSpec::switch("enable-lean-attention", ""),
    ),
    idle(
        OTHER_HARDWARE,
        FlagSpec::switch("enable-nvidia-megakernel", ""),
    ),
    idle(
        OTHER_HARDWARE,
        FlagSpec::switch("enable-amd-monokernel", ""),
    ),
    idle(OTHER_HARDWARE, FlagSpec::text("msprobe-dump-config", "")),
    idle(
        OTHER_HARDWARE,
        FlagSpec::choice("monokernel-backend", &["amd"], ""),
    ),
    idle(
        NO_GRAMMAR,
        FlagSpec::text("constrained-json-whitespace-pattern", ""),
    ),
    idle(
        NO_GRAMMAR,
        FlagSpec::switch("constrained-json-disable-any-whitespace", ""),
    ),
    idle(
        NO_GRAMMAR,
        FlagSpec::choice(
            "grammar-backend",
            &["xgrammar", "outlines", "llguidance", "none"],
            "",
        ),
    ),
    idle(
        NO_GRAMMAR,
        FlagSpec::switch("disable-outlines-disk-cache", ""),
    ),
    idle(
        NO_GRAMMAR,
        FlagSpec::integer("constrained-json-max-whitespace-cnt", ""),
    ),
    idle(FULL_LOGITS, FlagSpec::switch("enable-fp32-lm-head", "")),
];
