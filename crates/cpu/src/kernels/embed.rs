use ops::{Embed, OpError};

use super::rows::RowsMut;
use super::{CpuKernels, f32_only, packed};

pub(super) fn embed(kernels: &CpuKernels, op: Embed<'_>) -> Result<(), OpError> {
    f32_only("embed", &[("out", op.out.dtype())])?;
    let table = packed(op.table)?;
    let (ids, cols) = (op.ids.into_slice::<u32>(), op.out.cols());
    let out = RowsMut::<f32>::new(op.out);
    kernels
        .pool
        .split(ids.len(), CpuKernels::grain(cols), |range| {
            for row in range {
                // SAFETY: every row belongs to one task.
                table.row(ids[row] as usize, unsafe { out.row(row) });
            }
        });
    Ok(())
}
