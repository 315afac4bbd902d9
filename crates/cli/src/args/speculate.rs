//! Flags about speculative decoding.

use flags::{FlagSpec, Preset};

use super::choices::{EXPERT_EXCHANGES, EXPERT_RUNNERS, LOAD_FORMATS, QUANTIZATIONS};
use super::entry::{Entry, idle};

const NO_SPECULATION: &str =
    "speculative decoding is not in this version; output is the same without it";

pub(super) const ENTRIES: &[Entry] = &[
    idle(
        NO_SPECULATION,
        FlagSpec::choice(
            "speculative-algorithm",
            &["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"],
            "",
        ),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-draft-model-path", "")
            .alias(&["speculative-draft-model", "speculative-draft"]),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-draft-model-revision", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-draft-load-format", LOAD_FORMATS, ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-num-steps", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-eagle-topk", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-num-draft-tokens", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::float("speculative-accept-threshold-single", "").default(Preset::Float(1.0)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::float("speculative-accept-threshold-acc", "").default(Preset::Float(1.0)),
    ),
    idle(NO_SPECULATION, FlagSpec::text("speculative-token-map", "")),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-attention-mode", &["prefill", "decode"], "")
            .default(Preset::Text("prefill")),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-moe-runner-backend", EXPERT_RUNNERS, ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-moe-a2a-backend", EXPERT_EXCHANGES, ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-min-match-window-size", "")
            .default(Preset::Integer(1)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-max-match-window-size", "")
            .default(Preset::Integer(12)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-min-bfs-breadth", "").default(Preset::Integer(1)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-max-bfs-breadth", "").default(Preset::Integer(10)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-ngram-match-type", &["BFS", "PROB"], "")
            .default(Preset::Text("BFS")),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-branch-length", "").default(Preset::Integer(18)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-capacity", "").default(Preset::Integer(10_000_000)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::switch("enable-draft-weights-cpu-backup", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-dflash-block-size", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-domino-candidate-pool-size", "")
            .default(Preset::Integer(2048)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-dspark-block-size", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-dspark-sps-table-path", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-dspark-confidence-sts-path", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::switch("speculative-dspark-align-verify-tokens-to-graph-tier", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::switch("speculative-use-rejection-sampling", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::switch("speculative-use-block-verification", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-draft-attention-backend", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice(
            "speculative-dsa-topk-backend",
            &["sgl-kernel", "torch", "flashinfer"],
            "",
        )
        .default(Preset::Text("sgl-kernel")),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice(
            "speculative-draft-kv-cache-dtype",
            &["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"],
            "",
        ),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-draft-window-size", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-draft-sink-size", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::on_off("speculative-enable-w4a4-mxfp4-megamoe", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::choice("speculative-draft-model-quantization", QUANTIZATIONS, ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::switch("enable-multi-layer-eagle", ""),
    ),
    idle(NO_SPECULATION, FlagSpec::switch("speculative-adaptive", "")),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-adaptive-config", ""),
    ),
    idle(NO_SPECULATION, FlagSpec::text("spec-trace-dir", "")),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-max-trie-depth", "").default(Preset::Integer(18)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::text("speculative-ngram-external-corpus-path", ""),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-external-sam-budget", "").default(Preset::Integer(0)),
    ),
    idle(
        NO_SPECULATION,
        FlagSpec::integer("speculative-ngram-external-corpus-max-tokens", "")
            .default(Preset::Integer(10_000_000)),
    ),
];
