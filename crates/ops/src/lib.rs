//! What each operation of a model means: its inputs and destinations, its shape check and its reference.
//!
//! An op is named at the size at which devices differ ("add, then normalise", "attention over pages"), takes its
//! destinations as arguments, and is enqueued in stream order. Nothing here allocates, synchronises or knows a model;
//! the references are plain loops that say what the result must be, not how to be fast.

pub mod batch;
pub mod comm;
pub mod conformance;
pub mod device;
mod dry_run;
mod error;
pub mod float8;
pub mod host;
pub mod op;
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
pub use dry_run::DryRun;
pub use error::{DeviceError, OpError};
pub use op::{
    Activation, AddRmsNorm, Attend, CopyPages, CountTokens, Draw, EditLogits, Embed, Form,
    GatedActivation, GatedLinear, GatherRows, HeadNorm, Inputs, LateLinear, LateNorm, Linear,
    LinearAddNorm, LinearLargest, LogProbs, NormState, PackedLinear, Penalise, ResolveTokens,
    RmsNorm, Rope, RopeAttend, RopeStoreKv, Sample, SampleParams, StoreKv, TopLogProbs,
    UpdatePages,
};
pub use reference::ReferenceDevice;
pub use sizes::{Beyond, Sizes};
pub use weight::{AffineRows, Float8Rows, HostValues, HostWeight, Weight, WeightFormat};
pub use weight_stream::{RowsError, StreamError, WeightRows, WeightStream};

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
    /// See [`LateLinear`]; devices that never leave a norm late need not take it.
    fn late_linear(&self, op: LateLinear<'_>) -> Result<(), OpError> {
        op.check()?;
        Err(OpError::NotTaken { op: "late_linear" })
    }
    /// See [`PackedLinear`]; devices that never leave rows packed need not take it.
    fn packed_linear(&self, op: PackedLinear<'_>) -> Result<(), OpError> {
        op.check()?;
        Err(OpError::NotTaken {
            op: "packed_linear",
        })
    }
    /// See [`GatedLinear`]; a device may fuse it.
    fn gated_linear(&self, op: GatedLinear<'_>) -> Result<Form, OpError> {
        op.check()?;
        op.compose(self)
    }
    /// See [`LinearAddNorm`]; a device may fuse it.
    fn linear_add_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        op.check()?;
        op.compose(self)
    }
    /// See [`LinearLargest`]; a device may fuse it.
    fn linear_largest(&self, op: LinearLargest<'_>) -> Result<(), OpError> {
        op.check()?;
        op.compose(self)
    }
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
    /// See [`RopeAttend`]; a device may fuse it.
    fn rope_attend(&self, op: RopeAttend<'_>) -> Result<(), OpError> {
        op.compose(self)
    }
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
