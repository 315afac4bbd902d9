//! Flags about mixture of experts.

use flags::{FlagSpec, Preset};

use super::choices::{EXPERT_EXCHANGES, EXPERT_RUNNERS};
use super::entry::{Entry, idle};

const ONE_RUNNER: &str = "each device has one kernel for experts and uses it";
const NO_EXPERT_PARALLEL: &str =
    "experts stay on one rank; spreading them over ranks is not in this version";

pub(super) const ENTRIES: &[Entry] = &[
    idle(
        ONE_RUNNER,
        FlagSpec::choice("moe-runner-backend", EXPERT_RUNNERS, "").default(Preset::Text("auto")),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::choice(
            "flashinfer-mxfp4-moe-precision",
            &["default", "bf16", "fp8"],
            "",
        )
        .default(Preset::Text("default")),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::switch("disable-flashinfer-cutlass-moe-fp4-allgather", ""),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::switch("disable-shared-experts-fusion", ""),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::switch("enable-fused-moe-sum-all-reduce", ""),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::switch("enable-w4a4-mxfp4-megamoe", ""),
    ),
    idle(
        ONE_RUNNER,
        FlagSpec::switch("enforce-shared-experts-fusion", ""),
    ),
    idle(ONE_RUNNER, FlagSpec::switch("enable-paged-experts", "")),
    idle(
        ONE_RUNNER,
        FlagSpec::integer("paged-experts-num-resident", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("expert-parallel-size", "")
            .alias(&["ep-size", "ep"])
            .stored_as("ep_size")
            .default(Preset::Integer(1)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice("moe-a2a-backend", EXPERT_EXCHANGES, "").default(Preset::Text("none")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice("deepep-mode", &["normal", "low_latency", "auto"], "")
            .default(Preset::Text("auto")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("ep-num-redundant-experts", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::text("ep-dispatch-algorithm", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::text("init-expert-location", "").default(Preset::Text("trivial")),
    ),
    idle(NO_EXPERT_PARALLEL, FlagSpec::switch("enable-eplb", "")),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::text("eplb-algorithm", "").default(Preset::Text("auto")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("eplb-rebalance-num-iterations", "").default(Preset::Integer(1000)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("eplb-rebalance-layers-per-chunk", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::float("eplb-min-rebalancing-utilization-threshold", "")
            .default(Preset::Float(1.0)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::text("expert-distribution-recorder-mode", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("expert-distribution-recorder-buffer-size", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::switch("enable-expert-distribution-metrics", ""),
    ),
    idle(NO_EXPERT_PARALLEL, FlagSpec::text("deepep-config", "")),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("moe-dense-tp-size", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice("elastic-ep-backend", &["none", "mooncake", "nixl"], ""),
    ),
    idle(NO_EXPERT_PARALLEL, FlagSpec::text("mooncake-ib-device", "")),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice("deepep-v2-mode", &["direct", "hybrid"], "")
            .default(Preset::Text("direct")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("fuseep-mode", "").default(Preset::Integer(2)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice(
            "deepep-dispatcher-output-dtype",
            &["auto", "bf16", "fp8", "int8", "nvfp4"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice(
            "flashinfer-a2a-dispatch-type",
            &["auto", "bf16", "nvfp4", "mxfp8"],
            "",
        ),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice(
            "expert-balancedness-report-mode",
            &["off", "server_log", "prometheus", "both"],
            "",
        )
        .default(Preset::Text("off")),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::switch("enable-elastic-expert-backup", ""),
    ),
    idle(NO_EXPERT_PARALLEL, FlagSpec::switch("enable-waterfill", "")),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::choice("elastic-ep-join-mode", &["scale", "recover"], ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::float("elastic-ep-scale-timeout", "").default(Preset::Float(600.0)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("moe-dp-size", "")
            .alias(&["moe-data-parallel-size"])
            .default(Preset::Integer(1)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::switch("enable-shared-experts-attn-tp", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("shared-experts-tp-size", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::switch("enable-megamoe-for-layernorm-sp", ""),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("elastic-ep-join-rank-offset", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_EXPERT_PARALLEL,
        FlagSpec::integer("elastic-ep-initial-size", ""),
    ),
    idle(NO_EXPERT_PARALLEL, FlagSpec::integer("max-ep-size", "")),
];
