use ops::program::Op;

use super::{Launch, Rewriting};

/// A GEMM whose results are only added to the residual: one launch adds and normalises, or leaves the row factor to the
/// GEMMs behind it.
pub(super) fn rewrite(list: &mut Rewriting<'_>) {
    for gemm in 0..list.program.nodes.len() {
        let Op::Linear(linear) = &list.program.nodes[gemm].op else {
            continue;
        };
        let Some(norm) = list.only_user(linear.out) else {
            continue;
        };
        let Op::AddRmsNorm(op) = &list.program.nodes[norm].op else {
            continue;
        };
        if op.x.value != linear.out || list.taken[gemm] || !list.may_wait(gemm, norm) {
            continue;
        }
        let readers = list.readers(op.out);
        let squares = list.extras;
        list.extras += 1;
        let launch = Launch::GemmAddNorm {
            gemm,
            norm,
            readers,
            squares,
        };
        list.fuse(gemm, norm, launch);
    }
}
