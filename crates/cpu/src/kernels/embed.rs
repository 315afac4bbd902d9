use ops::{Embed, OpError};

use super::rows::RowsMut;
use super::{CpuKernels, f32_only, packed};

pub(super) fn embed(kernels: &CpuKernels, op: Embed<'_>) -> Result<(), OpError> {
    f32_only("embed", &[("out", op.out.dtype())])?;
    let table = packed(op.table)?;
    let (ids, cols, scale) = (op.ids.into_slice::<u32>(), op.out.cols(), op.scale);
    let out = RowsMut::<f32>::new(op.out);
    kernels
        .pool
        .split(ids.len(), CpuKernels::grain(cols), |range| {
            for row in range {
                // SAFETY: every row belongs to one task.
                let out = unsafe { out.row(row) };
                table.row(ids[row] as usize, out);
                if (scale - 1.0).abs() > 0.0 {
                    for value in out.iter_mut() {
                        *value *= scale;
                    }
                }
            }
        });
    Ok(())
}
