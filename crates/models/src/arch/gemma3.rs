//! Gemma 3, text: windows in five of six layers, four norms a layer, scaled embeddings.

use ops::Activation;

use crate::registry::{Architecture, Bias, Windows};
use crate::{Norms, QueryKeyNorm};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "Gemma3ForCausalLM",
    model_type: "gemma3_text",
    gguf: "gemma3",
    qkv_bias: Bias::Configured,
    output_bias: Bias::Configured,
    query_key_norm: QueryKeyNorm::Head,
    norms: Norms {
        around: true,
        plus_one: true,
    },
    windows: Windows::Interleaved {
        period: 6,
        base: 10_000.0,
    },
    scaled_embeddings: true,
    tied: true,
    activation: Activation::GeluTanh,
};
