use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use checkpoint::gguf::blocks::{Groups, take_apart};
use checkpoint::{BlockFormat, Encoding, TensorInfo, WeightSource, check_finite, widen};
use ops::{AffineRows, Device, HostValues, HostWeight};
use tensor::{Buffer, DType};

use crate::LoadError;
use crate::layer::{Norm, Projection};

/// Told how many bytes of the checkpoint have been loaded, of how many.
pub type Progress<'a> = dyn FnMut(usize, usize) + 'a;

/// Takes named tensors to a device, fusing what runs together.
pub(crate) struct Loader<'a> {
    source: &'a dyn WeightSource,
    device: &'a dyn Device,
    progress: RefCell<&'a mut Progress<'a>>,
    read: RefCell<BTreeSet<String>>,
    done: RefCell<usize>,
    total: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        source: &'a dyn WeightSource,
        device: &'a dyn Device,
        progress: &'a mut Progress<'a>,
    ) -> Self {
        let total = source
            .tensors()
            .iter()
            .map(|tensor| tensor.range.len())
            .sum();
        Self {
            source,
            device,
            progress: RefCell::new(progress),
            read: RefCell::default(),
            done: RefCell::new(0),
            total,
        }
    }

    pub(crate) fn device(&self) -> &dyn Device {
        self.device
    }

    /// Matrices of equal width, one below the other, as one projection.
    pub(crate) fn projection(
        &self,
        names: &[String],
        shape: (&[usize], usize),
        bias: bool,
    ) -> Result<Projection, LoadError> {
        let (rows, cols) = shape;
        let mut parts = Vec::with_capacity(names.len());
        for (name, &rows) in names.iter().zip(rows) {
            let (tensor, bytes) = self.tensor(&format!("{name}.weight"), &[rows, cols])?;
            parts.push(host_weight(tensor, bytes)?);
        }
        let weight = self.device.load_weight(stacked(parts))?;
        let bias = bias.then(|| self.bias(names, rows)).transpose()?;
        Ok(Projection::new(weight, bias))
    }

    fn bias(&self, names: &[String], rows: &[usize]) -> Result<Buffer, LoadError> {
        let mut values = Vec::new();
        for (name, &rows) in names.iter().zip(rows) {
            values.extend(self.vector(&format!("{name}.bias"), rows)?);
        }
        Ok(self.device.load_values(&values, DType::F32)?)
    }

    pub(crate) fn norm(&self, name: &str, width: usize, eps: f32) -> Result<Norm, LoadError> {
        let values = self.vector(&format!("{name}.weight"), width)?;
        Ok(Norm::new(
            self.device.load_values(&values, DType::F32)?,
            width,
            eps,
        ))
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
        let (tensor, bytes) = self.tensor(name, &[length])?;
        let mut stored = vec![0.0; length];
        widen(tensor.encoding, bytes, &mut stored).map_err(|error| unreadable(tensor, &error))?;
        Ok((0..length)
            .map(|row| stored[tensor.row_order.stored_row(row)])
            .collect())
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<(&'a TensorInfo, &'a [u8]), LoadError> {
        let bytes = self.source.bytes(name)?;
        let tensor = self
            .source
            .find(name)
            .expect("a tensor that has bytes is listed");
        if tensor.shape != shape {
            return Err(LoadError::Shape {
                name: name.to_owned(),
                found: tensor.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        if matches!(tensor.encoding, Encoding::Block(_)) || tensor.shape.len() == 1 {
            check_finite(tensor, bytes)?;
        }
        if self.read.borrow_mut().insert(name.to_owned()) {
            *self.done.borrow_mut() += bytes.len();
            (self.progress.borrow_mut())(*self.done.borrow(), self.total);
        }
        Ok((tensor, bytes))
    }

    /// Fails when tensors are left over that no part of the model asked for.
    pub(crate) fn finish(&self, derived: &[&str]) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let unused: Vec<&str> = self
            .source
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
            .filter(|name| {
                !read.contains(*name) && !derived.iter().any(|derived| name.ends_with(derived))
            })
            .collect();
        match unused.first() {
            None => Ok(()),
            Some(&first) => Err(LoadError::Unused {
                count: unused.len(),
                first: first.to_owned(),
            }),
        }
    }
}

fn unreadable(tensor: &TensorInfo, error: &dyn std::fmt::Display) -> LoadError {
    LoadError::Tensor {
        name: tensor.name.clone(),
        message: error.to_string(),
    }
}

/// One tensor in the device-neutral form, its rows in the order that its name promises.
fn host_weight<'a>(tensor: &TensorInfo, bytes: &'a [u8]) -> Result<HostWeight<'a>, LoadError> {
    let (rows, cols) = (tensor.shape[0], tensor.shape[1]);
    let row_bytes = bytes.len() / rows;
    let reordered = (0..rows).any(|row| tensor.row_order.stored_row(row) != row);
    let stored = |row: usize| &bytes[tensor.row_order.stored_row(row) * row_bytes..][..row_bytes];
    let values = match tensor.encoding {
        Encoding::Plain(dtype @ (DType::F32 | DType::F16 | DType::BF16)) => {
            let bytes = if reordered {
                Cow::Owned((0..rows).flat_map(stored).copied().collect())
            } else {
                Cow::Borrowed(bytes)
            };
            HostValues::Plain(dtype, bytes)
        }
        Encoding::Plain(other) => {
            return Err(unreadable(
                tensor,
                &format_args!("{other} is not a type of weights"),
            ));
        }
        Encoding::Block(format) => HostValues::Affine(affine_rows(format, (rows, cols), stored)),
    };
    Ok(HostWeight { rows, cols, values })
}

