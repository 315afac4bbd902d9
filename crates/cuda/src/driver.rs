//! The driver's answers as errors.

use cudarc::driver::sys::{CUresult, cuGetErrorString};
use ops::DeviceError;

/// Fails unless the driver agreed.
pub(crate) fn check(result: CUresult, what: &'static str) -> Result<(), DeviceError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(DeviceError::Lost {
        device: "cuda".into(),
        message: format!("{what}: {}", message(result)),
    })
}

fn message(result: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the driver stores the address of a constant text, or null for codes it does not know.
    let known = unsafe { cuGetErrorString(result, &raw mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: a constant, zero-terminated text of the driver.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    format!("{} ({result:?})", text.to_string_lossy())
}
