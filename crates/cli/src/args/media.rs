//! Flags about images, sound and video.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, idle};

const TEXT_ONLY: &str = "this version serves text only";

pub(super) const ENTRIES: &[Entry] = &[
    idle(TEXT_ONLY, FlagSpec::switch("enable-multimodal", "")),
    idle(TEXT_ONLY, FlagSpec::text("mm-process-config", "")),
    idle(
        TEXT_ONLY,
        FlagSpec::choice(
            "mm-attention-backend",
            &[
                "sdpa",
                "fa3",
                "triton_attn",
                "ascend_attn",
                "aiter_attn",
                "fa4",
                "flashinfer_cudnn",
                "amx_attn",
                "xpu_attn",
            ],
            "",
        ),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::switch("disable-fast-image-processor", ""),
    ),
    idle(TEXT_ONLY, FlagSpec::switch("keep-mm-feature-on-device", "")),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("mm-max-concurrent-calls", "").default(Preset::Integer(32)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("mm-per-request-timeout", "").default(Preset::Integer(10)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::switch("enable-broadcast-mm-inputs-process", ""),
    ),
    idle(TEXT_ONLY, FlagSpec::switch("mm-enable-dp-encoder", "")),
    idle(
        TEXT_ONLY,
        FlagSpec::switch("enable-precise-embedding-interpolation", ""),
    ),
    idle(TEXT_ONLY, FlagSpec::switch("enable-prefix-mm-cache", "")),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("mm-processor-worker-num", "").default(Preset::Integer(0)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("mm-io-worker-num", "").default(Preset::Integer(0)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::text("allowed-media-domains", "")
            .takes(Takes::Some)
            .default(Preset::Words(&[])),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("media-url-max-file-size-mb", "").default(Preset::Integer(64)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("mm-preprocess-cache-size-mb", ""),
    ),
    idle(TEXT_ONLY, FlagSpec::switch("trust-mm-content-hashes", "")),
    idle(TEXT_ONLY, FlagSpec::text("limit-mm-data-per-request", "")),
    idle(TEXT_ONLY, FlagSpec::switch("enable-mm-global-cache", "")),
    idle(
        TEXT_ONLY,
        FlagSpec::choice(
            "image-processor-backend",
            &["auto", "torchvision", "pil"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::choice("mm-global-cache-backend", &["mooncake"], "")
            .default(Preset::Text("mooncake")),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::choice("mm-feature-transport", &["cpu", "cuda_ipc", "cuda_vmm"], ""),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("asr-max-buffer-seconds", "").default(Preset::Integer(60)),
    ),
    idle(
        TEXT_ONLY,
        FlagSpec::integer("asr-max-concurrent-sessions", "").default(Preset::Integer(32)),
    ),
];
