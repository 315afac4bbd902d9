use half::f16;
use tensor::DType;

use super::super::bench::Bench;
use super::super::compare::Kind;
use super::MANY_ROWS;
use crate::{
    AffineRows, Embed, Float8Rows, HostValues, HostWeight, Linear, Weight, WeightFormat, float8,
};

/// A way to write a weight, named after the file formats that use it.
struct Format {
    name: &'static str,
    make: fn(&mut Bench<'_>, usize, usize) -> HostValues<'static>,
    group: usize,
    /// Kept folded too, and left out where a device does not fold.
    fold: bool,
}

const FORMATS: [Format; 17] = [
    Format {
        name: "f32",
        make: |b, r, c| plain(b, r, c, DType::F32),
        group: 1,
        fold: false,
    },
    Format {
        name: "f16",
        make: |b, r, c| plain(b, r, c, DType::F16),
        group: 1,
        fold: false,
    },
    Format {
        name: "bf16",
        make: |b, r, c| plain(b, r, c, DType::BF16),
        group: 1,
        fold: false,
    },
    Format {
        name: "q4_0",
        make: |b, r, c| affine(b, r, c, (4, 15, 32), Some(8.0), true),
        group: 32,
        fold: false,
    },
    Format {
        name: "q4_1",
        make: |b, r, c| affine(b, r, c, (4, 15, 32), None, true),
        group: 32,
        fold: false,
    },
    Format {
        name: "q5_0",
        make: |b, r, c| affine(b, r, c, (8, 31, 32), Some(16.0), true),
        group: 32,
        fold: false,
    },
    Format {
        name: "q8_0 shifted",
        make: |b, r, c| affine(b, r, c, (8, 255, 32), None, true),
        group: 32,
        fold: false,
    },
    Format {
        name: "q8_0",
        make: |b, r, c| affine(b, r, c, (8, 255, 32), Some(128.0), true),
        group: 32,
        fold: false,
    },
    Format {
        name: "q4_k",
        make: |b, r, c| affine(b, r, c, (4, 15, 32), None, false),
        group: 32,
        fold: false,
    },
    Format {
        name: "q5_k",
        make: |b, r, c| affine(b, r, c, (8, 31, 32), None, false),
        group: 32,
        fold: false,
    },
    Format {
        name: "q6_k",
        make: |b, r, c| affine(b, r, c, (8, 63, 16), Some(32.0), false),
        group: 16,
        fold: false,
    },
    Format {
        name: "fp8 a tensor",
        make: |b, r, c| eight_bit_floats(b, r, c, [r, c]),
        group: 1,
        fold: false,
    },
    Format {
        name: "fp8 a row",
        make: |b, r, c| eight_bit_floats(b, r, c, [1, c]),
        group: 1,
        fold: false,
    },
    Format {
        name: "fp8 128×128",
        make: |b, r, c| eight_bit_floats(b, r, c, [128, 128]),
        group: 1,
        fold: false,
    },
    Format {
        name: "fp8 24×256",
        make: |b, r, c| eight_bit_floats(b, r, c, [24, 256]),
        group: 1,
        fold: false,
    },
    Format {
        name: "fp8 smallest numbers",
        make: smallest_floats,
        group: 1,
        fold: false,
    },
    Format {
        name: "bf16 folded",
        make: spread,
        group: 1,
        fold: true,
    },
];

/// Codes of any number, so that the smallest are among them, and scales that differ by a factor of up to eight.
pub(super) fn eight_bit_floats(
    bench: &mut Bench<'_>,
    rows: usize,
    cols: usize,
    block: [usize; 2],
) -> HostValues<'static> {
    let codes = (0..rows * cols).map(|_| {
        loop {
            let code = bench.below(256) as u8;
            if !float8::is_nan(code) {
                break code;
            }
        }
    });
    let codes: Vec<u8> = codes.collect();
    let blocks = rows.div_ceil(block[0]) * cols.div_ceil(block[1]);
    let scales = (0..blocks).map(|_| (1 + bench.below(8)) as f32 / 500.0);
    HostValues::Float8(Float8Rows {
        codes: codes.into(),
        block,
        scales: scales.collect(),
    })
}

fn plain(bench: &mut Bench<'_>, rows: usize, cols: usize, dtype: DType) -> HostValues<'static> {
    plain_of(&bench.normals(rows * cols), dtype)
}

pub(super) fn plain_of(numbers: &[f32], dtype: DType) -> HostValues<'static> {
    let buffer = crate::host::host_values(numbers, dtype);
    let bytes = buffer.view(0, 1, buffer.bytes(), DType::U8);
    HostValues::Plain(dtype, bytes.row::<u8>(0).to_vec().into())
}

