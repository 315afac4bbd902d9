//! Ops that one product does whole, where that is faster; else they are done one after the other.

use ops::{
    Activation, Form, GatedLinear, Inputs, LateLinear, LateNorm, LinearAddNorm, LinearLargest,
    NormState, OpError, Weight,
};
use tensor::{DType, ViewMut};

use crate::chain::Chain;
use crate::device::CudaDevice;
use crate::launch::are_pieces;
use crate::launch::norm::NormParams;
use crate::linear::{Ending, MOST_ROWS, Onward, Product};

impl CudaDevice {
    /// True when a product goes into a chain.
    pub(crate) fn chains(&self, weight: &Weight, product: &Product<'_>) -> bool {
        self.chains_rows(weight, product.x.rows()) && product.rows_are_pieces()
    }

    fn chains_rows(&self, weight: &Weight, rows: usize) -> bool {
        self.chain.is_some() && self.products.prefers_chains() && Chain::takes(rows, weight)
    }

    pub(crate) fn chain_product(
        &self,
        product: &Product<'_>,
        weight: &Weight,
        how: (Option<LateNorm<'_>>, &Ending<'_>),
    ) -> Result<(), OpError> {
        let Some(chain) = &self.chain else {
            return Err(OpError::NotTaken { op: "chain" });
        };
        let weight = (weight, self.products.chains_read_folded());
        Ok(chain.product(&self.context, product, weight, how)?)
    }

    /// One product with what surrounds it; none where no kernel of ours is to be preferred.
    fn fuse(
        &self,
        product: &Product<'_>,
        weight: &Weight,
        (norm, ending): (Option<LateNorm<'_>>, &Ending<'_>),
    ) -> Option<Result<(), OpError>> {
        if self.chains(weight, product) {
            return Some(self.chain_product(product, weight, (norm, ending)));
        }
        if !product.results_are_quads() {
            return None;
        }
        let gates = norm.is_none() && ending.is_gated();
        let fusable = self.products.fusable(weight, product.x.rows(), gates)?;
        let ran = self.products.run_fused(product, fusable, norm, ending);
        Some(ran.map_err(OpError::from))
    }

    /// True when products of so many rows with the weight can complete a norm.
    fn reads_late(&self, weight: &Weight, rows: usize) -> bool {
        self.chains_rows(weight, rows) || self.products.fusable(weight, rows, false).is_some()
    }

    pub(crate) fn run_late_linear(&self, op: LateLinear<'_>) -> Result<(), OpError> {
        let (weight, norm) = (op.product.weight, Some(op.norm));
        let product = Product::from(op.product);
        self.fuse(&product, weight, (norm, &Ending::Results))
            .unwrap_or(Err(OpError::NotTaken { op: "late_linear" }))
    }

    pub(crate) fn run_gated_linear(&self, op: GatedLinear<'_>) -> Result<Form, OpError> {
        let norm = match op.inputs {
            Inputs::Plain => None,
            Inputs::Late(norm) => Some(norm),
            Inputs::Packed => return self.run_gates(op),
        };
        let weight = op.product.weight;
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        let ending = Ending::Gated {
            gelu: op.activation == Activation::GeluTanh,
        };
        let fits = weight.rows().is_multiple_of(16)
            && product.rows_are_pieces()
            && product.out.dtype() == DType::BF16;
        let fused = if fits {
            self.fuse(&product, weight, (norm, &ending))
        } else {
            None
        };
        let out = product.out;
        match fused {
            Some(ran) => ran.map(|()| Form::Plain),
            None => self.run_gates(GatedLinear { out, ..op }),
        }
    }

    /// One product and a small kernel, where no row's scores need be written.
    pub(crate) fn run_linear_largest(&self, mut op: LinearLargest<'_>) -> Result<(), OpError> {
        let weight = op.product.weight;
        let norm = match op.inputs {
            Inputs::Plain => None,
            Inputs::Late(norm) => Some(norm),
            Inputs::Packed => return op.compose(self),
        };
        let product = Product::from(op.product.reborrow());
        let fits = product.bias.is_none()
            && product.rows_are_pieces()
            && product.x.rows() <= MOST_ROWS
            && !self.chains(weight, &product);
        let keys = self.sampling.largest();
        if !fits || !self.products.run_largest(&product, weight, norm, keys)? {
            return op.compose(self);
        }
        Ok(self.settle_largest(&op.draw)?)
    }

    pub(crate) fn run_linear_add_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let (rows, weight) = (op.product.x.rows(), op.product.weight);
        let late = |weight: &Weight| self.reads_late(weight, rows);
        let read_late = !op.readers.is_empty() && op.readers.iter().all(late) && late(weight);
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        // Readers take the sums by 16-byte pieces, as this product takes its inputs, and squares by fours.
        let pieces = |matrix: &ViewMut<'_>| (matrix.address() as u64, matrix.stride());
        let all = [pieces(&product.out), pieces(&op.residual)];
        let fits = matches!(op.inputs, Inputs::Plain)
            && product.rows_are_pieces()
            && product.results_are_quads()
            && are_pieces(product.out.cols(), &all)
            && (op.squares.address() as usize).is_multiple_of(16)
            && op.squares.stride().is_multiple_of(4)
            && (op.weight.address() as usize).is_multiple_of(16)
            && op.residual.dtype() == DType::BF16
            && op.weight.dtype() == DType::F32;
        if !(read_late && fits) {
            let out = product.out;
            return self.run_halves(LinearAddNorm { out, ..op });
        }
        let ending = Ending::Onward(Onward {
            residual: op.residual,
            norm: op.weight,
            squares: op.squares,
        });
        self.fuse(&product, weight, (None, &ending))
            .unwrap_or(Err(OpError::NotTaken {
                op: "linear_add_norm",
            }))?;
        Ok(NormState::Late)
    }

    /// Two products of half of the inputs each, which the norm adds up, where that is faster than one product and a norm.
    fn run_halves(&self, mut op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let residual = (op.residual.address() as u64, op.residual.stride());
        let out = (op.out.address() as u64, op.out.stride());
        let (weight, product) = (op.product.weight, Product::from(op.product.reborrow()));
        let norm = NormParams::new(product.out.view(), op.weight, residual, out, op.eps);
        let plain = matches!(op.inputs, Inputs::Plain)
            && [op.residual.dtype(), op.out.dtype()] == [DType::BF16; 2];
        if plain && self.products.run_in_halves(&product, weight, norm)? {
            return Ok(NormState::Done);
        }
        self.run_norm(op)
    }
}
