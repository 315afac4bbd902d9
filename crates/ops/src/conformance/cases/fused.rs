//! A layer's end and the product behind it: what lies between them is the device's own business.

use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::linear::{eight_bit_floats, plain_of};
use crate::{
    Activation, AddRmsNorm, Form, GatedActivation, GatedLinear, HostValues, HostWeight, Inputs,
    Kernels, LateLinear, LateNorm, Linear, LinearAddNorm, NormState, OpError, PackedLinear, Weight,
    WeightFormat,
};

/// Tokens, inputs, hidden, outputs of the product behind the norm.
const SHAPES: [(usize, usize, usize, usize); 14] = [
    (1, 256, 512, 768),
    (1, 1024, 576, 320),
    (2, 136, 200, 48),
    (3, 96, 64, 32),
    (8, 512, 128, 256),
    // Hidden sizes that end within sixteen columns.
    (5, 128, 120, 64),
    (20, 128, 248, 64),
    (13, 128, 448, 96),
    (33, 256, 256, 128),
    (64, 192, 256, 320),
    (70, 128, 192, 64),
    // Products that a device may cut along their inputs.
    (131, 528, 264, 64),
    (200, 256, 128, 64),
    (256, 1024, 512, 128),
];

/// The same of cases with one more product behind the gates: devices that round the inputs of many rows may hand them on so.
const HANDED_ON: [(usize, usize, usize, usize); 3] =
    [(65, 96, 128, 64), (72, 256, 384, 256), (260, 128, 256, 512)];

/// Outputs of the product behind the gates.
const LAST: usize = 96;

const EPS: f32 = 1e-6;

/// How the weights of a case are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Plain,
    /// Kept folded too.
    Folded,
    /// Eight-bit floats with a scale a row.
    RowScales,
    /// Eight-bit floats with a scale for 128 × 128 of them.
    BlockScales,
}

fn weight(bench: &mut Bench<'_>, rows: usize, cols: usize, form: Numbers) -> (Weight, Vec<f32>) {
    let values = match form {
        Numbers::Plain | Numbers::Folded => plain(bench, rows, cols),
        Numbers::RowScales => eight_bit_floats(bench, rows, cols, [1, cols]),
        Numbers::BlockScales => eight_bit_floats(bench, rows, cols, [128, 128]),
    };
    let host = HostWeight { rows, cols, values };
    let numbers = (0..rows).flat_map(|row| host.row(row)).collect();
    let loaded = bench.device.load_weight(host);
    let loaded = loaded.expect("a device takes what it supports");
    if form == Numbers::Folded {
        bench.device.fold(&loaded).expect("room for it twice");
    }
    (loaded, numbers)
}

