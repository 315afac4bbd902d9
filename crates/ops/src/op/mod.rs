//! One file per op: what it means, what shapes it takes, and its reference.

mod attend;
mod copy_pages;
mod embed;
mod gated_activation;
mod gather_rows;
mod linear;
mod log_probs;
mod logits;
mod norm;
mod rope;
mod sample;
mod store_kv;
mod tables;

pub use attend::Attend;
pub use copy_pages::CopyPages;
pub use embed::Embed;
pub use gated_activation::{Activation, GatedActivation};
pub use gather_rows::GatherRows;
pub use linear::Linear;
pub use log_probs::{LogProbs, TopLogProbs};
pub use logits::{EditLogits, Penalise};
pub use norm::{AddRmsNorm, RmsNorm};
pub use rope::{HeadNorm, Rope, RopeStoreKv};
pub use sample::{Draw, Sample, SampleParams};
pub use store_kv::StoreKv;
pub use tables::{CountTokens, ResolveTokens, UpdatePages};

use tensor::{DType, View, ViewMut};

use crate::OpError;

/// Fails unless `what` has this shape.
pub(crate) fn shape(
    op: &'static str,
    what: &'static str,
    found: (usize, usize),
    expected: (usize, usize),
) -> Result<(), OpError> {
    if found == expected {
        Ok(())
    } else {
        Err(OpError::Shape {
            op,
            what,
            found,
            expected,
        })
    }
}

/// Fails unless `what` holds floats that activations may have.
pub(crate) fn float(op: &'static str, what: &'static str, found: DType) -> Result<(), OpError> {
    match found {
        DType::F32 | DType::F16 | DType::BF16 => Ok(()),
        _ => Err(OpError::Type { op, what, found }),
    }
}

/// Fails unless `what` holds this type.
pub(crate) fn typed(
    op: &'static str,
    what: &'static str,
    found: DType,
    expected: DType,
) -> Result<(), OpError> {
    if found == expected {
        Ok(())
    } else {
        Err(OpError::Type { op, what, found })
    }
}

/// Rows and columns.
pub(crate) fn dims(view: &View<'_>) -> (usize, usize) {
    (view.rows(), view.cols())
}

/// Rows and columns.
pub(crate) fn dims_mut(view: &ViewMut<'_>) -> (usize, usize) {
    (view.rows(), view.cols())
}
