//! What every checkpoint format offers: tensors by name, with their bytes where they lie.

use std::collections::HashMap;
use std::ops::Range;

use crate::{CheckpointError, Encoding};

/// The order in which a tensor's rows are stored, compared with the order its name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Row `i` is stored as row `i`.
    Plain,
    /// Each head's two halves are stored interleaved, as GGUF does for llama's query and key projections.
    InterleavedHalves {
        /// Rows of one head; even.
        head_rows: usize,
    },
}

impl RowOrder {
    /// Where row `row` of the named tensor is stored.
    pub fn stored_row(self, row: usize) -> usize {
        match self {
            Self::Plain => row,
            Self::InterleavedHalves { head_rows } => {
                let (head, within) = (row / head_rows, row % head_rows);
                let half = head_rows / 2;
                head * head_rows + 2 * (within % half) + within / half
            }
        }
    }
}

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name in the manner of Hugging Face, whatever the file calls it.
    pub name: String,
    /// Outermost dimension first; a matrix is `[rows, columns]` = `[out, in]`.
    pub shape: Vec<usize>,
    /// How its elements are written.
    pub encoding: Encoding,
    /// In which order its rows are written.
    pub row_order: RowOrder,
    /// Which of the checkpoint's files holds it.
    pub file: usize,
    /// Where in that file.
    pub range: Range<usize>,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Named weights, readable without copies.
pub trait WeightSource: Send + Sync {
    /// Every tensor, ordered by file and position.
    fn tensors(&self) -> &[TensorInfo];

    /// The tensor of this name, if there is one.
    fn find(&self, name: &str) -> Option<&TensorInfo>;

    /// The bytes of the tensor of this name, as its encoding and row order say.
    fn bytes(&self, name: &str) -> Result<&[u8], CheckpointError>;

    /// Copies the bytes of one of [`Self::tensors`] from `offset` on; for those who touch every byte once and soon.
    fn read(
        &self,
        tensor: &TensorInfo,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), CheckpointError> {
        out.copy_from_slice(&self.bytes(&tensor.name)?[offset..offset + out.len()]);
        Ok(())
    }

    /// True when the numbers mean nothing, so that a device may make up its own instead of reading them.
    fn is_invented(&self) -> bool {
        false
    }
}

/// Tensors in order and by name.
#[derive(Debug, Default)]
pub(crate) struct TensorTable {
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl TensorTable {
    /// Adds a tensor; gives back the file of an earlier one of the same name.
    pub(crate) fn add(&mut self, tensor: TensorInfo) -> Result<(), usize> {
        if let Some(&earlier) = self.by_name.get(&tensor.name) {
            return Err(self.tensors[earlier].file);
        }
        self.by_name.insert(tensor.name.clone(), self.tensors.len());
        self.tensors.push(tensor);
        Ok(())
    }

    pub(crate) fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    pub(crate) fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&at| &self.tensors[at])
    }

    pub(crate) fn expect(&self, name: &str) -> Result<&TensorInfo, CheckpointError> {
        self.find(name).ok_or_else(|| CheckpointError::NoTensor {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_halves_are_found_where_the_converter_put_them() {
        // the converter views 8 rows as [2 heads, 2 halves, 2] and swaps the last two: stored = 0 2 1 3 | 4 6 5 7
        let order = RowOrder::InterleavedHalves { head_rows: 4 };
        let stored = [0, 2, 1, 3, 4, 6, 5, 7];
        for row in 0..8 {
            assert_eq!(stored[order.stored_row(row)], row);
        }
        let order = RowOrder::InterleavedHalves { head_rows: 8 };
        let found: Vec<usize> = (0..8).map(|row| order.stored_row(row)).collect();
        assert_eq!(found, [0, 2, 4, 6, 1, 3, 5, 7]);
    }
}
