use ops::program::Op;

use super::{Launch, Rewriting};

/// A head of which only the largest score of each row is wanted.
pub(super) fn rewrite(list: &mut Rewriting<'_>) {
    for gemm in 0..list.program.nodes.len() {
        let Op::Linear(linear) = &list.program.nodes[gemm].op else {
            continue;
        };
        let Some(argmax) = list.only_user(linear.out) else {
            continue;
        };
        let is_argmax = matches!(list.program.nodes[argmax].op, Op::Sample(_));
        if is_argmax && !list.taken[gemm] && list.may_wait(gemm, argmax) {
            list.fuse(gemm, argmax, Launch::GemmArgmax { gemm, argmax });
        }
    }
}
