//! Flags that SGLang does not have.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, for_cpu, honoured};

const OF_CPU: &str = "it is about the CPU device, and a GPU is used";

pub(super) const ENTRIES: &[Entry] = &[
    for_cpu(OF_CPU, FlagSpec::integer("threads", "Threads of the CPU device, 1 to 1024; every core when not given.")),
    for_cpu(
        OF_CPU,
        FlagSpec::choice(
            "cpu-activations",
            &["int16", "int8", "exact"],
            "How the CPU multiplies quantised weights: activations rounded to 15 bits, to 8 bits, or not at all.",
        )
        .default(Preset::Text("int16")),
    ),
    honoured(
        FlagSpec::text(
            "allowed-hosts",
            "Names that clients may call the server by in Host, * for any; on loopback those of the machine besides, elsewhere \
             any when not given.",
        )
        .takes(Takes::Some),
    ),
    honoured(
        FlagSpec::text(
            "allowed-origins",
            "Origins of web pages that may ask the server, * for any; on loopback those of the machine besides, elsewhere any \
             when not given.",
        )
        .takes(Takes::Some),
    ),
    honoured(FlagSpec::switch("public-metrics", "Serve /metrics without the key.")),
    honoured(FlagSpec::text(
        "profile-dir",
        "Folder that /start_profile writes to; SGLANG_TORCH_PROFILER_DIR when not given, and without that there are no profiles.",
    )),
    honoured(
        FlagSpec::count("max-connections", "Connections that are open at once; further ones wait.")
            .default(Preset::Integer(16_384)),
    ),
    honoured(
        FlagSpec::count(
            "max-body-bytes-in-flight",
            "Bytes of the bodies of all requests in flight; a quarter is for the first 64 KiB of each, the rest for large ones. \
             What has no room is answered 503.",
        )
        .default(Preset::Integer(1 << 30)),
    ),
    honoured(FlagSpec::text("model-store", "Folder that holds pulled models; ~/.cache/peregrine/models when not given.")),
    honoured(FlagSpec::switch(
        "show-config",
        "Print every resolved value with its reason, those of flags that were not given too, and do nothing else.",
    )),
    honoured(
        FlagSpec::choice(
            "prefix-cache-isolation",
            &["none", "key", "salt"],
            "Who finds whose prefixes in the cache, which shows in the time that answers take: everybody, those with the same \
             API key, or those who name the same cache_salt.",
        )
        .default(Preset::Text("none")),
    ),
    honoured(FlagSpec::switch("help-all", "Also list the flags that are accepted without effect.")),
];
