//! Flags about adapters.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, idle, refused};

const NO_ADAPTERS: &str = "adapters (LoRA) are not served by this version";

const MERGE: &str = "adapters (LoRA) are not served by this version; merge the adapter into the weights and serve those";

pub(super) const ENTRIES: &[Entry] = &[
    refused(MERGE, FlagSpec::switch("enable-lora", "")),
    idle(NO_ADAPTERS, FlagSpec::integer("max-lora-rank", "")),
    idle(
        NO_ADAPTERS,
        FlagSpec::text("lora-target-modules", "").takes(Takes::Any),
    ),
    refused(MERGE, FlagSpec::text("lora-paths", "").takes(Takes::Any)),
    idle(
        NO_ADAPTERS,
        FlagSpec::integer("max-loras-per-batch", "").default(Preset::Integer(8)),
    ),
    idle(NO_ADAPTERS, FlagSpec::integer("max-loaded-loras", "")),
    idle(
        NO_ADAPTERS,
        FlagSpec::choice("lora-eviction-policy", &["lru", "fifo"], "").default(Preset::Text("lru")),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::choice(
            "lora-backend",
            &["triton", "csgmv", "ascend", "torch_native", "triton_v2"],
            "",
        )
        .default(Preset::Text("csgmv")),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::integer("max-lora-chunk-size", "").default(Preset::Integer(16)),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::switch("enable-lora-overlap-loading", ""),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::on_off("experts-shared-outer-loras", ""),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::switch("lora-use-virtual-experts", ""),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::on_off("lora-strict-loading", "").default(Preset::Switch(false)),
    ),
    idle(
        NO_ADAPTERS,
        FlagSpec::float("lora-drain-wait-threshold", "").default(Preset::Float(0.0)),
    ),
    refused(MERGE, FlagSpec::text("uno-lora-path", "")),
];
