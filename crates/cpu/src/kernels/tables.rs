//! Small tables that the step keeps on the device: the definitions are as fast as they need to be.

use ops::{CountTokens, OpError, ResolveTokens, UpdatePages};

use super::CpuKernels;

pub(super) fn resolve_tokens(_: &CpuKernels, op: ResolveTokens<'_>) -> Result<(), OpError> {
    op.reference();
    Ok(())
}

pub(super) fn update_pages(_: &CpuKernels, op: UpdatePages<'_>) -> Result<(), OpError> {
    op.reference();
    Ok(())
}

pub(super) fn count_tokens(_: &CpuKernels, op: CountTokens<'_>) -> Result<(), OpError> {
    op.reference();
    Ok(())
}
