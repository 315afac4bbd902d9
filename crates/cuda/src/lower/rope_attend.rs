use ops::program::Op;

use super::{Launch, Rewriting};

/// Queries and keys are rotated, keys and values stored, and then attended to: one kernel where sequences have one new
/// token each.
pub(super) fn rewrite(list: &mut Rewriting<'_>) {
    for store in 0..list.program.nodes.len() {
        let Op::RopeStoreKv(rope) = &list.program.nodes[store].op else {
            continue;
        };
        let Some(attend) = list.only_user(rope.query.to) else {
            continue;
        };
        let Op::Attend(op) = &list.program.nodes[attend].op else {
            continue;
        };
        if op.cache == rope.cache && list.may_wait(store, attend) {
            list.fuse(store, attend, Launch::RopeAttend { store, attend });
        }
    }
}
