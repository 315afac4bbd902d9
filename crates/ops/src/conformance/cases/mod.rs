//! The cases, one file per op or family of ops.

mod attend;
mod collectives;
mod elementwise;
mod fused;
mod largest;
mod linear;
mod listed;
mod rope;
mod rope_attend;
mod sampling;
mod tables;

use super::bench::Bench;
use crate::Comm;

/// Rows of a step that is longer than one side of a grid of blocks may be.
const MANY_ROWS: usize = (1 << 16) + 1;

/// Every case of every op.
pub(super) fn all(bench: &mut Bench<'_>) {
    linear::linear(bench);
    linear::many_rows(bench);
    linear::embed(bench);
    elementwise::rms_norm(bench);
    elementwise::add_rms_norm(bench);
    elementwise::gated_activation(bench);
    elementwise::gather_rows(bench);
    fused::layer_end(bench);
    rope::rope(bench);
    cache(bench);
    sampling::edit_logits(bench);
    sampling::penalise(bench);
    sampling::sample(bench);
    largest::argmax(bench);
    sampling::log_probs(bench);
    tables::resolve_tokens(bench);
    tables::update_pages(bench);
    tables::copy_pages(bench);
    tables::count_tokens(bench);
}

/// Cases of what writes and reads keys and values in memory.
pub(super) fn cache(bench: &mut Bench<'_>) {
    rope::store_kv(bench);
    rope::rope_store_kv(bench);
    attend::attend(bench);
    rope_attend::rope_attend(bench);
}

/// Equal bits in any batch, which a CPU promises and a GPU in part.
pub(super) fn invariance(bench: &mut Bench<'_>) {
    linear::alone_and_in_company(bench);
    attend::alone_and_in_company(bench);
    attend::whole_and_in_chunks(bench);
}

/// What ranks do together.
pub(super) fn collectives(bench: &mut Bench<'_>, comm: &dyn Comm) {
    collectives::all_reduce(bench, comm);
    collectives::all_gather(bench, comm);
    collectives::replayed(bench, comm);
}
