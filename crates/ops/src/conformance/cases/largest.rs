//! Products of which only the largest result counts: with small whole numbers, whose sums are exact in any order, so that
//! tokens must be the same, also where several are as large.

use tensor::DType;

use super::super::bench::Bench;
use super::super::compare::Kind;
use super::linear::plain_of;
use super::listed::{Given, Listed, compare};
use super::sampling::params;
use crate::program::{Elements, Input, Output};
use crate::{HostWeight, SampleParams};

/// Rows, inputs, and tokens to choose from. Weights of so many inputs are bf12 in whole units, and in a part of one.
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
/// So small that the norm of twos is exactly one half.
const EPS: f32 = 1e-12;

/// What rows are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Numbers,
    /// The first row is not a number, so that none of its scores is; some of the second one's are not, and others are infinite.
    NotNumbers,
    /// They come out of a norm, whose factor a device may leave out: it is positive, and changes no row's order.
    Normed,
}

/// Small whole numbers. None is zero: a weight with many zeros has no second form.
fn whole(bench: &mut Bench<'_>, count: usize) -> Vec<f32> {
    const NUMBERS: [f32; 6] = [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0];
    let each = |_| NUMBERS[bench.below(NUMBERS.len())];
    (0..count).map(each).collect()
}

pub(super) fn argmax(bench: &mut Bench<'_>) {
    for shape in SHAPES {
        for encoded in [false, true] {
            if encoded && !bench.encodes_weights() {
                continue;
            }
            for rows in [Rows::Numbers, Rows::NotNumbers, Rows::Normed] {
                one(bench, shape, encoded, rows);
            }
        }
    }
}

fn one(
    bench: &mut Bench<'_>,
    (rows, inputs, vocabulary): (usize, usize, usize),
    encoded: bool,
    kind: Rows,
) {
    let mut listed = Listed::new(rows);
    let mut values = whole(bench, rows * inputs);
    if kind == Rows::NotNumbers {
        values[..inputs].fill(f32::NAN);
        if let Some(row) = values.chunks_exact_mut(inputs).nth(1) {
            row[inputs - 2..].fill(f32::INFINITY);
        }
    }
    if kind == Rows::Normed {
        // twos of both signs: their norm is exact too, where a device does not leave the factor out
        for value in &mut values {
            *value = 2.0_f32.copysign(*value);
        }
    }
    let mut x = listed.rows(bench, &values);
    if kind == Rows::Normed {
        // nothing is added, so that sums stay whole numbers
        let nothing = listed.rows(bench, &vec![0.0; rows * inputs]);
        let square = whole_weight(bench, (inputs, inputs));
        let square = listed.weight(bench, &square, encoded);
        let delta = listed.recorder.linear(nothing, square, None);
        let ones = listed.vector(bench, &vec![1.0; inputs], 1, Elements::Fixed(DType::F32));
        (_, x) = listed.recorder.add_rms_norm((delta, x), ones, EPS);
    }
    let head = whole_weight(bench, (vocabulary, inputs));
    let bytes = bench
        .device
        .folded_bytes((vocabulary, inputs), head.format());
    assert!(!encoded || bytes > 0, "such weights have a second form");
    let head = listed.weight(bench, &head, encoded);
    listed.recorder.argmax(x, head);
    let rising: Vec<u32> = (0..rows as u32).collect();
    let falling: Vec<u32> = rising.iter().rev().copied().collect();
    let greedy = params(bench, &vec![SampleParams::GREEDY; rows]);
    let (positions, table_rows) = (bench.ints(&rising), bench.ints(&falling));
    let last = bench.typed_output(1, rows + 2, DType::U32);
    let given = Given {
        inputs: vec![(Input::LastTokens, &last)],
        drawing: Some([&greedy, &positions, &table_rows]),
    };
    let mut ran = listed.run(bench, &given, [None, None]);
    let weights = if encoded { "bf12 " } else { "" };
    let name = format!("{weights}{rows}×{inputs}→{vocabulary}, {kind:?}");
    compare(
        bench,
        "argmax",
        (&name, Kind::Exact),
        &mut ran,
        Output::Tokens,
    );
    let [device, _] = &ran;
    let name = format!("{name}, last");
    bench.compare("argmax", &name, Kind::Exact, &device.result, &last);
}

/// In one row of eight more sizes than are usual; sums are exact all the same.
fn whole_weight(bench: &mut Bench<'_>, (rows, cols): (usize, usize)) -> HostWeight<'static> {
    let mut numbers = whole(bench, rows * cols);
    for row in numbers.chunks_exact_mut(cols).skip(3).step_by(8) {
        let powers = (0..20).map(|power| (f64::from(power) - 6.0).exp2() as f32);
        row.iter_mut()
            .zip(powers)
            .for_each(|(to, power)| *to = power);
    }
    let values = plain_of(&numbers, bench.plain_weight_type());
    HostWeight { rows, cols, values }
}
