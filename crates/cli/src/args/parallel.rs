//! Flags about several devices.

use flags::{FlagSpec, Preset};

use super::entry::{Entry, honoured, idle};

const ONE_RANK: &str = "one rank does all the work in this version";
const ONE_NODE: &str = "one process on one machine does all the work; there is nobody to talk to";
const NO_OVERLAP: &str = "batches are not split to overlap communication: one rank has none";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(
        FlagSpec::integer("tensor-parallel-size", "Ranks that share each layer.")
            .alias(&["tp-size", "tp"])
            .stored_as("tp_size")
            .default(Preset::Integer(1)),
    ),
    honoured(
        FlagSpec::integer("pipeline-parallel-size", "Ranks that share the layers.")
            .alias(&["pp-size", "pp"])
            .stored_as("pp_size")
            .default(Preset::Integer(1)),
    ),
    honoured(
        FlagSpec::integer("data-parallel-size", "Replicas behind this server.")
            .alias(&["dp-size", "dp"])
            .stored_as("dp_size")
            .default(Preset::Integer(1)),
    ),
    idle(ONE_RANK, FlagSpec::integer("pp-max-micro-batch-size", "")),
    idle(ONE_RANK, FlagSpec::switch("enable-dp-attention", "")),
    idle(ONE_RANK, FlagSpec::switch("enable-dp-lm-head", "")),
    idle(
        ONE_RANK,
        FlagSpec::switch("enable-attn-tp-input-scattered", ""),
    ),
    idle(ONE_RANK, FlagSpec::switch("enable-scattered-sconv", "")),
    idle(
        ONE_RANK,
        FlagSpec::integer("dcp-size", "")
            .alias(&["decode-context-parallel-size"])
            .default(Preset::Integer(1)),
    ),
    idle(
        ONE_RANK,
        FlagSpec::integer("pp-async-batch-depth", "").default(Preset::Integer(0)),
    ),
    idle(
        ONE_RANK,
        FlagSpec::integer("attn-dp-size", "")
            .alias(&["attention-data-parallel-size"])
            .default(Preset::Integer(1)),
    ),
    idle(
        ONE_RANK,
        FlagSpec::integer("attn-cp-size", "")
            .alias(&["attention-context-parallel-size"])
            .default(Preset::Integer(1)),
    ),
    idle(
        ONE_RANK,
        FlagSpec::integer("dwdp-size", "").default(Preset::Integer(1)),
    ),
    idle(
        ONE_RANK,
        FlagSpec::choice("dcp-comm-backend", &["ag_rs", "a2a", "fi_a2a"], ""),
    ),
    idle(ONE_RANK, FlagSpec::on_off("dcp-replicate-q-proj", "")),
    idle(ONE_RANK, FlagSpec::switch("enable-prefill-cp", "")),
    idle(
        ONE_RANK,
        FlagSpec::choice("cp-strategy", &["zigzag", "interleave"], ""),
    ),
    idle(ONE_RANK, FlagSpec::switch("enable-cp-decode-attn-tp", "")),
    idle(ONE_RANK, FlagSpec::switch("enable-kv-cache-sharding", "")),
    idle(
        ONE_RANK,
        FlagSpec::switch("enable-dp-attention-local-control-broadcast", ""),
    ),
    idle(
        ONE_RANK,
        FlagSpec::on_off("enable-tp-lm-head-all-to-all", ""),
    ),
    idle(ONE_RANK, FlagSpec::switch("enable-dense-mlp-attn-tp", "")),
    idle(ONE_RANK, FlagSpec::switch("enable-layernorm-sp", "")),
    idle(ONE_RANK, FlagSpec::switch("disable-attn-tp-gather", "")),
    idle(ONE_RANK, FlagSpec::integer("max-micro-batch-size", "")),
    idle(ONE_NODE, FlagSpec::integer("nccl-port", "")),
    idle(ONE_NODE, FlagSpec::integer("dist-timeout", "")),
    idle(
        ONE_NODE,
        FlagSpec::choice(
            "load-balance-method",
            &[
                "round_robin",
                "shortest_queue",
                "minimum_tokens",
                "auto",
                "follow_bootstrap_room",
                "total_requests",
                "total_tokens",
            ],
            "",
        )
        .default(Preset::Text("round_robin")),
    ),
    idle(
        ONE_NODE,
        FlagSpec::float("load-watch-interval", "").default(Preset::Float(0.1)),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("prefill-round-robin-balance", ""),
    ),
    idle(
        ONE_NODE,
        FlagSpec::text("dist-init-addr", "").alias(&["nccl-init-addr"]),
    ),
    idle(
        ONE_NODE,
        FlagSpec::integer("nnodes", "").default(Preset::Integer(1)),
    ),
    idle(
        ONE_NODE,
        FlagSpec::integer("node-rank", "").default(Preset::Integer(0)),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("enable-flashinfer-allreduce-fusion", ""),
    ),
    idle(ONE_NODE, FlagSpec::switch("enable-nccl-nvls", "")),
    idle(ONE_NODE, FlagSpec::switch("enable-symm-mem", "")),
    idle(ONE_NODE, FlagSpec::switch("disable-custom-all-reduce", "")),
    idle(ONE_NODE, FlagSpec::switch("enable-mscclpp", "")),
    idle(ONE_NODE, FlagSpec::switch("enable-torch-symm-mem", "")),
    idle(ONE_NODE, FlagSpec::switch("enable-p2p-check", "")),
    idle(ONE_NODE, FlagSpec::switch("use-ray", "")),
    idle(ONE_NODE, FlagSpec::switch("pre-warm-nccl", "")),
    idle(
        ONE_NODE,
        FlagSpec::choice(
            "boundary-reduction",
            &["auto", "ar", "rs", "rsv", "rs+rsv"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("enable-quant-communications", ""),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("enforce-disable-flashinfer-allreduce-fusion", ""),
    ),
    idle(
        ONE_NODE,
        FlagSpec::choice(
            "flashinfer-allreduce-fusion-backend",
            &["auto", "trtllm", "mnnvl", "cutedsl"],
            "",
        ),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("enable-aiter-allreduce-fusion", ""),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("disable-aiter-allreduce-fusion-in-prefill", ""),
    ),
    idle(
        ONE_NODE,
        FlagSpec::switch("disable-aiter-allreduce-fusion-in-decode", ""),
    ),
    idle(ONE_NODE, FlagSpec::integer("gated-launch-port", "")),
    idle(NO_OVERLAP, FlagSpec::switch("enable-two-batch-overlap", "")),
    idle(
        NO_OVERLAP,
        FlagSpec::switch("enable-single-batch-overlap", ""),
    ),
    idle(
        NO_OVERLAP,
        FlagSpec::float("tbo-token-distribution-threshold", "").default(Preset::Float(0.48)),
    ),
];
