use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use checkpoint::{CheckpointError, Encoding, TensorInfo, WeightSource, check_finite, widen};
use ops::program::{Change, VectorDecl, VectorSource, WeightDecl};
use ops::{Device, DeviceError, Program, Weight, WeightFormat, WeightStream, Weights};
use tensor::DType;

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

    /// Brings everything that a program declares to the device.
    pub(crate) fn load(&self, program: &Program) -> Result<Weights, LoadError> {
        let mut weights = Weights::default();
        for (id, decl) in program.weight_ids() {
            let parts = self.matrix(decl)?;
            if program.adds_bias(id) {
                let began = Instant::now();
                for weight in &parts {
                    self.device.expect_bias(weight)?;
                }
                self.set_up_since(began);
            }
            if program.multiplies(id) {
                self.fold(&parts)?;
            }
            weights.push_matrix(parts);
        }
        for decl in &program.vectors {
            let dtype = decl.elements.dtype(self.device.info().activation);
            let values = self.device.load_values(&self.vector(decl)?, dtype)?;
            weights.push_vector(values, dtype);
        }
        Ok(weights)
    }

    /// Matrices of equal width, side by side: one weight for each run of equal formats.
    fn matrix(&self, decl: &WeightDecl) -> Result<Vec<Weight>, LoadError> {
        match self.invented(decl)? {
            Some(weight) => Ok(vec![weight]),
            None => self.stacked(decl),
        }
    }

    /// Decode steps multiply these.
    fn fold(&self, weights: &[Weight]) -> Result<(), LoadError> {
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

    fn stacked(&self, decl: &WeightDecl) -> Result<Vec<Weight>, LoadError> {
        let mut stacks: Vec<Stack<'_>> = Vec::with_capacity(1);
        for part in &decl.parts {
            let stored =
                self.tensor(&format!("{}.weight", part.module), &[part.rows, decl.cols])?;
            let format = self.format(&part.module, stored.tensor)?;
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
    fn invented(&self, decl: &WeightDecl) -> Result<Option<Weight>, LoadError> {
        if !self.source.is_invented() {
            return Ok(None);
        }
        let mut tensors = Vec::with_capacity(decl.parts.len());
        let mut format = None;
        for part in &decl.parts {
            let shape = [part.rows, decl.cols];
            let tensor = self.described(&format!("{}.weight", part.module), &shape)?;
            let found = self.format(&part.module, tensor)?;
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
        let shape = (decl.rows(), decl.cols);
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

    /// The numbers of a vector or a table.
    fn vector(&self, decl: &VectorDecl) -> Result<Vec<f32>, LoadError> {
        let (parts, change) = match &decl.source {
            VectorSource::Computed(compute) => return Ok(compute()),
            VectorSource::Stored(parts, change) => (parts, *change),
        };
        let mut all = Vec::with_capacity(decl.cols);
        for (name, length) in parts {
            let tensor = self.described(name, &[*length])?;
            let values = self.values(tensor)?;
            let in_order = (0..*length).map(|row| values[tensor.row_order.stored_row(row)]);
            all.extend(in_order.map(|value| match change {
                Change::AsStored => value,
                Change::PlusOne => value + 1.0,
            }));
        }
        Ok(all)
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
