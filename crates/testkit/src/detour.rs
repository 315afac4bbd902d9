//! Devices that pass calls on to another one, and do some of them differently.

use std::ops::Deref;
use std::sync::Arc;

use ops::{
    Device, DeviceError, DeviceInfo, Graph, HostWeight, InventedWeight, Kernels, Lowered, NoTracer,
    OpError, Program, Readback, Sizes, Staging, Step, StepClass, Tracer, Weight, WeightFormat,
    WeightStream, Weights,
};
use tensor::{Buffer, DType, View, ViewMut};

/// What may differ from the device inside; nothing does by itself.
pub trait Detour: Send {
    /// The kind of device inside.
    type Inner: Device;

    /// The device inside.
    fn inner(&self) -> &Self::Inner;

    /// As of [`Device`].
    fn info(&self) -> &DeviceInfo {
        self.inner().info()
    }

    /// As of [`Device`].
    fn largest(&self) -> Sizes {
        self.inner().largest()
    }

    /// As of [`Device`].
    fn kernels(&self) -> &dyn Kernels {
        self.inner().kernels()
    }

    /// As of [`Device`].
    fn lower(&self, program: Arc<Program>, class: &StepClass) -> Lowered {
        self.inner().lower(program, class)
    }

    /// As of [`Device`].
    fn run(&self, list: &Lowered, weights: &Weights, step: &Step<'_>) -> Result<(), OpError> {
        self.inner().run(list, weights, step)
    }

    /// As of [`Device`].
    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        self.inner().allocate(bytes, what)
    }

    /// As of [`Device`].
    fn supports(&self, format: WeightFormat) -> bool {
        self.inner().supports(format)
    }

    /// As of [`Device`].
    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        self.inner().load_weight(weight)
    }

    /// As of [`Device`].
    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        self.inner().weight_stream()
    }

    /// As of [`Device`].
    fn invent_weight(
        &self,
        shape: (usize, usize),
        format: WeightFormat,
        seed: u64,
    ) -> Result<Option<InventedWeight>, DeviceError> {
        self.inner().invent_weight(shape, format, seed)
    }

    /// As of [`Device`].
    fn expect_bias(&self, weight: &Weight) -> Result<(), DeviceError> {
        self.inner().expect_bias(weight)
    }

    /// As of [`Device`].
    fn folded_bytes(&self, shape: (usize, usize), format: WeightFormat) -> usize {
        self.inner().folded_bytes(shape, format)
    }

    /// As of [`Device`].
    fn fold(&self, weight: &Weight) -> Result<usize, DeviceError> {
        self.inner().fold(weight)
    }

    /// As of [`Device`].
    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        self.inner().staging(bytes)
    }

    /// As of [`Device`].
    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        self.inner().readback(bytes)
    }

    /// As of [`Device`].
    fn capture(
        &self,
        run: &mut dyn FnMut() -> Result<(), OpError>,
    ) -> Result<Option<Box<dyn Graph>>, OpError> {
        self.inner().capture(run)
    }
}

/// A detour as a device.
pub struct Detoured<T>(pub T);

impl<T> Deref for Detoured<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Detour> Device for Detoured<T> {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn largest(&self) -> Sizes {
        self.0.largest()
    }

    fn bandwidth(&self) -> Option<f64> {
        self.0.inner().bandwidth()
    }

    fn tracer(&self) -> Result<Arc<dyn Tracer>, NoTracer> {
        self.0.inner().tracer()
    }

    fn kernels(&self) -> &dyn Kernels {
        self.0.kernels()
    }

    fn lower(&self, program: Arc<Program>, class: &StepClass) -> Lowered {
        self.0.lower(program, class)
    }

    fn run(&self, list: &Lowered, weights: &Weights, step: &Step<'_>) -> Result<(), OpError> {
        self.0.run(list, weights, step)
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        self.0.allocate(bytes, what)
    }

    fn supports(&self, format: WeightFormat) -> bool {
        self.0.supports(format)
    }

    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        self.0.load_weight(weight)
    }

    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        self.0.weight_stream()
    }

    fn invent_weight(
        &self,
        shape: (usize, usize),
        format: WeightFormat,
        seed: u64,
    ) -> Result<Option<InventedWeight>, DeviceError> {
        self.0.invent_weight(shape, format, seed)
    }

    fn expect_bias(&self, weight: &Weight) -> Result<(), DeviceError> {
        self.0.expect_bias(weight)
    }

    fn folded_bytes(&self, shape: (usize, usize), format: WeightFormat) -> usize {
        self.0.folded_bytes(shape, format)
    }

    fn fold(&self, weight: &Weight) -> Result<usize, DeviceError> {
        self.0.fold(weight)
    }

    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError> {
        self.0.inner().load_values(values, dtype)
    }

    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        self.0.staging(bytes)
    }

    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        self.0.readback(bytes)
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) -> Result<(), DeviceError> {
        self.0.inner().copy(from, to)
    }

    fn capture(
        &self,
        run: &mut dyn FnMut() -> Result<(), OpError>,
    ) -> Result<Option<Box<dyn Graph>>, OpError> {
        self.0.capture(run)
    }
}
