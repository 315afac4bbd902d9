//! Flags about scheduling.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, honoured, idle};

const OWN_PACE: &str =
    "prompts and generation share each step, so there is nothing to delay or alternate";
const ONE_POOL: &str = "all layers share one pool of KV pages";
const LIMITED: &str = "prompts of a step are limited by tokens, not by number";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(FlagSpec::integer(
        "max-running-requests",
        "Most requests that run at once, 1 to 65536; 64 on a CPU and by memory on a GPU when not given.",
    )),
    honoured(FlagSpec::integer(
        "max-queued-requests",
        "Most requests that wait; further ones get 503. Any number when not given.",
    )),
    honoured(FlagSpec::integer(
        "chunked-prefill-size",
        "Most prompt tokens of a step; -1 splits a prompt for its log-probabilities only. 512 on a CPU and by memory on a GPU when not given.",
    )),
    honoured(
        FlagSpec::count(
            "max-prefill-tokens",
            "Prompt tokens after which no further prompt joins a step.",
        )
        .default(Preset::Integer(16384)),
    ),
    honoured(
        FlagSpec::choice(
            "schedule-policy",
            &[
                "lpm",
                "random",
                "fcfs",
                "dfs-weight",
                "lof",
                "priority",
                "routing-key",
                "hrrn",
                "shortest-prefill-first",
            ],
            "Who leaves the queue first: fcfs, lpm, lof and priority are honoured.",
        )
        .default(Preset::Text("fcfs")),
    ),
    honoured(FlagSpec::switch(
        "enable-priority-scheduling",
        "Serve requests with a larger priority first; in a full queue the least important gives up its place.",
    )),
    honoured(FlagSpec::switch(
        "schedule-low-priority-values-first",
        "Smaller numbers are more important; with --enable-priority-scheduling.",
    )),
    honoured(FlagSpec::integer(
        "default-priority-value",
        "Priority of a request that brings none; less important than any other when not given.",
    )),
    honoured(
        FlagSpec::integer(
            "priority-scheduling-preemption-threshold",
            "A running request gives way to one whose priority is better by more than this.",
        )
        .default(Preset::Integer(10)),
    ),
    honoured(FlagSpec::switch(
        "disable-priority-preemption",
        "Let what runs run, however important what waits is.",
    )),
    honoured(FlagSpec::switch(
        "abort-on-priority-when-disabled",
        "Refuse requests that bring a priority when --enable-priority-scheduling is not given.",
    )),
    honoured(
        FlagSpec::choice(
            "retraction-policy",
            &["length", "priority"],
            "Which request goes back to the queue when KV memory is short: the one with the least output, or the least important.",
        )
        .default(Preset::Text("length")),
    ),
    honoured(
        FlagSpec::float(
            "schedule-conservativeness",
            "Larger reserves more memory for running requests.",
        )
        .default(Preset::Float(1.0)),
    ),
    honoured(FlagSpec::switch(
        "disable-overlap-schedule",
        "Plan a step only when the one before has ended.",
    )),
    honoured(FlagSpec::switch(
        "enable-mixed-chunk",
        "Mix prompt chunks and generation in one step.",
    )),
    idle(
        OWN_PACE,
        FlagSpec::integer("num-continuous-decode-steps", "").default(Preset::Integer(1)),
    ),
    idle(
        OWN_PACE,
        FlagSpec::integer("scheduler-recv-interval", "").default(Preset::Integer(1)),
    ),
    idle(OWN_PACE, FlagSpec::integer("prefill-decode-interval", "")),
    idle(
        OWN_PACE,
        FlagSpec::integer("prefill-decode-interval-min-bs", "").default(Preset::Integer(0)),
    ),
    idle(OWN_PACE, FlagSpec::switch("enable-dynamic-chunking", "")),
    idle(OWN_PACE, FlagSpec::switch("enable-prefill-delayer", "")),
    idle(
        OWN_PACE,
        FlagSpec::integer("prefill-delayer-max-delay-passes", "").default(Preset::Integer(30)),
    ),
    idle(
        OWN_PACE,
        FlagSpec::float("prefill-delayer-token-usage-low-watermark", ""),
    ),
    idle(
        OWN_PACE,
        FlagSpec::float("prefill-delayer-forward-passes-buckets", "").takes(Takes::Some),
    ),
    idle(
        OWN_PACE,
        FlagSpec::float("prefill-delayer-wait-seconds-buckets", "").takes(Takes::Some),
    ),
    idle(
        OWN_PACE,
        FlagSpec::float("prefill-delayer-queue-min-ratio", ""),
    ),
    idle(
        OWN_PACE,
        FlagSpec::float("prefill-delayer-max-delay-ms", ""),
    ),
    idle(OWN_PACE, FlagSpec::integer("min-free-slots-delay", "")),
    idle(
        ONE_POOL,
        FlagSpec::float("hybrid-kvcache-ratio", "").takes(Takes::Maybe("0")),
    ),
    idle(
        ONE_POOL,
        FlagSpec::float("swa-full-tokens-ratio", "").default(Preset::Float(0.8)),
    ),
    idle(ONE_POOL, FlagSpec::switch("disable-hybrid-swa-memory", "")),
    idle(ONE_POOL, FlagSpec::integer("swa-prefix-tails", "")),
    idle(
        ONE_POOL,
        FlagSpec::switch("prefill-only-disable-kv-cache", ""),
    ),
    idle(LIMITED, FlagSpec::integer("prefill-max-requests", "")),
];
