//! Ops that one GEMM computes with its epilogue, where that is faster; else one kernel after the other.

use ops::{Activation, AddRmsNorm, GatedActivation, Kernels as _, Linear, OpError, Sample, Weight};
use tensor::{DType, ViewMut};

use crate::device::CudaDevice;
use crate::launch::are_aligned;
use crate::launch::norm::NormParams;
use crate::linear::{AddNorm, Epilogue, Gemm, MOST_ROWS};
use crate::lower::{DeferredScale, GatedGemm, GemmAddNorm, GemmArgmax, GemmInput, RowForm};
use crate::megakernel::Megakernel;

impl CudaDevice {
    /// True when a product goes into a chain.
    pub(crate) fn takes_megakernel(&self, weight: &Weight, product: &Gemm<'_>) -> bool {
        self.takes_megakernel_rows(weight, product.x.rows()) && product.rows_are_aligned()
    }

    fn takes_megakernel_rows(&self, weight: &Weight, rows: usize) -> bool {
        self.megakernel.is_some()
            && self.gemms.prefers_megakernel()
            && Megakernel::takes(rows, weight)
    }

    pub(crate) fn megakernel_gemm(
        &self,
        product: &Gemm<'_>,
        weight: &Weight,
        how: (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), OpError> {
        let Some(megakernel) = &self.megakernel else {
            return Err(OpError::NotTaken { op: "megakernel" });
        };
        let weight = (weight, self.gemms.megakernel_reads_bf12());
        Ok(megakernel.gemm(&self.context, product, weight, how)?)
    }

    /// One product with what surrounds it; none where no kernel of ours is to be preferred.
    fn fuse(
        &self,
        product: &Gemm<'_>,
        weight: &Weight,
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Option<Result<(), OpError>> {
        if self.takes_megakernel(weight, product) {
            return Some(self.megakernel_gemm(product, weight, (norm, epilogue)));
        }
        if !product.results_are_quads() {
            return None;
        }
        let gates = norm.is_none() && epilogue.is_gated();
        let fusable = self.gemms.fusable(weight, product.x.rows(), gates)?;
        let ran = self.gemms.run_fused(product, fusable, norm, epilogue);
        Some(ran.map_err(OpError::from))
    }

    /// True when products of so many rows with the weight can complete a norm.
    fn reads_deferred(&self, weight: &Weight, rows: usize) -> bool {
        self.takes_megakernel_rows(weight, rows)
            || self.gemms.fusable(weight, rows, false).is_some()
    }

    /// A GEMM of rows in whatever form they are.
    pub fn multiply(&self, input: GemmInput<'_>, gemm: Linear<'_>) -> Result<(), OpError> {
        match input {
            GemmInput::Plain => self.linear(gemm),
            GemmInput::Codes => self.run_codes(gemm),
            GemmInput::Deferred(scale) => {
                let (weight, product) = (gemm.weight, Gemm::from(gemm));
                self.fuse(&product, weight, (Some(scale), &Epilogue::Store))
                    .unwrap_or(Err(OpError::NotTaken {
                        op: "linear of a deferred norm",
                    }))
            }
        }
    }

    /// A GEMM and its gates: in one kernel, or in two. Says in what form it left the results.
    pub fn run_gated_gemm(&self, op: GatedGemm<'_>) -> Result<RowForm, OpError> {
        let norm = match op.input {
            GemmInput::Plain => None,
            GemmInput::Deferred(scale) => Some(scale),
            GemmInput::Codes => return self.run_gates(op),
        };
        let weight = op.gemm.weight;
        let product = Gemm {
            x: op.gemm.x,
            bias: op.gemm.bias,
            out: op.out,
        };
        let epilogue = Epilogue::Gated {
            gelu: op.activation == Activation::GeluTanh,
        };
        let fits = weight.rows().is_multiple_of(16)
            && product.rows_are_aligned()
            && product.out.dtype() == DType::BF16;
        let fused = if fits {
            self.fuse(&product, weight, (norm, &epilogue))
        } else {
            None
        };
        let out = product.out;
        match fused {
            Some(ran) => ran.map(|()| RowForm::Plain),
            None => self.run_gates(GatedGemm { out, ..op }),
        }
    }

    /// A GEMM, and a kernel for its gates.
    pub(crate) fn run_gates_apart(&self, op: GatedGemm<'_>) -> Result<RowForm, OpError> {
        let mut gemm = op.gemm;
        self.multiply(op.input, gemm.reborrow())?;
        self.gated_activation(GatedActivation {
            gate_up: gemm.out.view(),
            activation: op.activation,
            out: op.out,
        })?;
        Ok(RowForm::Plain)
    }

    /// A GEMM, and a kernel that adds and normalises.
    pub(crate) fn run_norm_apart(&self, op: GemmAddNorm<'_>) -> Result<RowForm, OpError> {
        let mut gemm = op.gemm;
        self.multiply(op.input, gemm.reborrow())?;
        self.add_rms_norm(AddRmsNorm {
            x: gemm.out.view(),
            residual: op.residual,
            weight: op.weight,
            eps: op.eps,
            out: op.out,
        })?;
        Ok(RowForm::Plain)
    }

    /// A GEMM, and a kernel that draws from all its results.
    fn run_argmax_apart(&self, op: GemmArgmax<'_>) -> Result<(), OpError> {
        let mut gemm = op.gemm;
        self.multiply(op.input, gemm.reborrow())?;
        self.sample(Sample {
            logits: gemm.out.view(),
            draw: op.draw,
        })
    }

    /// One product and a small kernel, where no row's scores need be written.
    pub fn run_gemm_argmax(&self, mut op: GemmArgmax<'_>) -> Result<(), OpError> {
        let weight = op.gemm.weight;
        let norm = match op.input {
            GemmInput::Plain => None,
            GemmInput::Deferred(scale) => Some(scale),
            GemmInput::Codes => return self.run_argmax_apart(op),
        };
        let product = Gemm::from(op.gemm.reborrow());
        let fits = product.bias.is_none()
            && product.rows_are_aligned()
            && product.x.rows() <= MOST_ROWS
            && !self.takes_megakernel(weight, &product);
        let keys = self.sampling.largest();
        if !fits || !self.gemms.run_argmax(&product, weight, norm, keys)? {
            return self.run_argmax_apart(op);
        }
        Ok(self.finish_argmax(&op.draw)?)
    }

    /// A GEMM that is added to the residual and normalised. Says in what form it left the normalised rows.
    pub fn run_gemm_add_norm(&self, op: GemmAddNorm<'_>) -> Result<RowForm, OpError> {
        let (rows, weight) = (op.gemm.x.rows(), op.gemm.weight);
        let deferred = |weight: &Weight| self.reads_deferred(weight, rows);
        let defers = !op.readers.is_empty()
            && op.readers.iter().all(|weight| deferred(weight))
            && deferred(weight);
        let product = Gemm {
            x: op.gemm.x,
            bias: op.gemm.bias,
            out: op.out,
        };
        // Readers take the sums by 16-byte vectors, as this GEMM takes its inputs, and squares by fours.
        let place = |matrix: &ViewMut<'_>| (matrix.address() as u64, matrix.stride());
        let all = [place(&product.out), place(&op.residual)];
        let fits = matches!(op.input, GemmInput::Plain)
            && product.rows_are_aligned()
            && product.results_are_quads()
            && are_aligned(product.out.cols(), &all)
            && (op.squares.address() as usize).is_multiple_of(16)
            && op.squares.stride().is_multiple_of(4)
            && (op.weight.address() as usize).is_multiple_of(16)
            && op.residual.dtype() == DType::BF16
            && op.weight.dtype() == DType::F32;
        if !(defers && fits) {
            let out = product.out;
            return self.run_split_k(GemmAddNorm { out, ..op });
        }
        let epilogue = Epilogue::AddNorm(AddNorm {
            residual: op.residual,
            norm: op.weight,
            squares: op.squares,
        });
        self.fuse(&product, weight, (None, &epilogue))
            .unwrap_or(Err(OpError::NotTaken {
                op: "linear with a deferred norm",
            }))?;
        Ok(RowForm::Deferred)
    }

    /// Two products of half of the inputs each, which the norm adds up, where that is faster than one product and a norm.
    fn run_split_k(&self, mut op: GemmAddNorm<'_>) -> Result<RowForm, OpError> {
        let residual = (op.residual.address() as u64, op.residual.stride());
        let out = (op.out.address() as u64, op.out.stride());
        let (weight, product) = (op.gemm.weight, Gemm::from(op.gemm.reborrow()));
        let norm = NormParams::new(product.out.view(), op.weight, residual, out, op.eps);
        let plain = matches!(op.input, GemmInput::Plain)
            && [op.residual.dtype(), op.out.dtype()] == [DType::BF16; 2];
        if plain && self.gemms.run_split_k(&product, weight, norm)? {
            return Ok(RowForm::Plain);
        }
        self.run_norm(op)
    }
}
