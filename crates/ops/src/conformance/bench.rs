//! Matrices that exist twice: on the host for the reference, on the device under test.

use tensor::{Buffer, DType, View, ViewMut};

use super::compare::{self, Kind, Tolerances};
use super::run::{Outcome, Report};
use crate::host::host_values;
use crate::{Device, DeviceError, OpError, Staging, WeightFormat, float8, rng};

/// Bytes that go up at once.
const PIECE: usize = 1 << 20;
/// Columns left and right of a strided matrix that nobody may touch.
const MARGIN: usize = 3;

/// A device, a source of numbers, and what was found.
pub(super) struct Bench<'d> {
    pub(super) device: &'d dyn Device,
    pub(super) report: Report,
    tolerances: Tolerances,
    staging: Box<dyn Staging>,
    drawn: u32,
}

/// A matrix on both sides.
pub(super) struct Twin {
    host: Buffer,
    device: Buffer,
    rows: usize,
    cols: usize,
    /// Columns left and right of it.
    margin: usize,
    host_type: DType,
    device_type: DType,
}

impl Twin {
    fn width(&self) -> usize {
        self.cols + 2 * self.margin
    }

    fn columns(&self) -> std::ops::Range<usize> {
        self.margin..self.margin + self.cols
    }

    /// For the reference.
    pub(super) fn host(&self) -> View<'_> {
        let whole = self.host.view(0, self.rows, self.width(), self.host_type);
        whole.columns(self.columns())
    }

    /// For the reference or for the device.
    pub(super) fn side(&self, on_host: bool) -> View<'_> {
        if on_host { self.host() } else { self.device() }
    }

    /// For the reference, to write.
    pub(super) fn host_mut(&mut self) -> ViewMut<'_> {
        let (width, columns) = (self.width(), self.columns());
        let whole = self.host.view_mut(0, self.rows, width, self.host_type);
        whole.columns(columns)
    }

    /// For the reference and for the device, to write.
    pub(super) fn both_mut(&mut self) -> (ViewMut<'_>, ViewMut<'_>) {
        let (rows, width, columns) = (self.rows, self.width(), self.columns());
        let host = self.host.view_mut(0, rows, width, self.host_type);
        let device = self.device.view_mut(0, rows, width, self.device_type);
        (host.columns(columns.clone()), device.columns(columns))
    }

    /// Expects what another one expects.
    pub(super) fn take_host(&mut self, other: Self) {
        self.host = other.host;
    }

    /// For the device.
    pub(super) fn device(&self) -> View<'_> {
        let whole = self
            .device
            .view(0, self.rows, self.width(), self.device_type);
        whole.columns(self.columns())
    }

    /// For the device, to write.
    pub(super) fn device_mut(&mut self) -> ViewMut<'_> {
        let (width, columns) = (self.width(), self.columns());
        let whole = self.device.view_mut(0, self.rows, width, self.device_type);
        whole.columns(columns)
    }
}

impl<'d> Bench<'d> {
    pub(super) fn new(device: &'d dyn Device, tolerances: Tolerances) -> Self {
        Self {
            device,
            report: Report::default(),
            tolerances,
            staging: device
                .staging(PIECE)
                .expect("a device has a mebibyte of staging"),
            drawn: 0,
        }
    }

    /// Type of activations.
    pub(super) fn activation(&self) -> DType {
        self.device.info().activation
    }

    /// Type of plain weights: two bytes where the device takes them.
    pub(super) fn plain_weight_type(&self) -> DType {
        if self.device.supports(WeightFormat::Plain(DType::BF16)) {
            DType::BF16
        } else {
            DType::F32
        }
    }

    /// True when the device keeps plain weights as bf12 too.
    pub(super) fn encodes_weights(&self) -> bool {
        let plain = WeightFormat::Plain(DType::BF16);
        self.device.folded_bytes((1024, 1024), plain) > 0
    }

    /// True when the device runs models with heads so wide.
    pub(super) fn takes_heads(&self, dim: usize) -> bool {
        dim <= self.device.largest().heads.dim
    }

    /// A number that is about normal.
    pub(super) fn normal(&mut self) -> f32 {
        self.drawn += 1;
        let words = rng::philox(1, u64::from(self.drawn), 0);
        // Four uniform numbers added: mean 2, variance 1/3.
        let sum: f32 = words
            .iter()
            .map(|&word| word as f32 / 4_294_967_296.0)
            .sum();
        (sum - 2.0) * 3f32.sqrt()
    }

