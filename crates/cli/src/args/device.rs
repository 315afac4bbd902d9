//! Flags about device.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, honoured, idle};

const ONE_DEVICE: &str = "one device is used: the first that is visible";
const OS: &str = "threads are placed by the operating system";
const BLOCKS: &str = "an idle engine blocks and uses no processor time";
const INVARIANT: &str = "results never depend on what else is in the batch";
const NO_TRAINING: &str = "it serves training, which this version does not take part in";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(
        FlagSpec::choice(
            "device",
            &["auto", "cpu", "cuda"],
            "Device to run on; auto takes a GPU when there is one.",
        )
        .default(Preset::Text("auto")),
    ),
    honoured(FlagSpec::integer(
        "random-seed",
        "Seed of requests that bring none.",
    )),
    idle(
        ONE_DEVICE,
        FlagSpec::integer("base-gpu-id", "").default(Preset::Integer(0)),
    ),
    idle(
        ONE_DEVICE,
        FlagSpec::integer("gpu-id-step", "").default(Preset::Integer(1)),
    ),
    idle(OS, FlagSpec::integer("numa-node", "").takes(Takes::Some)),
    idle(BLOCKS, FlagSpec::switch("sleep-on-idle", "")),
    idle(
        INVARIANT,
        FlagSpec::switch("enable-deterministic-inference", ""),
    ),
    idle(NO_TRAINING, FlagSpec::text("rl-quant-profile", "")),
    idle(
        NO_TRAINING,
        FlagSpec::choice("rl-on-policy-target", &["fsdp"], ""),
    ),
];
