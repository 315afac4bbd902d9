//! What each operation of a model means: its inputs and destinations, its shape check and its reference.
//!
//! An op is named at the size at which devices differ ("add, then normalise", "attention over pages"), takes its
//! destinations as arguments, and is enqueued in stream order. Nothing here allocates, synchronises or knows a model;
//! the references are plain loops that say what the result must be, not how to be fast.

pub mod batch;
pub mod comm;
pub mod conformance;
pub mod device;
mod error;
pub mod float8;
mod handles;
pub mod host;
pub mod op;
pub mod program;
mod reference;
pub mod rng;
mod sizes;
pub mod weight;
mod weight_stream;

pub use batch::{Heads, KvCache, RaggedBatch};
pub use comm::{AllGather, AllReduce, Alone, Comm};
pub use device::{
    Device, DeviceInfo, DeviceSpan, DeviceTrace, Graph, InventedWeight, NoTracer, Readback,
    Staging, Tracer,
};
pub use error::{DeviceError, OpError};
pub use handles::{Access, Bound, DrawnTokens, Handles, Recorded, StepBatch};
pub use op::{
    Activation, CopyPages, CountTokens, Draw, EditLogits, LogProbs, Penalise, Rope, SampleParams,
    StoreKv, TopLogProbs, UpdatePages,
};
pub use program::{Lowered, Program, Step, StepClass, Weights};
pub use reference::ReferenceDevice;
pub use sizes::{Beyond, Sizes};
pub use weight::{AffineRows, Float8Rows, HostValues, HostWeight, Weight, WeightFormat};
pub use weight_stream::{RowsError, StreamError, WeightRows, WeightStream};

/// Ops that programs have, bound to memory.
macro_rules! bound {
    ($($op:ident),* $(,)?) => {
        $(
            #[doc = concat!("See [`op::", stringify!($op), "`].")]
            pub type $op<'a> = op::$op<Bound<'a>>;
        )*
    };
}
bound!(
    AddRmsNorm,
    Attend,
    Embed,
    GatedActivation,
    GatherRows,
    HeadNorm,
    Linear,
    ResolveTokens,
    RmsNorm,
    RopeStoreKv,
    Sample,
);

/// One method per op. Every implementation calls `op.check()` first and writes only the destinations.
///
/// A borrow ends when the op is enqueued; stream order carries the rest.
pub trait Kernels {
    /// See [`ResolveTokens`].
    fn resolve_tokens(&self, op: ResolveTokens<'_>) -> Result<(), OpError>;
    /// See [`UpdatePages`].
    fn update_pages(&self, op: UpdatePages<'_>) -> Result<(), OpError>;
    /// See [`CopyPages`].
    fn copy_pages(&self, op: CopyPages<'_>) -> Result<(), OpError>;
    /// See [`CountTokens`].
    fn count_tokens(&self, op: CountTokens<'_>) -> Result<(), OpError>;
    /// See [`Embed`].
    fn embed(&self, op: Embed<'_>) -> Result<(), OpError>;
    /// See [`Linear`].
    fn linear(&self, op: Linear<'_>) -> Result<(), OpError>;
    /// See [`RmsNorm`].
    fn rms_norm(&self, op: RmsNorm<'_>) -> Result<(), OpError>;
    /// See [`AddRmsNorm`].
    fn add_rms_norm(&self, op: AddRmsNorm<'_>) -> Result<(), OpError>;
    /// See [`Rope`].
    fn rope(&self, op: Rope<'_>) -> Result<(), OpError>;
    /// See [`StoreKv`].
    fn store_kv(&self, op: StoreKv<'_>) -> Result<(), OpError>;
    /// See [`RopeStoreKv`]; a device may fuse it.
    fn rope_store_kv(&self, op: RopeStoreKv<'_>) -> Result<(), OpError> {
        op.compose(self)
    }
    /// See [`Attend`].
    fn attend(&self, op: Attend<'_>) -> Result<(), OpError>;
    /// See [`GatedActivation`].
    fn gated_activation(&self, op: GatedActivation<'_>) -> Result<(), OpError>;
    /// See [`GatherRows`].
    fn gather_rows(&self, op: GatherRows<'_>) -> Result<(), OpError>;
    /// See [`EditLogits`].
    fn edit_logits(&self, op: EditLogits<'_>) -> Result<(), OpError>;
    /// See [`Penalise`].
    fn penalise(&self, op: Penalise<'_>) -> Result<(), OpError>;
    /// See [`Sample`].
    fn sample(&self, op: Sample<'_>) -> Result<(), OpError>;
    /// See [`LogProbs`].
    fn log_probs(&self, op: LogProbs<'_>) -> Result<(), OpError>;
}
