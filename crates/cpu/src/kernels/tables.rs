//! Small tables that the step keeps on the device: the definitions are as fast as they need to be.

use ops::{CopyPages, CountTokens, ResolveTokens, UpdatePages};

use super::CpuKernels;

pub(super) fn resolve_tokens(_: &CpuKernels, op: ResolveTokens<'_>) {
    op.reference();
}

pub(super) fn update_pages(_: &CpuKernels, op: UpdatePages<'_>) {
    op.reference();
}

pub(super) fn copy_pages(_: &CpuKernels, op: CopyPages<'_>) {
    op.reference();
}

pub(super) fn count_tokens(_: &CpuKernels, op: CountTokens<'_>) {
    op.reference();
}
