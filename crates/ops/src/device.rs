//! A device: memory, weights, and the way in and out of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tensor::{Buffer, DType, View};

use crate::{
    DeviceError, HostWeight, Kernels, Lowered, OpError, Program, Sizes, Step, StepClass, Weight,
    WeightFormat, WeightStream, Weights,
};

/// Facts about a device that configuration is resolved against.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// `cpu` or `cuda`.
    pub kind: &'static str,
    /// What the maker calls it.
    pub name: String,
    /// Bytes of memory in all.
    pub memory_total: usize,
    /// Bytes that were free when it was opened.
    pub memory_free: usize,
    /// Threads or multiprocessors.
    pub units: usize,
    /// Instruction sets or compute capability in use.
    pub features: String,
    /// Type of activations.
    pub activation: DType,
    /// Type of keys and values.
    pub kv: DType,
    /// Weights of eight-bit floats stay so; else they are widened while they are loaded.
    pub float8: bool,
}

/// One device, owned by one rank thread.
///
/// Memory is taken at start-up only; during steps the device moves inputs in through [`Staging`], runs [`Kernels`], and
/// moves results out through [`Readback`].
pub trait Device: Send {
    /// Its facts.
    fn info(&self) -> &DeviceInfo;

    /// Bytes of memory that nobody has taken at this moment, where the device can tell.
    fn memory_left(&self) -> Result<Option<usize>, DeviceError> {
        Ok(None)
    }

    /// The largest model that its kernels run; asked before anything is loaded.
    fn largest(&self) -> Sizes {
        Sizes::ANY
    }

    /// Bytes a second that it reads from memory at best, where that is known.
    fn bandwidth(&self) -> Option<f64> {
        None
    }

    /// What records its kernels one by one.
    fn tracer(&self) -> Result<Arc<dyn Tracer>, NoTracer> {
        Err(NoTracer(format!(
            "{} does not tell its kernels apart",
            self.info().name
        )))
    }

    /// Its ops, enqueued in order.
    fn kernels(&self) -> &dyn Kernels;

    /// Decides how steps of a class are run, before weights are loaded.
    fn lower(&self, program: Arc<Program>, class: &StepClass) -> Lowered {
        Lowered::plain(program, class, self.info().activation)
    }

    /// Enqueues a step of a class that this device lowered.
    fn run(&self, list: &Lowered, weights: &Weights, step: &Step<'_>) -> Result<(), OpError> {
        list.interpret(self.kernels(), weights, step)
    }

    /// Zeroed memory for `what`.
    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError>;

    /// True when `linear` and `embed` take weights in this format; asked while loading.
    fn supports(&self, format: WeightFormat) -> bool;

    /// Brings a weight into the device's layout.
    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError>;

    /// A way in for weights that are read while they are copied; none where weights are best brought whole.
    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        Ok(None)
    }

    /// Makes up a weight of small random numbers where it will lie, equal ones for equal seeds; `None` where the host has
    /// to bring them.
    fn invent_weight(
        &self,
        shape: (usize, usize),
        format: WeightFormat,
        seed: u64,
    ) -> Result<Option<InventedWeight>, DeviceError> {
        let _ = (shape, format, seed);
        Ok(None)
    }

    /// Told while loading that products with a weight add a bias, so that nothing has to be found out about them later.
    fn expect_bias(&self, weight: &Weight) -> Result<(), DeviceError> {
        let _ = weight;
        Ok(())
    }

    /// Bytes that a weight of this kind takes once more when it is [folded](Self::fold); zero where it never is.
    fn folded_bytes(&self, shape: (usize, usize), format: WeightFormat) -> usize {
        let _ = (shape, format);
        0
    }

    /// Keeps a weight a second time, in a form with the same numbers that steps of few rows read faster, and tells how many
    /// bytes that takes; none where there is no such form of it.
    fn fold(&self, weight: &Weight) -> Result<usize, DeviceError> {
        let _ = weight;
        Ok(0)
    }

    /// Brings a small plain vector or matrix (norms, biases, rope tables) to the device as `dtype`.
    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError>;

    /// A way in for `bytes` bytes of inputs a step.
    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError>;

    /// A way out for up to `bytes` bytes of results a step.
    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError>;

    /// Copies between two device matrices of equal shape and type, in stream order.
    fn copy(&self, from: View<'_>, to: tensor::ViewMut<'_>) -> Result<(), DeviceError>;

    /// Records what `run` enqueues as a graph, or answers `None` where replaying would gain nothing; then `run` is not
    /// called.
    fn capture(
        &self,
        run: &mut dyn FnMut() -> Result<(), OpError>,
    ) -> Result<Option<Box<dyn Graph>>, OpError> {
        let _ = run;
        Ok(None)
    }
}

/// A weight that a device made up.
pub struct InventedWeight {
    /// The weight.
    pub weight: Weight,
    /// When its numbers were there; what came after, the device did for itself.
    pub made: Instant,
}

/// Records what a device runs, kernel by kernel; costs nothing while it does not record.
pub trait Tracer: Send + Sync {
    /// Begins to record.
    fn begin(&self) -> Result<(), NoTracer>;

    /// Ends the recording and gives it away.
    fn end(&self) -> Result<DeviceTrace, NoTracer>;
}

/// Why there is no recording of kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoTracer(pub String);

/// A recording of what a device ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceTrace {
    /// Kernels and copies, in the order of their beginnings.
    pub spans: Vec<DeviceSpan>,
    /// Kernels that were not recorded because there were too many.
    pub dropped: u64,
}

/// One kernel or copy as the device ran it; times count from the beginning of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpan {
    /// What the device calls it.
    pub name: Arc<str>,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// A step that was recorded and can be enqueued again as a whole.
pub trait Graph: Send {
    /// Enqueues it: the same kernels with the same arguments, reading whatever the memory holds now.
    fn replay(&self) -> Result<(), DeviceError>;
}

/// Host memory that is copied to a fixed device address once a step.
pub trait Staging: Send {
    /// The host side, free to be written: waits until the last [`Self::send`] has been read.
    fn host(&mut self) -> Result<&mut [u8], DeviceError>;

    /// Enqueues the copy of the first `bytes` bytes.
    fn send(&mut self, bytes: usize) -> Result<(), DeviceError>;

    /// The device side: one row of bytes at an address that never changes.
    fn device(&self) -> View<'_>;
}

/// Host memory that receives results of a step.
pub trait Readback: Send {
    /// Bytes that the host side has.
    fn bytes(&self) -> usize;

    /// Enqueues a copy of a contiguous device matrix to byte `offset` of the host side.
    fn fetch(&mut self, from: View<'_>, offset: usize) -> Result<(), DeviceError>;

    /// Marks the end of the step's fetches; to be called once before [`Self::wait`].
    fn seal(&mut self) -> Result<(), DeviceError>;

    /// Waits for everything enqueued before [`Self::seal`] and gives the host side.
    fn wait(&mut self) -> Result<&[u8], DeviceError>;
}
