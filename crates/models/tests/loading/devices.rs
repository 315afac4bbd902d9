//! A device that takes only some formats.

use std::cell::RefCell;

use ops::{
    Device, DeviceError, DeviceInfo, HostWeight, Kernels, Readback, ReferenceDevice, Staging,
    Weight, WeightFormat,
};
use tensor::{Buffer, DType, View, ViewMut};

/// The reference with fewer formats; remembers every number it was given.
pub(crate) struct Narrow {
    inner: ReferenceDevice,
    formats: Vec<WeightFormat>,
    pub(crate) loaded: RefCell<Vec<f32>>,
}

impl Narrow {
    pub(crate) fn new(formats: &[WeightFormat]) -> Self {
        Self {
            inner: ReferenceDevice::default(),
            formats: formats.to_vec(),
            loaded: RefCell::default(),
        }
    }
}

impl Device for Narrow {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn kernels(&self) -> &dyn Kernels {
        self.inner.kernels()
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        self.inner.allocate(bytes, what)
    }

    fn supports(&self, format: WeightFormat) -> bool {
        self.formats.contains(&format)
    }

    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        assert!(
            self.supports(weight.format()),
            "{} was not asked for",
            weight.format()
        );
        let rows = (0..weight.rows).flat_map(|row| weight.row(row));
        self.loaded.borrow_mut().extend(rows);
        self.inner.load_weight(weight)
    }

    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError> {
        self.inner.load_values(values, dtype)
    }

    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        self.inner.staging(bytes)
    }

    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        self.inner.readback(bytes)
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) -> Result<(), DeviceError> {
        self.inner.copy(from, to)
    }
}
