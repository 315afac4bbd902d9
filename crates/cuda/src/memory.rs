//! Device memory and pinned host memory.

use std::sync::Arc;

use cudarc::driver::sys;
use ops::DeviceError;
use tensor::{Buffer, Place};

use crate::context::Context;
use crate::driver::check;

/// Zeroed device memory for `what`.
pub(crate) fn allocate(
    context: &Arc<Context>,
    bytes: usize,
    what: &'static str,
) -> Result<Buffer, DeviceError> {
    context.enter()?;
    let mut address: sys::CUdeviceptr = 0;
    // what is two bytes wide is changed by fours
    let size = bytes.max(256).next_multiple_of(4);
    // SAFETY: a valid out-pointer; the context is current.
    let result = unsafe { sys::cuMemAlloc_v2(&raw mut address, size) };
    if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        let free = context.memory()?.0;
        return Err(DeviceError::OutOfMemory {
            device: context.name()?,
            what,
            wanted: bytes,
            free,
        });
    }
    check(result, "taking device memory")?;
    context.begin_epoch();
    // SAFETY: the allocation has this many bytes.
    let result = unsafe { sys::cuMemsetD8Async(address, 0, size, context.stream()) };
    check(result, "clearing device memory")?;
    let owner = Arc::clone(context);
    let release = Box::new(move |address: *mut u8, _| {
        // SAFETY: allocated above and freed once; errors at the end cannot be handled.
        unsafe {
            let _ = owner.enter();
            let _ = sys::cuMemFree_v2(address as sys::CUdeviceptr);
        }
    });
    // SAFETY: the driver gave this memory to us alone, until `release`.
    Ok(unsafe { Buffer::from_raw(address as *mut u8, bytes, Place::Device, release) })
}

/// Copies values to the beginning of device memory that has room for them; they are there when this returns.
///
/// In the order of the stream: a copy outside of it may return before the GPU has the bytes, and kernels do not wait.
pub(crate) fn fill<T: Copy>(
    context: &Context,
    to: &Buffer,
    values: &[T],
    doing: &'static str,
) -> Result<(), DeviceError> {
    let bytes = size_of_val(values);
    assert!(bytes <= to.bytes(), "there is room for what is copied");
    let (to, from) = (to.address() as sys::CUdeviceptr, values.as_ptr().cast());
    context.begin_epoch();
    // SAFETY: both sides have that many bytes (asserted), until the stream has been waited for.
    let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, context.stream()) };
    check(result, doing)?;
    context.synchronise()
}

/// What device memory holds once everything before is done.
pub(crate) fn read(
    context: &Context,
    from: &Buffer,
    doing: &'static str,
) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; from.bytes()];
    context.synchronise()?;
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: both sides have that many bytes; the copy is done when the call returns.
    let result =
        unsafe { sys::cuMemcpyDtoH_v2(to, from.address() as sys::CUdeviceptr, bytes.len()) };
    check(result, doing)?;
    Ok(bytes)
}

/// The error of a host that pins no more memory; `facts` are those of the kernel about its memory.
fn not_pinned(wanted: usize, facts: &str) -> DeviceError {
    let available = facts.lines().find_map(|line| {
        let rest = line.strip_prefix("MemAvailable:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    DeviceError::OutOfMemory {
        device: "the host".into(),
        what: "pinned memory",
        wanted,
        free: available.map_or(0, |kilobytes| kilobytes << 10),
    }
}

/// Host memory that the GPU can copy from and to by itself.
pub(crate) struct Pinned {
    address: *mut u8,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: owned memory, like a Box<[u8]>.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        context.enter()?;
        let mut address = std::ptr::null_mut();
        // SAFETY: a valid out-pointer; the context is current.
        let result = unsafe { sys::cuMemHostAlloc(&raw mut address, bytes.max(64), 0) };
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
            return Err(not_pinned(bytes, &facts));
        }
        check(result, "taking pinned memory")?;
        Ok(Self {
            address: address.cast(),
            bytes,
            context: Arc::clone(context),
        })
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    pub(crate) fn slice(&self) -> &[u8] {
        // SAFETY: owned memory of this size; the caller waited for copies into it.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    pub(crate) fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: owned memory of this size; the caller waited for copies out of it.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` and freed once; errors at the end cannot be handled.
        unsafe {
            let _ = self.context.enter();
            let _ = sys::cuMemFreeHost(self.address.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_host_does_not_pin_is_told_with_bytes() {
        let facts = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:        3 kB\n";
        for (facts, left) in [(facts, 3072), ("nothing", 0)] {
            let DeviceError::OutOfMemory {
                device,
                what,
                wanted,
                free,
            } = not_pinned(5000, facts)
            else {
                panic!("a host that is out of memory is not lost");
            };
            assert_eq!((&*device, what), ("the host", "pinned memory"));
            assert_eq!((wanted, free), (5000, left));
        }
    }
}
