//! Ops that one product does whole, where that is faster; else they are done one after the other.

use ops::{Activation, GatedLinear, LateLinear, LinearAddNorm, NormState, OpError};
use tensor::DType;

use crate::device::CudaDevice;
use crate::launch::are_pieces;
use crate::linear::{Ending, Onward, Product};

impl CudaDevice {
    pub(crate) fn run_late_linear(&self, op: LateLinear<'_>) -> Result<(), OpError> {
        let fusable = self
            .products
            .fusable(op.product.weight, op.product.x.rows());
        let Some(fusable) = fusable else {
            return Err(OpError::NotTaken { op: "late_linear" });
        };
        let (product, norm) = (Product::from(op.product), Some(op.norm));
        Ok(self
            .products
            .run_fused(&product, fusable, norm, &Ending::Results)?)
    }

    pub(crate) fn run_gated_linear(&self, op: GatedLinear<'_>) -> Result<(), OpError> {
        let fusable = self
            .products
            .fusable(op.product.weight, op.product.x.rows());
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        let fits = op.product.weight.rows().is_multiple_of(16)
            && product.rows_are_pieces()
            && product.out.dtype() == DType::BF16;
        let (Some(fusable), true) = (fusable, fits) else {
            let out = product.out;
            return GatedLinear { out, ..op }.compose(self);
        };
        let ending = Ending::Gated {
            gelu: op.activation == Activation::GeluTanh,
        };
        Ok(self
            .products
            .run_fused(&product, fusable, op.norm, &ending)?)
    }

    pub(crate) fn run_linear_add_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let rows = op.product.x.rows();
        let fusable = |weight| self.products.fusable(weight, rows);
        let read_late =
            !op.readers.is_empty() && op.readers.iter().all(|reader| fusable(reader).is_some());
        let fusable = fusable(op.product.weight);
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        // Readers take the sums by 16-byte pieces, as this product takes its inputs.
        let out_at = (product.out.address() as u64, product.out.stride());
        let fits = product.rows_are_pieces()
            && are_pieces(product.out.cols(), &[out_at])
            && op.residual.dtype() == DType::BF16
            && op.weight.dtype() == DType::F32;
        let (Some(fusable), true) = (fusable, read_late && fits) else {
            let out = product.out;
            return LinearAddNorm { out, ..op }.compose(self);
        };
        let ending = Ending::Onward(Onward {
            residual: op.residual,
            norm: op.weight,
            squares: op.squares,
        });
        self.products.run_fused(&product, fusable, None, &ending)?;
        Ok(NormState::Late)
    }
}
