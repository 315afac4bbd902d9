//! Flags that SGLang does not have.

use flags::{FlagSpec, Preset};

use super::entry::{Entry, honoured};

pub(super) const ENTRIES: &[Entry] = &[
    honoured(FlagSpec::integer("threads", "Threads of the CPU device, 1 to 1024; every core when not given.")),
    honoured(
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
