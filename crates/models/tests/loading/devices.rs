//! A device that takes only some formats, whole or in pieces.

use std::cell::RefCell;
use std::sync::Mutex;

use ops::{
    Device, DeviceError, DeviceInfo, Float8Rows, HostValues, HostWeight, Kernels, Readback,
    ReferenceDevice, Staging, StreamError, Weight, WeightFormat, WeightRows, WeightStream,
};
use tensor::{Buffer, DType, View, ViewMut};

/// The reference with fewer formats; remembers every number it was given.
pub(crate) struct Narrow {
    inner: ReferenceDevice,
    info: DeviceInfo,
    formats: Vec<WeightFormat>,
    /// Rows of a piece where weights come in pieces.
    piece: Option<usize>,
    pub(crate) loaded: RefCell<Vec<f32>>,
}

impl Narrow {
    pub(crate) fn new(formats: &[WeightFormat]) -> Self {
        let inner = ReferenceDevice::default();
        Self {
            info: inner.info().clone(),
            inner,
            formats: formats.to_vec(),
            piece: None,
            loaded: RefCell::default(),
        }
    }

    /// The formats of GPUs; weights come whole, or in pieces of so many rows.
    pub(crate) fn gpu(piece: Option<usize>) -> Self {
        let mut device = Self::new(&[
            WeightFormat::Plain(DType::BF16),
            WeightFormat::Float8 { group: 0 },
            WeightFormat::Float8 { group: 128 },
        ]);
        device.info.activation = DType::BF16;
        device.piece = piece;
        device
    }
}

impl Device for Narrow {
    fn info(&self) -> &DeviceInfo {
        &self.info
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

    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        Ok(self.piece.map(|piece| {
            let stream: Box<dyn WeightStream> = Box::new(Pieces {
                device: self,
                piece,
            });
            stream
        }))
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

/// Takes pieces on two threads, the last piece first.
struct Pieces<'d> {
    device: &'d Narrow,
    piece: usize,
}

impl WeightStream for Pieces<'_> {
    fn load(&self, rows: &dyn WeightRows) -> Result<Weight, StreamError> {
        let ((count, cols), format, piece) = (rows.shape(), rows.format(), self.piece);
        let width = format.bytes_of(cols);
        let mut bytes = vec![0xff; count * width];
        let pieces = Mutex::new(bytes.chunks_mut(piece * width).enumerate().rev());
        let carry = || {
            loop {
                let next = pieces.lock().expect("nobody panics").next();
                let Some((index, out)) = next else {
                    return Ok(());
                };
                let first = index * piece;
                rows.write(first..first + out.len() / width, out)?;
            }
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(carry);
            carry().and(other.join().expect("nobody panics"))
        })
        .map_err(StreamError::Rows)?;
        let values = match format {
            WeightFormat::Plain(dtype) => HostValues::Plain(dtype, bytes.into()),
            _ => HostValues::Float8(Float8Rows {
                codes: bytes.into(),
                ..rows.scales()
            }),
        };
        let weight = HostWeight {
            rows: count,
            cols,
            values,
        };
        Ok(self.device.load_weight(weight)?)
    }
}
