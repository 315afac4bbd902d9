use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use checkpoint::{CheckpointError, Encoding, RowOrder, TensorInfo, WeightSource};
use half::bf16;
use ops::float8;
use tensor::DType;

use crate::{ModelSpec, inventory, scales};

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
    /// The same numbers as floats of eight bits, to be multiplied with [`SCALE`].
    codes: OnceLock<Vec<u8>>,
    code_bytes: usize,
    pool_bytes: usize,
    /// Scales.
    scales: Vec<u8>,
}

const NUMBERS: DType = DType::BF16;
const CODES: DType = DType::F8E4M3;
const SCALE: f32 = LARGEST / float8::LARGEST;
const ONE: [u8; 2] = bf16::ONE.to_le_bytes();
/// The largest of the random numbers.
const LARGEST: f32 = 0.05;
/// Tensors begin at different places of the pool.
const SPREAD: usize = 4099;
/// Numbers that differ; the pool repeats them.
const DISTINCT: usize = (1 << 20) + 7;

impl DummyWeights {
    /// Weights for a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let list = described(spec);
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        let widest_norm = spec.hidden.max(spec.heads.dim) * NUMBERS.size();
        let largest = |dtype| {
            let of_type = list.iter().filter(|(_, _, found)| *found == dtype);
            let sizes = of_type.map(|(_, shape, _)| elements(shape) * dtype.size());
            sizes.max().unwrap_or(0)
        };
        let scale_bytes = largest(DType::F32);
        let pool_bytes = largest(NUMBERS) + SPREAD * NUMBERS.size();
        let code_bytes = largest(CODES) + SPREAD;
        let place = |index: usize, name: &str, dtype: DType, bytes: usize| -> Range<usize> {
            let start = if is_norm(name) || dtype == DType::F32 {
                0
            } else {
                index * 37 % SPREAD * dtype.size()
            };
            start..start + bytes
        };
        let described = list
            .into_iter()
            .enumerate()
            .map(|(index, (name, shape, dtype))| TensorInfo {
                range: place(index, &name, dtype, elements(&shape) * dtype.size()),
                name,
                shape,
                encoding: Encoding::Plain(dtype),
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
            codes: OnceLock::new(),
            code_bytes,
            pool_bytes,
            scales: SCALE.to_le_bytes().repeat(scale_bytes / DType::F32.size()),
        }
    }

    fn codes(&self) -> &[u8] {
        self.codes.get_or_init(|| {
            let numbers = random_numbers().take(DISTINCT.min(self.code_bytes));
            let distinct = numbers.map(|number| float8::encode(number.to_f32() / SCALE));
            repeated(&distinct.collect::<Vec<u8>>(), self.code_bytes)
        })
    }

    fn pool(&self) -> &[u8] {
        self.pool.get_or_init(|| {
            let distinct = random_numbers().take(DISTINCT.min(self.pool_bytes / NUMBERS.size()));
            let distinct: Vec<u8> = distinct.flat_map(bf16::to_le_bytes).collect();
            repeated(&distinct, self.pool_bytes)
        })
    }
}

/// Tensors of a model as its files would have them: name, shape, type.
fn described(spec: &ModelSpec) -> Vec<(String, Vec<usize>, DType)> {
    let mut list = Vec::new();
    for (name, shape) in inventory::tensors(spec) {
        let module = name
            .strip_suffix(".weight")
            .filter(|module| module.ends_with("_proj") && spec.quantisation.stores_float8(module));
        let Some(module) = module else {
            list.push((name, shape, NUMBERS));
            continue;
        };
        let block = spec.quantisation.block();
        let blocks = block.map_or(vec![1], |[rows, cols]| {
            vec![shape[0].div_ceil(rows), shape[1].div_ceil(cols)]
        });
        let scales = format!("{module}.{}", scales::NAMES[usize::from(block.is_none())]);
        list.push((scales, blocks, DType::F32));
        list.push((name, shape, CODES));
    }
    list
}

/// So many bytes, the given ones again and again.
fn repeated(distinct: &[u8], bytes: usize) -> Vec<u8> {
    let mut pool = distinct.repeat(bytes / distinct.len());
    pool.extend_from_slice(&distinct[..bytes - pool.len()]);
    pool
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
        Some(bf16::from_f32((unit - 0.5) * 2.0 * LARGEST))
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
        let numbers = match tensor.encoding {
            _ if is_norm(name) => &self.ones,
            Encoding::Plain(DType::F32) => &self.scales,
            Encoding::Plain(CODES) => self.codes(),
            _ => self.pool(),
        };
        Ok(&numbers[tensor.range.clone()])
    }

    fn is_invented(&self) -> bool {
        true
    }
}