/// Takes blocks apart, on as many threads as there are cores.
fn affine_rows<'b>(
    format: BlockFormat,
    (rows, cols): (usize, usize),
    stored: impl Fn(usize) -> &'b [u8] + Sync,
) -> AffineRows {
    let group = format.group();
    let groups = cols / group;
    let mut quants = vec![0u8; rows * cols];
    let mut scales = vec![0f32; rows * groups];
    let mut minimums = vec![0f32; rows * groups];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let parts = quants
            .chunks_mut(share * cols)
            .zip(scales.chunks_mut(share * groups))
            .zip(minimums.chunks_mut(share * groups));
        for (part, ((quants, scales), minimums)) in parts.enumerate() {
            let stored = &stored;
            scope.spawn(move || {
                let row_parts = quants
                    .chunks_mut(cols)
                    .zip(scales.chunks_mut(groups))
                    .zip(minimums.chunks_mut(groups));
                for (row, ((quants, scales), minimums)) in row_parts.enumerate() {
                    take_apart(
                        format,
                        stored(part * share + row),
                        Groups {
                            quants,
                            scales,
                            minimums,
                        },
                    );
                }
            });
        }
    });
    let bits = if format.bits() <= 4 { 4 } else { 8 };
    AffineRows {
        bits,
        group,
        quants,
        scales,
        minimums,
    }
}

/// Stacks matrices of equal width; different formats meet in the narrowest one that holds all of them exactly.
fn stacked(mut parts: Vec<HostWeight<'_>>) -> HostWeight<'_> {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let (rows, cols) = (parts.iter().map(|part| part.rows).sum(), parts[0].cols);
    let values = match stacked_affine(&parts) {
        Some(stacked) => HostValues::Affine(stacked),
        None => stacked_plain(&parts),
    };
    HostWeight { rows, cols, values }
}

fn stacked_affine(parts: &[HostWeight<'_>]) -> Option<AffineRows> {
    let parts: Vec<&AffineRows> = parts
        .iter()
        .map(|part| match &part.values {
            HostValues::Affine(rows) => Some(rows),
            HostValues::Plain(..) => None,
        })
        .collect::<Option<_>>()?;
    let group = parts.iter().map(|part| part.group).min()?;
    let spread = |part: &AffineRows, values: &[f32]| -> Vec<f32> {
        values
            .iter()
            .flat_map(|&value| std::iter::repeat_n(value, part.group / group))
            .collect()
    };
    Some(AffineRows {
        bits: parts.iter().map(|part| part.bits).max()?,
        group,
        quants: parts
            .iter()
            .flat_map(|part| part.quants.iter().copied())
            .collect(),
        scales: parts
            .iter()
            .flat_map(|part| spread(part, &part.scales))
            .collect(),
        minimums: parts
            .iter()
            .flat_map(|part| spread(part, &part.minimums))
            .collect(),
    })
}

fn stacked_plain<'a>(parts: &[HostWeight<'a>]) -> HostValues<'a> {
    let formats: BTreeSet<Option<DType>> = parts
        .iter()
        .map(|part| match &part.values {
            HostValues::Plain(dtype, _) => Some(*dtype),
            HostValues::Affine(_) => None,
        })
        .collect();
    if let (1, Some(Some(dtype))) = (formats.len(), formats.first()) {
        let bytes = parts.iter().flat_map(|part| match &part.values {
            HostValues::Plain(_, bytes) => bytes.iter().copied(),
            HostValues::Affine(_) => [].iter().copied(),
        });
        return HostValues::Plain(*dtype, Cow::Owned(bytes.collect()));
    }
    let numbers = parts
        .iter()
        .flat_map(|part| (0..part.rows).flat_map(|row| part.row(row)));
    HostValues::Plain(
        DType::F32,
        Cow::Owned(numbers.flat_map(f32::to_le_bytes).collect()),
    )
}