    /// So many normal numbers.
    pub(super) fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        (rng::uniform(2, 0, self.drawn) * bound as f32) as usize % bound
    }

    /// So many normal numbers, times a factor.
    pub(super) fn loud(&mut self, count: usize, by: f32) -> Vec<f32> {
        (0..count).map(|_| by * self.normal()).collect()
    }

    /// How loud keys and values are that are stored: beyond the largest number too, where the cache's type has a small one.
    pub(super) fn loudness(&self) -> &'static [f32] {
        match self.device.info().kv {
            DType::F8E4M3 => &[1.0, 300.0],
            _ => &[1.0],
        }
    }

    /// Random activations.
    pub(super) fn activations(&mut self, rows: usize, cols: usize) -> Twin {
        self.placed_activations(rows, cols, false, 1.0)
    }

    /// Random activations inside a wider matrix.
    pub(super) fn strided_activations(&mut self, rows: usize, cols: usize) -> Twin {
        self.placed_activations(rows, cols, true, 1.0)
    }

    /// Random activations times a factor, in a wider matrix or not: where rows begin decides how some devices read them.
    pub(super) fn placed_activations(
        &mut self,
        rows: usize,
        cols: usize,
        inside: bool,
        by: f32,
    ) -> Twin {
        let margin = if inside { MARGIN } else { 0 };
        let width = cols + 2 * margin;
        let values = self.loud(rows * width, by);
        let mut twin = self.floats(rows, width, self.activation(), &values);
        (twin.cols, twin.margin) = (cols, margin);
        twin
    }

    /// Given numbers as floats of one type on both sides.
    pub(super) fn floats(
        &mut self,
        rows: usize,
        cols: usize,
        dtype: DType,
        values: &[f32],
    ) -> Twin {
        let host = host_values(values, dtype);
        self.twin(host, rows, cols, dtype)
    }

    /// One row of u32.
    pub(super) fn ints(&mut self, values: &[u32]) -> Twin {
        self.int_matrix(1, values.len(), values)
    }

    /// A matrix of u32.
    pub(super) fn int_matrix(&mut self, rows: usize, cols: usize, values: &[u32]) -> Twin {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.bytes(rows, cols, DType::U32, &bytes)
    }

    /// A matrix given as bytes.
    pub(super) fn bytes(&mut self, rows: usize, cols: usize, dtype: DType, bytes: &[u8]) -> Twin {
        let mut host = Buffer::host(bytes.len());
        host.view_mut(0, 1, bytes.len(), DType::U8)
            .row_bytes_mut(0)
            .copy_from_slice(bytes);
        self.twin(host, rows, cols, dtype)
    }

    /// A poisoned destination: f32 on the host, activations on the device.
    pub(super) fn output(&mut self, rows: usize, cols: usize, margin: bool) -> Twin {
        self.poisoned(rows, cols, margin, (DType::F32, self.activation()))
    }

    /// A poisoned destination of one type.
    pub(super) fn typed_output(&mut self, rows: usize, cols: usize, dtype: DType) -> Twin {
        self.poisoned(rows, cols, false, (dtype, dtype))
    }

    /// A poisoned destination, of one type on the host and one on the device.
    pub(super) fn poisoned(
        &mut self,
        rows: usize,
        cols: usize,
        margin: bool,
        (host_type, device_type): (DType, DType),
    ) -> Twin {
        let margin = if margin { MARGIN } else { 0 };
        let elements = rows * (cols + 2 * margin);
        let poison = |dtype: DType| vec![0xFF; elements * dtype.size()];
        let twin = self.bytes(1, elements, host_type, &poison(host_type));
        let device = self.upload(&poison(device_type));
        Twin {
            host: twin.host,
            device,
            rows,
            cols,
            margin,
            host_type,
            device_type,
        }
    }

    fn twin(&mut self, host: Buffer, rows: usize, cols: usize, dtype: DType) -> Twin {
        let device = self.upload(host.view(0, 1, host.bytes(), DType::U8).into_slice());
        Twin {
            host,
            device,
            rows,
            cols,
            margin: 0,
            host_type: dtype,
            device_type: dtype,
        }
    }

    /// Memory that holds these bytes.
    pub(super) fn memory(&mut self, bytes: &[u8], on_host: bool) -> Buffer {
        if !on_host {
            return self.upload(bytes);
        }
        let mut memory = Buffer::host(bytes.len());
        memory
            .view_mut(0, 1, bytes.len(), DType::U8)
            .row_bytes_mut(0)
            .copy_from_slice(bytes);
        memory
    }

    fn upload(&mut self, bytes: &[u8]) -> Buffer {
        let result = (|| -> Result<Buffer, DeviceError> {
            let mut buffer = self
                .device
                .allocate(bytes.len().max(1), "a conformance case")?;
            for (index, piece) in bytes.chunks(PIECE).enumerate() {
                self.staging.host()?[..piece.len()].copy_from_slice(piece);
                self.staging.send(piece.len())?;
                let from = self.staging.device().columns(0..piece.len());
                let to = buffer.view_mut(index * PIECE, 1, piece.len(), DType::U8);
                self.device.copy(from, to)?;
            }
            Ok(buffer)
        })();
        result.expect("a device takes the inputs of a case")
    }

    /// The whole device side of a matrix, margins included.
    fn download(&self, twin: &Twin) -> Result<Vec<f64>, DeviceError> {
        let whole = twin
            .device
            .view(0, twin.rows, twin.width(), twin.device_type);
        fetch(self.device, whole)
    }

    /// Copies the device side of a matrix.
    pub(super) fn copy(&self, from: &Twin, to: &mut Twin) -> Result<(), OpError> {
        Ok(self.device.copy(from.device(), to.device_mut())?)
    }

    /// Compares one destination after an op has run on both sides.
    pub(super) fn compare(
        &mut self,
        op: &'static str,
        case: &str,
        kind: Kind,
        ran: &Result<(), OpError>,
        twin: &Twin,
    ) {
        let error = match ran {
            Err(error) => Err(error.to_string()),
            Ok(()) => self
                .download(twin)
                .map(|found| inner_error(&found, twin))
                .map_err(|error| error.to_string()),
        };
        self.found(op, case, kind, error);
    }

    /// Notes a result.
    pub(super) fn found(
        &mut self,
        op: &'static str,
        case: &str,
        kind: Kind,
        error: Result<f64, String>,
    ) {
        let bound = self.tolerances.bound(op, kind);
        self.report.outcomes.push(Outcome {
            op,
            case: case.to_owned(),
            kind,
            error,
            bound,
        });
    }

    /// The device side of a matrix, to compare bits with.
    pub(super) fn read(&self, twin: &Twin) -> Vec<f64> {
        self.download(twin)
            .expect("a device gives back what it holds")
    }
}

