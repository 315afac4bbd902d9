//! One file per op: activations are f32, rows are shared among threads when there is enough of them.

mod attend;
mod embed;
mod gated_activation;
mod gather_rows;
mod linear;
mod log_probs;
mod logits;
mod norm;
mod rope;
mod rows;
mod sample;
mod store_kv;
mod tables;

use std::cell::RefCell;

use ops::{
    AddRmsNorm, Attend, CopyPages, CountTokens, DeviceError, EditLogits, Embed, GatedActivation,
    GatherRows, HostWeight, Kernels, Linear, LogProbs, OpError, Penalise, ResolveTokens, RmsNorm,
    Rope, RopeStoreKv, Sample, StoreKv, UpdatePages, Weight,
};
use tensor::DType;

use crate::device::Activations;
use crate::gemm::{BlockMemory, Packed};
use crate::memory::Store;
use crate::simd::Level;
use crate::thread_pool::ThreadPool;

/// Elements below which an op is not worth waking anybody.
const WORTH_SHARING: usize = 16 * 1024;

/// The ops of the CPU.
pub(crate) struct CpuKernels {
    pool: ThreadPool,
    level: Level,
    activations: Activations,
    weights: RefCell<Store>,
    blocks: RefCell<BlockMemory>,
    attention: RefCell<attend::Workspace>,
    sampling: RefCell<Vec<sample::Workspace>>,
}

impl CpuKernels {
    pub(crate) fn new(threads: usize, level: Level, activations: Activations) -> Self {
        Self {
            pool: ThreadPool::new(threads),
            level,
            activations,
            weights: RefCell::default(),
            blocks: RefCell::default(),
            attention: RefCell::default(),
            sampling: RefCell::default(),
        }
    }

    pub(crate) fn load_weight(&self, weight: &HostWeight<'_>) -> Weight {
        let packed = Packed::pack(weight, &self.pool, &mut self.weights.borrow_mut());
        let bytes = packed.bytes();
        Weight::new(
            weight.rows,
            weight.cols,
            weight.format(),
            bytes,
            Box::new(packed),
        )
    }

    /// Items of `rows` that make a task worth its while.
    fn grain(cols: usize) -> usize {
        (WORTH_SHARING / 2).div_ceil(cols.max(1))
    }
}

/// The layout of a weight of ours.
fn packed(weight: &Weight) -> Result<&Packed, OpError> {
    let packed = weight
        .layout::<Packed>()
        .ok_or_else(|| DeviceError::UnsupportedWeight {
            device: "cpu".into(),
            format: format!("{} of another device", weight.format()),
        })?;
    Ok(packed)
}

/// Fails unless all these arguments are f32, the type of activations here.
fn f32_only(op: &'static str, arguments: &[(&'static str, DType)]) -> Result<(), OpError> {
    match arguments.iter().find(|(_, dtype)| *dtype != DType::F32) {
        Some(&(what, found)) => Err(OpError::Type { op, what, found }),
        None => Ok(()),
    }
}

/// Checks an op, then runs the function of its name.
macro_rules! forward {
    ($($method:ident: $op:ident => $file:ident),* $(,)?) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            op.check()?;
            $file::$method(self, op)
        })*
    };
}

/// As `forward!` for functions that take every op that passed its check.
macro_rules! forward_all {
    ($($method:ident: $op:ident => $file:ident),* $(,)?) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            op.check()?;
            $file::$method(self, op);
            Ok(())
        })*
    };
}

impl Kernels for CpuKernels {
    fn store_kv(&self, op: StoreKv<'_>) -> Result<(), OpError> {
        op.check()?;
        store_kv::store_kv(self, &op)
    }

    forward_all!(
        resolve_tokens: ResolveTokens => tables,
        update_pages: UpdatePages => tables,
        copy_pages: CopyPages => tables,
        count_tokens: CountTokens => tables,
        gather_rows: GatherRows => gather_rows,
        edit_logits: EditLogits => logits,
        penalise: Penalise => logits,
    );
    forward!(
        embed: Embed => embed,
        linear: Linear => linear,
        rms_norm: RmsNorm => norm,
        add_rms_norm: AddRmsNorm => norm,
        rope: Rope => rope,
        rope_store_kv: RopeStoreKv => rope,
        attend: Attend => attend,
        gated_activation: GatedActivation => gated_activation,
        sample: Sample => sample,
        log_probs: LogProbs => log_probs,
    );
}
