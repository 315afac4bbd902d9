use super::super::bench::Bench;
use super::super::compare::Kind;
use super::MANY_ROWS;
use crate::{Activation, AddRmsNorm, GatedActivation, GatherRows, RmsNorm};

const SHAPES: [(usize, usize); 10] = [
    (1, 576),
    (1, 1),
    (3, 15),
    (5, 64),
    (2, 577),
    (40, 1536),
    (1, 4096),
    (0, 64),
    (2, 9216),
    (3000, 256),
];

/// Each with rows inside wider ones, and by themselves.
fn placed_shapes() -> impl Iterator<Item = (usize, usize, bool)> {
    let both = |&(rows, cols)| [(rows, cols, true), (rows, cols, false)];
    SHAPES.iter().flat_map(both)
}

pub(super) fn rms_norm(bench: &mut Bench<'_>) {
    for (rows, cols, inside) in placed_shapes() {
        let x = bench.placed_activations(rows, cols, inside, 1.0);
        let weight = bench.activations(1, cols);
        let mut out = bench.output(rows, cols, inside);
        let eps = 1e-5;
        RmsNorm {
            x: x.host(),
            weight: weight.host(),
            eps,
            out: out.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().rms_norm(RmsNorm {
            x: x.device(),
            weight: weight.device(),
            eps,
            out: out.device_mut(),
        });
        let kind = Kind::Float(bench.activation());
        let case = format!("{rows}×{cols}, inside {inside}");
        bench.compare("rms_norm", &case, kind, &ran, &out);
    }
}

pub(super) fn add_rms_norm(bench: &mut Bench<'_>) {
    for (rows, cols, inside) in placed_shapes() {
        let x = bench.placed_activations(rows, cols, inside, 1.0);
        let mut residual = bench.activations(rows, cols);
        let weight = bench.activations(1, cols);
        let mut out = bench.output(rows, cols, false);
        let eps = 1e-6;
        AddRmsNorm {
            x: x.host(),
            residual: residual.host_mut(),
            weight: weight.host(),
            eps,
            out: out.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().add_rms_norm(AddRmsNorm {
            x: x.device(),
            residual: residual.device_mut(),
            weight: weight.device(),
            eps,
            out: out.device_mut(),
        });
        let kind = Kind::Float(bench.activation());
        let case = format!("{rows}×{cols}, inside {inside}");
        bench.compare("add_rms_norm", &case, kind, &ran, &out);
        let case = format!("{case} residual");
        bench.compare("add_rms_norm", &case, kind, &ran, &residual);
    }
}

pub(super) fn gated_activation(bench: &mut Bench<'_>) {
    for activation in [Activation::Silu, Activation::GeluTanh] {
        for (rows, width) in [
            (1, 1536),
            (1, 1),
            (3, 17),
            (30, 700),
            (0, 8),
            (MANY_ROWS, 2),
        ] {
            let mut values = bench.normals(rows * width * 2);
            for (index, value) in values.iter_mut().enumerate() {
                // Some far out, where curves saturate.
                *value *= [1.0, 5.0, 40.0, 0.01][index % 4];
            }
            let gate_up = bench.floats(rows, 2 * width, bench.activation(), &values);
            let mut out = bench.output(rows, width, true);
            GatedActivation {
                gate_up: gate_up.host(),
                activation,
                out: out.host_mut(),
            }
            .reference();
            let ran = bench.device.kernels().gated_activation(GatedActivation {
                gate_up: gate_up.device(),
                activation,
                out: out.device_mut(),
            });
            let case = format!("{activation:?} {rows}×{width}");
            let kind = Kind::Float(bench.activation());
            bench.compare("gated_activation", &case, kind, &ran, &out);
        }
    }
}

pub(super) fn gather_rows(bench: &mut Bench<'_>) {
    for (rows, cols, indices) in [
        (1, 1, &[0u32] as &[u32]),
        (9, 33, &[8, 0, 3, 3]),
        (4, 576, &[]),
    ] {
        let x = bench.strided_activations(rows, cols);
        let indices = bench.ints(indices);
        let mut out = bench.typed_output(indices.device().cols(), cols, bench.activation());
        GatherRows {
            x: x.host(),
            indices: indices.host(),
            out: out.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().gather_rows(GatherRows {
            x: x.device(),
            indices: indices.device(),
            out: out.device_mut(),
        });
        let case = format!("{} of {rows}×{cols}", indices.device().cols());
        bench.compare("gather_rows", &case, Kind::Exact, &ran, &out);
    }
}
