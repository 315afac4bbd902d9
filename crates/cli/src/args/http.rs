//! Flags about HTTP.

use flags::{FlagSpec, Preset, Takes};
use text::{ReasoningFormat, ToolFormat};

use super::choices::{SGLANG_REASONING_PARSERS, SGLANG_TOOL_PARSERS};
use super::entry::{Entry, honoured, idle};

const FROM_ROOT: &str = "paths start at the root; a proxy may strip a prefix";
const ALWAYS_HTTP2: &str = "clients choose HTTP/1.1 or HTTP/2, whose windows adapt themselves";
const NO_GRPC: &str = "there is no gRPC server in this version";
const ONE_PROCESS: &str = "one process with its own threads does this work";
const NO_STORE: &str = "answers are not kept after they are sent";
const NO_SESSIONS: &str = "sessions are not in this version";
const ONE_TEMPLATE: &str = "the default template of the model is used; --chat-template replaces it";
const NO_TEMPLATE: &str = "completions are sent to the model as they are";
const REQUEST_ONLY: &str = "it can be asked for by each request where the API has it, not for all";
const NO_TOOLS: &str = "tools are called by the client";
const WARM: &str = "one warm-up request is always enough: nothing is compiled";
const NO_HOOK: &str = "custom logit processors are Python code, which is never run";
const NOT_RETURNED: &str = "hidden states and routing are not returned by this version";
const NO_WATERMARK: &str = "output is not watermarked";
const ONE_WATCHDOG: &str =
    "a device that hangs ends the server after --watchdog-timeout; nothing is told before";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(FlagSpec::text("host", "Address to listen on.").default(Preset::Text("127.0.0.1"))),
    honoured(FlagSpec::integer("port", "Port to listen on.").default(Preset::Integer(30000))),
    honoured(FlagSpec::switch(
        "skip-server-warmup",
        "Do not send the warm-up request before reporting ready.",
    )),
    honoured(
        FlagSpec::integer("stream-interval", "Tokens between two stream events.")
            .default(Preset::Integer(1)),
    ),
    honoured(FlagSpec::switch(
        "stream-output",
        "Stream output_ids as deltas instead of from the start.",
    )),
    honoured(FlagSpec::text(
        "api-key",
        "Requests must carry this key as a bearer token.",
    )),
    honoured(FlagSpec::text(
        "served-model-name",
        "Name in /v1/models and in answers.",
    )),
    honoured(
        FlagSpec::text(
            "weight-version",
            "Label of the weights, repeated in answers.",
        )
        .default(Preset::Text("default")),
    ),
    honoured(FlagSpec::text(
        "chat-template",
        "Jinja file, or the template itself, instead of the model's.",
    )),
    honoured(FlagSpec::switch(
        "enable-cache-report",
        "Report cached prompt tokens in the usage of OpenAI answers.",
    )),
    honoured(
        FlagSpec::choice(
            "sampling-defaults",
            &["openai", "model"],
            "Where unset sampling parameters come from.",
        )
        .default(Preset::Text("model")),
    ),
    honoured(FlagSpec::text(
        "preferred-sampling-params",
        "Default sampling parameters as JSON, shown in the model info.",
    )),
    honoured(FlagSpec::switch(
        "allow-auto-truncate",
        "Clip requests that are too long instead of refusing them.",
    )),
    honoured(FlagSpec::switch(
        "incremental-streaming-output",
        "Stream both text and output_ids as deltas.",
    )),
    honoured(
        FlagSpec::choice(
            "reasoning-parser",
            ReasoningFormat::NAMES,
            "Parser that separates a model's thinking.",
        )
        .not_yet(SGLANG_REASONING_PARSERS),
    ),
    honoured(
        FlagSpec::choice(
            "tool-call-parser",
            ToolFormat::NAMES,
            "Parser of a model's tool calls.",
        )
        .not_yet(SGLANG_TOOL_PARSERS),
    ),
    idle(
        FROM_ROOT,
        FlagSpec::text("fastapi-root-path", "").default(Preset::Text("")),
    ),
    idle(ALWAYS_HTTP2, FlagSpec::switch("enable-http2", "")),
    honoured(
        FlagSpec::integer(
            "http2-max-concurrent-streams",
            "Requests at once on one HTTP/2 connection.",
        )
        .default(Preset::Integer(200)),
    ),
    idle(
        ALWAYS_HTTP2,
        FlagSpec::integer("http2-initial-connection-window-size", "")
            .default(Preset::Integer(1_048_576)),
    ),
    honoured(FlagSpec::text(
        "ssl-keyfile",
        "Private key of --ssl-certfile, as PEM that is not encrypted.",
    )),
    honoured(FlagSpec::text(
        "ssl-certfile",
        "Certificates, as PEM: connections are encrypted.",
    )),
    honoured(FlagSpec::text(
        "ssl-ca-certs",
        "Authorities, as PEM: clients must show a certificate of one of them.",
    )),
    honoured(FlagSpec::text(
        "ssl-keyfile-password",
        "Not supported: the server does not start with it.",
    )),
    honoured(FlagSpec::switch(
        "enable-ssl-refresh",
        "Read the files of certificates and keys again when they change; SIGHUP does it once.",
    )),
    idle(NO_GRPC, FlagSpec::switch("grpc-mode", "")),
    idle(
        NO_GRPC,
        FlagSpec::integer("smg-http-sidecar-port", "").alias(&["grpc-http-sidecar-port"]),
    ),
    idle(NO_GRPC, FlagSpec::switch("smg-grpc-mode", "")),
    idle(NO_GRPC, FlagSpec::integer("grpc-port", "")),
    idle(
        NO_GRPC,
        FlagSpec::integer("grpc-response-timeout-secs", "").default(Preset::Integer(300)),
    ),
    idle(NO_GRPC, FlagSpec::text("sidecar", "")),
    idle(NO_GRPC, FlagSpec::text("sidecar-args", "")),
    idle(
        ONE_PROCESS,
        FlagSpec::integer("tokenizer-worker-num", "").default(Preset::Integer(1)),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::switch("enable-tokenizer-batch-encode", ""),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::switch("disable-tokenizer-batch-decode", ""),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::switch("enable-dynamic-batch-tokenizer", ""),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::integer("dynamic-batch-tokenizer-batch-size", "").default(Preset::Integer(32)),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::float("dynamic-batch-tokenizer-batch-timeout", "").default(Preset::Float(0.002)),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::integer("detokenizer-worker-num", "").default(Preset::Integer(1)),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::switch("enable-http-worker-reuseport", ""),
    ),
    idle(
        ONE_PROCESS,
        FlagSpec::integer("batch-notify-size", "").default(Preset::Integer(16)),
    ),
    idle(
        NO_STORE,
        FlagSpec::text("file-storage-path", "").default(Preset::Text("sglang_storage")),
    ),
    idle(NO_STORE, FlagSpec::switch("enable-response-store", "")),
    idle(
        NO_SESSIONS,
        FlagSpec::switch("enable-streaming-session", ""),
    ),
    idle(ONE_TEMPLATE, FlagSpec::text("hf-chat-template-name", "")),
    idle(NO_TEMPLATE, FlagSpec::text("completion-template", "")),
    idle(
        REQUEST_ONLY,
        FlagSpec::switch("trust-request-chat-template", ""),
    ),
    idle(REQUEST_ONLY, FlagSpec::switch("return-input-ids", "")),
    idle(REQUEST_ONLY, FlagSpec::switch("return-output-ids", "")),
    idle(
        REQUEST_ONLY,
        FlagSpec::text("default-chat-template-kwargs", ""),
    ),
    idle(REQUEST_ONLY, FlagSpec::switch("strip-thinking-cache", "")),
    idle(REQUEST_ONLY, FlagSpec::switch("enable-strict-thinking", "")),
    idle(
        REQUEST_ONLY,
        FlagSpec::switch("stream-response-default-include-usage", ""),
    ),
    honoured(FlagSpec::text(
        "admin-api-key",
        "Requests that change the server must carry this key instead of --api-key.",
    )),
    idle(NO_TOOLS, FlagSpec::text("tool-server", "")),
    idle(WARM, FlagSpec::text("warmups", "")),
    idle(
        NO_HOOK,
        FlagSpec::switch("enable-custom-logit-processor", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::integer("multi-item-scoring-delimiter", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::switch("enable-return-hidden-states", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::choice("return-hidden-states-mode", &["last", "full"], ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::switch("enable-return-aux-hidden-states", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::integer("return-aux-hidden-state-layer-ids", "").takes(Takes::Some),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::switch("enable-return-routed-experts", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::switch("enable-return-indexer-topk", ""),
    ),
    idle(
        NOT_RETURNED,
        FlagSpec::integer("sampling-mask-max-tokens", "").default(Preset::Integer(4096)),
    ),
    idle(NOT_RETURNED, FlagSpec::switch("enable-mis", "")),
    idle(NO_WATERMARK, FlagSpec::switch("enable-watermark", "")),
    idle(NO_WATERMARK, FlagSpec::text("watermark-config", "")),
    honoured(
        FlagSpec::float(
            "watchdog-timeout",
            "Seconds that a step may take before the device counts as lost and the server ends; 0 waits for ever, as a CPU does \
             unless this is given.",
        )
        .default(Preset::Float(300.0)),
    ),
    idle(ONE_WATCHDOG, FlagSpec::float("soft-watchdog-timeout", "")),
];
