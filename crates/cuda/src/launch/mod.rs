//! One launcher per op: checks, grid, parameters.

pub(crate) mod attend;
mod float8;
mod fused;
pub(crate) mod gather;
mod logits;
pub(crate) mod norm;
mod open;
mod packed;
mod pages;
mod rope;
pub(crate) mod sample;

use cudarc::driver::sys;
use ops::{DeviceError, Heads, Sizes};

use crate::card::Generation;
use crate::context::Context;
use crate::driver::check;
use crate::module::{Function, Modules, outdated};

pub(crate) use open::Opening;

/// The largest model that kernels take: heads that attention's compiled sizes hold and whose partial results have room, rows
/// that the norm's threads hold, and as many outputs as the plainest GEMM has blocks of eight on y.
pub(crate) const LARGEST: Sizes = Sizes {
    heads: Heads {
        query: 256,
        kv: 64,
        dim: rope::WIDEST,
    },
    hidden: norm::LONGEST,
    outputs: 8 * MOST_BESIDE,
};
/// Blocks that a grid has at most on y.
const MOST_BESIDE: usize = 65_535;

/// Every kernel by its role, found once at start.
pub(crate) struct Functions {
    /// For any rows, and for short ones.
    pub(crate) rms_norm: [Function; 2],
    pub(crate) add_rms_norm: [Function; 2],
    pub(crate) rope_store_kv: Function,
    pub(crate) resolve_tokens: Function,
    pub(crate) update_pages: Function,
    pub(crate) copy_pages: Function,
    pub(crate) clear_counts: Function,
    pub(crate) count_tokens: Function,
    pub(crate) gather_rows: Function,
    pub(crate) scale_rows: Function,
    pub(crate) gated_activation: Function,
    pub(crate) edit_logits: Function,
    pub(crate) penalise: Function,
    pub(crate) sample: Function,
    pub(crate) finish_argmax: Function,
    pub(crate) log_probs: Function,
    pub(crate) transfer: Function,
    /// On Hopper.
    pub(crate) open_step: Option<Function>,
}

impl Functions {
    pub(crate) fn find(modules: &Modules) -> Result<Self, DeviceError> {
        Ok(Self {
            rms_norm: [
                modules.find("rms_norm_any")?,
                modules.find("rms_norm_short")?,
            ],
            add_rms_norm: [
                modules.find("add_rms_norm_any")?,
                modules.find("add_rms_norm_short")?,
            ],
            rope_store_kv: modules.find("rope_store_kv")?,
            resolve_tokens: modules.find("resolve_tokens")?,
            update_pages: modules.find("update_pages")?,
            copy_pages: modules.find("copy_pages")?,
            clear_counts: modules.find("clear_counts")?,
            count_tokens: modules.find("count_tokens")?,
            gather_rows: modules.find("gather_rows")?,
            scale_rows: modules.find("scale_rows")?,
            gated_activation: modules.find("gated_activation")?,
            edit_logits: modules.find("edit_logits")?,
            penalise: modules.find("penalise")?,
            sample: modules.find("sample")?,
            finish_argmax: modules.find("finish_argmax")?,
            log_probs: modules.find("log_probs")?,
            transfer: modules.find("transfer")?,
            open_step: (modules.generation() == Generation::Hopper)
                .then(|| modules.find("open_step"))
                .transpose()?,
        })
    }
}

/// How many blocks of how many threads.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: (usize, usize, usize),
    pub(crate) threads: usize,
    pub(crate) shared: usize,
}

impl Grid {
    /// Blocks in a line.
    pub(crate) fn line(blocks: usize, threads: usize) -> Self {
        Self {
            blocks: (blocks, 1, 1),
            threads,
            shared: 0,
        }
    }

    /// So many blocks a row. Rows lie on x, which takes any number of them; y ends at [`MOST_BESIDE`].
    pub(crate) fn rows(rows: usize, each: usize, threads: usize) -> Self {
        Self {
            blocks: (rows, each, 1),
            threads,
            shared: 0,
        }
    }

    /// One thread an element.
    pub(crate) fn over(elements: usize, threads: usize) -> Self {
        Self::line(elements.div_ceil(threads), threads)
    }
}

/// Dynamic shared memory that kernels are launched with; kernels/common/room.cuh has the same numbers.
pub(crate) const HALF_ROOM: usize = 115_712;
/// As above: one block, beside small blocks of the previous and the next kernel.
pub(crate) const MOST_ROOM: usize = 221_184;
/// As above: one block.
pub(crate) const WHOLE_ROOM: usize = 232_448;
/// As above: one block on the smallest of GPUs that are not Hopper's kind, and as much as those of 8.0 have.
pub(crate) const SMALL_ROOM: usize = 101_376;
/// As above.
pub(crate) const MIDDLE_ROOM: usize = 166_912;

/// True when rows of `width` elements of bf16 at these addresses and strides are 16-byte aligned and whole vectors.
pub(crate) fn are_aligned(width: usize, matrices: &[(u64, usize)]) -> bool {
    let even =
        |&(address, stride): &(u64, usize)| address.is_multiple_of(16) && stride.is_multiple_of(8);
    width.is_multiple_of(8) && matrices.iter().all(even)
}

