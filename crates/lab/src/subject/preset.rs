//! Servers that everybody knows: how each is started, asked and stopped.

use std::str::FromStr;

/// What SGLang and we print when a server can be used.
const FIRED_UP: &str = "The server is fired up and ready to roll!";

/// A server that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    /// Ours.
    Peregrine,
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
}

/// A preset that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset {name:?} (peregrine, sglang, vllm, llama.cpp)")]
pub(crate) struct NoSuchPreset {
    /// What was asked for.
    pub(crate) name: String,
}

impl FromStr for Preset {
    type Err = NoSuchPreset;

    fn from_str(name: &str) -> Result<Self, NoSuchPreset> {
        match name {
            "peregrine" => Ok(Self::Peregrine),
            "sglang" => Ok(Self::Sglang),
            "vllm" => Ok(Self::Vllm),
            "llama.cpp" => Ok(Self::LlamaCpp),
            other => Err(NoSuchPreset {
                name: other.to_owned(),
            }),
        }
    }
}

impl Preset {
    /// The words that start it; `{…}` is filled in later.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Peregrine => &[
                "{self}",
                "serve",
                "--model-path",
                "{model}",
                "--host",
                "{host}",
                "--port",
                "{port}",
            ],
            Self::Sglang => &[
                "python3",
                "-m",
                "sglang.launch_server",
                "--model-path",
                "{model}",
                "--host",
                "{host}",
                "--port",
                "{port}",
            ],
            Self::Vllm => &[
                "vllm", "serve", "{model}", "--host", "{host}", "--port", "{port}",
            ],
            Self::LlamaCpp => &[
                "llama-server",
                "--model",
                "{model}",
                "--host",
                "{host}",
                "--port",
                "{port}",
            ],
        }
    }

    /// The path that answers 200 when it can be used.
    pub(crate) fn ready_path(self) -> &'static str {
        match self {
            Self::Peregrine | Self::Sglang | Self::Vllm | Self::LlamaCpp => "/health",
        }
    }

    /// The line it prints when it can be used.
    pub(crate) fn ready_line(self) -> Option<&'static str> {
        match self {
            Self::Peregrine | Self::Sglang => Some(FIRED_UP),
            Self::Vllm | Self::LlamaCpp => None,
        }
    }

    /// The path of what it says about itself.
    pub(crate) fn info_path(self) -> &'static str {
        match self {
            Self::Peregrine => "/server_info",
            Self::Sglang => "/get_server_info",
            Self::Vllm => "/version",
            Self::LlamaCpp => "/props",
        }
    }

    /// The path that empties its prefix cache.
    pub(crate) fn flush_path(self) -> Option<&'static str> {
        match self {
            Self::Peregrine | Self::Sglang => Some("/flush_cache"),
            Self::Vllm => Some("/reset_prefix_cache"),
            Self::LlamaCpp => None,
        }
    }
}
