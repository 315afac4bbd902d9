use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use checkpoint::{CheckpointError, Encoding, TensorInfo, WeightSource, check_finite, widen};
use ops::{Device, DeviceError, Weight, WeightFormat, WeightStream};
use tensor::{Buffer, DType};

use crate::layer::{Embedding, Norm, Projection};
use crate::scales::{self, Grid};
use crate::stack::{Part, Stack, Stored};
use crate::streamed::Streamed;
use crate::{LoadError, Quantisation, format};

/// Told how many bytes of the checkpoint have been loaded, of how many.
pub type Progress<'a> = dyn FnMut(usize, usize) + 'a;

/// What a device did with weights once they had come.
#[derive(Clone, Copy)]
pub(crate) struct SetUp {
    /// How long it was busy with itself.
    pub(crate) time: Duration,
    /// Bytes of weights that are kept folded too.
    pub(crate) folded: usize,
}

/// Takes named tensors to a device, fusing what runs together.
pub(crate) struct Loader<'a> {
    source: &'a dyn WeightSource,
    device: &'a dyn Device,
    stream: Option<Box<dyn WeightStream + 'a>>,
    quantisation: &'a Quantisation,
    progress: RefCell<&'a mut Progress<'a>>,
    read: RefCell<BTreeSet<&'a str>>,
    /// Formats that were changed for the device, each to be told once.
    changed: RefCell<Vec<WeightFormat>>,
    done: RefCell<usize>,
    total: usize,
    /// How long the device was busy with itself.
    set_up: Cell<Duration>,
    /// Whether weights that are multiplied are folded, and bytes that this took.
    folds: bool,
    folded: Cell<usize>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        source: &'a dyn WeightSource,
        device: &'a dyn Device,
        quantisation: &'a Quantisation,
        folds: bool,
        progress: &'a mut Progress<'a>,
    ) -> Result<Self, LoadError> {
        let sizes = source.tensors().iter().map(|tensor| tensor.range.len());
        let stream = if source.is_invented() {
            None
        } else {
            device.weight_stream()?
        };
        Ok(Self {
            source,
            device,
            stream,
            quantisation,
            progress: RefCell::new(progress),
            read: RefCell::default(),
            changed: RefCell::default(),
            done: RefCell::new(0),
            total: sizes.sum(),
            set_up: Cell::default(),
            folds,
            folded: Cell::default(),
        })
    }

    /// Matrices of equal width, side by side: one weight for each run of equal formats.
    pub(crate) fn projection(
        &self,
        names: &[String],
        shape: (&[usize], usize),
        bias: bool,
    ) -> Result<Projection, LoadError> {
        let (rows, _) = shape;
        let weights = match self.invented(names, shape)? {
            Some(weight) => vec![weight],
            None => self.stacked(names, shape)?,
        };
        let bias = bias.then(|| self.bias(names, rows)).transpose()?;
        if bias.is_some() {
            let began = Instant::now();
            for weight in &weights {
                self.device.expect_bias(weight)?;
            }
            self.set_up_since(began);
        }
        self.fold(&weights)?;
        Ok(Projection::new(weights, bias))
    }

    /// Decode steps multiply these.
    pub(crate) fn fold(&self, weights: &[Weight]) -> Result<(), LoadError> {
        if !self.folds {
            return Ok(());
        }
        let began = Instant::now();
        for weight in weights {
            let bytes = self.device.fold(weight)?;
            self.folded.set(self.folded.get() + bytes);
        }
        self.set_up_since(began);
        Ok(())
    }

    fn stacked(
        &self,
        names: &[String],
        (rows, cols): (&[usize], usize),
    ) -> Result<Vec<Weight>, LoadError> {
        let mut stacks: Vec<Stack<'_>> = Vec::with_capacity(1);
        for (name, &rows) in names.iter().zip(rows) {
            let stored = self.tensor(&format!("{name}.weight"), &[rows, cols])?;
            let format = self.format(name, stored.tensor)?;
            let grid = self.grid(stored.tensor)?;
            let part = Part { stored, grid };
            match stacks.last_mut() {
                Some(stack) if stack.format == format => stack.parts.push(part),
                _ => stacks.push(Stack {
                    format,
                    parts: vec![part],
                }),
            }
        }
        stacks.iter().map(|stack| self.weight(stack)).collect()
    }

    /// Where the source has only numbers that mean nothing and the device can make up its own: all matrices as one.
    fn invented(
        &self,
        names: &[String],
        (rows, cols): (&[usize], usize),
    ) -> Result<Option<Weight>, LoadError> {
        if !self.source.is_invented() {
            return Ok(None);
        }
        let mut tensors = Vec::with_capacity(names.len());
        let mut format = None;
        for (name, &rows) in names.iter().zip(rows) {
            let tensor = self.described(&format!("{name}.weight"), &[rows, cols])?;
            let found = self.format(name, tensor)?;
            if format.is_some_and(|format| format != found) {
                return Ok(None);
            }
            format = Some(found);
            tensors.push(tensor);
        }
        let Some(format) = format else {
            return Ok(None);
        };
        let seed = *self.done.borrow() as u64;
        let shape = (rows.iter().sum(), cols);
        let Some(invented) = self.device.invent_weight(shape, format, seed)? else {
            return Ok(None);
        };
        self.set_up_since(invented.made);
        for tensor in tensors {
            self.count(tensor);
            if let Some(scales) = scales::of(self.source, tensor) {
                self.read.borrow_mut().insert(&scales.name);
                self.count(scales);
            }
        }
        Ok(Some(invented.weight))
    }

    /// A table of `rows` embeddings.
    pub(crate) fn embedding(
        &self,
        name: &str,
        rows: usize,
        cols: usize,
    ) -> Result<Embedding, LoadError> {
        let names = [name.to_owned()];
        let shape = (&[rows][..], cols);
        let weight = match self.invented(&names, shape)? {
            Some(weight) => Some(weight),
            None => self.stacked(&names, shape)?.pop(),
        };
        Ok(Embedding::new(
            weight.expect("one matrix becomes one weight"),
        ))
    }

    fn weight(&self, stack: &Stack<'_>) -> Result<Weight, LoadError> {
        let rows = Streamed::new(self.source, stack);
        let weight = match (&self.stream, rows) {
            (Some(stream), Some(rows)) => {
                let weight = stream.load(&rows)?;
                self.set_up_since(rows.written());
                weight
            }
            _ => self.device.load_weight(stack.read()?)?,
        };
        for part in &stack.parts {
            self.count(part.stored.tensor);
        }
        Ok(weight)
    }

    /// What the device did since then was for itself: nothing was read.
    fn set_up_since(&self, moment: Instant) {
        self.set_up.set(self.set_up.get() + moment.elapsed());
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
        let tensor = self.described(name, &[length])?;
        let values = self.values(tensor)?;
        let in_order = (0..length).map(|row| values[tensor.row_order.stored_row(row)]);
        Ok(in_order.collect())
    }

    /// All numbers of a tensor, as stored.
    fn values(&self, tensor: &'a TensorInfo) -> Result<Vec<f32>, LoadError> {
        let bytes = self.source.bytes(&tensor.name)?;
        check_finite(tensor, bytes)?;
        let mut values = vec![0.0; tensor.elements()];
        widen(tensor.encoding, bytes, &mut values).map_err(|error| LoadError::Tensor {
            name: tensor.name.clone(),
            message: error.to_string(),
        })?;
        self.read.borrow_mut().insert(&tensor.name);
        self.count(tensor);
        Ok(values)
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Stored<'a>, LoadError> {
        let tensor = self.described(name, shape)?;
        let bytes = self.source.bytes(name)?;
        Ok(Stored { tensor, bytes })
    }

    fn described(&self, name: &str, shape: &[usize]) -> Result<&'a TensorInfo, LoadError> {
        let tensor = self.source.find(name);
        let tensor = tensor.ok_or_else(|| CheckpointError::NoTensor {
            name: name.to_owned(),
        })?;
        if tensor.shape != shape {
            return Err(LoadError::Shape {
                name: name.to_owned(),
                found: tensor.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        self.read.borrow_mut().insert(&tensor.name);
        Ok(tensor)
    }

    /// The scales of eight-bit floats whose format is known; none for tensors that need none.
    fn grid(&self, weight: &TensorInfo) -> Result<Option<Grid>, LoadError> {
        let Some(tensor) = scales::of(self.source, weight) else {
            return Ok(None);
        };
        let block = scales::block_of(self.source, weight, self.quantisation);
        Ok(Some(Grid {
            block: block.expect("a format is known when scales fit"),
            scales: self.values(tensor)?,
        }))
    }

    /// The format in which the device takes a tensor; a change is told once.
    fn format(&self, module: &str, tensor: &TensorInfo) -> Result<WeightFormat, LoadError> {
        let stored = format::stored(self.source, tensor, self.quantisation);
        let stored = stored.ok_or_else(|| LoadError::Tensor {
            name: tensor.name.clone(),
            message: match tensor.encoding {
                Encoding::Plain(DType::F8E4M3) => "no scales cover it".to_owned(),
                _ => "these are not weights".to_owned(),
            },
        })?;
        let natural = format::wanted(module, stored, self.quantisation, self.device);
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

    fn count(&self, tensor: &TensorInfo) {
        *self.done.borrow_mut() += tensor.range.len();
        (self.progress.borrow_mut())(*self.done.borrow(), self.total);
    }

    /// Fails when tensors are left over that no part of the model asked for; tells what else the device did.
    pub(crate) fn finish(self, derived: &[&str]) -> Result<SetUp, LoadError> {
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
                Ok(SetUp {
                    time: self.set_up.get(),
                    folded: self.folded.get(),
                })
            }
            Some(first) => Err(LoadError::Unused {
                first: first.to_owned(),
                count: 1 + unused.count(),
            }),
        }
    }
}
