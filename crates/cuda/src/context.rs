//! The primary context of one GPU and its one stream.

use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;
use ops::DeviceError;

use crate::card;
use crate::driver::check;
use crate::launch::Opening;
use crate::megakernel::Recording;

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
    /// The context of a GPU, current on the calling thread.
    pub(crate) fn open(device: sys::CUdevice, in_turn: bool) -> Result<Self, DeviceError> {
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the device was found by a driver that was started; every out-pointer is valid.
        unsafe {
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
        card::name(self.device)
    }

    pub(crate) fn attribute(
        &self,
        attribute: sys::CUdevice_attribute,
    ) -> Result<usize, DeviceError> {
        card::attribute(self.device, attribute)
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
        // SAFETY: made in `open` and released once; errors at the end cannot be handled.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.primary);
            let _ = sys::cuStreamDestroy_v2(self.stream);
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}
