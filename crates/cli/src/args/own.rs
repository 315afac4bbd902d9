//! Flags that SGLang does not have.

use flags::{FlagSpec, Preset};

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
    honoured(FlagSpec::text("model-store", "Folder that holds pulled models; ~/.cache/peregrine/models when not given.")),
    honoured(FlagSpec::switch(
        "show-config",
        "Print every resolved value with its reason, those of flags that were not given too, and do nothing else.",
    )),
    honoured(FlagSpec::switch("help-all", "Also list the flags that are accepted without effect.")),
];
