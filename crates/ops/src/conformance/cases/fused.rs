//! A layer's end and the product behind it: what lies between them is the device's own business.

use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::linear::eight_bit_floats;
use crate::{
    Activation, AddRmsNorm, GatedActivation, GatedLinear, HostValues, HostWeight, Kernels,
    LateLinear, LateNorm, Linear, LinearAddNorm, NormState, OpError, Weight, WeightFormat,
};

/// Tokens, inputs, hidden, outputs of the product behind the norm.
const SHAPES: [(usize, usize, usize, usize); 9] = [
    (1, 256, 512, 768),
    (1, 1024, 576, 320),
    (2, 136, 200, 48),
    (3, 96, 64, 32),
    (8, 512, 128, 256),
    (13, 128, 448, 96),
    (33, 256, 256, 128),
    (64, 192, 256, 320),
    (70, 128, 192, 64),
];

const EPS: f32 = 1e-6;

/// How the weights of a case are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Plain,
    /// Eight-bit floats with a scale a row.
    RowScales,
    /// Eight-bit floats with a scale for 128 × 128 of them.
    BlockScales,
}

fn weight(bench: &mut Bench<'_>, rows: usize, cols: usize, numbers: Numbers) -> (Weight, Vec<f32>) {
    let values = match numbers {
        Numbers::Plain => plain(bench, rows, cols),
        Numbers::RowScales => eight_bit_floats(bench, rows, cols, [1, cols]),
        Numbers::BlockScales => eight_bit_floats(bench, rows, cols, [128, 128]),
    };
    let host = HostWeight { rows, cols, values };
    let numbers = (0..rows).flat_map(|row| host.row(row)).collect();
    let loaded = bench.device.load_weight(host);
    (loaded.expect("a device takes what it supports"), numbers)
}

fn plain(bench: &mut Bench<'_>, rows: usize, cols: usize) -> HostValues<'static> {
    let numbers: Vec<f32> = bench.normals(rows * cols);
    let dtype = if bench.device.supports(WeightFormat::Plain(DType::BF16)) {
        DType::BF16
    } else {
        DType::F32
    };
    let buffer = crate::host::host_values(&numbers, dtype);
    let bytes = buffer.view(0, 1, buffer.bytes(), DType::U8);
    HostValues::Plain(dtype, bytes.row::<u8>(0).to_vec().into())
}

/// Everything of one case, on both sides.
struct LayerEnd {
    first: (Weight, Vec<f32>),
    readers: [Weight; 1],
    reader_numbers: Vec<f32>,
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

impl LayerEnd {
    fn new(bench: &mut Bench<'_>, index: usize, numbers: Numbers) -> Self {
        let (tokens, inputs, hidden, outputs) = SHAPES[index];
        let (reader, reader_numbers) = weight(bench, outputs, hidden, numbers);
        let norm = bench.normals(hidden);
        let parts = hidden.div_ceil(LateNorm::PART);
        Self {
            first: weight(bench, hidden, inputs, numbers),
            readers: [reader],
            reader_numbers,
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
            residual: self.residual.device_mut(),
            weight: self.norm.device(),
            eps: EPS,
            out: self.normed.device_mut(),
            squares: self.squares.device_mut(),
            readers: &self.readers,
        })
    }

    fn late(&self, state: NormState) -> Option<LateNorm<'_>> {
        (state == NormState::Late).then(|| LateNorm {
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
        match self.late(state) {
            Some(norm) => kernels.late_linear(LateLinear { product, norm }),
            None => kernels.linear(product),
        }
    }

    fn gate(
        &self,
        kernels: &dyn Kernels,
        state: NormState,
        (room, out): (&mut Twin, &mut Twin),
    ) -> Result<(), OpError> {
        kernels.gated_linear(GatedLinear {
            product: self.product(room),
            norm: self.late(state),
            activation: self.activation,
            out: out.device_mut(),
        })
    }
}

/// `linear_add_norm`, then a product and a gated product of its results.
pub(super) fn layer_end(bench: &mut Bench<'_>) {
    layer_ends(bench, Numbers::Plain);
    let supports = |group| bench.device.supports(WeightFormat::Float8 { group });
    if supports(0) && supports(128) {
        layer_ends(bench, Numbers::RowScales);
        layer_ends(bench, Numbers::BlockScales);
    }
}

fn layer_ends(bench: &mut Bench<'_>, numbers: Numbers) {
    for (index, (tokens, inputs, hidden, outputs)) in SHAPES.into_iter().enumerate() {
        let mut case = LayerEnd::new(bench, index, numbers);
        case.reference();
        let kernels = bench.device.kernels();
        let ended = case.end(kernels);
        let state = *ended.as_ref().unwrap_or(&NormState::Done);
        let mut wide = std::mem::replace(&mut case.wide, bench.output(tokens, outputs, false));
        let mut room = bench.output(tokens, outputs, false);
        let mut gated = std::mem::replace(&mut case.gated, bench.output(1, 1, false));
        let read = case.read(kernels, state, &mut wide);
        let gate = case.gate(kernels, state, (&mut room, &mut gated));
        let (name, kind) = match numbers {
            Numbers::Plain => ("", Kind::Float(bench.activation())),
            Numbers::RowScales => ("fp8 a row ", Kind::Float8),
            Numbers::BlockScales => ("fp8 128×128 ", Kind::Float8),
        };
        let name = format!("{name}{tokens}×{inputs}→{hidden}→{outputs}, norm {state:?}");
        let ended = ended.map(|_| ());
        bench.compare("linear_add_norm", &name, kind, &ended, &case.residual);
        bench.compare("late_linear", &name, kind, &read, &wide);
        bench.compare("gated_linear", &name, kind, &gate, &gated);
    }
}