/// Enqueues a kernel whose one parameter is `params`, with programmatic dependent launch: it begins while its predecessor ends.
///
/// # Safety
/// `P` must be the kernel's parameter struct, and its addresses must be valid for what the kernel does.
pub(crate) unsafe fn launch<P: Copy>(
    context: &Context,
    function: Function,
    grid: Grid,
    params: &P,
) -> Result<(), DeviceError> {
    // SAFETY: the caller's promise.
    unsafe { enqueue(context, function, grid, 1, params, true) }
}

/// As [`launch`], with clusters of `cluster` blocks.
///
/// # Safety
/// As [`launch`].
pub(crate) unsafe fn launch_clusters<P: Copy>(
    context: &Context,
    function: Function,
    grid: Grid,
    cluster: usize,
    params: &P,
) -> Result<(), DeviceError> {
    // SAFETY: the caller's promise.
    unsafe { enqueue(context, function, grid, cluster, params, true) }
}

/// As [`launch`], but the kernel begins when everything before it has ended and is visible: it opens a step.
///
/// # Safety
/// As [`launch`].
pub(crate) unsafe fn launch_late<P: Copy>(
    context: &Context,
    function: Function,
    grid: Grid,
    params: &P,
) -> Result<(), DeviceError> {
    context.begin_epoch();
    // SAFETY: the caller's promise.
    unsafe { enqueue(context, function, grid, 1, params, false) }
}

/// Clusters of `cluster` blocks that run at the same time.
pub(crate) fn clusters_at_once(
    function: Function,
    grid: Grid,
    cluster: usize,
) -> Result<usize, DeviceError> {
    // SAFETY: plain data; zero is a valid value of every field that is not set below.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    shape_clusters(&mut attribute, cluster);
    let mut config = config(grid, std::ptr::null_mut());
    config.attrs = &raw mut attribute;
    config.numAttrs = 1;
    let mut count = 0;
    // SAFETY: a loaded function, a description that outlives the call and a valid out-pointer.
    let result = unsafe {
        sys::cuOccupancyMaxActiveClusters(&raw mut count, function.handle, &raw const config)
    };
    check(result, "asking how many clusters run at once")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn shape_clusters(attribute: &mut sys::CUlaunchAttribute, cluster: usize) {
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = cluster as u32;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
}

/// Without attributes.
fn config(grid: Grid, stream: sys::CUstream) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: grid.blocks.0 as u32,
        gridDimY: grid.blocks.1 as u32,
        gridDimZ: grid.blocks.2 as u32,
        blockDimX: grid.threads as u32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: grid.shared as u32,
        hStream: stream,
        attrs: std::ptr::null_mut(),
        numAttrs: 0,
    }
}

unsafe fn enqueue<P: Copy>(
    context: &Context,
    function: Function,
    grid: Grid,
    cluster: usize,
    params: &P,
    early: bool,
) -> Result<(), DeviceError> {
    if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
        return Ok(());
    }
    if size_of::<P>() != function.parameter {
        return Err(outdated(&format!(
            "a kernel takes {} bytes and would be given {}: it was compiled from other sources",
            function.parameter,
            size_of::<P>()
        )));
    }
    context.flush()?;
    // SAFETY: plain data; zero is a valid value of every field that is not set below.
    let mut attributes: [sys::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    if early && !context.is_in_turn() {
        attributes[0].id =
            sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[0].value.programmaticStreamSerializationAllowed = 1;
        count = 1;
    }
    if cluster > 1 {
        shape_clusters(&mut attributes[count], cluster);
        count += 1;
    }
    let mut config = config(grid, context.stream());
    config.attrs = attributes.as_mut_ptr();
    config.numAttrs = count as u32;
    let mut arguments = [std::ptr::from_ref(params)
        .cast_mut()
        .cast::<std::ffi::c_void>()];
    // SAFETY: the caller's promise; the driver copies the parameters before it returns.
    let result = unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function.handle,
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    check(result, "launching a kernel")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::is_embedded;

    #[test]
    fn every_generation_has_the_kernels_that_all_ops_need() {
        let text_alone = Modules::listed(Generation::Ampere)
            .find("transfer")
            .is_err();
        if !is_embedded() || text_alone {
            println!("skipped: no kernels were compiled, or text alone; run `cargo xtask kernels`");
            return;
        }
        for generation in [Generation::Hopper, Generation::Ampere] {
            let modules = Modules::listed(generation);
            let found = Functions::find(&modules);
            assert!(found.is_ok(), "{generation:?}: {:?}", found.err());
            let mut others = vec![
                "linear_any".to_owned(),
                "invent_weight".into(),
                "attend_widen".into(),
            ];
            if generation == Generation::Ampere {
                others.extend([64, 128].map(|dim| format!("attend_ampere_{dim}")));
                for (dim, columns) in [(64, 8), (128, 8), (256, 8), (64, 16), (128, 16), (256, 16)]
                {
                    let name = |kv| format!("attend_split_{dim}_{columns}_{kv}_small");
                    others.extend(["bf16", "fp8"].map(name));
                }
            }
            for name in others {
                assert!(modules.find(&name).is_ok(), "{generation:?}: {name}");
            }
        }
    }

    #[test]
    fn a_step_may_have_more_rows_than_y_has_blocks() {
        let grid = Grid::rows(100_000, 3, 64);
        let config = config(grid, std::ptr::null_mut());
        let sides = (config.gridDimX, config.gridDimY, config.gridDimZ);
        assert_eq!((sides, config.blockDimX), ((100_000, 3, 1), 64));
    }
}
