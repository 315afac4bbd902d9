//! Flags about prefill and decode on separate servers.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, idle};

const ONE_SERVER: &str =
    "prefill and decode run in one engine; roles on separate servers are not in this version";

pub(super) const ENTRIES: &[Entry] = &[
    idle(
        ONE_SERVER,
        FlagSpec::choice("disaggregation-mode", &["null", "prefill", "decode"], "")
            .default(Preset::Text("null")),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::choice(
            "disaggregation-transfer-backend",
            &["mooncake", "nixl", "ascend", "fake", "mori", "mooncake_tcp"],
            "",
        )
        .default(Preset::Text("mooncake")),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-bootstrap-port", "").default(Preset::Integer(8998)),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-decode-tp", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-decode-dp", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-prefill-pp", "").default(Preset::Integer(1)),
    ),
    idle(ONE_SERVER, FlagSpec::text("disaggregation-ib-device", "")),
    idle(
        ONE_SERVER,
        FlagSpec::switch("disaggregation-decode-enable-offload-kvcache", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("num-reserved-decode-tokens", "").default(Preset::Integer(512)),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-decode-polling-interval", "").default(Preset::Integer(1)),
    ),
    idle(ONE_SERVER, FlagSpec::switch("enable-pdmux", "")),
    idle(ONE_SERVER, FlagSpec::text("pdmux-config-path", "")),
    idle(
        ONE_SERVER,
        FlagSpec::integer("sm-group-num", "").default(Preset::Integer(8)),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::text("decoupled-spec-bind-endpoint", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::text("decoupled-spec-connect-endpoints", ""),
    ),
    idle(ONE_SERVER, FlagSpec::integer("decoupled-spec-rank", "")),
    idle(
        ONE_SERVER,
        FlagSpec::choice("decoupled-spec-role", &["null", "verifier", "drafter"], "")
            .default(Preset::Text("null")),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::choice(
            "disaggregation-decode-allocation-policy",
            &["early", "prefill_complete"],
            "",
        )
        .default(Preset::Text("early")),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::switch("disaggregation-enable-kv-checksum", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::switch("disaggregation-decode-enable-radix-cache", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::choice(
            "disaggregation-decode-retraction-backup",
            &["cpu_tensor", "host_pool", "none"],
            "",
        ),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("disaggregation-decode-extra-slots", ""),
    ),
    idle(ONE_SERVER, FlagSpec::switch("enable-pd-role-switch", "")),
    idle(
        ONE_SERVER,
        FlagSpec::integer("optimistic-prefill-attempts", "").default(Preset::Integer(0)),
    ),
    idle(ONE_SERVER, FlagSpec::switch("encoder-only", "")),
    idle(ONE_SERVER, FlagSpec::switch("language-only", "")),
    idle(ONE_SERVER, FlagSpec::switch("language-model-only", "")),
    idle(
        ONE_SERVER,
        FlagSpec::choice(
            "encoder-transfer-backend",
            &["auto", "zmq_to_scheduler", "zmq_to_tokenizer", "mooncake"],
            "",
        )
        .default(Preset::Text("auto")),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::text("encoder-urls", "")
            .takes(Takes::Some)
            .default(Preset::Words(&[])),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::integer("encoder-bootstrap-port", "").default(Preset::Integer(8997)),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::text("encoder-register-urls", "")
            .takes(Takes::Some)
            .default(Preset::Words(&[])),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::switch("enable-adaptive-dispatch-to-encoder", ""),
    ),
    idle(
        ONE_SERVER,
        FlagSpec::float("disaggregation-decode-host-receive-threshold", "")
            .default(Preset::Float(1.0)),
    ),
    idle(ONE_SERVER, FlagSpec::text("pdlb-url", "")),
];
