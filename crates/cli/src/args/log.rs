//! Flags about logs and metrics.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, honoured, idle};

const ONE_FORM: &str = "requests are logged with ids, lengths and times, never with their text";
const NO_TRACES: &str = "traces are not exported by this version";
const OWN_BUCKETS: &str = "histograms have fixed buckets";
const NO_CUSTOM: &str = "metrics carry the standard labels only";
const NO_EVENTS: &str = "cache and load events are not published by this version";
const NO_COLLECTOR: &str = "there is no garbage collector to watch";
const NO_DUMP: &str = "nothing is dumped by this version";
const PLAIN: &str = "requests are logged as text to the log";
const NO_TIMES: &str = "timings are in meta_info and /metrics";
const CHECKED: &str = "page bookkeeping is checked whenever the engine is idle";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(
        FlagSpec::text(
            "log-level",
            "Least severe message to log: debug, info, warning or error.",
        )
        .default(Preset::Text("info")),
    ),
    honoured(FlagSpec::text(
        "log-level-http",
        "The same for the access log.",
    )),
    honoured(FlagSpec::switch(
        "log-requests",
        "Log when requests come and end, without their text.",
    )),
    honoured(FlagSpec::switch(
        "enable-metrics",
        "Serve Prometheus metrics on /metrics.",
    )),
    honoured(
        FlagSpec::integer(
            "decode-log-interval",
            "Steps between two Decode batch lines.",
        )
        .default(Preset::Integer(40)),
    ),
    idle(
        ONE_FORM,
        FlagSpec::integer("log-requests-level", "").default(Preset::Integer(2)),
    ),
    idle(NO_TRACES, FlagSpec::switch("enable-trace", "")),
    idle(
        NO_TRACES,
        FlagSpec::text("otlp-traces-endpoint", "").default(Preset::Text("localhost:4317")),
    ),
    idle(
        NO_TRACES,
        FlagSpec::text("trace-modules", "").default(Preset::Text("request")),
    ),
    idle(NO_TRACES, FlagSpec::text("otlp-service-name", "")),
    idle(
        OWN_BUCKETS,
        FlagSpec::float("bucket-time-to-first-token", "").takes(Takes::Some),
    ),
    idle(
        OWN_BUCKETS,
        FlagSpec::float("bucket-inter-token-latency", "").takes(Takes::Some),
    ),
    idle(
        OWN_BUCKETS,
        FlagSpec::float("bucket-e2e-request-latency", "").takes(Takes::Some),
    ),
    idle(
        OWN_BUCKETS,
        FlagSpec::switch("collect-tokens-histogram", ""),
    ),
    idle(
        OWN_BUCKETS,
        FlagSpec::text("prompt-tokens-buckets", "").takes(Takes::Some),
    ),
    idle(
        OWN_BUCKETS,
        FlagSpec::text("generation-tokens-buckets", "").takes(Takes::Some),
    ),
    idle(
        NO_CUSTOM,
        FlagSpec::switch("enable-metrics-for-all-schedulers", ""),
    ),
    idle(
        NO_CUSTOM,
        FlagSpec::text("tokenizer-metrics-custom-labels-header", "")
            .default(Preset::Text("x-custom-labels")),
    ),
    idle(
        NO_CUSTOM,
        FlagSpec::text("tokenizer-metrics-allowed-custom-labels", "").takes(Takes::Some),
    ),
    idle(NO_CUSTOM, FlagSpec::switch("export-metrics-to-file", "")),
    idle(NO_CUSTOM, FlagSpec::text("export-metrics-to-file-dir", "")),
    idle(NO_CUSTOM, FlagSpec::switch("enable-mfu-metrics", "")),
    idle(NO_CUSTOM, FlagSpec::text("extra-metric-labels", "")),
    idle(
        NO_CUSTOM,
        FlagSpec::switch("enable-forward-pass-metrics", ""),
    ),
    idle(
        NO_CUSTOM,
        FlagSpec::text("forward-pass-metrics-worker-id", "").default(Preset::Text("")),
    ),
    idle(
        NO_CUSTOM,
        FlagSpec::text("forward-pass-metrics-ipc-name", ""),
    ),
    idle(NO_EVENTS, FlagSpec::text("kv-events-config", "")),
    idle(
        NO_EVENTS,
        FlagSpec::integer("load-snapshot-publish-interval", "").default(Preset::Integer(15)),
    ),
    idle(NO_EVENTS, FlagSpec::text("load-publish-endpoint", "")),
    idle(
        NO_COLLECTOR,
        FlagSpec::float("gc-warning-threshold-secs", "").default(Preset::Float(0.0)),
    ),
    idle(
        NO_COLLECTOR,
        FlagSpec::integer("gc-threshold", "").takes(Takes::Some),
    ),
    idle(NO_DUMP, FlagSpec::text("crash-dump-folder", "")),
    idle(
        NO_DUMP,
        FlagSpec::switch("enable-layerwise-nvtx-marker", ""),
    ),
    idle(
        NO_DUMP,
        FlagSpec::text("debug-tensor-dump-output-folder", ""),
    ),
    idle(
        NO_DUMP,
        FlagSpec::integer("debug-tensor-dump-layers", "").takes(Takes::Some),
    ),
    idle(NO_DUMP, FlagSpec::text("debug-tensor-dump-input-file", "")),
    idle(NO_DUMP, FlagSpec::text("debug-tensor-dump-inject", "")),
    idle(NO_DUMP, FlagSpec::text("forward-hooks", "")),
    idle(
        NO_DUMP,
        FlagSpec::switch("debug-tensor-dump-prefill-only", ""),
    ),
    idle(
        PLAIN,
        FlagSpec::choice("log-requests-format", &["text", "json"], "")
            .default(Preset::Text("text")),
    ),
    idle(
        PLAIN,
        FlagSpec::text("log-requests-target", "").takes(Takes::Some),
    ),
    idle(
        PLAIN,
        FlagSpec::text("uvicorn-access-log-exclude-prefixes", "")
            .takes(Takes::Any)
            .default(Preset::Words(&[])),
    ),
    idle(NO_TIMES, FlagSpec::switch("show-time-cost", "")),
    idle(
        NO_TIMES,
        FlagSpec::switch("enable-request-time-stats-logging", ""),
    ),
    idle(CHECKED, FlagSpec::switch("enable-nan-detection", "")),
    idle(
        CHECKED,
        FlagSpec::choice("kv-canary", &["none", "log", "raise"], "").default(Preset::Text("none")),
    ),
    idle(
        CHECKED,
        FlagSpec::integer("kv-canary-sweep-interval", "").default(Preset::Integer(0)),
    ),
    idle(
        CHECKED,
        FlagSpec::choice("kv-canary-real-data", &["none", "partial", "all"], "")
            .default(Preset::Text("none")),
    ),
];
