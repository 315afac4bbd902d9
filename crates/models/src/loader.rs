use std::cell::RefCell;
use std::collections::BTreeSet;

use checkpoint::{WeightSource, check_finite, widen};
use ops::{Device, DeviceError, Weight, WeightFormat};
use tensor::{Buffer, DType};

use crate::LoadError;
use crate::format;
use crate::layer::{Embedding, Norm, Projection};
use crate::stack::{Stack, Stored};

/// Told how many bytes of the checkpoint have been loaded, of how many.
pub type Progress<'a> = dyn FnMut(usize, usize) + 'a;

/// Takes named tensors to a device, fusing what runs together.
pub(crate) struct Loader<'a> {
    source: &'a dyn WeightSource,
    device: &'a dyn Device,
    progress: RefCell<&'a mut Progress<'a>>,
    read: RefCell<BTreeSet<&'a str>>,
    /// Formats that were changed for the device, each to be told once.
    changed: RefCell<Vec<WeightFormat>>,
    done: RefCell<usize>,
    total: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        source: &'a dyn WeightSource,
        device: &'a dyn Device,
        progress: &'a mut Progress<'a>,
    ) -> Self {
        let sizes = source.tensors().iter().map(|tensor| tensor.range.len());
        Self {
            source,
            device,
            progress: RefCell::new(progress),
            read: RefCell::default(),
            changed: RefCell::default(),
            done: RefCell::new(0),
            total: sizes.sum(),
        }
    }

    pub(crate) fn device(&self) -> &dyn Device {
        self.device
    }

    /// Matrices of equal width, side by side: one weight for each run of equal formats.
    pub(crate) fn projection(
        &self,
        names: &[String],
        shape: (&[usize], usize),
        bias: bool,
    ) -> Result<Projection, LoadError> {
        let (rows, cols) = shape;
        let mut stacks: Vec<Stack<'_>> = Vec::with_capacity(1);
        for (name, &rows) in names.iter().zip(rows) {
            let stored = self.tensor(&format!("{name}.weight"), &[rows, cols])?;
            let format = self.format(&stored)?;
            match stacks.last_mut() {
                Some(stack) if stack.format == format => stack.parts.push(stored),
                _ => stacks.push(Stack {
                    format,
                    parts: vec![stored],
                }),
            }
        }
        let weights: Result<Vec<Weight>, LoadError> =
            stacks.iter().map(|stack| self.weight(stack)).collect();
        let bias = bias.then(|| self.bias(names, rows)).transpose()?;
        Ok(Projection::new(weights?, bias))
    }

    /// A table of `rows` embeddings.
    pub(crate) fn embedding(
        &self,
        name: &str,
        rows: usize,
        cols: usize,
    ) -> Result<Embedding, LoadError> {
        let stored = self.tensor(&format!("{name}.weight"), &[rows, cols])?;
        let format = self.format(&stored)?;
        let parts = vec![stored];
        Ok(Embedding::new(self.weight(&Stack { format, parts })?))
    }

    fn weight(&self, stack: &Stack<'_>) -> Result<Weight, LoadError> {
        let weight = self.device.load_weight(stack.read()?)?;
        for part in &stack.parts {
            self.count(part);
        }
        Ok(weight)
    }

    fn bias(&self, names: &[String], rows: &[usize]) -> Result<Buffer, LoadError> {
        let mut values = Vec::new();
        for (name, &rows) in names.iter().zip(rows) {
            values.extend(self.vector(&format!("{name}.bias"), rows)?);
        }
        Ok(self
            .device
            .load_values(&values, self.device.info().activation)?)
    }

    pub(crate) fn norm(&self, name: &str, width: usize, eps: f32) -> Result<Norm, LoadError> {
        let values = self.vector(&format!("{name}.weight"), width)?;
        let weight = self.device.load_values(&values, DType::F32)?;
        Ok(Norm::new(weight, width, eps))
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
        let stored = self.tensor(name, &[length])?;
        let Stored { tensor, bytes } = stored;
        check_finite(tensor, bytes)?;
        let mut values = vec![0.0; length];
        widen(tensor.encoding, bytes, &mut values).map_err(|error| unreadable(&stored, &error))?;
        self.count(&stored);
        let in_order = (0..length).map(|row| values[tensor.row_order.stored_row(row)]);
        Ok(in_order.collect())
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Stored<'a>, LoadError> {
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
        self.read.borrow_mut().insert(&tensor.name);
        Ok(Stored { tensor, bytes })
    }

    /// The format in which the device takes a tensor; a change is told once.
    fn format(&self, stored: &Stored<'_>) -> Result<WeightFormat, LoadError> {
        let encoding = stored.tensor.encoding;
        let natural = format::natural(encoding)
            .ok_or_else(|| unreadable(stored, &"these are not weights"))?;
        let accepted = format::accepted(self.device, natural).ok_or_else(|| {
            DeviceError::UnsupportedWeight {
                device: self.device.info().name.clone(),
                format: natural.to_string(),
            }
        })?;
        if accepted != natural && !self.changed.borrow().contains(&natural) {
            self.changed.borrow_mut().push(natural);
            let device = &self.device.info().name;
            tracing::info!(
                "{device} has no kernel for weights in {natural}, they become {accepted}"
            );
        }
        Ok(accepted)
    }

    fn count(&self, stored: &Stored<'_>) {
        *self.done.borrow_mut() += stored.bytes.len();
        (self.progress.borrow_mut())(*self.done.borrow(), self.total);
    }

    /// Fails when tensors are left over that no part of the model asked for.
    pub(crate) fn finish(&self, derived: &[&str]) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let names = self
            .source
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str());
        let mut unused = names.filter(|name| {
            !read.contains(name) && !derived.iter().any(|derived| name.ends_with(derived))
        });
        match unused.next() {
            None => {
                (self.progress.borrow_mut())(self.total, self.total);
                Ok(())
            }
            Some(first) => Err(LoadError::Unused {
                first: first.to_owned(),
                count: 1 + unused.count(),
            }),
        }
    }
}

fn unreadable(stored: &Stored<'_>, error: &dyn std::fmt::Display) -> LoadError {
    LoadError::Tensor {
        name: stored.tensor.name.clone(),
        message: error.to_string(),
    }
}