fn affine(
    bench: &mut Bench<'_>,
    rows: usize,
    cols: usize,
    (bits, largest, group): (u8, usize, usize),
    zero: Option<f32>,
    halves: bool,
) -> HostValues<'static> {
    let quants = (0..rows * cols)
        .map(|_| bench.below(largest + 1) as u8)
        .collect();
    let mut numbers = |factor: f32| -> Vec<f32> {
        let mut whole = 1.0;
        let number = |index: usize| {
            let in_row = index % (cols / group);
            let x = f16::from_f32(bench.normal() * factor).to_f32();
            if halves {
                return x;
            }
            // A half for each 256 columns, times a small integer for each group.
            if in_row.is_multiple_of(256 / group) {
                whole = f16::from_f32(bench.normal() * factor / 64.0).to_f32();
            }
            whole * bench.below(64) as f32
        };
        (0..rows * cols / group).map(number).collect()
    };
    let scales = numbers(1.0 / largest as f32);
    let minimums = match zero {
        Some(zero) => scales.iter().map(|scale| -zero * scale).collect(),
        None => numbers(1.0),
    };
    HostValues::Affine(AffineRows {
        bits,
        group,
        quants,
        scales,
        minimums,
    })
}

/// Codes below the smallest normal number alone: among others nobody would miss them.
fn smallest_floats(bench: &mut Bench<'_>, rows: usize, cols: usize) -> HostValues<'static> {
    let HostValues::Float8(floats) = eight_bit_floats(bench, rows, cols, [rows, cols]) else {
        unreachable!("eight-bit floats were asked for")
    };
    let codes: Vec<u8> = floats.codes.iter().map(|code| code & 0x87).collect();
    HostValues::Float8(Float8Rows {
        codes: codes.into(),
        ..floats
    })
}

/// Mostly numbers of one size, and some that are much smaller or nothing at all.
fn spread(bench: &mut Bench<'_>, rows: usize, cols: usize) -> HostValues<'static> {
    let number = |bench: &mut Bench<'_>| match bench.below(1500) {
        0 => 0.0,
        1 => bench.normal() * 0.5_f32.powi(20 + bench.below(60) as i32),
        _ => bench.normal(),
    };
    let numbers: Vec<f32> = (0..rows * cols).map(|_| number(bench)).collect();
    plain_of(&numbers, DType::BF16)
}

/// A weight as the device holds it and as plain numbers; none when the device does not take it.
fn weight(
    bench: &mut Bench<'_>,
    format: &Format,
    rows: usize,
    cols: usize,
) -> Option<(Weight, Vec<f32>)> {
    let values = (format.make)(bench, rows, cols);
    let host = HostWeight { rows, cols, values };
    if !bench.device.supports(host.format()) {
        return None;
    }
    let numbers = (0..rows).flat_map(|row| host.row(row)).collect();
    if format.fold && bench.device.folded_bytes((rows, cols), host.format()) == 0 {
        return None;
    }
    let weight = bench
        .device
        .load_weight(host)
        .expect("a device loads what it supports");
    if format.fold {
        bench.device.fold(&weight).expect("room for it twice");
    }
    Some((weight, numbers))
}

fn kind(bench: &Bench<'_>, weight: &Weight) -> Kind {
    match weight.format() {
        WeightFormat::Plain(_) => Kind::Float(bench.activation()),
        WeightFormat::Affine { .. } => Kind::Quantised,
        WeightFormat::Float8 { .. } => Kind::Float8,
    }
}

/// Tokens, inputs in groups of 32, outputs.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 18, 960),
    (6, 16, 40),
    (1, 1, 1),
    (2, 2, 17),
    (3, 2, 16),
    (4, 3, 33),
    (5, 1, 31),
    (7, 5, 48),
    (8, 4, 40),
    (9, 2, 100),
    (33, 3, 65),
    (0, 2, 16),
];

/// As above, for weights that devices multiply in other ways when there are many rows, or blocks are whole.
const FLOAT8_SHAPES: [(usize, usize, usize); 4] =
    [(1, 12, 256), (17, 8, 192), (70, 4, 144), (130, 8, 128)];

/// As above, for weights that are folded: parts of different sizes, tiles and segments that are not full.
const FOLDED_SHAPES: [(usize, usize, usize); 7] = [
    (2, 7, 64),
    (8, 32, 192),
    (16, 12, 256),
    (21, 41, 96),
    (32, 24, 352),
    (47, 20, 480),
    (64, 48, 960),
];

