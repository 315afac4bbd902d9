//! The reference's options as data, in the order in which it declares and echoes them.

use flags::{FlagSpec, Group, Preset, Takes};

const fn switch(name: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec::switch(name, help)
}

const fn text(name: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec::text(name, help)
}

const fn integer(name: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec::integer(name, help)
}

const fn number(name: &'static str, default: i64, help: &'static str) -> FlagSpec {
    FlagSpec::integer(name, help).default(Preset::Integer(default))
}

const fn float(name: &'static str, default: f64, help: &'static str) -> FlagSpec {
    FlagSpec::float(name, help).default(Preset::Float(default))
}

const fn words(name: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec::words(name, help)
}

const fn one_of(
    name: &'static str,
    choices: &'static [&'static str],
    default: &'static str,
    help: &'static str,
) -> FlagSpec {
    FlagSpec::choice(name, choices, help).default(Preset::Text(default))
}

/// The names of backends, in the reference's order.
pub(super) const BACKENDS: &[&str] = &[
    "sglang",
    "sglang-native",
    "sglang-oai",
    "sglang-oai-chat",
    "sglang-embedding",
    "vllm",
    "vllm-chat",
    "vllm-embedding",
    "lmdeploy",
    "lmdeploy-chat",
    "trt",
    "gserver",
    "truss",
];

/// The names of datasets.
pub(super) const DATASETS: &[&str] = &[
    "sharegpt",
    "random",
    "random-ids",
    "generated-shared-prefix",
    "mmmu",
    "image",
    "mooncake",
    "custom",
    "openai",
    "longbench_v2",
    "speed-bench",
    "agentic-trace",
];

const SERVER: &[FlagSpec] = &[
    one_of("backend", BACKENDS, "sglang", "The protocol to speak."),
    text(
        "base-url",
        "Where the server is, instead of host and port; paths are appended to it.",
    ),
    text("host", "Where the server is.").default(Preset::Text("0.0.0.0")),
    integer("port", "Its port; each backend has its own default."),
    number(
        "ready-check-timeout-sec",
        60,
        "How long to wait for the server to be ready, in seconds; 0 does not wait.",
    )
    .since("0.5.10"),
];

const DATASET: &[FlagSpec] = &[
    one_of("dataset-name", DATASETS, "sharegpt", "What is sent."),
    text("dataset-path", "The file it is made from.").default(Preset::Text("")),
    number(
        "dataset-offset",
        0,
        "The conversation to begin with (agentic-trace).",
    )
    .since("0.5.16"),
    integer(
        "agentic-max-turns",
        "The most turns of a conversation (agentic-trace).",
    )
    .since("0.5.16"),
    FlagSpec::choice(
        "speed-bench-category",
        &["low_entropy", "mixed", "high_entropy"],
        "Only questions of this kind (speed-bench).",
    )
    .since("0.5.14"),
    number(
        "speed-bench-output-len",
        512,
        "Output tokens per request (speed-bench).",
    )
    .since("0.5.14"),
    text(
        "model",
        "The model's name or folder; by default the first one the server lists.",
    ),
    text(
        "served-model-name",
        "The name put into requests, when it differs.",
    )
    .since("0.5.5"),
    text(
        "tokenizer",
        "The tokenizer's folder, when it is not the model's.",
    ),
    number("num-prompts", 1000, "How many requests."),
    integer(
        "sharegpt-output-len",
        "Output tokens per request, instead of the dataset's.",
    ),
    integer(
        "sharegpt-context-len",
        "Pass over rows longer than this in all.",
    ),
    number(
        "random-input-len",
        1024,
        "Longest prompt (random, random-ids, image).",
    ),
    number(
        "random-output-len",
        1024,
        "Longest answer (random, random-ids, image).",
    ),
    float(
        "random-range-ratio",
        0.0,
        "The share of those below which no length falls.",
    ),
];

const IMAGE: &[FlagSpec] = &[
    number("image-count", 1, "Images per request.").since("0.5.4"),
    text(
        "image-resolution",
        "4k, 1080p, 720p, 360p, HxW, or random:HxW-HxW.",
    )
    .default(Preset::Text("1080p"))
    .since("0.5.4"),
    switch(
        "random-image-count",
        "Draw the number of images from 1 to the count.",
    )
    .since("0.5.7"),
    text("image-format", "jpeg or png.")
        .default(Preset::Text("jpeg"))
        .since("0.5.4"),
    text("image-content", "random or blank.")
        .default(Preset::Text("random"))
        .since("0.5.4"),
];

