//! Flags that SGLang does not have.

use flags::{FlagSpec, Preset};

use super::entry::{Entry, honoured};

pub(super) const ENTRIES: &[Entry] = &[
    honoured(FlagSpec::integer("threads", "Threads of the CPU device; every core when not given.")),
    honoured(
        FlagSpec::choice(
            "cpu-activations",
            &["int8", "exact"],
            "How the CPU multiplies quantised weights: with rounded activations, or exactly and slower.",
        )
        .default(Preset::Text("int8")),
    ),
    honoured(FlagSpec::text("model-store", "Folder that holds pulled models.")),
    honoured(FlagSpec::switch(
        "show-config",
        "Print every resolved value with its reason, and do nothing else.",
    )),
    honoured(FlagSpec::switch("help-all", "Also list the flags that are accepted without effect.")),
];
