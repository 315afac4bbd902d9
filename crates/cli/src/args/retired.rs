//! Old spellings that are still pasted from notes and scripts.

use super::entry::Substitute::{CopyOf, Value};
use super::entry::{Entry, retired};

pub(super) const ENTRIES: &[Entry] = &[
    retired(CopyOf("ep-size", "tp-size"), "enable-ep-moe"),
    retired(Value("moe-a2a-backend", "deepep"), "enable-deepep-moe"),
    retired(
        Value("moe-runner-backend", "triton_kernel"),
        "enable-triton-kernel-moe",
    ),
    retired(
        Value("moe-runner-backend", "flashinfer_cutlass"),
        "enable-flashinfer-cutlass-moe",
    ),
    retired(
        Value("moe-runner-backend", "flashinfer_trtllm"),
        "enable-flashinfer-trtllm-moe",
    ),
    retired(
        Value("moe-runner-backend", "flashinfer_mxfp4"),
        "enable-flashinfer-mxfp4-moe",
    ),
];
