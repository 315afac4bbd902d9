//! Weights into device memory: threads fill pinned chunks while the GPU copies other chunks away.

use std::cell::RefCell;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;
use ops::{Device as _, DeviceError, StreamError, Weight, WeightFormat, WeightRows, WeightStream};
use tensor::{Buffer, DType};

use crate::context::Context;
use crate::device::CudaDevice;
use crate::driver::check;
use crate::event::Event;
use crate::memory::{Pinned, allocate};

/// Bytes of a chunk: few enough that a core checks what it has read in its own cache.
const CHUNK: usize = 1 << 20;
/// The most threads that read: more fill the bus no better, and pinned memory takes its time to be had.
const MOST_THREADS: usize = 12;
/// Pieces of a thread: one is filled while the other is copied.
const SLOTS: usize = 2;

/// Threads' pinned memory for as long as a model is loaded.
pub(crate) struct CudaWeightStream<'d> {
    device: &'d CudaDevice,
    lanes: RefCell<Vec<Lane>>,
}

impl<'d> CudaWeightStream<'d> {
    pub(crate) fn new(device: &'d CudaDevice) -> Result<Self, DeviceError> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let lanes = (0..cores.min(MOST_THREADS)).map(|_| Lane::new(&device.context));
        Ok(Self {
            device,
            lanes: RefCell::new(lanes.collect::<Result<_, _>>()?),
        })
    }

    /// Device memory with all rows, one after the other.
    fn bring(&self, rows: &dyn WeightRows, what: &'static str) -> Result<Buffer, StreamError> {
        let (count, cols) = rows.shape();
        let width = rows.format().bytes_of(cols);
        let buffer = allocate(&self.device.context, count * width, what)?;
        let work = Work {
            rows,
            width,
            step: (CHUNK / width.max(1)).max(1),
            to: buffer.address() as u64,
            next: AtomicUsize::new(0),
        };
        let mut lanes = self.lanes.borrow_mut();
        let threads = lanes.len().min(count.div_ceil(work.step));
        std::thread::scope(|scope| {
            let lanes = lanes[..threads].iter_mut();
            let threads: Vec<_> = lanes
                .map(|lane| scope.spawn(|| lane.carry(&work)))
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Result<(), StreamError>>()
        })?;
        Ok(buffer)
    }
}

impl WeightStream for CudaWeightStream<'_> {
    fn load(&self, rows: &dyn WeightRows) -> Result<Weight, StreamError> {
        let (device, shape, format) = (self.device, rows.shape(), rows.format());
        let weight = match format {
            WeightFormat::Plain(DType::BF16) => {
                device.adopt_plain(self.bring(rows, "weights")?, shape)
            }
            WeightFormat::Float8 { .. } if device.supports(format) => {
                let codes = self.bring(rows, "weights on their way")?;
                device.adopt_codes(codes, shape, &rows.scales(), format)
            }
            _ => Err(DeviceError::UnsupportedWeight {
                device: device.info().name.clone(),
                format: format.to_string(),
            }),
        };
        Ok(weight?)
    }
}

/// Rows that threads share, each taking the next chunk.
struct Work<'a> {
    rows: &'a dyn WeightRows,
    /// Bytes of a row.
    width: usize,
    /// Rows of a chunk.
    step: usize,
    /// Where the first row goes.
    to: sys::CUdeviceptr,
    /// The first row that no thread has taken.
    next: AtomicUsize,
}

impl Work<'_> {
    fn take(&self) -> Option<Range<usize>> {
        let count = self.rows.shape().0;
        let first = self.next.fetch_add(self.step, Ordering::Relaxed);
        (first < count).then(|| first..count.min(first + self.step))
    }

    /// Leaves nothing to take: a weight that lacks some rows is of no use.
    fn give_up(&self) {
        self.next.store(self.rows.shape().0, Ordering::Relaxed);
    }
}

/// One thread's pinned memory.
struct Lane {
    slots: [Slot; SLOTS],
    current: usize,
    context: Arc<Context>,
}

impl Lane {
    fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        Ok(Self {
            slots: [Slot::new(context, CHUNK)?, Slot::new(context, CHUNK)?],
            current: 0,
            context: Arc::clone(context),
        })
    }

    fn carry(&mut self, work: &Work<'_>) -> Result<(), StreamError> {
        while let Some(rows) = work.take() {
            self.carry_part(work, rows)
                .inspect_err(|_| work.give_up())?;
        }
        Ok(())
    }

    fn carry_part(&mut self, work: &Work<'_>, rows: Range<usize>) -> Result<(), StreamError> {
        let (bytes, offset) = (rows.len() * work.width, rows.start * work.width);
        let slot = &mut self.slots[self.current];
        slot.copied.wait()?;
        if slot.pinned.slice().len() < bytes {
            *slot = Slot::new(&self.context, bytes)?;
        }
        let chunk = &mut slot.pinned.slice_mut()[..bytes];
        work.rows.write(rows, chunk).map_err(StreamError::Rows)?;
        let to = work.to + offset as sys::CUdeviceptr;
        let from = slot.pinned.address().cast();
        self.context.begin_epoch();
        // SAFETY: the buffer has all rows, the slot these; it is not written before `copied`.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.context.stream()) };
        check(result, "copying weights")?;
        slot.copied.record()?;
        self.current = (self.current + 1) % SLOTS;
        Ok(())
    }
}

/// Pinned memory, and when it was last copied from.
struct Slot {
    pinned: Pinned,
    copied: Event,
}

impl Slot {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            pinned: Pinned::new(context, bytes)?,
            copied: Event::new(context, false)?,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Memory may go only when the GPU has read it; a GPU that fails here fails the next call too.
        let _ = self.copied.wait();
    }
}
