//! Flags about model.

use flags::{FlagSpec, Preset, Takes};

use super::choices::{LOAD_FORMATS, QUANTIZATIONS};
use super::entry::{Entry, honoured, idle, refused};

const NEVER_REMOTE: &str = "code that comes with a model is never run";
const ONE_TOKENIZER: &str = "there is one tokenizer, and it is the fast one";
const OWN_MODELS: &str = "models are our own; there is no other implementation to choose";
const AS_STORED: &str = "weights keep the format they are stored in";
const GENERATES: &str = "this version generates text and makes no embeddings; serve the model elsewhere, or leave the flag out";
const READS_FILES: &str = "weights are read from the files of the model in one way on each device: mapped on a CPU, piece by piece on a GPU";
const NO_OVERRIDE: &str = "the model's own configuration is used";
const EDIT_CONFIG: &str = "a model's configuration is followed as it is; change config.json in a copy of its folder, or use \
                           --context-length for its context";
const NEVER_DELETES: &str = "model files are never deleted by a server";
const CHECKED_AT_PULL: &str = "hashes are checked once, when a model is pulled";

pub(super) const ENTRIES: &[Entry] = &[
    honoured(
        FlagSpec::text(
            "model-path",
            "Folder, .gguf file, hub id or known name; the default model when absent.",
        )
        .alias(&["model"]),
    ),
    honoured(FlagSpec::text(
        "tokenizer-path",
        "Folder or file of the tokenizer when it is not with the model.",
    )),
    honoured(FlagSpec::switch(
        "skip-tokenizer-init",
        "Serve token ids in and out; no text.",
    )),
    honoured(
        FlagSpec::choice(
            "load-format",
            LOAD_FORMATS,
            "What must be there: auto takes safetensors or gguf, dummy makes random weights from config.json; nothing else can be read.",
        )
        .default(Preset::Text("auto")),
    ),
    honoured(FlagSpec::count(
        "context-length",
        "Longest sequence; the model's own limit when not given.",
    )),
    honoured(FlagSpec::text(
        "revision",
        "Branch, tag or commit of a hub model.",
    )),
    honoured(FlagSpec::text(
        "download-dir",
        "Cache folder for hub downloads.",
    )),
    honoured(FlagSpec::text(
        "config",
        "YAML file with further flags; the command line wins.",
    )),
    idle(NEVER_REMOTE, FlagSpec::switch("trust-remote-code", "")),
    idle(
        ONE_TOKENIZER,
        FlagSpec::choice("tokenizer-mode", &["auto", "slow"], "").default(Preset::Text("auto")),
    ),
    idle(
        ONE_TOKENIZER,
        FlagSpec::choice("tokenizer-backend", &["huggingface", "fastokens"], "")
            .default(Preset::Text("huggingface")),
    ),
    idle(
        OWN_MODELS,
        FlagSpec::text("model-impl", "").default(Preset::Text("auto")),
    ),
    idle(
        OWN_MODELS,
        FlagSpec::text("model-config-parser", "").default(Preset::Text("auto")),
    ),
    honoured(FlagSpec::choice(
        "quantization",
        QUANTIZATIONS,
        "fp8 rounds projections to eight-bit floats while they are loaded; files in fp8 need no flag.",
    )),
    idle(AS_STORED, FlagSpec::text("modelopt-quant", "")),
    idle(
        AS_STORED,
        FlagSpec::text("modelopt-checkpoint-restore-path", ""),
    ),
    idle(
        AS_STORED,
        FlagSpec::text("modelopt-checkpoint-save-path", ""),
    ),
    idle(AS_STORED, FlagSpec::text("modelopt-export-path", "")),
    idle(AS_STORED, FlagSpec::switch("quantize-and-serve", "")),
    honoured(
        FlagSpec::choice(
            "dtype",
            &["auto", "half", "float16", "bfloat16", "float", "float32"],
            "Number type of activations; GPUs compute in bfloat16 and CPUs in float32, others are mapped to it.",
        )
        .default(Preset::Text("auto")),
    ),
    refused(GENERATES, FlagSpec::switch("is-embedding", "")),
    idle(
        READS_FILES,
        FlagSpec::text("model-loader-extra-config", "").default(Preset::Text("{}")),
    ),
    idle(
        READS_FILES,
        FlagSpec::switch("checkpoint-engine-wait-weights-before-ready", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::text("custom-weight-loader", "").takes(Takes::Any),
    ),
    idle(
        READS_FILES,
        FlagSpec::switch("weight-loader-disable-mmap", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::text("remote-instance-weight-loader-seed-instance-ip", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::integer(
            "remote-instance-weight-loader-seed-instance-service-port",
            "",
        ),
    ),
    idle(
        READS_FILES,
        FlagSpec::text("remote-instance-weight-loader-send-weights-group-ports", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::choice("startup-weight-load-mode", &["serial", "overlap"], "")
            .default(Preset::Text("serial")),
    ),
    idle(
        READS_FILES,
        FlagSpec::switch("weight-loader-prefetch-checkpoints", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::integer("weight-loader-prefetch-num-threads", "").default(Preset::Integer(4)),
    ),
    idle(
        READS_FILES,
        FlagSpec::switch("weight-loader-drop-cache-after-load", ""),
    ),
    idle(
        READS_FILES,
        FlagSpec::choice(
            "remote-instance-weight-loader-backend",
            &["transfer_engine", "nccl", "modelexpress"],
            "",
        )
        .default(Preset::Text("nccl")),
    ),
    idle(
        READS_FILES,
        FlagSpec::switch(
            "remote-instance-weight-loader-start-seed-via-transfer-engine",
            "",
        ),
    ),
    idle(
        READS_FILES,
        FlagSpec::integer("engine-info-bootstrap-port", "").default(Preset::Integer(6789)),
    ),
    idle(READS_FILES, FlagSpec::text("modelexpress-config", "")),
    idle(
        READS_FILES,
        FlagSpec::choice("weight-cache-mode", &["off", "daemon", "client"], "")
            .default(Preset::Text("off")),
    ),
    idle(READS_FILES, FlagSpec::text("weight-cache-socket", "")),
    idle(
        READS_FILES,
        FlagSpec::integer("weight-cache-timeout", "").default(Preset::Integer(1800)),
    ),
    refused(
        EDIT_CONFIG,
        FlagSpec::text("json-model-override-args", "").default(Preset::Text("{}")),
    ),
    idle(NO_OVERRIDE, FlagSpec::text("decrypted-config-file", "")),
    idle(
        NO_OVERRIDE,
        FlagSpec::text("decrypted-draft-config-file", ""),
    ),
    idle(
        NEVER_DELETES,
        FlagSpec::switch("delete-ckpt-after-loading", ""),
    ),
    idle(
        CHECKED_AT_PULL,
        FlagSpec::text("model-checksum", "").takes(Takes::Maybe("")),
    ),
];
