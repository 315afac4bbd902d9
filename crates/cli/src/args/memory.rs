//! Flags about memory.

use flags::{FlagSpec, Preset};

use super::entry::{Entry, honoured, idle};

const ONE_POOL: &str = "all layers share one pool of KV pages";
const LRU: &str = "cached prefixes leave in the order of their last use";
const NO_SAVER: &str = "device memory is held for as long as the server runs";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(FlagSpec::float(
        "mem-fraction-static",
        "Share of the device's memory for weights and KV cache, above 0 and below 1. When not given, 0.8 of what is free on a CPU and by size on a GPU.",
    )),
    honoured(
        FlagSpec::choice(
            "fold-weights",
            &["auto", "on", "off"],
            "Keep bf16 weights on a GPU a second time, losslessly encoded as bf12 (12-bit bf16), for steps of up to 64 rows: these are up to 17 % faster, and room for KV cache is less. auto: where that costs at most 15 % of it.",
        )
        .default(Preset::Text("auto")),
    ),
    honoured(FlagSpec::count(
        "max-total-tokens",
        "Most tokens in the KV cache; when not given, what fits, on a CPU for 8 whole contexts at most.",
    )),
    honoured(FlagSpec::integer(
        "page-size",
        "Tokens in a KV page, 1 to 1024; 16 on a CPU and 64 on a GPU when not given.",
    )),
    honoured(FlagSpec::switch(
        "disable-radix-cache",
        "Do not reuse prompt prefixes.",
    )),
    honoured(
        FlagSpec::choice(
            "kv-cache-dtype",
            &[
                "auto",
                "fp8_e5m2",
                "fp8_e4m3",
                "bf16",
                "bfloat16",
                "fp4_e2m1",
                "mxfp8",
                "nvfp4",
                "fp4_mx_block16",
            ],
            "Number type of keys and values; a GPU can also store fp8_e4m3.",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_POOL,
        FlagSpec::switch("enable-page-major-kv-layout", ""),
    ),
    idle(ONE_POOL, FlagSpec::switch("enable-unified-memory", "")),
    idle(
        LRU,
        FlagSpec::choice(
            "radix-eviction-policy",
            &["lru", "lfu", "slru", "priority", "tlru"],
            "",
        )
        .default(Preset::Text("lru")),
    ),
    idle(LRU, FlagSpec::text("radix-eviction-policy-config", "")),
    idle(LRU, FlagSpec::switch("enable-session-radix-cache", "")),
    idle(LRU, FlagSpec::text("radix-cache-backend", "")),
    idle(NO_SAVER, FlagSpec::switch("enable-memory-saver", "")),
    idle(NO_SAVER, FlagSpec::switch("enable-weights-cpu-backup", "")),
];
