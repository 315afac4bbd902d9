//! The way in and out of device memory during steps.

use std::sync::Arc;

use cudarc::driver::sys;
use ops::{DeviceError, Readback, Staging};
use tensor::{Buffer, DType, View};

use crate::context::Context;
use crate::driver::check;
use crate::event::Event;
use crate::memory::{Pinned, allocate};

/// Pinned slots in front of one device buffer: the host writes a slot while the last one is still being copied.
pub(crate) struct CudaStaging {
    slots: Vec<(Pinned, Event)>,
    current: usize,
    device: Buffer,
    context: Arc<Context>,
}

const SLOTS: usize = 3;

impl CudaStaging {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let slot = || Ok((Pinned::new(context, bytes)?, Event::new(context, false)?));
        Ok(Self {
            slots: (0..SLOTS)
                .map(|_| slot())
                .collect::<Result<_, DeviceError>>()?,
            current: 0,
            device: allocate(context, bytes, "inputs of a step")?,
            context: Arc::clone(context),
        })
    }
}

impl Staging for CudaStaging {
    fn host(&mut self) -> Result<&mut [u8], DeviceError> {
        let (pinned, copied) = &mut self.slots[self.current];
        copied.wait()?;
        Ok(pinned.slice_mut())
    }

    fn send(&mut self, bytes: usize) -> Result<(), DeviceError> {
        let (pinned, copied) = &self.slots[self.current];
        let (to, from) = (
            self.device.address() as sys::CUdeviceptr,
            pinned.address().cast(),
        );
        // SAFETY: both sides have at least `bytes` bytes; the pinned side is not written before `copied`.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.context.stream()) };
        check(result, "copying inputs")?;
        copied.record()?;
        self.current = (self.current + 1) % SLOTS;
        Ok(())
    }

    fn device(&self) -> View<'_> {
        self.device.view(0, 1, self.device.bytes(), DType::U8)
    }
}

/// Pinned memory that results are copied to.
pub(crate) struct CudaReadback {
    pinned: Pinned,
    done: Event,
    context: Arc<Context>,
}

impl CudaReadback {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            pinned: Pinned::new(context, bytes)?,
            done: Event::new(context, false)?,
            context: Arc::clone(context),
        })
    }
}

impl Readback for CudaReadback {
    fn fetch(&mut self, from: View<'_>, offset: usize) -> Result<(), DeviceError> {
        assert!(from.is_contiguous(), "results are fetched whole");
        let bytes = from.rows() * from.cols() * from.dtype().size();
        assert!(
            offset + bytes <= self.pinned.slice().len(),
            "the readback has room for the step's results"
        );
        if bytes == 0 {
            return Ok(());
        }
        let to = self.pinned.address().wrapping_add(offset).cast();
        // SAFETY: in bounds (asserted); nobody reads the pinned side before `wait`.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                to,
                from.address() as sys::CUdeviceptr,
                bytes,
                self.context.stream(),
            )
        };
        check(result, "copying results")
    }

    fn seal(&mut self) -> Result<(), DeviceError> {
        self.done.record()
    }

    fn wait(&mut self) -> Result<&[u8], DeviceError> {
        self.done.wait()?;
        Ok(self.pinned.slice())
    }
}
