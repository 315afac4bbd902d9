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

/// Eight-bit factors in the stead of a product's own inputs.
pub(crate) struct Scaled {
    /// Codes of the inputs, `[rows, inputs]`.
    pub(crate) x: u64,
    /// Codes of a row, of the inputs and of the weight.
    pub(crate) inputs: usize,
    /// None: sums of codes are the results.
    pub(crate) scales: Option<Scales>,
}

/// Scales of the inputs and of the weight, where they are.
#[derive(Clone, Copy)]
pub(crate) enum Scales {
    /// One for a row of either.
    Rows([u64; 2]),
    /// One for 128 inputs of a row, and for 128 × 128 of the weight.
    Groups([u64; 2]),
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
    fn new(product: &Product<'_>, scaled: Option<&Scaled>) -> Result<Self, DeviceError> {
        let (rows, outer) = (product.x.rows(), product.out.cols());
        let mut all = Self {
            operation: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            x: std::ptr::null_mut(),
            out: std::ptr::null_mut(),
        };
        let half = lt::cudaDataType_t::CUDA_R_16BF;
        let (factor, inner, stride) = match scaled {
            Some(scaled) => (
                lt::cudaDataType_t::CUDA_R_8F_E4M3,
                scaled.inputs,
                scaled.inputs,
            ),
            None => (half, product.x.cols(), product.x.stride()),
        };
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
            if let Some(scaled) = scaled {
                all.set_scales(scaled.scales)?;
            }
            layout(&mut all.weight, factor, inner, outer, inner)?;
            layout(&mut all.x, factor, inner, rows, stride)?;
            layout(&mut all.out, out_type, outer, rows, product.out.stride())?;
        }
        Ok(all)
    }

    /// The weight is the library's first factor, the inputs its second.
    fn set_scales(&self, scales: Option<Scales>) -> Result<(), DeviceError> {
        use lt::cublasLtMatmulDescAttributes_t as Attribute;
        use lt::cublasLtMatmulMatrixScale_t as Mode;
        if !matches!(scales, Some(Scales::Groups(_))) {
            // Sums stay in the tensor cores: what that loses is a tenth of what rounding the inputs does.
            let fast = 1i8;
            // SAFETY: the attribute's type.
            unsafe { self.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast) }?;
        }
        let ([inputs, weight], [of_inputs, of_weight]) = match scales {
            None => return Ok(()),
            Some(Scales::Rows(scales)) => (
                [Mode::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F; 2],
                scales,
            ),
            Some(Scales::Groups(scales)) => (
                [
                    Mode::CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                    Mode::CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
                ],
                scales,
            ),
        };
        // SAFETY: modes are of the attributes' type, and pointers are 64 bits.
        unsafe {
            self.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &weight)?;
            self.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &inputs)?;
            self.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &of_weight)?;
            self.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &of_inputs)
        }
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
        self.enqueue_scaled(product, weight, None, algorithm)
    }

    /// As [`Self::enqueue`], with eight-bit factors when there are some.
    pub(crate) fn enqueue_scaled(
        &self,
        product: &Product<'_>,
        weight: u64,
        scaled: Option<&Scaled>,
        algorithm: &Algorithm,
    ) -> Result<(), DeviceError> {
        self.context.flush()?;
        let descriptors = Descriptors::new(product, scaled)?;
        let x = scaled.map_or(product.x.address() as u64, |scaled| scaled.x);
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
                x as *const _,
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
        self.candidates_scaled(product, None, most)
    }

    /// As [`Self::candidates`], with eight-bit factors when there are some.
    pub(crate) fn candidates_scaled(
        &self,
        product: &Product<'_>,
        scaled: Option<&Scaled>,
        most: usize,
    ) -> Result<Vec<Algorithm>, DeviceError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let descriptors = Descriptors::new(product, scaled)?;
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

/// Algorithms that the library would run: it gives back those that it tried in vain as well.
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
        // SAFETY: made in `new` and destroyed once; errors at the end help nobody.
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
