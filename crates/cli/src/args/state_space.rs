//! Flags about other kinds of layers.

use flags::{FlagSpec, Preset};

use super::choices::LINEAR;
use super::entry::{Entry, idle};

const NO_STATE_SPACE: &str =
    "models with recurrent or linear-attention layers are not in this version";
const NO_SPARSE: &str = "attention is always over every cached token";
const NO_DIFFUSION: &str = "models that generate by diffusion are not in this version";

pub(super) const ENTRIES: &[Entry] = &[
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("max-mamba-cache-size", ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("mamba-ssm-dtype", &["float32", "bfloat16", "float16"], "")
            .default(Preset::Text("float32")),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::float("mamba-full-memory-ratio", "").default(Preset::Float(0.9)),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("mamba-backend", &["triton", "flashinfer"], "")
            .default(Preset::Text("triton")),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("mamba-max-states-per-path", "").default(Preset::Integer(-1)),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::switch("enable-mamba-cache-stochastic-rounding", ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("mamba-cache-philox-rounds", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice(
            "mamba-radix-cache-strategy",
            &["auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("mamba-track-interval", "").default(Preset::Integer(256)),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::switch("enable-int8-mamba-checkpoint", ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("int8-mamba-ckpt-size", ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("linear-attn-backend", LINEAR, "").default(Preset::Text("triton")),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("linear-attn-decode-backend", LINEAR, ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("linear-attn-prefill-backend", LINEAR, ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::choice("linear-attn-verify-backend", LINEAR, ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::switch("enable-linear-replayssm", ""),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::integer("linear-replayssm-cache-len", "").default(Preset::Integer(16)),
    ),
    idle(
        NO_STATE_SPACE,
        FlagSpec::switch("enable-linear-replayssm-spec", ""),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "nsa-prefill-backend",
            &[
                "flashmla_sparse",
                "flashmla_kv",
                "flashmla_auto",
                "fa3",
                "tilelang",
                "aiter",
            ],
            "",
        )
        .default(Preset::Text("flashmla_sparse")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "nsa-decode-backend",
            &[
                "flashmla_sparse",
                "flashmla_kv",
                "flashmla_auto",
                "fa3",
                "tilelang",
                "aiter",
            ],
            "",
        )
        .default(Preset::Text("fa3")),
    ),
    idle(NO_SPARSE, FlagSpec::switch("enable-double-sparsity", "")),
    idle(NO_SPARSE, FlagSpec::text("ds-channel-config-path", "")),
    idle(
        NO_SPARSE,
        FlagSpec::integer("ds-heavy-channel-num", "").default(Preset::Integer(32)),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::integer("ds-heavy-token-num", "").default(Preset::Integer(256)),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::text("ds-heavy-channel-type", "").default(Preset::Text("qk")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::integer("ds-sparse-decode-threshold", "").default(Preset::Integer(4096)),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::switch("enable-nsa-prefill-context-parallel", ""),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::switch("enable-encoder-swa-bounded-replay", ""),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::on_off("enable-decoder-swa-bounded-replay", ""),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsa-prefill-backend",
            &[
                "flashmla_sparse",
                "flashmla_sparse_q8",
                "flashmla_kv",
                "flashmla_auto",
                "flashinfer_sparse_mla",
                "triton_sparse_mla",
                "fa3",
                "tilelang",
                "triton",
                "aiter",
                "trtllm",
                "intel_xpu",
            ],
            "",
        ),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsv4-prefill-backend",
            &["auto", "flashmla_sparse", "flashmla_sparse_q8"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::integer("dsa-triton-union", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsa-decode-backend",
            &[
                "flashmla_sparse",
                "flashmla_sparse_q8",
                "flashmla_kv",
                "flashmla_auto",
                "flashinfer_sparse_mla",
                "fa3",
                "tilelang",
                "triton",
                "aiter",
                "trtllm",
                "intel_xpu",
            ],
            "",
        ),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsv4-attn-backend",
            &["auto", "flashmla", "flashmla_mega", "trtllm"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsa-paged-mqa-logits-backend",
            &["auto", "deepgemm", "cutedsl", "aiter"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice(
            "dsa-topk-backend",
            &["sgl-kernel", "torch", "flashinfer"],
            "",
        )
        .default(Preset::Text("sgl-kernel")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::switch("enable-deepseek-v4-fp4-indexer", ""),
    ),
    idle(NO_SPARSE, FlagSpec::on_off("enable-dsa-fused-indexer", "")),
    idle(NO_SPARSE, FlagSpec::switch("enable-hisparse", "")),
    idle(
        NO_SPARSE,
        FlagSpec::text("hisparse-config", "")
            .alias(&["hierarchical-sparse-attention-extra-config"]),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::choice("qsa-indexer-dtype", &["auto", "bfloat16", "fp8_e4m3"], "")
            .default(Preset::Text("auto")),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::switch("enable-dsa-cache-layer-split", ""),
    ),
    idle(
        NO_SPARSE,
        FlagSpec::integer("c128-page-size", "").default(Preset::Integer(16)),
    ),
    idle(NO_DIFFUSION, FlagSpec::text("dllm-algorithm", "")),
    idle(NO_DIFFUSION, FlagSpec::text("dllm-algorithm-config", "")),
    idle(
        NO_DIFFUSION,
        FlagSpec::on_off("dllm-fdfo", "").default(Preset::Switch(true)),
    ),
];
