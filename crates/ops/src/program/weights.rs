use std::fmt;
use std::sync::Arc;

use tensor::{Buffer, DType};

use super::{Elements, VectorId, WeightId};
use crate::Weight;

/// A matrix of weights, or several side by side that are multiplied with the same rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightDecl {
    /// Tensors of the checkpoint whose rows lie below each other.
    pub parts: Vec<WeightPart>,
    /// Input features.
    pub cols: usize,
}

impl WeightDecl {
    /// Output features of all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightPart {
    /// The module, without `.weight`.
    pub module: String,
    /// Its output features.
    pub rows: usize,
}

/// What is done with numbers of a checkpoint before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    AsStored,
    /// One is added: checkpoints of some families hold norms so.
    PlusOne,
}

/// Where a vector comes from.
#[derive(Clone)]
pub enum VectorSource {
    /// Tensors of the checkpoint, one after the other: name and length of each.
    Stored(Vec<(String, usize)>, Change),
    /// It is computed.
    Computed(Arc<dyn Fn() -> Vec<f32> + Send + Sync>),
}

impl fmt::Debug for VectorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(parts, change) => write!(f, "{parts:?} {change:?}"),
            Self::Computed(_) => write!(f, "computed"),
        }
    }
}

/// A vector, or a small table.
#[derive(Clone, Debug)]
pub struct VectorDecl {
    /// Where it comes from.
    pub source: VectorSource,
    /// Rows; one of a vector.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Type of its elements.
    pub elements: Elements,
}

/// The weights of a program on a device.
#[derive(Default)]
pub struct Weights {
    /// Several of one declaration where a file mixes formats: their outputs lie side by side.
    matrices: Vec<Vec<Weight>>,
    vectors: Vec<(Buffer, DType)>,
}

impl Weights {
    /// Adds the next matrix.
    pub fn push_matrix(&mut self, parts: Vec<Weight>) {
        self.matrices.push(parts);
    }

    /// Adds the next vector.
    pub fn push_vector(&mut self, values: Buffer, dtype: DType) {
        self.vectors.push((values, dtype));
    }

    /// A matrix, or its parts.
    pub fn matrix(&self, id: WeightId) -> &[Weight] {
        &self.matrices[id.index()]
    }

    /// A vector and the type of its elements.
    pub fn vector(&self, id: VectorId) -> (&Buffer, DType) {
        let (buffer, dtype) = &self.vectors[id.index()];
        (buffer, *dtype)
    }

    /// Device memory of all.
    pub fn bytes(&self) -> usize {
        let matrices: usize = self.matrices.iter().flatten().map(Weight::bytes).sum();
        let vectors: usize = self.vectors.iter().map(|(buffer, _)| buffer.bytes()).sum();
        matrices + vectors
    }
}
