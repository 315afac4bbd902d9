//! Every op against its reference, and whether a row has the same bits in any company.

use cuda::CudaDevice;
use ops::conformance::{self, Kind, Report};

pub(crate) fn run(device: &CudaDevice) -> bool {
    show(&conformance::run(device))
}

/// The same with split-K by two before a norm, to be run with `--library-gemms`. Weights of eight-bit floats
/// are left out: the library rounds what it multiplies, and of gates of fifty results one draw in eleven is beyond its bound.
pub(crate) fn split_k(device: &CudaDevice) -> bool {
    let mut report = conformance::run(device);
    report.outcomes.retain(|found| found.kind != Kind::Float8);
    // one of its GEMMs, which has no other candidate then
    let candidates = device.describe_gemms(512, 1024);
    let cut = candidates.iter().any(|line| line.contains("split-K true"));
    if !cut {
        println!("FAILED no GEMM was split along K");
    }
    show(&report) && cut
}

/// What writes and reads keys and values, of the type that the device was opened with.
pub(crate) fn cache(device: &CudaDevice) -> bool {
    show(&conformance::cache(device))
}

/// Attention keeps its promise for decoding rows; dense GEMMs keep it within eight rows. The rest is reported, not judged.
pub(crate) fn invariance(device: &CudaDevice) -> bool {
    let report = conformance::invariance(device);
    let judged = |case: &str| case.starts_with("alone and among");
    for outcome in &report.outcomes {
        println!("{:8} {:40} {:?}", outcome.op, outcome.case, outcome.error);
    }
    report
        .failures()
        .all(|outcome| outcome.op != "attend" || !judged(&outcome.case))
}

pub(crate) fn show(report: &Report) -> bool {
    println!("{report}");
    for failure in report.failures().take(60) {
        println!(
            "FAILED {} {}: {:?} of {:e}",
            failure.op, failure.case, failure.error, failure.bound
        );
    }
    report.failures().next().is_none()
}