const LOAD: &[FlagSpec] = &[
    float(
        "request-rate",
        f64::INFINITY,
        "Requests per second; inf sends all at once.",
    ),
    switch("use-trace-timestamps", "Send when the trace says.").since("0.5.2"),
    integer(
        "max-concurrency",
        "How many requests may be under way at once.",
    ),
    text("output-file", "Where the result line is appended."),
    switch(
        "output-details",
        "Add per-request arrays to the result line.",
    ),
    words(
        "goodput",
        "Service objectives as KEY:MS, KEY one of ttft, tpot, e2el.",
    )
    .since("0.5.23"),
    switch(
        "print-requests",
        "Print each request as it begins and ends (sglang-oai-chat).",
    )
    .since("0.5.6"),
    switch("disable-tqdm", "No progress bar."),
    switch("disable-stream", "Answers in one piece."),
    switch("return-logprob", "Ask for log-probabilities."),
    number("top-logprobs-num", 0, "Of how many alternatives.").since("0.5.10"),
    FlagSpec::integer("token-ids-logprob", "Of these tokens.")
        .takes(Takes::Some)
        .since("0.5.10"),
    number(
        "logprob-start-len",
        -1,
        "From this position of the prompt on.",
    )
    .since("0.5.10"),
    switch(
        "return-routed-experts",
        "Ask for the experts of each token.",
    )
    .since("0.5.7"),
    switch(
        "cache-report",
        "Report prefix-cache hits (sglang backends).",
    )
    .since("0.5.14"),
    number("seed", 1, "The seed of both random streams."),
    switch("disable-ignore-eos", "Let answers end before their length."),
    float("temperature", 0.0, "Sampling temperature (native backend).").since("0.5.14"),
    float("top-p", 1.0, "Nucleus (native backend).").since("0.5.14"),
    text(
        "extra-request-body",
        "A JSON object merged into every request.",
    ),
    switch("apply-chat-template", "Put prompts into the chat template."),
];

const PROFILE: &[FlagSpec] = &[
    switch("profile", "Have the server profile itself."),
    switch("plot-throughput", "Draw tokens and requests per second.").since("0.5.6"),
    FlagSpec::choice(
        "profile-activities",
        &["CPU", "GPU", "CUDA_PROFILER", "XPU", "MEM"],
        "What is profiled.",
    )
    .takes(Takes::Some)
    .default(Preset::Words(&["CPU", "GPU"]))
    .since("0.5.5"),
    integer("profile-start-step", "The first step to profile.").since("0.5.10"),
    integer(
        "profile-steps",
        "How many steps to profile; it then ends by itself.",
    )
    .since("0.5.10"),
    integer("profile-num-steps", "How many steps to profile.").since("0.5.6"),
    switch("profile-by-stage", "Prefill and decode apart.").since("0.5.6"),
    words("profile-stages", "Only these stages.").since("0.5.6"),
    text("profile-output-dir", "Where the server writes the profile.").since("0.5.9"),
    text("profile-prefix", "What its files begin with.").since("0.5.9"),
];

const ADAPTERS: &[FlagSpec] = &[
    words("lora-name", "Adapters to choose from.").takes(Takes::Any),
    one_of(
        "lora-request-distribution",
        &["uniform", "distinct", "skewed"],
        "uniform",
        "How adapters are chosen.",
    )
    .since("0.5.5"),
    float("lora-zipf-alpha", 1.5, "How skewed.").since("0.5.5"),
];

const RUN: &[FlagSpec] = &[
    text("prompt-suffix", "Put behind every prompt.").default(Preset::Text("")),
    switch("pd-separated", "Prefill and decode are separate servers."),
    words("profile-prefill-url", "Prefill servers to profile.")
        .takes(Takes::Any)
        .exclusive("profile-url")
        .since("0.5.4"),
    words("profile-decode-url", "Decode servers to profile.")
        .takes(Takes::Any)
        .exclusive("profile-url")
        .since("0.5.4"),
    switch(
        "flush-cache",
        "Empty the server's prefix cache after warm-up.",
    ),
    float(
        "flush-cache-timeout",
        60.0,
        "How long the server may take for it, in seconds.",
    )
    .since("0.5.18"),
    number("warmup-requests", 1, "Requests before the clock starts."),
    switch("tokenize-prompt", "Send token ids."),
];

