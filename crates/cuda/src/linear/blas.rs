//! Dense products through cuBLASLt.

use std::sync::Arc;

use cudarc::cublaslt::sys as lt;
use ops::DeviceError;
use tensor::{Buffer, DType};

use super::Product;
use crate::context::Context;
use crate::memory::allocate;

const WORKSPACE: usize = 64 << 20;
/// Bytes that every matrix's address and row length are a multiple of.
const ALIGNMENT: u32 = 16;
/// Algorithms tried a shape.
pub(crate) const CANDIDATES: usize = 8;

/// `CUBLAS_OP_T`, which the bindings of this library leave out.
const TRANSPOSED: i32 = 1;

/// How a product is computed, in the library's own terms.
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

/// Descriptions of one product, destroyed with it.
struct Descriptors {
    operation: lt::cublasLtMatmulDesc_t,
    weight: lt::cublasLtMatrixLayout_t,
    x: lt::cublasLtMatrixLayout_t,
    out: lt::cublasLtMatrixLayout_t,
}

impl Descriptors {
    /// The library counts columns first: outᵀ `[out, rows]` = weight (stored `[in, out]`, transposed) · xᵀ `[in, rows]`.
    fn new(product: &Product<'_>) -> Result<Self, DeviceError> {
        let (rows, inner, outer) = (product.x.rows(), product.x.cols(), product.out.cols());
        let mut all = Self {
            operation: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            x: std::ptr::null_mut(),
            out: std::ptr::null_mut(),
        };
        let half = lt::cudaDataType_t::CUDA_R_16BF;
        let single = lt::cudaDataType_t::CUDA_R_32F;
        let out_type = if product.out.dtype() == DType::F32 {
            single
        } else {
            half
        };
        // SAFETY: valid out-pointers; attributes have the sizes that the library documents.
        unsafe {
            let compute = lt::cublasComputeType_t::CUBLAS_COMPUTE_32F;
            check(
                lt::cublasLtMatmulDescCreate(&raw mut all.operation, compute, single),
                "describing a product",
            )?;
            let transposed = TRANSPOSED;
            all.set(
                lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                &transposed,
            )?;
            if let Some(bias) = &product.bias {
                let address = bias.address() as u64;
                let epilogue = lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
                all.set(
                    lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE,
                    &epilogue,
                )?;
                all.set(
                    lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                    &address,
                )?;
            }
            let layout = |to: &mut lt::cublasLtMatrixLayout_t,
                          dtype,
                          rows: usize,
                          cols: usize,
                          stride: usize| {
                let made = lt::cublasLtMatrixLayoutCreate(
                    to,
                    dtype,
                    rows as u64,
                    cols as u64,
                    stride as i64,
                );
                check(made, "describing a matrix")
            };
            layout(&mut all.weight, half, inner, outer, inner)?;
            layout(&mut all.x, half, inner, rows, product.x.stride())?;
            layout(&mut all.out, out_type, outer, rows, product.out.stride())?;
        }
        Ok(all)
    }

    /// # Safety
    /// `value` must be of the attribute's type.
    unsafe fn set<T>(
        &self,
        attribute: lt::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), DeviceError> {
        let (address, size) = (std::ptr::from_ref(value).cast(), size_of::<T>());
        // SAFETY: the caller's promise.
        let result =
            unsafe { lt::cublasLtMatmulDescSetAttribute(self.operation, attribute, address, size) };
        check(result, "describing a product")
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: made in `new`; null where `new` stopped half way, which the library ignores.
        unsafe {
            for layout in [self.weight, self.x, self.out] {
                if !layout.is_null() {
                    let _ = lt::cublasLtMatrixLayoutDestroy(layout);
                }
            }
            if !self.operation.is_null() {
                let _ = lt::cublasLtMatmulDescDestroy(self.operation);
            }
        }
    }
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
            workspace: allocate(context, WORKSPACE, "the workspace of products")?,
        })
    }

    /// Enqueues a product with the weight at this address; a bias is of the type of the results.
    pub(crate) fn enqueue(
        &self,
        product: &Product<'_>,
        weight: u64,
        algorithm: &Algorithm,
    ) -> Result<(), DeviceError> {
        let descriptors = Descriptors::new(product)?;
        let (one, zero) = (1.0f32, 0.0f32);
        let out = product.out.address().cast::<std::ffi::c_void>();
        // SAFETY: shapes were described from the views themselves; all addresses are device memory.
        let result = unsafe {
            lt::cublasLtMatmul(
                self.handle,
                descriptors.operation,
                (&raw const one).cast(),
                weight as *const _,
                descriptors.weight,
                product.x.address().cast(),
                descriptors.x,
                (&raw const zero).cast(),
                out,
                descriptors.out,
                out,
                descriptors.out,
                algorithm,
                self.workspace.address().cast(),
                WORKSPACE,
                self.context.stream().cast(),
            )
        };
        check(result, "a product")
    }

    /// Up to `most` algorithms for a product, the library's favourite first.
    pub(crate) fn candidates(
        &self,
        product: &Product<'_>,
        most: usize,
    ) -> Result<Vec<Algorithm>, DeviceError> {
        let descriptors = Descriptors::new(product)?;
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
        Ok(results.into_iter().map(|result| result.algo).collect())
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: made in `new` and destroyed once; errors at the end help nobody.
        unsafe {
            let _ = self.context.enter();
            let _ = lt::cublasLtDestroy(self.handle);
        }
    }
}
