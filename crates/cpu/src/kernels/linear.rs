use ops::{Linear, OpError};

use super::{CpuKernels, f32_only, packed};
use crate::gemm::Gemm;

pub(super) fn linear(kernels: &CpuKernels, op: Linear<'_>) -> Result<(), OpError> {
    let bias = op.bias.map_or(op.x.dtype(), |bias| bias.dtype());
    f32_only(
        "linear",
        &[("x", op.x.dtype()), ("bias", bias), ("out", op.out.dtype())],
    )?;
    let weight = packed(op.weight)?;
    let gemm = Gemm {
        x: op.x,
        bias: op.bias,
        out: op.out,
        level: kernels.level,
        pool: &kernels.pool,
        memory: &mut kernels.blocks.borrow_mut(),
    };
    gemm.run(weight, kernels.activations);
    Ok(())
}
