//! Small programs on both sides: what a device fuses, and how, is its own business.

use std::sync::Arc;

use tensor::{Buffer, DType};

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::linear::plain_of;
use crate::program::{
    Arena, Elements, Input, InputViews, Leaves, Output, Recorder, Sampled, Val, VectorDecl,
    VectorId, VectorSource, WeightDecl, WeightId,
};
use crate::{
    Device, DeviceError, HostWeight, KvCache, Lowered, OpError, RaggedBatch, ReferenceDevice, Step,
    StepClass, Weights,
};

/// A program that is being written, and its weights on both sides.
pub(super) struct Listed {
    pub(super) recorder: Recorder,
    device: Weights,
    reference: Weights,
    tokens: usize,
    ids: Option<Val>,
}

/// What a step is given besides, on both sides.
#[derive(Default)]
pub(super) struct Given<'t> {
    /// See [`Input`].
    pub(super) inputs: Vec<(Input, &'t Twin)>,
    /// See [`Step::drawing`].
    pub(super) drawing: Option<[&'t Twin; 3]>,
}

/// One side of what attention is given.
pub(super) type Attended<'a> = (RaggedBatch<'a>, KvCache<'a>);

/// What came of a run.
pub(super) struct Ran {
    arena: Buffer,
    list: Lowered,
    tokens: usize,
    pub(super) result: Result<(), OpError>,
}

impl Listed {
    /// Of steps with so many tokens.
    pub(super) fn new(tokens: usize) -> Self {
        Self {
            recorder: Recorder::default(),
            device: Weights::default(),
            reference: Weights::default(),
            tokens,
            ids: None,
        }
    }

    /// A matrix, which the device keeps as bf12 too when asked, if it can.
    pub(super) fn weight(
        &mut self,
        bench: &Bench<'_>,
        weight: &HostWeight<'_>,
        encoded: bool,
    ) -> WeightId {
        let id = self.recorder.weight(WeightDecl {
            parts: vec![crate::program::WeightPart {
                module: format!("{}x{}", weight.rows, weight.cols),
                rows: weight.rows,
            }],
            cols: weight.cols,
        });
        let load = |device: &dyn Device| {
            let loaded = device.load_weight(weight.clone());
            loaded.expect("a device takes what it supports")
        };
        let ours = load(bench.device);
        if encoded {
            bench.device.fold(&ours).expect("room for it twice");
        }
        self.device.push_matrix(vec![ours]);
        self.reference
            .push_matrix(vec![load(&ReferenceDevice::default())]);
        id
    }

    /// A row of numbers, or a table.
    pub(super) fn vector(
        &mut self,
        bench: &Bench<'_>,
        values: &[f32],
        rows: usize,
        elements: Elements,
    ) -> VectorId {
        let dtype = elements.dtype(bench.activation());
        let rounded = crate::host::host_values(values, dtype);
        let rounded = rounded.view(0, 1, values.len(), dtype);
        let numbers: Vec<f32> = (0..values.len()).map(|col| rounded.value(0, col)).collect();
        let load = |device: &dyn Device, dtype| {
            let loaded = device.load_values(&numbers, dtype);
            loaded.expect("a device takes small vectors")
        };
        self.device.push_vector(load(bench.device, dtype), dtype);
        let reference = ReferenceDevice::default();
        self.reference
            .push_vector(load(&reference, DType::F32), DType::F32);
        self.recorder.vector(VectorDecl {
            source: VectorSource::Computed(Arc::new(Vec::new)),
            rows,
            cols: values.len() / rows,
            elements,
        })
    }

    /// Rows of given numbers, one a token.
    pub(super) fn rows(&mut self, bench: &Bench<'_>, values: &[f32]) -> Val {
        let table = HostWeight {
            rows: self.tokens,
            cols: values.len() / self.tokens,
            values: plain_of(values, bench.plain_weight_type()),
        };
        let table = self.weight(bench, &table, false);
        let ids = match self.ids {
            Some(ids) => ids,
            None => self.recorder.tokens(),
        };
        self.ids = Some(ids);
        self.recorder.embed(ids, table, 1.0)
    }

    /// Runs the program on both sides: the device's first.
    pub(super) fn run(
        self,
        bench: &mut Bench<'_>,
        given: &Given<'_>,
        mut attended: [Option<Attended<'_>>; 2],
    ) -> [Ran; 2] {
        let program = Arc::new(self.recorder.finish());
        program.verify().expect("a program that can run");
        let class = StepClass {
            tokens: self.tokens,
            is_exact: true,
            sampled: Sampled::All,
            leaves: Leaves::Logits,
            hidden: false,
        };
        let ids: Vec<u32> = (0..self.tokens as u32).collect();
        let ids = bench.ints(&ids);
        let reference = ReferenceDevice::default();
        let sides: [(&dyn Device, &Weights); 2] =
            [(bench.device, &self.device), (&reference, &self.reference)];
        let mut ran = Vec::with_capacity(2);
        for (on_host, (device, weights)) in [false, true].into_iter().zip(sides) {
            let list = device.lower(Arc::clone(&program), &class);
            let poison = vec![0xFF; list.layout.bytes().max(1)];
            let mut arena = bench.memory(&poison, on_host);
            let bytes = arena.bytes();
            let attended = attended[usize::from(on_host)].take();
            let caches: Vec<KvCache<'_>> = attended.iter().map(|(_, cache)| *cache).collect();
            let mut inputs = InputViews::default()
                .with(Input::StagedTokens, ids.side(on_host))
                .with(Input::LastTokens, ids.side(on_host));
            for (input, twin) in &given.inputs {
                inputs = inputs.with(*input, twin.side(on_host));
            }
            let drawing = given
                .drawing
                .map(|drawing| drawing.map(|twin| twin.side(on_host)));
            let result = device.run(
                &list,
                weights,
                &Step {
                    arena: Arena::new(arena.view_mut(0, 1, bytes, DType::U8)),
                    tokens: self.tokens,
                    sampled: self.tokens,
                    inputs,
                    batch: attended.map(|(batch, _)| batch),
                    caches: &caches,
                    drawing,
                },
            );
            ran.push(Ran {
                arena,
                list,
                tokens: self.tokens,
                result,
            });
        }
        ran.try_into().unwrap_or_else(|_| unreachable!("two sides"))
    }
}

/// Compares what both sides left.
pub(super) fn compare(
    bench: &mut Bench<'_>,
    op: &'static str,
    (name, kind): (&str, Kind),
    sides: &mut [Ran; 2],
    output: Output,
) {
    let [device, reference] = sides;
    let error = device.error(bench.device, reference, output);
    bench.found(op, name, kind, error);
}

impl Ran {
    /// How far what a device left is from what the reference did.
    fn error(
        &mut self,
        device: &dyn Device,
        reference: &mut Self,
        output: Output,
    ) -> Result<f64, String> {
        if let Err(error) = &self.result {
            return Err(error.to_string());
        }
        let read = |ran: &mut Self, device: &dyn Device| {
            let numbers = ran.numbers(device, output);
            numbers.map_err(|error| error.to_string())
        };
        let expected = read(reference, &ReferenceDevice::default())?;
        let found = read(self, device)?;
        Ok(super::super::compare::error(&found, &expected))
    }

    fn numbers(&mut self, device: &dyn Device, output: Output) -> Result<Vec<f64>, DeviceError> {
        let bytes = self.arena.bytes();
        let arena = Arena::new(self.arena.view_mut(0, 1, bytes, DType::U8));
        let left = self.list.output(output, arena, (self.tokens, self.tokens));
        let left = left.expect("the program leaves it");
        super::super::bench::fetch(device, left.view())
    }
}
