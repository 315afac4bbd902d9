//! Products of which only the largest result counts: with small whole numbers, whose sums are exact in any order, so that
//! tokens must be the same, also where several are as large.

use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::linear::plain_of;
use super::sampling::params;
use crate::{
    Draw, HostWeight, Inputs, Kernels, LateLinear, LateNorm, Linear, LinearLargest, OpError,
    Sample, SampleParams, Weight,
};

/// Rows, inputs, and tokens to choose from. Weights of so many inputs are folded in whole units, and in a part of one.
const SHAPES: [(usize, usize, usize); 9] = [
    (1, 128, 320),
    (2, 256, 96),
    (3, 256, 1056),
    (8, 128, 64),
    (9, 192, 1056),
    (16, 384, 256),
    (33, 128, 2080),
    (64, 640, 672),
    (70, 128, 640),
];
const EPS: f32 = 1e-6;

/// What rows are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Numbers,
    /// The first row is not a number, so that none of its scores is; some of the second one's are not, and others are infinite.
    NotNumbers,
    /// They lack the factor of their norm.
    Late,
}

/// Small whole numbers. None is zero: a weight with many zeros is not folded.
fn whole(bench: &mut Bench<'_>, count: usize) -> Vec<f32> {
    const NUMBERS: [f32; 6] = [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0];
    let each = |_| NUMBERS[bench.below(NUMBERS.len())];
    (0..count).map(each).collect()
}

pub(super) fn linear_largest(bench: &mut Bench<'_>) {
    for shape in SHAPES {
        for folded in [false, true] {
            if folded && !bench.folds_weights() {
                continue;
            }
            for rows in [Rows::Numbers, Rows::NotNumbers, Rows::Late] {
                compare(bench, shape, folded, rows);
            }
        }
    }
}

/// Everything of one case, on both sides.
struct Case {
    weight: Weight,
    numbers: Vec<f32>,
    x: Twin,
    squares: Twin,
    params: Twin,
    positions: Twin,
    table_rows: Twin,
    scores: Twin,
    out: Twin,
    last: Twin,
}

impl Case {
    fn new(
        bench: &mut Bench<'_>,
        (rows, inputs, vocabulary): (usize, usize, usize),
        folded: bool,
        kind: Rows,
    ) -> Self {
        let mut numbers = whole(bench, vocabulary * inputs);
        // In one row of eight more sizes than are usual; sums are exact all the same.
        for row in numbers.chunks_exact_mut(inputs).skip(3).step_by(8) {
            let powers = (0..20).map(|power| (f64::from(power) - 6.0).exp2() as f32);
            row.iter_mut()
                .zip(powers)
                .for_each(|(to, power)| *to = power);
        }
        let host = HostWeight {
            rows: vocabulary,
            cols: inputs,
            values: plain_of(&numbers, bench.plain_weight_type()),
        };
        let weight = bench.device.load_weight(host);
        let weight = weight.expect("a device takes what it supports");
        if folded {
            let bytes = bench.device.fold(&weight).expect("room for it twice");
            assert!(bytes > 0, "such weights are folded");
        }
        let mut values = whole(bench, rows * inputs);
        if kind == Rows::NotNumbers {
            values[..inputs].fill(f32::NAN);
            if let Some(row) = values.chunks_exact_mut(inputs).nth(1) {
                row[inputs - 2..].fill(f32::INFINITY);
            }
        }
        let parts = inputs.div_ceil(LateNorm::PART);
        let squares: Vec<f32> = (0..rows * parts).map(|i| 1.0 + (i % 7) as f32).collect();
        let rising: Vec<u32> = (0..rows as u32).collect();
        let falling: Vec<u32> = rising.iter().rev().copied().collect();
        Self {
            weight,
            numbers,
            x: bench.floats(rows, inputs, bench.activation(), &values),
            squares: bench.floats(rows, parts, DType::F32, &squares),
            params: params(bench, &vec![SampleParams::GREEDY; rows]),
            positions: bench.ints(&rising),
            table_rows: bench.ints(&falling),
            scores: bench.typed_output(rows, vocabulary, DType::F32),
            out: bench.typed_output(1, rows, DType::U32),
            last: bench.typed_output(1, rows + 2, DType::U32),
        }
    }

    /// Factors of norms are left out: they are positive, and change no row's order.
    fn reference(&mut self) {
        Linear {
            x: self.x.host(),
            weight: &self.weight,
            bias: None,
            out: self.scores.host_mut(),
        }
        .reference(&self.numbers);
        Sample {
            logits: self.scores.host(),
            draw: Draw {
                params: self.params.host(),
                positions: self.positions.host(),
                table_rows: self.table_rows.host(),
                out: self.out.host_mut(),
                last: self.last.host_mut(),
            },
        }
        .reference();
    }

    /// Whether a device multiplies rows that lack a factor, it says itself.
    fn takes_late(&mut self, kernels: &dyn Kernels) -> bool {
        let late = LateLinear {
            product: Linear {
                x: self.x.device(),
                weight: &self.weight,
                bias: None,
                out: self.scores.device_mut(),
            },
            norm: norm(&self.squares, &self.x),
        };
        kernels.late_linear(late).is_ok()
    }

    fn run(&mut self, kernels: &dyn Kernels, kind: Rows) -> Result<(), OpError> {
        let norm = norm(&self.squares, &self.x);
        kernels.linear_largest(LinearLargest {
            product: Linear {
                x: self.x.device(),
                weight: &self.weight,
                bias: None,
                out: self.scores.device_mut(),
            },
            inputs: match kind {
                Rows::Late => Inputs::Late(norm),
                Rows::Numbers | Rows::NotNumbers => Inputs::Plain,
            },
            draw: Draw {
                params: self.params.device(),
                positions: self.positions.device(),
                table_rows: self.table_rows.device(),
                out: self.out.device_mut(),
                last: self.last.device_mut(),
            },
        })
    }
}

fn norm<'a>(squares: &'a Twin, x: &Twin) -> LateNorm<'a> {
    LateNorm {
        squares: squares.device(),
        width: x.host().cols(),
        eps: EPS,
    }
}

fn compare(bench: &mut Bench<'_>, shape: (usize, usize, usize), folded: bool, kind: Rows) {
    let mut case = Case::new(bench, shape, folded, kind);
    let kernels = bench.device.kernels();
    if kind == Rows::Late && !case.takes_late(kernels) {
        return;
    }
    case.reference();
    let ran = case.run(kernels, kind);
    let ((rows, inputs, tokens), weights) = (shape, if folded { "folded " } else { "" });
    let name = format!("{weights}{rows}×{inputs}→{tokens}, {kind:?}");
    bench.compare("linear_largest", &name, Kind::Exact, &ran, &case.out);
    let name = format!("{name}, last");
    bench.compare("linear_largest", &name, Kind::Exact, &ran, &case.last);
}
