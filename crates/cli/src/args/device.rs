//! Flags about device.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, by_device, honoured, idle};

const ONE_DEVICE: &str = "one device is used: the first that is visible";
const OS: &str = "threads are placed by the operating system";
const BLOCKS: &str = "an idle engine blocks and uses no processor time";
const INVARIANT: &str = "on a CPU results never depend on what else is in the batch";
const VARIES: &str = "a GPU has no such mode: sums are made in an order that depends on how many rows a step has, so that near ties may end \
                      differently in another batch; --device cpu gives the same results in any";
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
    by_device(
        Some(INVARIANT),
        Some(VARIES),
        FlagSpec::switch(
            "enable-deterministic-inference",
            "nothing to switch: results never depend on the batch on a CPU, and may on a GPU",
        ),
    ),
    idle(NO_TRAINING, FlagSpec::text("rl-quant-profile", "")),
    idle(
        NO_TRAINING,
        FlagSpec::choice("rl-on-policy-target", &["fsdp"], ""),
    ),
];
