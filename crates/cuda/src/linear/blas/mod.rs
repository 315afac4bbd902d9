//! Dense GEMMs through cuBLASLt.

mod description;

use std::sync::Arc;

use cudarc::cublaslt::sys as lt;
use ops::DeviceError;
use tensor::Buffer;

use super::Gemm;
use crate::context::Context;
use crate::memory::allocate;

use description::Descriptors;
pub(crate) use description::{Factors, Scaled, Scales};

const WORKSPACE: usize = 64 << 20;
/// Bytes that every matrix's address and row length are a multiple of.
const ALIGNMENT: u32 = 16;
/// Algorithms tried per shape.
pub(crate) const CANDIDATES: usize = 8;

/// A cuBLASLt algorithm.
pub(crate) type Algorithm = lt::cublasLtMatmulAlgo_t;

/// The library and its workspace.
pub(crate) struct Blas {
    context: Arc<Context>,
    handle: lt::cublasLtHandle_t,
    workspace: Buffer,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

fn check(status: lt::cublasStatus_t, what: &'static str) -> Result<(), DeviceError> {
    if status == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    Err(DeviceError::Lost {
        device: "cuBLASLt".into(),
        message: format!("{what}: {status:?}"),
    })
}

impl Blas {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded (checked at opening); the context is current.
        let result = unsafe { lt::cublasLtCreate(&raw mut handle) };
        check(result, "starting cuBLASLt")?;
        Ok(Self {
            context: Arc::clone(context),
            handle,
            workspace: allocate(context, WORKSPACE, "the cuBLASLt workspace")?,
        })
    }

    /// Enqueues a GEMM with the weight at this address; a bias is of the type of the results.
    pub(crate) fn enqueue(
        &self,
        gemm: &Gemm<'_>,
        weight: u64,
        factors: Factors<'_>,
        algorithm: &Algorithm,
    ) -> Result<(), DeviceError> {
        self.context.flush()?;
        let descriptors = Descriptors::new(gemm, factors)?;
        let (x, out) = factors.addresses(gemm);
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: shapes were described from the views themselves; all addresses are device memory.
        let result = unsafe {
            lt::cublasLtMatmul(
                self.handle,
                descriptors.operation,
                (&raw const one).cast(),
                weight as *const _,
                descriptors.weight,
                x as *const _,
                descriptors.x,
                (&raw const zero).cast(),
                out as *const _,
                descriptors.out,
                out as *mut _,
                descriptors.out,
                algorithm,
                self.workspace.address().cast(),
                WORKSPACE,
                self.context.stream().cast(),
            )
        };
        check(result, "a GEMM")
    }

    /// Up to `most` algorithms for a GEMM, the heuristic's first choice first.
    pub(crate) fn candidates(
        &self,
        gemm: &Gemm<'_>,
        factors: Factors<'_>,
        most: usize,
    ) -> Result<Vec<Algorithm>, DeviceError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let descriptors = Descriptors::new(gemm, factors)?;
        let mut preference = std::ptr::null_mut();
        // SAFETY: a valid out-pointer.
        let made = unsafe { lt::cublasLtMatmulPreferenceCreate(&raw mut preference) };
        check(made, "asking for algorithms")?;
        let found = self.ask(&descriptors, preference, most);
        // SAFETY: made above and destroyed once.
        let _ = unsafe { lt::cublasLtMatmulPreferenceDestroy(preference) };
        found
    }

    fn ask(
        &self,
        descriptors: &Descriptors,
        preference: lt::cublasLtMatmulPreference_t,
        most: usize,
    ) -> Result<Vec<Algorithm>, DeviceError> {
        use lt::cublasLtMatmulPreferenceAttributes_t as Preference;
        let mut found = 0;
        // SAFETY: plain data that the library fills.
        let mut results: Vec<lt::cublasLtMatmulHeuristicResult_t> =
            (0..most).map(|_| unsafe { std::mem::zeroed() }).collect();
        let set = |attribute, value: &[u8]| {
            // SAFETY: a preference that was made, and an attribute of its documented size.
            let result = unsafe {
                lt::cublasLtMatmulPreferenceSetAttribute(
                    preference,
                    attribute,
                    value.as_ptr().cast(),
                    value.len(),
                )
            };
            check(result, "asking for algorithms")
        };
        set(
            Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &WORKSPACE.to_ne_bytes(),
        )?;
        for attribute in [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            set(attribute, &ALIGNMENT.to_ne_bytes())?;
        }
        // SAFETY: descriptions that were made, and room for `most` results.
        let asked = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                descriptors.operation,
                descriptors.weight,
                descriptors.x,
                descriptors.out,
                descriptors.out,
                preference,
                most as i32,
                results.as_mut_ptr(),
                &raw mut found,
            )
        };
        check(asked, "asking for algorithms")?;
        results.truncate(usize::try_from(found).unwrap_or(0));
        Ok(usable(&results))
    }
}

/// Algorithms that cuBLASLt would run: it returns those that it rejected as well.
fn usable(results: &[lt::cublasLtMatmulHeuristicResult_t]) -> Vec<Algorithm> {
    let runs = |result: &&lt::cublasLtMatmulHeuristicResult_t| {
        result.state == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS
    };
    results
        .iter()
        .filter(runs)
        .map(|result| result.algo)
        .collect()
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: made in `new` and destroyed once; errors at the end cannot be handled.
        unsafe {
            let _ = self.context.enter();
            let _ = lt::cublasLtDestroy(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_that_the_library_tried_in_vain_are_left_out() {
        use lt::cublasStatus_t as Status;
        let states = [
            Status::CUBLAS_STATUS_NOT_SUPPORTED,
            Status::CUBLAS_STATUS_SUCCESS,
            Status::CUBLAS_STATUS_ALLOC_FAILED,
            Status::CUBLAS_STATUS_SUCCESS,
        ];
        let results = states.into_iter().zip(1..).map(|(state, number)| {
            // SAFETY: plain data, for which zero is a valid value.
            let mut result: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
            (result.state, result.algo.data[0]) = (state, number);
            result
        });
        let results: Vec<_> = results.collect();
        let kept: Vec<u64> = usable(&results).iter().map(|a| a.data[0]).collect();
        assert_eq!(kept, [2, 4]);
        assert!(usable(&results[..1]).is_empty());
    }
}
