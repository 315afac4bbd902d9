//! Transfers into and out of device memory during steps.

use std::sync::Arc;

use cudarc::driver::sys;
use ops::{DeviceError, Readback, Staging};
use tensor::{Buffer, DType, View};

use crate::context::Context;
use crate::driver::check;
use crate::event::Event;
use crate::launch::{Grid, launch};
use crate::memory::{Pinned, allocate};
use crate::module::Function;

/// Bytes up to which a kernel copies sooner than the copy engine.
const FEW_BYTES: usize = 64 << 10;
const WORD: usize = 4;
const THREADS: usize = 256;

/// `TransferParams` of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct TransferParams {
    from: u64,
    to: u64,
    words: u32,
    even: u32,
}

/// What copies few bytes between pinned memory and the device.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) context: Arc<Context>,
    pub(crate) function: Function,
}

impl Courier {
    /// Enqueues a copy; false when the copy engine should make it.
    ///
    /// # Safety
    /// Both sides have that many bytes that the device may use, until the stream has come past this.
    unsafe fn copies(&self, from: u64, to: u64, bytes: usize) -> Result<bool, DeviceError> {
        let whole = [from, to, bytes as u64].map(|number| number.is_multiple_of(WORD as u64));
        if bytes > FEW_BYTES || whole.contains(&false) {
            return Ok(false);
        }
        let params = TransferParams {
            from,
            to,
            words: (bytes / WORD) as u32,
            even: u32::from(from.is_multiple_of(16) && to.is_multiple_of(16)),
        };
        let grid = Grid::over(bytes.div_ceil(4 * WORD), THREADS);
        // SAFETY: the struct of the kernel; the caller's promise.
        unsafe { launch(&self.context, self.function, grid, &params) }?;
        Ok(true)
    }
}

/// Lets the copy engine copy in every direction once: what the driver sets up for that is not waited for in a step.
pub(crate) fn rehearse(context: &Arc<Context>) -> Result<(), DeviceError> {
    const BYTES: usize = 2 * FEW_BYTES;
    let pinned = Pinned::new(context, BYTES)?;
    let room = || allocate(context, BYTES, "copies");
    let (here, there) = (room()?, room()?);
    let [from, to] = [&here, &there].map(|buffer| buffer.address() as sys::CUdeviceptr);
    let stream = context.stream();
    // SAFETY: all have that many bytes, until the stream has been waited for.
    let results = unsafe {
        [
            sys::cuMemcpyHtoDAsync_v2(from, pinned.address().cast(), BYTES, stream),
            sys::cuMemcpyDtoDAsync_v2(to, from, BYTES, stream),
            sys::cuMemcpyDtoHAsync_v2(pinned.address().cast(), to, BYTES, stream),
        ]
    };
    let copied = results.map(|result| check(result, "copying"));
    context.synchronise()?;
    copied.into_iter().collect()
}

/// Pinned slots in front of one device buffer: the host writes a slot while the last one is still being copied.
pub(crate) struct CudaStaging {
    slots: Vec<(Pinned, Event)>,
    current: usize,
    device: Buffer,
    courier: Courier,
}

const SLOTS: usize = 3;

impl CudaStaging {
    pub(crate) fn new(courier: Courier, bytes: usize) -> Result<Self, DeviceError> {
        let context = &courier.context;
        let slot = || Ok((Pinned::new(context, bytes)?, Event::new(context, false)?));
        Ok(Self {
            slots: (0..SLOTS)
                .map(|_| slot())
                .collect::<Result<_, DeviceError>>()?,
            current: 0,
            device: allocate(context, bytes, "inputs of a step")?,
            courier,
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
        let (to, from) = (self.device.address() as u64, pinned.address());
        self.courier.context.begin_epoch();
        // SAFETY: both sides have at least `bytes` bytes; the pinned side is not written before `copied`.
        unsafe {
            if !self.courier.copies(from as u64, to, bytes)? {
                let stream = self.courier.context.stream();
                let result = sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream);
                check(result, "copying inputs")?;
            }
        }
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
    courier: Courier,
}

impl CudaReadback {
    pub(crate) fn new(courier: Courier, bytes: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            pinned: Pinned::new(&courier.context, bytes)?,
            done: Event::new(&courier.context, false)?,
            courier,
        })
    }
}

impl Readback for CudaReadback {
    fn bytes(&self) -> usize {
        self.pinned.slice().len()
    }

    fn fetch(&mut self, from: View<'_>, offset: usize) -> Result<(), DeviceError> {
        assert!(from.is_contiguous(), "results are fetched whole");
        let bytes = from.rows() * from.cols() * from.dtype().size();
        assert!(
            offset + bytes <= self.bytes(),
            "the readback has room for the step's results"
        );
        if bytes == 0 {
            return Ok(());
        }
        let (from, to) = (
            from.address() as u64,
            self.pinned.address().wrapping_add(offset),
        );
        // SAFETY: in bounds (asserted); the pinned side is not read before `wait`.
        unsafe {
            if !self.courier.copies(from, to as u64, bytes)? {
                let stream = self.courier.context.stream();
                let result = sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream);
                check(result, "copying results")?;
            }
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), DeviceError> {
        self.done.record()
    }

    fn wait(&mut self) -> Result<&[u8], DeviceError> {
        self.done.wait()?;
        Ok(self.pinned.slice())
    }
}
