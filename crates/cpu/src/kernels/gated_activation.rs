use ops::{Activation, GatedActivation, OpError};

use super::rows::RowsMut;
use super::{CpuKernels, f32_only};
use crate::simd::{LANES, Simd, Vectorised, math};

pub(super) fn gated_activation(
    kernels: &CpuKernels,
    op: GatedActivation<'_>,
) -> Result<(), OpError> {
    let types = [("gate_up", op.gate_up.dtype()), ("out", op.out.dtype())];
    f32_only("gated_activation", &types)?;
    let (gate_up, activation, width) = (op.gate_up, op.activation, op.out.cols());
    let (out, level) = (RowsMut::<f32>::new(op.out), kernels.level);
    kernels
        .pool
        .split(gate_up.rows(), CpuKernels::grain(width), |range| {
            for row in range {
                let (gate, up) = gate_up.row::<f32>(row).split_at(width);
                level.run(Curve {
                    gate,
                    up,
                    activation,
                    // SAFETY: every row belongs to one task.
                    out: unsafe { out.row(row) },
                });
            }
        });
    Ok(())
}

struct Curve<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    activation: Activation,
    out: &'a mut [f32],
}

impl Vectorised for Curve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (gate, gate_tail) = self.gate.as_chunks::<LANES>();
        let (up, up_tail) = self.up.as_chunks::<LANES>();
        let (out, out_tail) = self.out.as_chunks_mut::<LANES>();
        for ((gate, up), out) in gate.iter().zip(up).zip(out) {
            let value = curve(s, self.activation, s.load(gate));
            s.store(s.mul(value, s.load(up)), out);
        }
        let value = curve(s, self.activation, s.load_tail(gate_tail));
        s.store_tail(s.mul(value, s.load_tail(up_tail)), out_tail);
    }
}

#[inline(always)]
fn curve<S: Simd>(s: S, activation: Activation, x: S::F) -> S::F {
    let one = s.splat(1.0);
    match activation {
        Activation::Silu => {
            let grown = math::exp(s, s.sub(s.splat(0.0), x));
            s.div(x, s.add(one, grown))
        }
        Activation::GeluTanh => {
            let cube = s.mul(s.mul(x, x), x);
            let inner = s.mul_add(cube, s.splat(0.044_715), x);
            let bent = math::tanh(s, s.mul(inner, s.splat(0.797_884_6)));
            s.mul(s.mul(x, s.splat(0.5)), s.add(one, bent))
        }
    }
}
