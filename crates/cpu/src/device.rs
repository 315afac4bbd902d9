//! The CPU as a device; its stream is the calling thread.

use ops::host::{HostReadback, HostStaging, copy_rows, host_values};
use ops::{
    Device, DeviceError, DeviceInfo, HostWeight, Kernels, Readback, Staging, Weight, WeightFormat,
};
use tensor::{Buffer, DType, View, ViewMut};

use crate::gemm::Float8Tiles;
use crate::kernels::CpuKernels;
use crate::machine;
use crate::memory;
use crate::simd::Level;

/// How activations are multiplied with quantised weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Rounded to fifteen bits per group, as two planes of bytes for integer dot products: as good as exact in practice.
    #[default]
    Int16,
    /// Rounded to bytes per group: half the arithmetic, off by about half a percent of a row's norm.
    Int8,
    /// Kept as f32 against the exact values of the weights: slower, for comparisons with other engines.
    Exact,
}

/// Type of keys and values in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvPrecision {
    /// IEEE halves.
    #[default]
    F16,
    /// Full floats.
    F32,
}

/// What a CPU device is made with.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Threads that share each op, the caller included.
    pub threads: usize,
    /// How activations are multiplied with quantised weights.
    pub activations: Activations,
    /// Type of keys and values.
    pub kv: KvPrecision,
    /// Instructions to use.
    pub level: Level,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            activations: Activations::default(),
            kv: KvPrecision::default(),
            level: Level::best(),
        }
    }
}

/// The CPU of this machine.
pub struct CpuDevice {
    info: DeviceInfo,
    kernels: CpuKernels,
}

impl CpuDevice {
    /// Starts the threads and looks at the machine.
    pub fn new(options: &CpuOptions) -> Self {
        let kernels = CpuKernels::new(options.threads, options.level, options.activations);
        let memory = machine::memory();
        let info = DeviceInfo {
            kind: "cpu",
            name: machine::name(),
            memory_total: memory.total,
            memory_free: memory.free,
            units: options.threads.max(1),
            features: options.level.name().into(),
            activation: DType::F32,
            kv: match options.kv {
                KvPrecision::F16 => DType::F16,
                KvPrecision::F32 => DType::F32,
            },
            float8: true,
        };
        Self { info, kernels }
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn kernels(&self) -> &dyn Kernels {
        &self.kernels
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        let free = machine::memory().free;
        if bytes > free {
            return Err(DeviceError::OutOfMemory {
                device: self.info.name.clone(),
                what,
                wanted: bytes,
                free,
            });
        }
        Ok(memory::allocate(bytes))
    }

    fn supports(&self, format: WeightFormat) -> bool {
        match format {
            WeightFormat::Plain(dtype) => matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
            WeightFormat::Affine { bits, group } => {
                matches!(bits, 4 | 8) && matches!(group, 16 | 32)
            }
            WeightFormat::Float8 { group } => Float8Tiles::takes(group),
        }
    }

    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        if !self.supports(weight.format()) {
            return Err(DeviceError::UnsupportedWeight {
                device: self.info.name.clone(),
                format: weight.format().to_string(),
            });
        }
        Ok(self.kernels.load_weight(&weight))
    }

    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError> {
        Ok(host_values(values, dtype))
    }

    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        Ok(Box::new(HostStaging::new(bytes)))
    }

    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        Ok(Box::new(HostReadback::new(bytes)))
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) -> Result<(), DeviceError> {
        copy_rows(from, to);
        Ok(())
    }
}
