//! What a GPU is opened with.

use std::path::PathBuf;

use crate::card::Generation;

/// Type of keys and values in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvPrecision {
    /// As activations.
    #[default]
    BF16,
    /// One byte an element.
    F8E4M3,
}

/// Which GEMM candidates are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GemmChoice {
    /// The fastest one when the weight was loaded.
    #[default]
    Fastest,
    /// Our own kernels where there are some; for comparisons.
    Own,
    /// cuBLASLt; for comparisons.
    Library,
}

/// What a GPU is opened with.
#[derive(Clone, Debug, Default)]
pub struct CudaOptions {
    /// Folders to search for the driver, cuBLASLt and NCCL besides the loader's own.
    pub library_folders: Vec<PathBuf>,
    /// Type of keys and values.
    pub kv: KvPrecision,
    /// Tokens of the largest step: GEMMs are autotuned up to this many rows.
    pub max_step_tokens: usize,
    /// Which GEMM candidates are taken.
    pub gemms: GemmChoice,
    /// Kernels begin only when their predecessor has ended; for comparisons.
    pub in_turn: bool,
    /// A GPU is used too that there are kernels for which were never run on one of its kind.
    pub untried: bool,
    /// Kernels of this kind are used, on GPUs too that have better ones; for proofs and comparisons.
    pub generation: Option<Generation>,
}