pub(super) fn linear(bench: &mut Bench<'_>) {
    for format in &FORMATS {
        let more: &[_] = match format {
            format if format.fold => &FOLDED_SHAPES,
            format if format.name.starts_with("fp8") => &FLOAT8_SHAPES,
            _ => &[],
        };
        for (index, &(tokens, groups, outputs)) in SHAPES.iter().chain(more).enumerate() {
            // Plain weights have no groups to fill: any width will do.
            let inputs = if format.group == 1 && index < SHAPES.len() {
                groups * 32 - 5 * (index % 3)
            } else {
                groups * 32
            };
            let strided = index % 2 == 1 && index < SHAPES.len();
            let case = format!("{} {tokens}×{inputs}→{outputs}", format.name);
            let Some((weight, numbers)) = weight(bench, format, outputs, inputs) else {
                continue;
            };
            let x = if strided {
                bench.strided_activations(tokens, inputs)
            } else {
                bench.activations(tokens, inputs)
            };
            let bias = bench.normals(outputs);
            let bias = bench.floats(1, outputs, bench.device.info().activation, &bias);
            let mut out = bench.output(tokens, outputs, strided);
            let with_bias = index % 3 == 0;
            let op = Linear {
                x: x.host(),
                weight: &weight,
                bias: with_bias.then(|| bias.host()),
                out: out.host_mut(),
            };
            op.reference(&numbers);
            let ran = bench.device.kernels().linear(Linear {
                x: x.device(),
                weight: &weight,
                bias: with_bias.then(|| bias.device()),
                out: out.device_mut(),
            });
            bench.compare("linear", &case, kind(bench, &weight), &ran, &out);
        }
    }
}

/// Steps of any number of rows, and rows that no kernel but the plainest takes.
pub(super) fn many_rows(bench: &mut Bench<'_>) {
    let (inputs, outputs) = (3, 5);
    let plain = |format: &&Format| matches!(format.name, "bf16" | "fp8 a tensor");
    for format in FORMATS.iter().filter(plain) {
        let Some((weight, numbers)) = weight(bench, format, outputs, inputs) else {
            continue;
        };
        let x = bench.activations(MANY_ROWS, inputs);
        let mut out = bench.output(MANY_ROWS, outputs, false);
        let op = Linear {
            x: x.host(),
            weight: &weight,
            bias: None,
            out: out.host_mut(),
        };
        op.reference(&numbers);
        let ran = bench.device.kernels().linear(Linear {
            x: x.device(),
            weight: &weight,
            bias: None,
            out: out.device_mut(),
        });
        let case = format!("{} {MANY_ROWS}×{inputs}→{outputs}", format.name);
        bench.compare("linear", &case, kind(bench, &weight), &ran, &out);
    }
}

pub(super) fn embed(bench: &mut Bench<'_>) {
    for format in &FORMATS {
        for (vocabulary, hidden, scale) in [(1, 32, 1.0), (17, 64, 25.25), (50, 96, 1.0)] {
            let Some((table, numbers)) = weight(bench, format, vocabulary, hidden) else {
                continue;
            };
            let last = vocabulary as u32 - 1;
            let ids = bench.ints(&[0, last, last / 2, 0]);
            let mut out = bench.output(4, hidden, true);
            let op = Embed {
                ids: ids.host(),
                table: &table,
                scale,
                out: out.host_mut(),
            };
            op.reference(&numbers);
            let ran = bench.device.kernels().embed(Embed {
                ids: ids.device(),
                table: &table,
                scale,
                out: out.device_mut(),
            });
            let case = format!("{} {vocabulary}×{hidden}", format.name);
            bench.compare("embed", &case, Kind::Float(bench.activation()), &ran, &out);
        }
    }
}

/// Each row of 1, 2, 3 … 33 has the bits it has alone.
pub(super) fn alone_and_in_company(bench: &mut Bench<'_>) {
    let (inputs, outputs, most) = (160, 50, 33);
    for format in &FORMATS {
        let Some((weight, _)) = weight(bench, format, outputs, inputs) else {
            continue;
        };
        let x = bench.activations(most, inputs);
        let run = |bench: &mut Bench<'_>, rows: std::ops::Range<usize>| {
            let mut out = bench.output(rows.len(), outputs, false);
            let ran = bench.device.kernels().linear(Linear {
                x: x.device().row_range(rows),
                weight: &weight,
                bias: None,
                out: out.device_mut(),
            });
            ran.map(|()| bench.read(&out))
        };
        let alone: Result<Vec<_>, _> = (0..most).map(|row| run(bench, row..row + 1)).collect();
        let alone = alone.map(|rows| rows.concat());
        for company in [2, 3, 5, 7, 8, 13, 32, 33] {
            let together = run(bench, 0..company);
            let error = match (&alone, together) {
                (Ok(alone), Ok(together)) => Ok(differing(&alone[..together.len()], &together)),
                (Err(error), _) => Err(error.to_string()),
                (_, Err(error)) => Err(error.to_string()),
            };
            let case = format!("{} alone and among {company}", format.name);
            bench.found("linear", &case, Kind::Exact, error);
        }
    }
}

/// How many numbers differ in any bit.
pub(super) fn differing(a: &[f64], b: &[f64]) -> f64 {
    let differ = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits());
    differ.count() as f64
}
