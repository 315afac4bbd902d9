//! Dense products through cuBLASLt, each with the algorithm that was fastest when the weight was loaded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::sys as lt;
use ops::DeviceError;
use tensor::{Buffer, DType, View, ViewMut};

use crate::context::Context;
use crate::event::Event;
use crate::memory::allocate;

const WORKSPACE: usize = 64 << 20;
/// Algorithms tried a shape.
const CANDIDATES: usize = 8;
/// Runs of each; the shortest counts.
const REPEATS: usize = 3;
/// Row counts that algorithms are chosen for; a product uses the next one above its own.
const BUCKETS: [usize; 14] = [
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192,
];

/// `CUBLAS_OP_T`, which the bindings of this library leave out.
const TRANSPOSED: i32 = 1;

/// A product's shape, as far as the choice of algorithm goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    out_features: usize,
    in_features: usize,
    bucket: usize,
    wide: bool,
}

/// One y = x · wᵀ (+ bias).
pub(crate) struct Product<'a> {
    pub(crate) x: View<'a>,
    pub(crate) weight: *const u8,
    pub(crate) bias: Option<View<'a>>,
    pub(crate) out: ViewMut<'a>,
}

/// The library, its workspace and the algorithms chosen.
pub(crate) struct Blas {
    context: Arc<Context>,
    handle: lt::cublasLtHandle_t,
    workspace: Buffer,
    chosen: Mutex<BTreeMap<Shape, lt::cublasLtMatmulAlgo_t>>,
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
                let epilogue = lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
                all.set(
                    lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE,
                    &epilogue,
                )?;
                let address = bias.address();
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
            chosen: Mutex::default(),
        })
    }

    /// Enqueues a product with the algorithm chosen for its shape.
    pub(crate) fn run(&self, product: &Product<'_>) -> Result<(), DeviceError> {
        let algorithm = self.algorithm(&shape(product))?;
        let descriptors = Descriptors::new(product)?;
        self.enqueue(product, &descriptors, &algorithm)
    }

    fn algorithm(&self, shape: &Shape) -> Result<lt::cublasLtMatmulAlgo_t, DeviceError> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.get(shape).copied().ok_or_else(|| DeviceError::Lost {
            device: "cuBLASLt".into(),
            message: format!(
                "no algorithm was chosen for {} × {} with {} rows",
                shape.out_features, shape.in_features, shape.bucket
            ),
        })
    }

    fn enqueue(
        &self,
        product: &Product<'_>,
        descriptors: &Descriptors,
        algorithm: &lt::cublasLtMatmulAlgo_t,
    ) -> Result<(), DeviceError> {
        let (one, zero) = (1.0f32, 0.0f32);
        let out = product.out.address().cast::<std::ffi::c_void>();
        // SAFETY: shapes were described from the views themselves; all addresses are device memory.
        let result = unsafe {
            lt::cublasLtMatmul(
                self.handle,
                descriptors.operation,
                (&raw const one).cast(),
                product.weight.cast(),
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

    /// Times algorithms for a weight of a new shape, for every row count up to `max_rows`.
    pub(crate) fn choose(
        &self,
        weight: *const u8,
        rows: usize,
        cols: usize,
        max_rows: usize,
    ) -> Result<(), DeviceError> {
        let known = |wide, bucket| {
            let shape = Shape {
                out_features: rows,
                in_features: cols,
                bucket,
                wide,
            };
            self.chosen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains_key(&shape)
        };
        let largest = max_rows
            .clamp(1, BUCKETS[BUCKETS.len() - 1])
            .next_power_of_two();
        // Only the output head writes floats, and never for more rows than sample at once.
        for (wide, limit, dtype) in [
            (false, largest, DType::BF16),
            (true, largest.min(512), DType::F32),
        ] {
            if known(wide, 1) {
                continue;
            }
            let x = allocate(&self.context, limit * cols * 2, "choosing algorithms")?;
            let mut out = allocate(
                &self.context,
                limit * rows * dtype.size(),
                "choosing algorithms",
            )?;
            for bucket in BUCKETS.into_iter().take_while(|&bucket| bucket <= limit) {
                let product = Product {
                    x: x.view(0, bucket, cols, DType::BF16),
                    weight,
                    bias: None,
                    out: out.view_mut(0, bucket, rows, dtype),
                };
                let best = self.fastest(&product)?;
                let shape = shape(&product);
                self.chosen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(shape, best);
            }
        }
        Ok(())
    }

    fn fastest(&self, product: &Product<'_>) -> Result<lt::cublasLtMatmulAlgo_t, DeviceError> {
        let descriptors = Descriptors::new(product)?;
        let mut best: Option<(f32, lt::cublasLtMatmulAlgo_t)> = None;
        for candidate in self.candidates(&descriptors)? {
            let Ok(milliseconds) = self.time(product, &descriptors, &candidate.algo) else {
                continue;
            };
            if best
                .as_ref()
                .is_none_or(|(shortest, _)| milliseconds < *shortest)
            {
                best = Some((milliseconds, candidate.algo));
            }
        }
        best.map(|(_, algorithm)| algorithm)
            .ok_or_else(|| DeviceError::Lost {
                device: "cuBLASLt".into(),
                message: format!(
                    "no algorithm for {} × {}",
                    product.out.cols(),
                    product.x.cols()
                ),
            })
    }

    fn candidates(
        &self,
        descriptors: &Descriptors,
    ) -> Result<Vec<lt::cublasLtMatmulHeuristicResult_t>, DeviceError> {
        let mut preference = std::ptr::null_mut();
        let mut found = 0;
        // SAFETY: plain data that the library fills.
        let mut results: Vec<lt::cublasLtMatmulHeuristicResult_t> = (0..CANDIDATES)
            .map(|_| unsafe { std::mem::zeroed() })
            .collect();
        // SAFETY: valid out-pointers, room for CANDIDATES results; the preference is destroyed on every path.
        let outcome = unsafe {
            check(
                lt::cublasLtMatmulPreferenceCreate(&raw mut preference),
                "asking for algorithms",
            )?;
            let limit = WORKSPACE;
            let attribute =
                lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let set = lt::cublasLtMatmulPreferenceSetAttribute(
                preference,
                attribute,
                (&raw const limit).cast(),
                size_of::<usize>(),
            );
            let asked = check(set, "asking for algorithms").and_then(|()| {
                let result = lt::cublasLtMatmulAlgoGetHeuristic(
                    self.handle,
                    descriptors.operation,
                    descriptors.weight,
                    descriptors.x,
                    descriptors.out,
                    descriptors.out,
                    preference,
                    CANDIDATES as i32,
                    results.as_mut_ptr(),
                    &raw mut found,
                );
                check(result, "asking for algorithms")
            });
            let _ = lt::cublasLtMatmulPreferenceDestroy(preference);
            asked
        };
        outcome?;
        results.truncate(usize::try_from(found).unwrap_or(0));
        Ok(results)
    }

    fn time(
        &self,
        product: &Product<'_>,
        descriptors: &Descriptors,
        algorithm: &lt::cublasLtMatmulAlgo_t,
    ) -> Result<f32, DeviceError> {
        let (before, after) = (
            Event::new(&self.context, true)?,
            Event::new(&self.context, true)?,
        );
        self.enqueue(product, descriptors, algorithm)?;
        let mut shortest = f32::INFINITY;
        for _ in 0..REPEATS {
            before.record()?;
            self.enqueue(product, descriptors, algorithm)?;
            after.record()?;
            after.wait()?;
            shortest = shortest.min(after.since(&before)?);
        }
        Ok(shortest)
    }
}

fn shape(product: &Product<'_>) -> Shape {
    let rows = product.x.rows();
    Shape {
        out_features: product.out.cols(),
        in_features: product.x.cols(),
        bucket: BUCKETS
            .into_iter()
            .find(|&bucket| bucket >= rows)
            .unwrap_or(BUCKETS[BUCKETS.len() - 1]),
        wide: product.out.dtype() == DType::F32,
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
