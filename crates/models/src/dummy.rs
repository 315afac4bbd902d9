use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use checkpoint::{CheckpointError, Encoding, RowOrder, TensorInfo, WeightSource};
use half::bf16;
use tensor::DType;

use crate::{ModelSpec, inventory};

/// Weights that nobody trained: small random numbers, the same for equal specs; norms are ones.
///
/// They let speed and memory be measured for a model of which only the description is at hand. Tensors share one pool of
/// numbers, so that the weights of a large model cost the memory of its largest tensor, and that only where a device does
/// not make them up by itself.
pub struct DummyWeights {
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    /// Ones.
    ones: Vec<u8>,
    /// Random numbers, made when they are first read, and how many bytes they take.
    pool: OnceLock<Vec<u8>>,
    pool_bytes: usize,
}

const NUMBERS: DType = DType::BF16;
const ONE: [u8; 2] = bf16::ONE.to_le_bytes();
/// Tensors begin at different places of the pool.
const SPREAD: usize = 4099;
/// Numbers that differ; the pool repeats them.
const DISTINCT: usize = (1 << 20) + 7;

impl DummyWeights {
    /// Weights for a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let list = inventory::tensors(spec);
        let size = |shape: &[usize]| shape.iter().product::<usize>() * NUMBERS.size();
        let widest_norm = spec.hidden.max(spec.heads.dim) * NUMBERS.size();
        let largest = list.iter().map(|(_, shape)| size(shape)).max().unwrap_or(0);
        let place = |index: usize, name: &str, bytes: usize| -> Range<usize> {
            let start = if is_norm(name) {
                0
            } else {
                index * 37 % SPREAD * NUMBERS.size()
            };
            start..start + bytes
        };
        let described = list
            .into_iter()
            .enumerate()
            .map(|(index, (name, shape))| TensorInfo {
                range: place(index, &name, size(&shape)),
                name,
                shape,
                encoding: Encoding::Plain(NUMBERS),
                row_order: RowOrder::Plain,
                file: 0,
            });
        let tensors: Vec<TensorInfo> = described.collect();
        let names = tensors
            .iter()
            .enumerate()
            .map(|(at, tensor)| (tensor.name.clone(), at));
        Self {
            by_name: names.collect(),
            tensors,
            ones: ONE.repeat(widest_norm / NUMBERS.size()),
            pool: OnceLock::new(),
            pool_bytes: largest + SPREAD * NUMBERS.size(),
        }
    }

    fn pool(&self) -> &[u8] {
        self.pool.get_or_init(|| {
            let distinct = random_numbers().take(DISTINCT.min(self.pool_bytes / NUMBERS.size()));
            let distinct: Vec<u8> = distinct.flat_map(bf16::to_le_bytes).collect();
            let mut pool = distinct.repeat(self.pool_bytes / distinct.len());
            pool.extend_from_slice(&distinct[..self.pool_bytes - pool.len()]);
            pool
        })
    }
}

fn is_norm(name: &str) -> bool {
    name.ends_with("norm.weight")
}

/// Numbers of the size that a matrix's rows need to keep activations near one; equal every time.
fn random_numbers() -> impl Iterator<Item = bf16> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 40) as f32 / (1 << 24) as f32;
        Some(bf16::from_f32((unit - 0.5) * 0.1))
    })
}

impl WeightSource for DummyWeights {
    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&at| &self.tensors[at])
    }

    fn bytes(&self, name: &str) -> Result<&[u8], CheckpointError> {
        let tensor = self.find(name);
        let tensor = tensor.ok_or_else(|| CheckpointError::NoTensor {
            name: name.to_owned(),
        })?;
        let numbers = if is_norm(name) {
            &self.ones
        } else {
            self.pool()
        };
        Ok(&numbers[tensor.range.clone()])
    }

    fn is_invented(&self) -> bool {
        true
    }
}
