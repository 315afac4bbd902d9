//! One launcher per op: checks, grid, parameters.

mod attend;
mod gather;
mod logits;
mod norm;
mod rope;
mod sample;

use cudarc::driver::sys;
use ops::DeviceError;

use crate::context::Context;
use crate::driver::check;
use crate::module::{Function, Modules};

/// Every kernel by its role, found once at start.
pub(crate) struct Functions {
    pub(crate) rms_norm: Function,
    pub(crate) add_rms_norm: Function,
    pub(crate) rope_store_kv: Function,
    pub(crate) resolve_tokens: Function,
    pub(crate) update_pages: Function,
    pub(crate) clear_counts: Function,
    pub(crate) count_tokens: Function,
    pub(crate) gather_rows: Function,
    pub(crate) gated_activation: Function,
    pub(crate) edit_logits: Function,
    pub(crate) penalise: Function,
    pub(crate) sample: Function,
    pub(crate) log_probs: Function,
    pub(crate) attend: attend::AttendFunctions,
}

impl Functions {
    pub(crate) fn find(modules: &Modules) -> Result<Self, DeviceError> {
        Ok(Self {
            rms_norm: modules.find("rms_norm")?,
            add_rms_norm: modules.find("add_rms_norm")?,
            rope_store_kv: modules.find("rope_store_kv")?,
            resolve_tokens: modules.find("resolve_tokens")?,
            update_pages: modules.find("update_pages")?,
            clear_counts: modules.find("clear_counts")?,
            count_tokens: modules.find("count_tokens")?,
            gather_rows: modules.find("gather_rows")?,
            gated_activation: modules.find("gated_activation")?,
            edit_logits: modules.find("edit_logits")?,
            penalise: modules.find("penalise")?,
            sample: modules.find("sample")?,
            log_probs: modules.find("log_probs")?,
            attend: attend::AttendFunctions::find(modules)?,
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

    /// One thread an element.
    pub(crate) fn over(elements: usize, threads: usize) -> Self {
        Self::line(elements.div_ceil(threads), threads)
    }
}

/// Enqueues a kernel whose one parameter is `params`, to begin while its predecessor ends.
///
/// # Safety
/// `P` must be the kernel's parameter struct, and its addresses must be valid for what the kernel does.
pub(crate) unsafe fn launch<P: Copy>(
    context: &Context,
    function: Function,
    grid: Grid,
    params: &P,
) -> Result<(), DeviceError> {
    if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
        return Ok(());
    }
    // SAFETY: plain data; zero is a valid value of every field that is not set below.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    let config = sys::CUlaunchConfig {
        gridDimX: grid.blocks.0 as u32,
        gridDimY: grid.blocks.1 as u32,
        gridDimZ: grid.blocks.2 as u32,
        blockDimX: grid.threads as u32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: grid.shared as u32,
        hStream: context.stream(),
        attrs: &raw mut attribute,
        numAttrs: 1,
    };
    let mut arguments = [std::ptr::from_ref(params)
        .cast_mut()
        .cast::<std::ffi::c_void>()];
    // SAFETY: the caller's promise; the driver copies the parameters before it returns.
    let result = unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function.0,
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    check(result, "launching a kernel")
}
