//! Kernels that check shapes and do nothing: with a measuring arena they tell what a step needs.

use crate::op::{CopyPages, CountTokens, ResolveTokens, UpdatePages};
use crate::{
    AddRmsNorm, Attend, EditLogits, Embed, GatedActivation, GatherRows, Kernels, Linear, LogProbs,
    OpError, Penalise, RmsNorm, Rope, RopeStoreKv, Sample, StoreKv,
};

/// See the module.
pub struct DryRun;

macro_rules! checked {
    ($($method:ident: $op:ident),* $(,)?) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            op.check()
        })*
    };
}

impl Kernels for DryRun {
    checked!(
        resolve_tokens: ResolveTokens, update_pages: UpdatePages, copy_pages: CopyPages, count_tokens: CountTokens, embed: Embed,
        linear: Linear, rms_norm: RmsNorm, add_rms_norm: AddRmsNorm, rope: Rope, store_kv: StoreKv,
        rope_store_kv: RopeStoreKv, attend: Attend, gated_activation: GatedActivation, gather_rows: GatherRows,
        edit_logits: EditLogits, penalise: Penalise, sample: Sample, log_probs: LogProbs,
    );
}
