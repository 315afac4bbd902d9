use ops::GatherRows;

use super::CpuKernels;

pub(super) fn gather_rows(_: &CpuKernels, op: GatherRows<'_>) {
    let mut out = op.out;
    for (row, &index) in op.indices.into_slice::<u32>().iter().enumerate() {
        out.row_bytes_mut(row)
            .copy_from_slice(op.x.row_bytes(index as usize));
    }
}
