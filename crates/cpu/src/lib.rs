//! The ops on CPU cores: SIMD kernels picked once at start, and a thread pool that shares each op.
//!
//! Weights are packed at load and stay as small as their file; activations are f32 and are rounded to bytes per group for
//! integer dot products unless exactness is asked. Every row's result has the same bits alone and in any batch. This crate
//! knows no model, schedules nothing, and takes no lock during an op; only ranks of a collective wait for each other.
#![allow(
    unsafe_code,
    reason = "SIMD intrinsics and disjoint writes by several threads; every block says why it is sound"
)]
#![allow(
    clippy::inline_always,
    reason = "vector code must end up inside the function that enables its instructions"
)]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "buffers are aligned to 64 bytes, and offsets into them to the elements they lead to"
)]

mod comm;
mod device;
mod gemm;
mod kernels;
mod machine;
mod memory;
mod simd;
mod thread_pool;

pub use comm::ThreadComm;
pub use device::{Activations, CpuDevice, CpuOptions, KvPrecision};
pub use simd::Level;
