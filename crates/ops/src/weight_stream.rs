//! Weights that come to a device a few rows at a time, so that no copy of them is made on the way.

use std::error::Error;
use std::ops::Range;

use crate::{DeviceError, Float8Rows, Weight, WeightFormat};

/// A matrix whose rows are written wherever a device wants them, from several threads at once.
pub trait WeightRows: Sync {
    /// Output and input features.
    fn shape(&self) -> (usize, usize);

    /// How rows are written: plain elements or floats of eight bits.
    fn format(&self) -> WeightFormat;

    /// Writes these rows to `out`, which has room for exactly them: elements, or codes of eight-bit floats.
    fn write(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), RowsError>;

    /// Blocks and scales of eight-bit floats, without their codes; known once all rows are written.
    fn scales(&self) -> Float8Rows<'static>;
}

/// What was wrong with rows; the source of them knows its kind.
pub type RowsError = Box<dyn Error + Send + Sync>;

/// A device's way in for weights while a model is loaded; memory that only loading needs goes with it.
pub trait WeightStream {
    /// Takes all rows, as many at once as it likes. Copies may still be under way when this returns: whatever is enqueued
    /// later finds them done.
    fn load(&self, rows: &dyn WeightRows) -> Result<Weight, StreamError>;
}

/// A weight that did not come through.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Its rows could not be had.
    #[error(transparent)]
    Rows(RowsError),
}
