//! The primary context of one GPU and its one stream.

use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;
use ops::DeviceError;

use crate::chain::Recording;
use crate::driver::check;
use crate::launch::Opening;

/// A GPU's primary context and the stream that everything runs in.
pub(crate) struct Context {
    device: sys::CUdevice,
    primary: sys::CUcontext,
    stream: sys::CUstream,
    /// Kernels begin only when everything before them has ended.
    in_turn: bool,
    recording: Recording,
    opening: Opening,
    epoch: AtomicU64,
}

// SAFETY: driver handles may be used from any thread that has made the context current.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises calls.
unsafe impl Sync for Context {}

impl Context {
    /// The context of GPU `ordinal`, current on the calling thread.
    pub(crate) fn open(ordinal: i32, in_turn: bool) -> Result<Self, DeviceError> {
        let (mut device, mut context, mut stream) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the driver is loaded (the caller checked); every out-pointer is valid.
        unsafe {
            check(sys::cuInit(0), "starting the driver")?;
            check(
                sys::cuDeviceGet(&raw mut device, ordinal),
                "finding the GPU",
            )?;
            check(
                sys::cuDevicePrimaryCtxRetain(&raw mut context, device),
                "opening the GPU",
            )?;
            check(sys::cuCtxSetCurrent(context), "using the GPU")?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check(
                sys::cuStreamCreate(&raw mut stream, flags),
                "making a stream",
            )?;
        }
        Ok(Self {
            device,
            primary: context,
            stream,
            in_turn,
            recording: Recording::default(),
            opening: Opening::default(),
            epoch: AtomicU64::new(0),
        })
    }

    /// GPUs that the driver sees.
    pub(crate) fn count() -> Result<usize, DeviceError> {
        let mut count = 0;
        // SAFETY: the driver is loaded (the caller checked).
        unsafe {
            let started = sys::cuInit(0);
            // a driver without GPUs, or with all of them hidden, does not start
            if started == sys::CUresult::CUDA_ERROR_NO_DEVICE {
                return Ok(0);
            }
            check(started, "starting the driver")?;
            check(sys::cuDeviceGetCount(&raw mut count), "counting GPUs")?;
        }
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context lives as long as self.
        let result = unsafe { sys::cuCtxSetCurrent(self.primary) };
        check(result, "using the GPU")
    }

    pub(crate) fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// Ops that wait to become one kernel.
    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Ops that wait to open a step.
    pub(crate) fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Enqueues the ops that wait: something follows that cannot be one kernel with them.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        self.opening.flush(self)?;
        self.recording.flush(self)
    }

    /// Whether the kernel that is enqueued next begins beside the one that opens a captured step. Then it lets nobody behind it
    /// begin before that one has ended: what that one writes is read early.
    pub(crate) fn begins_with_opening(&self) -> Result<bool, DeviceError> {
        self.recording.flush(self)?;
        Ok(self.opening.lets_in())
    }

    /// A number that stays as long as kernels are enqueued in one place after another, and none writes what a step is
    /// given: what was derived from that is true as long.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Something changes what steps are given, or kernels are enqueued elsewhere from now on.
    pub(crate) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Waits for everything enqueued.
    pub(crate) fn synchronise(&self) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the stream lives as long as self.
        let result = unsafe { sys::cuStreamSynchronize(self.stream) };
        check(result, "waiting for the GPU")
    }

    pub(crate) fn name(&self) -> Result<String, DeviceError> {
        let mut name = [0 as std::ffi::c_char; 256];
        // SAFETY: the driver writes at most 256 bytes, zero-terminated.
        let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 256, self.device) };
        check(result, "asking the GPU's name")?;
        // SAFETY: zero-terminated by the driver.
        let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }

    pub(crate) fn attribute(
        &self,
        attribute: sys::CUdevice_attribute,
    ) -> Result<usize, DeviceError> {
        let mut value = 0;
        // SAFETY: a valid out-pointer and a device that was found.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        check(result, "asking the GPU's facts")?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// Free and total bytes of memory.
    pub(crate) fn memory(&self) -> Result<(usize, usize), DeviceError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid out-pointers; the context is current.
        let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(result, "asking the GPU's memory")?;
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made in `open` and released once; errors at the end help nobody.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.primary);
            let _ = sys::cuStreamDestroy_v2(self.stream);
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}
