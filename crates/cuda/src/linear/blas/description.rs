//! The descriptors of a cuBLASLt GEMM.

use cudarc::cublaslt::sys as lt;
use ops::DeviceError;
use tensor::DType;

use super::{Gemm, check};

/// `CUBLAS_OP_T`, which the bindings of this library leave out.
const TRANSPOSED: i32 = 1;

/// The operands of a GEMM.
#[derive(Clone, Copy)]
pub(crate) enum Factors<'f> {
    /// The GEMM's own inputs.
    Plain,
    /// Eight-bit floats instead.
    Scaled(&'f Scaled),
    /// Split-K by two. Partial sums of the first half go to this address, row after row, those of the second half after them; the
    /// GEMM's own destination is left as it was.
    SplitK(u64),
}

impl Factors<'_> {
    /// Addresses of inputs and results.
    pub(super) fn addresses(&self, gemm: &Gemm<'_>) -> (u64, u64) {
        let (x, out) = (gemm.x.address() as u64, gemm.out.address() as u64);
        match self {
            Self::Plain => (x, out),
            Self::Scaled(scaled) => (scaled.x, out),
            Self::SplitK(sums) => (x, *sums),
        }
    }
}

/// Eight-bit operands instead of a GEMM's own inputs.
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

/// Descriptors of one GEMM, destroyed with it.
pub(super) struct Descriptors {
    pub(super) operation: lt::cublasLtMatmulDesc_t,
    pub(super) weight: lt::cublasLtMatrixLayout_t,
    pub(super) x: lt::cublasLtMatrixLayout_t,
    pub(super) out: lt::cublasLtMatrixLayout_t,
}

impl Descriptors {
    /// The library counts columns first: outᵀ `[out, rows]` = weight (stored `[in, out]`, transposed) · xᵀ `[in, rows]`.
    pub(super) fn new(gemm: &Gemm<'_>, factors: Factors<'_>) -> Result<Self, DeviceError> {
        let (rows, outer) = (gemm.x.rows(), gemm.out.cols());
        let mut all = Self {
            operation: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            x: std::ptr::null_mut(),
            out: std::ptr::null_mut(),
        };
        let half = lt::cudaDataType_t::CUDA_R_16BF;
        let (inputs, stride) = (gemm.x.cols(), gemm.x.stride());
        // elements of a row that are multiplied, then from one row to the next: of the weight, the inputs and the results
        let (factor, inner, strides) = match factors {
            Factors::Plain => (half, inputs, [inputs, stride, gemm.out.stride()]),
            Factors::Scaled(scaled) => (
                lt::cudaDataType_t::CUDA_R_8F_E4M3,
                scaled.inputs,
                [scaled.inputs, scaled.inputs, gemm.out.stride()],
            ),
            Factors::SplitK(_) => (half, inputs / 2, [inputs, stride, outer]),
        };
        let single = lt::cudaDataType_t::CUDA_R_32F;
        let out_type = if gemm.out.dtype() == DType::F32 {
            single
        } else {
            half
        };
        // SAFETY: valid out-pointers; attributes have the sizes that the library documents.
        unsafe {
            let compute = lt::cublasComputeType_t::CUBLAS_COMPUTE_32F;
            check(
                lt::cublasLtMatmulDescCreate(&raw mut all.operation, compute, single),
                "describing a GEMM",
            )?;
            let transposed = TRANSPOSED;
            all.set(
                lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                &transposed,
            )?;
            if let Some(bias) = &gemm.bias {
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
            if let Factors::Scaled(scaled) = factors {
                all.set_scales(scaled.scales)?;
            }
            layout(&mut all.weight, factor, inner, outer, strides[0])?;
            layout(&mut all.x, factor, inner, rows, strides[1])?;
            layout(&mut all.out, out_type, outer, rows, strides[2])?;
        }
        if let Factors::SplitK(_) = factors {
            all.cut_in_two([inner, inner, rows * outer])?;
        }
        Ok(all)
    }

    /// A strided batch of two GEMMs: elements between the two, of the weight, the inputs and the results.
    fn cut_in_two(&self, apart: [usize; 3]) -> Result<(), DeviceError> {
        use lt::cublasLtMatrixLayoutAttribute_t as Attribute;
        let set = |layout, attribute, value: &[u8]| {
            // SAFETY: a layout that was made, and an attribute of its documented size.
            let result = unsafe {
                lt::cublasLtMatrixLayoutSetAttribute(
                    layout,
                    attribute,
                    value.as_ptr().cast(),
                    value.len(),
                )
            };
            check(result, "describing a split-K GEMM")
        };
        for (layout, apart) in [self.weight, self.x, self.out].into_iter().zip(apart) {
            let (count, apart) = (2i32.to_ne_bytes(), (apart as i64).to_ne_bytes());
            set(
                layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                &count,
            )?;
            set(
                layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                &apart,
            )?;
        }
        Ok(())
    }

    /// The weight is cuBLASLt's operand A, the inputs are B.
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
        check(result, "describing a GEMM")
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
