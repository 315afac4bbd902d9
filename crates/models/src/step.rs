use ops::{Kernels, KvCache, RaggedBatch};
use tensor::{DType, Scratch, View};

/// What `forward` gets: the tokens of one step and the memory it may use.
///
/// All views are device memory at addresses that do not change between steps of one shape.
pub struct Step<'a> {
    /// The device's ops, or a dry run of them.
    pub kernels: &'a dyn Kernels,
    /// Room for intermediate results.
    pub scratch: &'a Scratch,
    /// Type of activations.
    pub dtype: DType,
    /// `[1, tokens]` u32.
    pub ids: View<'a>,
    /// `[1, tokens]` u32.
    pub positions: View<'a>,
    /// `[1, tokens]` u32: where each token's key and value go.
    pub slots: View<'a>,
    /// Which tokens belong to whom.
    pub batch: RaggedBatch<'a>,
    /// Keys and values, one cache a layer.
    pub kv: &'a [KvCache<'a>],
}

impl Step<'_> {
    /// Tokens in the step.
    pub fn tokens(&self) -> usize {
        self.ids.cols()
    }
}