fn plain(bench: &mut Bench<'_>, rows: usize, cols: usize) -> HostValues<'static> {
    let numbers: Vec<f32> = bench.normals(rows * cols);
    plain_of(&numbers, bench.plain_weight_type())
}

/// Everything of one case, on both sides.
struct LayerEnd {
    first: (Weight, Vec<f32>),
    readers: [Weight; 1],
    reader_numbers: Vec<f32>,
    last: Option<Last>,
    x: Twin,
    biases: Option<[Twin; 2]>,
    norm: Twin,
    residual: Twin,
    delta: Twin,
    normed: Twin,
    squares: Twin,
    wide: Twin,
    gated: Twin,
    activation: Activation,
}

/// The product behind the gates.
struct Last {
    weight: [Weight; 1],
    numbers: Vec<f32>,
    sums: Twin,
}

impl Last {
    fn new(bench: &mut Bench<'_>, tokens: usize, inputs: usize, numbers: Numbers) -> Self {
        let (weight, numbers) = weight(bench, LAST, inputs, numbers);
        Self {
            weight: [weight],
            numbers,
            sums: bench.output(tokens, LAST, false),
        }
    }

    fn reference(&mut self, gated: &Twin) {
        Linear {
            x: gated.host(),
            weight: &self.weight[0],
            bias: None,
            out: self.sums.host_mut(),
        }
        .reference(&self.numbers);
    }

    /// Of gated rows in some form.
    fn run(&mut self, kernels: &dyn Kernels, gated: &Twin, form: Form) -> Result<(), OpError> {
        let product = Linear {
            x: gated.device(),
            weight: &self.weight[0],
            bias: None,
            out: self.sums.device_mut(),
        };
        Inputs::from(form).multiply(kernels, product)
    }
}

impl LayerEnd {
    fn new(
        bench: &mut Bench<'_>,
        index: usize,
        (tokens, inputs, hidden, outputs): (usize, usize, usize, usize),
        numbers: Numbers,
    ) -> Self {
        let (reader, reader_numbers) = weight(bench, outputs, hidden, numbers);
        let norm = bench.normals(hidden);
        let parts = hidden.div_ceil(LateNorm::PART);
        Self {
            first: weight(bench, hidden, inputs, numbers),
            readers: [reader],
            reader_numbers,
            last: None,
            x: bench.activations(tokens, inputs),
            biases: index
                .is_multiple_of(2)
                .then(|| [bench.activations(1, hidden), bench.activations(1, outputs)]),
            norm: bench.floats(1, hidden, DType::F32, &norm),
            residual: bench.activations(tokens, hidden),
            delta: bench.output(tokens, hidden, false),
            normed: bench.output(tokens, hidden, false),
            squares: bench.floats(tokens, parts, DType::F32, &vec![0.0; tokens * parts]),
            wide: bench.output(tokens, outputs, false),
            gated: bench.output(tokens, outputs / 2, false),
            activation: [Activation::Silu, Activation::GeluTanh][index % 2],
        }
    }

    fn reference(&mut self) {
        let bias = self.biases.as_ref().map(|biases| biases[0].host());
        Linear {
            x: self.x.host(),
            weight: &self.first.0,
            bias,
            out: self.delta.host_mut(),
        }
        .reference(&self.first.1);
        AddRmsNorm {
            x: self.delta.host(),
            residual: self.residual.host_mut(),
            weight: self.norm.host(),
            eps: EPS,
            out: self.normed.host_mut(),
        }
        .reference();
        let bias = self.biases.as_ref().map(|biases| biases[1].host());
        Linear {
            x: self.normed.host(),
            weight: &self.readers[0],
            bias,
            out: self.wide.host_mut(),
        }
        .reference(&self.reader_numbers);
        GatedActivation {
            gate_up: self.wide.host(),
            activation: self.activation,
            out: self.gated.host_mut(),
        }
        .reference();
        if let Some(last) = &mut self.last {
            last.reference(&self.gated);
        }
    }

    fn end(&mut self, kernels: &dyn Kernels) -> Result<NormState, OpError> {
        let bias = self.biases.as_ref().map(|biases| biases[0].device());
        kernels.linear_add_norm(LinearAddNorm {
            product: Linear {
                x: self.x.device(),
                weight: &self.first.0,
                bias,
                out: self.delta.device_mut(),
            },
            inputs: Inputs::Plain,
            residual: self.residual.device_mut(),
            weight: self.norm.device(),
            eps: EPS,
            out: self.normed.device_mut(),
            squares: self.squares.device_mut(),
            readers: &self.readers,
        })
    }

    fn inputs(&self, state: NormState) -> Inputs<'_> {
        state.inputs(LateNorm {
            squares: self.squares.device(),
            width: self.normed.device().cols(),
            eps: EPS,
        })
    }

    /// The reader's product into `out`.
    fn product<'a>(&'a self, out: &'a mut Twin) -> Linear<'a> {
        Linear {
            x: self.normed.device(),
            weight: &self.readers[0],
            bias: self.biases.as_ref().map(|biases| biases[1].device()),
            out: out.device_mut(),
        }
    }

    fn read(&self, kernels: &dyn Kernels, state: NormState, out: &mut Twin) -> Result<(), OpError> {
        let product = self.product(out);
        match self.inputs(state) {
            Inputs::Plain => kernels.linear(product),
            Inputs::Late(norm) => kernels.late_linear(LateLinear { product, norm }),
            Inputs::Packed => kernels.packed_linear(PackedLinear { product }),
        }
    }

    fn gate(
        &self,
        kernels: &dyn Kernels,
        state: NormState,
        (room, out): (&mut Twin, &mut Twin),
        readers: &[Weight],
    ) -> Result<Form, OpError> {
        kernels.gated_linear(GatedLinear {
            product: self.product(room),
            inputs: self.inputs(state),
            activation: self.activation,
            out: out.device_mut(),
            readers,
        })
    }
}

