use ops::program::Op;

use super::{Launch, Rewriting};

/// A GEMM that gives gates and what they gate: its epilogue, or the kernel behind it, multiplies them.
pub(super) fn rewrite(list: &mut Rewriting<'_>) {
    for gemm in 0..list.program.nodes.len() {
        let Op::Linear(linear) = &list.program.nodes[gemm].op else {
            continue;
        };
        let Some(activation) = list.only_user(linear.out) else {
            continue;
        };
        let Op::GatedActivation(op) = &list.program.nodes[activation].op else {
            continue;
        };
        if list.taken[gemm] || !list.may_wait(gemm, activation) {
            continue;
        }
        let launch = Launch::GatedGemm {
            gemm,
            activation,
            readers: list.readers(op.out),
        };
        list.fuse(gemm, activation, launch);
    }
}
