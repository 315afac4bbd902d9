use ops::{Kernels, KvCache, RaggedBatch};
use tensor::{DType, Scratch, View};

/// Whose hidden rows somebody will read.
#[derive(Clone, Copy, Debug)]
pub enum WantedTokens<'a> {
    /// Every token's.
    All,
    /// Those at these places of the step, `[1, n]` u32. Where n is 0 the step only fills the caches.
    At(View<'a>),
}

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
    /// Tokens that `forward` leaves hidden rows of.
    pub wanted: WantedTokens<'a>,
}

impl Step<'_> {
    /// Tokens in the step.
    pub fn tokens(&self) -> usize {
        self.ids.cols()
    }
}
