//! A layer's end and the product behind it: what lies between them is the device's own business.

use tensor::DType;

use super::super::bench::Bench;
use super::super::compare::Kind;
use super::linear::{eight_bit_floats, plain_of};
use super::listed::{Given, Listed, compare};
use crate::program::{Elements, Output, VectorId, WeightId};
use crate::{Activation, HostWeight, WeightFormat};

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
    // GEMMs that a device may split along their inputs.
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
    /// Kept as bf12 too.
    Encoded,
    /// Eight-bit floats with a scale a row.
    RowScales,
    /// Eight-bit floats with a scale for 128 × 128 of them.
    BlockScales,
}

impl Numbers {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Encoded => "bf12 ",
            Self::RowScales => "fp8 a row ",
            Self::BlockScales => "fp8 128×128 ",
        }
    }

    fn kind(self, bench: &Bench<'_>) -> Kind {
        match self {
            Self::Plain | Self::Encoded => Kind::Float(bench.activation()),
            Self::RowScales | Self::BlockScales => Kind::Float8,
        }
    }

    fn weight(
        self,
        (bench, listed): (&mut Bench<'_>, &mut Listed),
        rows: usize,
        cols: usize,
    ) -> WeightId {
        let values = match self {
            Self::Plain | Self::Encoded => {
                let numbers = bench.normals(rows * cols);
                plain_of(&numbers, bench.plain_weight_type())
            }
            Self::RowScales => eight_bit_floats(bench, rows, cols, [1, cols]),
            Self::BlockScales => eight_bit_floats(bench, rows, cols, [128, 128]),
        };
        let weight = HostWeight { rows, cols, values };
        listed.weight(bench, &weight, self == Self::Encoded)
    }
}

/// How far the program of a case goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Product,
    Gates,
    Last,
}

/// A product that is added to the residual, its norm, and what reads that.
pub(super) fn layer_end(bench: &mut Bench<'_>) {
    let supports = |group| bench.device.supports(WeightFormat::Float8 { group });
    let narrow = supports(0) && supports(128);
    let mut kinds = vec![Numbers::Plain];
    if bench.encodes_weights() {
        kinds.push(Numbers::Encoded);
    }
    if narrow {
        kinds.extend([Numbers::RowScales, Numbers::BlockScales]);
    }
    for &numbers in &kinds {
        for (index, shape) in SHAPES.into_iter().enumerate() {
            one(bench, index, shape, (numbers, End::Product));
            one(bench, index, shape, (numbers, End::Gates));
        }
        for (index, shape) in HANDED_ON.into_iter().enumerate() {
            one(bench, index, shape, (numbers, End::Last));
        }
    }
}

fn one(
    bench: &mut Bench<'_>,
    index: usize,
    (tokens, inputs, hidden, outputs): (usize, usize, usize, usize),
    (numbers, end): (Numbers, End),
) {
    let mut listed = Listed::new(tokens);
    let (x, residual) = (
        bench.normals(tokens * inputs),
        bench.normals(tokens * hidden),
    );
    let (x, residual) = (listed.rows(bench, &x), listed.rows(bench, &residual));
    let first = numbers.weight((bench, &mut listed), hidden, inputs);
    let biased = index.is_multiple_of(2);
    let bias = biased.then(|| bias(bench, &mut listed, hidden));
    let delta = listed.recorder.linear(x, first, bias);
    let norm = bench.normals(hidden);
    let norm = listed.vector(bench, &norm, 1, Elements::Fixed(DType::F32));
    let (sum, normed) = listed.recorder.add_rms_norm((delta, residual), norm, EPS);
    let reader = numbers.weight((bench, &mut listed), outputs, hidden);
    let bias = biased.then(|| self::bias(bench, &mut listed, outputs));
    let mut result = listed.recorder.linear(normed, reader, bias);
    if end != End::Product {
        let activation = [Activation::Silu, Activation::GeluTanh][index % 2];
        result = listed.recorder.gated_activation(result, activation);
    }
    if end == End::Last {
        let last = numbers.weight((bench, &mut listed), LAST, outputs / 2);
        result = listed.recorder.linear(result, last, None);
    }
    listed.recorder.output(Output::Hidden, sum);
    listed.recorder.output(Output::Logits, result);
    let mut ran = listed.run(bench, &Given::default(), [None, None]);
    let name = format!(
        "{}{tokens}×{inputs}→{hidden}→{outputs}, {end:?}",
        numbers.name()
    );
    let kind = numbers.kind(bench);
    compare(
        bench,
        "linear, add_rms_norm",
        (&name, kind),
        &mut ran,
        Output::Hidden,
    );
    let op = match end {
        End::Product | End::Last => "norm, linear",
        End::Gates => "norm, linear, gates",
    };
    compare(bench, op, (&name, kind), &mut ran, Output::Logits);
}

fn bias(bench: &mut Bench<'_>, listed: &mut Listed, width: usize) -> VectorId {
    let values = bench.normals(width);
    listed.vector(bench, &values, 1, Elements::Activation)
}
