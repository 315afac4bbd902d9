//! A device that takes only some formats, whole or in pieces.

use std::cell::RefCell;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ops::{
    Device, DeviceError, DeviceInfo, Float8Rows, HostValues, HostWeight, InventedWeight,
    ReferenceDevice, Sizes, StreamError, Weight, WeightFormat, WeightRows, WeightStream,
};
use tensor::DType;
use testkit::detour::{Detour, Detoured};

/// The reference with fewer formats; remembers every number it was given.
pub(crate) type Narrow = Detoured<NarrowFormats>;

pub(crate) struct NarrowFormats {
    inner: ReferenceDevice,
    info: DeviceInfo,
    formats: Vec<WeightFormat>,
    /// Rows of a piece where weights come in pieces.
    piece: Option<usize>,
    /// The largest model that it takes.
    pub(crate) largest: Sizes,
    /// Whether it makes up weights of bf16 by itself.
    pub(crate) invents: bool,
    pub(crate) loaded: RefCell<Vec<f32>>,
    /// Outputs of the weights whose products will add a bias.
    pub(crate) biased: RefCell<Vec<usize>>,
    /// Outputs of the weights that were to be folded; each takes a byte an output.
    pub(crate) folded: RefCell<Vec<usize>>,
    /// How long it asked for pieces or made weights up, and how long it went on when it had all of a weight.
    pub(crate) busy: RefCell<(Duration, Duration)>,
}

pub(crate) fn narrow(formats: &[WeightFormat]) -> Narrow {
    let inner = ReferenceDevice::default();
    Detoured(NarrowFormats {
        info: inner.info().clone(),
        inner,
        formats: formats.to_vec(),
        piece: None,
        largest: Sizes::ANY,
        invents: false,
        loaded: RefCell::default(),
        biased: RefCell::default(),
        folded: RefCell::default(),
        busy: RefCell::default(),
    })
}

/// The formats of GPUs; weights come whole, or in pieces of so many rows.
pub(crate) fn narrow_as_gpus(piece: Option<usize>) -> Narrow {
    let mut device = narrow(&[
        WeightFormat::Plain(DType::BF16),
        WeightFormat::Float8 { group: 0 },
        WeightFormat::Float8 { group: 128 },
    ]);
    device.0.info.activation = DType::BF16;
    device.0.piece = piece;
    device
}

impl Detour for NarrowFormats {
    type Inner = ReferenceDevice;

    fn inner(&self) -> &ReferenceDevice {
        &self.inner
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn largest(&self) -> Sizes {
        self.largest
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

    fn invent_weight(
        &self,
        (rows, cols): (usize, usize),
        format: WeightFormat,
        _: u64,
    ) -> Result<Option<InventedWeight>, DeviceError> {
        if !self.invents || format != WeightFormat::Plain(DType::BF16) {
            return Ok(None);
        }
        let began = Instant::now();
        let values = HostValues::Plain(DType::BF16, vec![0; 2 * rows * cols].into());
        let made = Instant::now();
        let weight = self.load_weight(HostWeight { rows, cols, values })?;
        let (taking, going_on) = &mut *self.busy.borrow_mut();
        *taking += made - began;
        *going_on += made.elapsed();
        Ok(Some(InventedWeight { weight, made }))
    }

    fn expect_bias(&self, weight: &Weight) -> Result<(), DeviceError> {
        self.biased.borrow_mut().push(weight.rows());
        Ok(())
    }

    fn folded_bytes(&self, (rows, _): (usize, usize), _: WeightFormat) -> usize {
        rows
    }

    fn fold(&self, weight: &Weight) -> Result<usize, DeviceError> {
        self.folded.borrow_mut().push(weight.rows());
        Ok(weight.rows())
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
}

/// Takes pieces on two threads, the last piece first.
struct Pieces<'d> {
    device: &'d NarrowFormats,
    piece: usize,
}

impl WeightStream for Pieces<'_> {
    fn load(&self, rows: &dyn WeightRows) -> Result<Weight, StreamError> {
        let began = Instant::now();
        let ((count, cols), format, piece) = (rows.shape(), rows.format(), self.piece);
        let width = format.bytes_of(cols);
        let mut bytes = vec![0xff; count * width];
        let pieces = Mutex::new(bytes.chunks_mut(piece * width).enumerate().rev());
        let last_begun = Mutex::new(began);
        let carry = || {
            loop {
                let next = pieces.lock().expect("nobody panics").next();
                let Some((index, out)) = next else {
                    return Ok(());
                };
                *last_begun.lock().expect("nobody panics") = Instant::now();
                let first = index * piece;
                rows.write(first..first + out.len() / width, out)?;
            }
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(carry);
            carry().and(other.join().expect("nobody panics"))
        })
        .map_err(StreamError::Rows)?;
        let complete = Instant::now();
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
        let weight = self.device.load_weight(weight)?;
        let (taking, going_on) = &mut *self.device.busy.borrow_mut();
        *taking += last_begun.into_inner().expect("nobody panics") - began;
        *going_on += complete.elapsed();
        Ok(weight)
    }
}