/// `linear_add_norm`, then a product and a gated product of its results, and in some cases one more of these.
pub(super) fn layer_end(bench: &mut Bench<'_>) {
    let supports = |group| bench.device.supports(WeightFormat::Float8 { group });
    let narrow = supports(0) && supports(128);
    let mut kinds = vec![Numbers::Plain];
    if bench.folds_weights() {
        kinds.push(Numbers::Folded);
    }
    if narrow {
        kinds.extend([Numbers::RowScales, Numbers::BlockScales]);
    }
    for &numbers in &kinds {
        for (index, shape) in SHAPES.into_iter().enumerate() {
            let case = LayerEnd::new(bench, index, shape, numbers);
            case.compare(bench, numbers);
        }
    }
    for &numbers in &kinds {
        for (index, shape) in HANDED_ON.into_iter().enumerate() {
            let mut case = LayerEnd::new(bench, index, shape, numbers);
            case.last = Some(Last::new(bench, shape.0, shape.3 / 2, numbers));
            case.compare(bench, numbers);
        }
    }
}

impl LayerEnd {
    fn compare(mut self, bench: &mut Bench<'_>, numbers: Numbers) {
        self.reference();
        let kernels = bench.device.kernels();
        let ended = self.end(kernels);
        let state = *ended.as_ref().unwrap_or(&NormState::Done);
        let rows = |of: &Twin| (of.host().rows(), of.host().cols());
        let ((tokens, outputs), (_, hidden)) = (rows(&self.wide), rows(&self.normed));
        let inputs = self.x.host().cols();
        let mut wide = std::mem::replace(&mut self.wide, bench.output(tokens, outputs, false));
        let mut room = bench.output(tokens, outputs, false);
        let mut gated = std::mem::replace(&mut self.gated, bench.output(1, 1, false));
        let read = self.read(kernels, state, &mut wide);
        let gate = self.gate(kernels, state, (&mut room, &mut gated), &[]);
        let (name, kind) = match numbers {
            Numbers::Plain => ("", Kind::Float(bench.activation())),
            Numbers::Folded => ("folded ", Kind::Float(bench.activation())),
            Numbers::RowScales => ("fp8 a row ", Kind::Float8),
            Numbers::BlockScales => ("fp8 128×128 ", Kind::Float8),
        };
        let name = format!("{name}{tokens}×{inputs}→{hidden}→{outputs}, norm {state:?}");
        let (ended, gate) = (ended.map(|_| ()), gate.map(|_| ()));
        bench.compare("linear_add_norm", &name, kind, &ended, &self.residual);
        bench.compare("late_linear", &name, kind, &read, &wide);
        bench.compare("gated_linear", &name, kind, &gate, &gated);
        let Some(mut last) = self.last.take() else {
            return;
        };
        let mut left = bench.output(tokens, outputs / 2, false);
        let form = self.gate(kernels, state, (&mut room, &mut left), &last.weight);
        let ran = form.and_then(|form| last.run(kernels, &left, form).map(|()| form));
        let form = *ran.as_ref().unwrap_or(&Form::Plain);
        let name = format!("{name}→{LAST}, gates {form:?}");
        bench.compare("late_linear", &name, kind, &ran.map(|_| ()), &last.sums);
    }
}
