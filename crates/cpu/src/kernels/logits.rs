use ops::{EditLogits, Penalise, SampleParams};

use super::rows::RowsMut;
use super::{CpuKernels, WORTH_SHARING};

pub(super) fn edit_logits(_: &CpuKernels, op: EditLogits<'_>) {
    op.reference();
}

pub(super) fn penalise(kernels: &CpuKernels, op: Penalise<'_>) {
    let (rows, cols) = (op.logits.rows(), op.logits.cols());
    let table_rows = op.table_rows.into_slice::<u32>();
    let logits = RowsMut::<f32>::new(op.logits);
    kernels
        .pool
        .split(rows, WORTH_SHARING / cols.max(1), |range| {
            for row in range {
                let params = SampleParams::read(&op.params, row);
                if !params.penalises() {
                    continue;
                }
                let counts = op.counts.row::<u16>(table_rows[row] as usize);
                // SAFETY: every row belongs to one task.
                let logits = unsafe { logits.row(row) };
                // Most counts are zero: whole stretches are skipped at once.
                for (logits, counts) in logits.chunks_mut(32).zip(counts.chunks(32)) {
                    if counts.iter().fold(0, |any, &count| any | count) == 0 {
                        continue;
                    }
                    for (logit, &count) in logits.iter_mut().zip(counts) {
                        if count > 0 {
                            *logit = params.penalised(*logit, count);
                        }
                    }
                }
            }
        });
}
