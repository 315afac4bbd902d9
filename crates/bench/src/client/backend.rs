//! The servers that can be spoken to, and how.

use super::answer::Dialect;

/// A protocol to speak, under the name users know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    name: &'static str,
    family: Family,
    port: u16,
}

/// Backends that are spoken to alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// SGLang's `/generate`.
    Native,
    /// `OpenAI` completions.
    Completions,
    /// `OpenAI` chat completions.
    Chat,
    /// `OpenAI` embeddings.
    Embeddings,
    /// TensorRT-LLM behind Triton.
    Triton,
    /// Truss: completions under another path.
    Truss,
}

const fn backend(name: &'static str, family: Family, port: u16) -> Backend {
    Backend { name, family, port }
}

/// Every backend, in the order of the reference's list.
pub const BACKENDS: [Backend; 12] = [
    backend("sglang", Family::Native, 30000),
    backend("sglang-native", Family::Native, 30000),
    backend("sglang-oai", Family::Completions, 30000),
    backend("sglang-oai-chat", Family::Chat, 30000),
    backend("sglang-embedding", Family::Embeddings, 30000),
    backend("vllm", Family::Completions, 8000),
    backend("vllm-chat", Family::Chat, 30000),
    backend("vllm-embedding", Family::Embeddings, 8000),
    backend("lmdeploy", Family::Completions, 23333),
    backend("lmdeploy-chat", Family::Chat, 30000),
    backend("trt", Family::Triton, 8000),
    backend("truss", Family::Truss, 8080),
];

impl Backend {
    /// The backend of this name.
    pub fn named(name: &str) -> Option<Self> {
        BACKENDS.into_iter().find(|backend| backend.name == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// How it is spoken to.
    pub fn family(self) -> Family {
        self.family
    }

    /// The port its server listens on unless told otherwise.
    pub fn port(self) -> u16 {
        self.port
    }

    /// Whether the server is an SGLang one.
    pub fn is_sglang(self) -> bool {
        self.name.starts_with("sglang")
    }

    /// Whether the server is a vLLM one.
    pub fn is_vllm(self) -> bool {
        self.name.starts_with("vllm")
    }

    /// Whether answers have no tokens.
    pub fn is_embedding(self) -> bool {
        self.family == Family::Embeddings
    }

    /// Where requests go below the base address.
    pub fn path(self) -> &'static str {
        match self.family {
            Family::Native => "/generate",
            Family::Completions => "/v1/completions",
            Family::Chat => "/v1/chat/completions",
            Family::Embeddings => "/v1/embeddings",
            Family::Triton => "/v2/models/ensemble/generate_stream",
            Family::Truss => "/v1/models/model:predict",
        }
    }

    /// How its answers are read.
    pub(crate) fn dialect(self, stream: bool) -> Dialect {
        match self.family {
            Family::Native => Dialect::Native,
            Family::Completions | Family::Truss => Dialect::Completions,
            Family::Chat if stream => Dialect::Chat,
            Family::Chat => Dialect::ChatWhole,
            Family::Embeddings => Dialect::Embeddings,
            Family::Triton => Dialect::Triton,
        }
    }
}
