//! Ops that one GEMM kernel does whole, where that is faster; else they run one after the other.

use ops::{
    Activation, Form, GatedLinear, Inputs, LateLinear, LateNorm, LinearAddNorm, LinearLargest,
    NormState, OpError, Weight,
};
use tensor::{DType, ViewMut};

use crate::device::CudaDevice;
use crate::launch::are_aligned;
use crate::launch::norm::NormParams;
use crate::linear::{AddNorm, Epilogue, Gemm, MOST_ROWS};
use crate::megakernel::Megakernel;

impl CudaDevice {
    /// True when a GEMM goes into the megakernel.
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
        how: (Option<LateNorm<'_>>, &Epilogue<'_>),
    ) -> Result<(), OpError> {
        let Some(megakernel) = &self.megakernel else {
            return Err(OpError::NotTaken { op: "megakernel" });
        };
        let weight = (weight, self.gemms.megakernel_reads_bf12());
        Ok(megakernel.gemm(&self.context, product, weight, how)?)
    }

    /// One GEMM with its fused neighbours; none where no kernel of ours is preferred.
    fn fuse(
        &self,
        product: &Gemm<'_>,
        weight: &Weight,
        (norm, epilogue): (Option<LateNorm<'_>>, &Epilogue<'_>),
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

    /// True when GEMMs of `rows` rows with the weight take a deferred RMS scale.
    fn reads_late(&self, weight: &Weight, rows: usize) -> bool {
        self.takes_megakernel_rows(weight, rows)
            || self.gemms.fusable(weight, rows, false).is_some()
    }

    pub(crate) fn run_late_linear(&self, op: LateLinear<'_>) -> Result<(), OpError> {
        let (weight, norm) = (op.product.weight, Some(op.norm));
        let product = Gemm::from(op.product);
        self.fuse(&product, weight, (norm, &Epilogue::Store))
            .unwrap_or(Err(OpError::NotTaken { op: "late_linear" }))
    }

    pub(crate) fn run_gated_linear(&self, op: GatedLinear<'_>) -> Result<Form, OpError> {
        let norm = match op.inputs {
            Inputs::Plain => None,
            Inputs::Late(norm) => Some(norm),
            Inputs::Packed => return self.run_gates(op),
        };
        let weight = op.product.weight;
        let product = Gemm {
            x: op.product.x,
            bias: op.product.bias,
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
            Some(ran) => ran.map(|()| Form::Plain),
            None => self.run_gates(GatedLinear { out, ..op }),
        }
    }

    /// One GEMM with an argmax epilogue and a small kernel, where no row of logits need be written.
    pub(crate) fn run_linear_largest(&self, mut op: LinearLargest<'_>) -> Result<(), OpError> {
        let weight = op.product.weight;
        let norm = match op.inputs {
            Inputs::Plain => None,
            Inputs::Late(norm) => Some(norm),
            Inputs::Packed => return op.compose(self),
        };
        let product = Gemm::from(op.product.reborrow());
        let fits = product.bias.is_none()
            && product.rows_are_aligned()
            && product.x.rows() <= MOST_ROWS
            && !self.takes_megakernel(weight, &product);
        let keys = self.sampling.largest();
        if !fits || !self.gemms.run_argmax(&product, weight, norm, keys)? {
            return op.compose(self);
        }
        Ok(self.finish_argmax(&op.draw)?)
    }

    pub(crate) fn run_linear_add_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let (rows, weight) = (op.product.x.rows(), op.product.weight);
        let late = |weight: &Weight| self.reads_late(weight, rows);
        let read_late = !op.readers.is_empty() && op.readers.iter().all(late) && late(weight);
        let product = Gemm {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        // Readers take the sums by 16-byte vectors, as this GEMM takes its inputs, and squares by fours.
        let place = |matrix: &ViewMut<'_>| (matrix.address() as u64, matrix.stride());
        let all = [place(&product.out), place(&op.residual)];
        let fits = matches!(op.inputs, Inputs::Plain)
            && product.rows_are_aligned()
            && product.results_are_quads()
            && are_aligned(product.out.cols(), &all)
            && (op.squares.address() as usize).is_multiple_of(16)
            && op.squares.stride().is_multiple_of(4)
            && (op.weight.address() as usize).is_multiple_of(16)
            && op.residual.dtype() == DType::BF16
            && op.weight.dtype() == DType::F32;
        if !(read_late && fits) {
            let out = product.out;
            return self.run_split_k(LinearAddNorm { out, ..op });
        }
        let epilogue = Epilogue::AddNorm(AddNorm {
            residual: op.residual,
            norm: op.weight,
            squares: op.squares,
        });
        self.fuse(&product, weight, (None, &epilogue))
            .unwrap_or(Err(OpError::NotTaken {
                op: "linear_add_norm",
            }))?;
        Ok(NormState::Late)
    }

    /// Split-K by two, whose sums the norm adds, where that is faster than one GEMM and a norm.
    fn run_split_k(&self, mut op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let residual = (op.residual.address() as u64, op.residual.stride());
        let out = (op.out.address() as u64, op.out.stride());
        let (weight, product) = (op.product.weight, Gemm::from(op.product.reborrow()));
        let norm = NormParams::new(product.out.view(), op.weight, residual, out, op.eps);
        let plain = matches!(op.inputs, Inputs::Plain)
            && [op.residual.dtype(), op.out.dtype()] == [DType::BF16; 2];
        if plain && self.gemms.run_split_k(&product, weight, norm)? {
            return Ok(NormState::Done);
        }
        self.run_norm(op)
    }
}