/// The numbers of a matrix in a device's memory.
pub(super) fn fetch(device: &dyn Device, from: View<'_>) -> Result<Vec<f64>, DeviceError> {
    let bytes = from.rows() * from.cols() * from.dtype().size();
    let mut readback = device.readback(bytes.max(1))?;
    if bytes > 0 {
        readback.fetch(from, 0)?;
    }
    readback.seal()?;
    Ok(numbers(&readback.wait()?[..bytes], from.dtype()))
}

/// The error inside the margins; infinite when the margins were written.
fn inner_error(found: &[f64], twin: &Twin) -> f64 {
    let whole = twin.host.view(0, 1, twin.host.bytes(), DType::U8);
    let reference = numbers(whole.into_slice(), twin.host_type);
    let width = twin.width().max(1);
    let (mut inner, mut expected) = (Vec::new(), Vec::new());
    for (found, reference) in found.chunks_exact(width).zip(reference.chunks_exact(width)) {
        inner.extend_from_slice(&found[twin.columns()]);
        expected.extend_from_slice(&reference[twin.columns()]);
        let touched = (0..width)
            .filter(|column| !twin.columns().contains(column))
            .any(|column| {
                let (found, before) = (found[column], reference[column]);
                found.to_bits() != before.to_bits() && !(found.is_nan() && before.is_nan())
            });
        if touched {
            return f64::INFINITY;
        }
    }
    compare::error(&inner, &expected)
}

/// Little-endian elements as numbers.
fn numbers(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let each = |f: fn(&[u8]) -> f64| bytes.chunks_exact(dtype.size()).map(f).collect();
    match dtype {
        DType::F32 => each(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        DType::F16 => each(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f64()),
        DType::BF16 => each(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f64()),
        DType::F8E4M3 => each(|b| f64::from(float8::decode(b[0]))),
        DType::U16 => each(|b| f64::from(u16::from_le_bytes([b[0], b[1]]))),
        DType::U32 => each(|b| f64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        other => panic!("no case compares {other}"),
    }
}
