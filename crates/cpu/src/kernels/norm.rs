use ops::{AddRmsNorm, OpError, RmsNorm};

use super::rows::RowsMut;
use super::{CpuKernels, f32_only};
use crate::simd::{LANES, Simd, Vectorised};

pub(super) fn rms_norm(kernels: &CpuKernels, op: RmsNorm<'_>) -> Result<(), OpError> {
    let types = [
        ("x", op.x.dtype()),
        ("weight", op.weight.dtype()),
        ("out", op.out.dtype()),
    ];
    f32_only("rms_norm", &types)?;
    let (x, cols, level) = (op.x, op.x.cols(), kernels.level);
    let (weight, eps) = (op.weight.into_slice::<f32>(), op.eps);
    let out = RowsMut::<f32>::new(op.out);
    kernels
        .pool
        .split(x.rows(), CpuKernels::grain(cols), |range| {
            for row in range {
                level.run(NormaliseInto {
                    x: x.row(row),
                    weight,
                    eps,
                    // SAFETY: every row belongs to one task.
                    out: unsafe { out.row(row) },
                });
            }
        });
    Ok(())
}

pub(super) fn add_rms_norm(kernels: &CpuKernels, op: AddRmsNorm<'_>) -> Result<(), OpError> {
    let types = [
        ("x", op.x.dtype()),
        ("residual", op.residual.dtype()),
        ("weight", op.weight.dtype()),
        ("out", op.out.dtype()),
    ];
    f32_only("add_rms_norm", &types)?;
    let (x, cols, level) = (op.x, op.x.cols(), kernels.level);
    let (weight, eps) = (op.weight.into_slice::<f32>(), op.eps);
    let (residual, out) = (
        RowsMut::<f32>::new(op.residual),
        RowsMut::<f32>::new(op.out),
    );
    kernels
        .pool
        .split(x.rows(), CpuKernels::grain(cols), |range| {
            for row in range {
                // SAFETY: every row belongs to one task.
                let (residual, out) = unsafe { (residual.row(row), out.row(row)) };
                level.run(AddInto {
                    x: x.row(row),
                    sum: residual,
                });
                level.run(NormaliseInto {
                    x: residual,
                    weight,
                    eps,
                    out,
                });
            }
        });
    Ok(())
}

/// sum += x.
struct AddInto<'a> {
    x: &'a [f32],
    sum: &'a mut [f32],
}

impl Vectorised for AddInto<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (sum, &x) in self.sum.iter_mut().zip(self.x) {
            *sum += x;
        }
    }
}

/// out = x / √(mean(x²) + eps) · weight.
struct NormaliseInto<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Vectorised for NormaliseInto<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let factor = inverse_root_mean_square(s, self.x, self.eps);
        for ((out, &x), &weight) in self.out.iter_mut().zip(self.x).zip(self.weight) {
            *out = x * factor * weight;
        }
    }
}

/// 1 / √(mean(x²) + eps).
#[inline(always)]
pub(super) fn inverse_root_mean_square<S: Simd>(s: S, x: &[f32], eps: f32) -> f32 {
    let (vectors, tail) = x.as_chunks::<LANES>();
    let mut squares = s.splat(0.0);
    for vector in vectors {
        let vector = s.load(vector);
        squares = s.mul_add(vector, vector, squares);
    }
    let tail = s.load_tail(tail);
    squares = s.mul_add(tail, tail, squares);
    1.0 / (s.sum(squares) / x.len() as f32 + eps).sqrt()
}