const SHARED_PREFIX: &[FlagSpec] = &[
    number("gsp-num-groups", 64, "Groups."),
    number("gsp-prompts-per-group", 16, "Prompts per group."),
    number("gsp-system-prompt-len", 2048, "Longest system prompt."),
    number("gsp-question-len", 128, "Longest question."),
    number("gsp-output-len", 256, "Longest answer."),
    float(
        "gsp-range-ratio",
        1.0,
        "The share of those below which no length falls.",
    )
    .since("0.5.6"),
    switch("gsp-fast-prepare", "Do not count prompt tokens.").since("0.5.7"),
    switch("gsp-send-routing-key", "Send each group's routing key.")
        .alias(&["gsp-send-routing-id"])
        .since("0.5.7"),
    number("gsp-num-turns", 1, "Questions per conversation.").since("0.5.8"),
    switch("gsp-ordered", "Keep groups together.").since("0.5.8"),
    one_of(
        "gsp-group-distribution",
        &["uniform", "zipf"],
        "uniform",
        "How groups are drawn.",
    )
    .since("0.5.14"),
    FlagSpec::float("gsp-zipf-alpha", "The exponent for zipf.").since("0.5.14"),
];

const MOONCAKE: &[FlagSpec] = &[
    float(
        "mooncake-slowdown-factor",
        1.0,
        "Stretch the trace by this.",
    )
    .since("0.5.2"),
    number("mooncake-num-rounds", 1, "Rounds per session.").since("0.5.2"),
    one_of(
        "mooncake-workload",
        &["mooncake", "conversation", "synthetic", "toolagent"],
        "conversation",
        "Which trace.",
    )
    .since("0.5.2"),
];

const REST: &[FlagSpec] = &[
    switch(
        "fake-prefill",
        "Pretend that another server did the prefill.",
    )
    .since("0.5.12"),
    text("tag", "Copied into the result line.").since("0.5.5"),
    words("header", "Headers of every request as Key=Value.").since("0.5.8"),
    switch(
        "rust-client",
        "Accepted; this client is always a compiled one.",
    )
    .since("0.5.22"),
    integer("rust-worker-threads", "Threads of connections.").since("0.5.22"),
];

/// All of the reference's options.
pub(super) const GROUPS: &[Group<'static>] = &[
    Group {
        title: "server",
        flags: SERVER,
    },
    Group {
        title: "dataset",
        flags: DATASET,
    },
    Group {
        title: "image dataset",
        flags: IMAGE,
    },
    Group {
        title: "load and results",
        flags: LOAD,
    },
    Group {
        title: "profiling",
        flags: PROFILE,
    },
    Group {
        title: "adapters",
        flags: ADAPTERS,
    },
    Group {
        title: "run",
        flags: RUN,
    },
    Group {
        title: "generated-shared-prefix dataset",
        flags: SHARED_PREFIX,
    },
    Group {
        title: "mooncake dataset",
        flags: MOONCAKE,
    },
    Group {
        title: "more",
        flags: REST,
    },
];

/// The options of the LMDeploy client, in its order.
pub(super) const LMDEPLOY: &[FlagSpec] = &[
    one_of("backend", BACKENDS, "sglang", "The protocol to speak."),
    text("base-url", "Where the server is, instead of host and port."),
    text("host", "Where the server is.").default(Preset::Text("0.0.0.0")),
    integer("port", "Its port; each backend has its own default."),
    one_of(
        "dataset-name",
        &["sharegpt", "random", "image"],
        "sharegpt",
        "What is sent.",
    ),
    text("dataset-path", "The file it is made from.").default(Preset::Text("")),
    text("model", "The model's name or folder.").alias(&["model-path"]),
    text(
        "tokenizer",
        "The tokenizer's folder, when it is not the model's.",
    ),
    number("num-prompts", 1000, "How many requests."),
    integer(
        "sharegpt-output-len",
        "Output tokens per request, instead of the dataset's.",
    ),
    integer("random-input-len", "Longest prompt (random)."),
    integer("random-output-len", "Longest answer (random)."),
    float(
        "random-range-ratio",
        0.0,
        "The share of those below which no length falls.",
    ),
    float(
        "request-rate",
        f64::INFINITY,
        "Requests per second; inf sends all at once.",
    ),
    number("seed", 1, "The seed of both random streams."),
    switch("multi", "One run per rate of the range."),
    text("request-rate-range", "start,stop,step or a list of rates.")
        .default(Preset::Text("2,34,2")),
    text("output-file", "Where result rows are appended."),
    switch("disable-tqdm", "No progress bar."),
    switch("disable-stream", "Answers in one piece."),
    switch("disable-ignore-eos", "Let answers end before their length."),
    text(
        "extra-request-body",
        "A JSON object merged into every request.",
    ),
    FlagSpec::switch("disable-warmup", "No warm-up request.").default(Preset::Unset),
    FlagSpec::switch("trust-remote-code", "Accepted; no remote code is ever run.").since("later"),
];
