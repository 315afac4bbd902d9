//! Models whose layers are measured.

use ops::Heads;

/// Dimensions of a model.
pub(super) struct Dims {
    pub(super) name: &'static str,
    pub(super) hidden: usize,
    pub(super) inner: usize,
    pub(super) heads: Heads,
    /// Layers in the model; fewer are measured.
    pub(super) layers: usize,
    pub(super) vocabulary: usize,
    pub(super) norms: bool,
    pub(super) bias: bool,
}

pub(super) const MODELS: [Dims; 2] = [
    Dims {
        name: "Qwen3-8B",
        hidden: 4096,
        inner: 12288,
        heads: Heads {
            query: 32,
            kv: 8,
            dim: 128,
        },
        layers: 36,
        vocabulary: 151_936,
        norms: true,
        bias: false,
    },
    Dims {
        name: "R1-Distill-1.5B",
        hidden: 1536,
        inner: 8960,
        heads: Heads {
            query: 12,
            kv: 2,
            dim: 128,
        },
        layers: 28,
        vocabulary: 151_936,
        norms: false,
        bias: true,
    },
];

impl Dims {
    /// Outputs and inputs of a layer's weights.
    pub(super) fn shapes(&self) -> [(usize, usize); 4] {
        let (hidden, inner) = (self.hidden, self.inner);
        [
            (self.qkv(), hidden),
            (hidden, self.heads.query_width()),
            (2 * inner, hidden),
            (hidden, inner),
        ]
    }

    pub(super) fn qkv(&self) -> usize {
        self.heads.query_width() + 2 * self.heads.kv_width()
    }
}
