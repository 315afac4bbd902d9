//! The ops on NVIDIA GPUs: kernels compiled ahead of time, the driver and cuBLASLt opened at run time.
//!
//! A machine without a driver, without a GPU, or a build without kernels is reported by [`open`]; nothing here is
//! compiled, tuned or loaded after the device is ready. This crate knows no model and decides nothing about steps.
#![allow(
    unsafe_code,
    reason = "driver calls and raw device addresses; every block says why it is sound"
)]

mod card;
mod context;
mod cupti;
mod device;
mod driver;
mod event;
mod graph;
mod launch;
mod library;
mod linear;
mod lower;
mod megakernel;
mod memory;
mod module;
mod nccl;
mod options;
mod tensor_map;
mod transfer;
mod upload;
mod watch;

pub use card::{Capability, Generation, Release};
pub use device::CudaDevice;
pub use library::Absent;
pub use lower::form as fused;
pub use nccl::{GroupId, Nccl, NcclComm};
pub use options::{CudaOptions, GemmChoice, KvPrecision};

/// Opens the first GPU, or says why there is none to open.
pub fn open(options: &CudaOptions) -> Result<CudaDevice, Absent> {
    CudaDevice::open(options)
}
