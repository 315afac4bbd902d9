//! Flags about memory beyond the device.

use flags::{FlagSpec, Preset};

use super::entry::{Entry, idle};

const NO_TIERS: &str = "cached prefixes live in device memory only";
const NO_OFFLOAD: &str = "weights live in device memory; offloading is not in this version";

pub(super) const ENTRIES: &[Entry] = &[
    idle(
        NO_TIERS,
        FlagSpec::switch("enable-hierarchical-cache", "").alias(&["enable-hicache"]),
    ),
    idle(
        NO_TIERS,
        FlagSpec::float("hicache-ratio", "").default(Preset::Float(2.0)),
    ),
    idle(
        NO_TIERS,
        FlagSpec::integer("hicache-size", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "hicache-write-policy",
            &["write_back", "write_through", "write_through_selective"],
            "",
        )
        .default(Preset::Text("write_through")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "hicache-io-backend",
            &["direct", "kernel", "kernel_ascend"],
            "",
        )
        .default(Preset::Text("kernel")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "hicache-mem-layout",
            &[
                "layer_first",
                "page_first",
                "page_first_direct",
                "page_first_kv_split",
                "page_head",
            ],
            "",
        )
        .default(Preset::Text("layer_first")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "hicache-storage-backend",
            &[
                "file",
                "mooncake",
                "hf3fs",
                "nixl",
                "aibrix",
                "dynamic",
                "eic",
                "sim",
                "npu_memcache",
                "simm",
                "mori",
                "shm",
                "tensorcast",
                "seaweedfs",
            ],
            "",
        ),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "hicache-storage-prefetch-policy",
            &["best_effort", "wait_complete", "timeout"],
            "",
        )
        .default(Preset::Text("best_effort")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::text("hicache-storage-backend-extra-config", ""),
    ),
    idle(NO_TIERS, FlagSpec::switch("enable-lmcache", "")),
    idle(
        NO_TIERS,
        FlagSpec::choice("hicache-host-memory-mode", &["cache", "buffer_only"], "")
            .default(Preset::Text("cache")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::float("hicache-host-memory-fraction", "").default(Preset::Float(0.8)),
    ),
    idle(
        NO_TIERS,
        FlagSpec::integer("hicache-storage-prefetch-retry-poll-interval", "")
            .default(Preset::Integer(8)),
    ),
    idle(
        NO_TIERS,
        FlagSpec::integer("hicache-storage-prefetch-retry-max-attempts", "")
            .default(Preset::Integer(8)),
    ),
    idle(
        NO_TIERS,
        FlagSpec::switch("enable-unified-cache-external-linker", ""),
    ),
    idle(
        NO_TIERS,
        FlagSpec::choice(
            "unified-cache-external-linker-backend",
            &["mooncake", "mori", "dynamic"],
            "",
        )
        .default(Preset::Text("mooncake")),
    ),
    idle(
        NO_TIERS,
        FlagSpec::text("unified-cache-external-linker-config", ""),
    ),
    idle(NO_TIERS, FlagSpec::switch("enable-linker-mla-dedup", "")),
    idle(NO_TIERS, FlagSpec::text("lmcache-config-file", "")),
    idle(NO_TIERS, FlagSpec::switch("enable-flexkv", "")),
    idle(NO_TIERS, FlagSpec::text("flexkv-config-file", "")),
    idle(NO_OFFLOAD, FlagSpec::text("kt-weight-path", "")),
    idle(
        NO_OFFLOAD,
        FlagSpec::text("kt-method", "").default(Preset::Text("AMXINT4")),
    ),
    idle(NO_OFFLOAD, FlagSpec::integer("kt-cpuinfer", "")),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("kt-threadpool-count", "").default(Preset::Integer(2)),
    ),
    idle(NO_OFFLOAD, FlagSpec::integer("kt-num-gpu-experts", "")),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("kt-max-deferred-experts-per-token", ""),
    ),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("cpu-offload-gb", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("offload-group-size", "").default(Preset::Integer(-1)),
    ),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("offload-num-in-group", "").default(Preset::Integer(1)),
    ),
    idle(
        NO_OFFLOAD,
        FlagSpec::integer("offload-prefetch-step", "").default(Preset::Integer(1)),
    ),
    idle(
        NO_OFFLOAD,
        FlagSpec::text("offload-mode", "").default(Preset::Text("cpu")),
    ),
    idle(NO_OFFLOAD, FlagSpec::on_off("ple-offload-embedding", "")),
    idle(
        NO_OFFLOAD,
        FlagSpec::choice("ple-offload-backend", &["pinned", "file"], "")
            .default(Preset::Text("pinned")),
    ),
    idle(NO_OFFLOAD, FlagSpec::text("ple-offload-dir", "")),
];
