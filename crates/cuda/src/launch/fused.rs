//! Ops that one product does whole, where that is faster; else they are done one after the other.

use ops::{Activation, GatedLinear, LateLinear, Linear, LinearAddNorm, NormState, OpError, Weight};
use tensor::DType;

use crate::device::CudaDevice;
use crate::launch::are_pieces;
use crate::linear::{DeviceWeight, Ending, Float8Weight, Onward, Product, Variant};

impl CudaDevice {
    fn fusable<'w>(&self, weight: &'w Weight, rows: usize) -> Option<(&'w DeviceWeight, Variant)> {
        let layout = weight.layout::<DeviceWeight>()?;
        let shape = (weight.rows(), weight.cols());
        Some((layout, self.products.fusable(layout, shape, rows)?))
    }

    /// True when products of so many rows with a weight take rows that lack the factor of their norm.
    fn reads_late(&self, weight: &Weight, rows: usize) -> bool {
        match weight.layout::<Float8Weight>() {
            Some(weight) => rows > 0 && self.products.float8_fusable(weight, rows).is_some(),
            None => self.fusable(weight, rows).is_some(),
        }
    }

    pub(crate) fn run_late_linear(&self, op: LateLinear<'_>) -> Result<(), OpError> {
        if let Some(weight) = op.product.weight.layout::<Float8Weight>() {
            return self.run_late_float8(op, weight);
        }
        let product = op.product;
        let fusable = self.fusable(product.weight, product.x.rows());
        let Some((weight, variant)) = fusable else {
            return Err(OpError::NotTaken { op: "late_linear" });
        };
        let product = whole(product);
        let norm = Some(op.norm);
        Ok(self
            .products
            .run_fused(&product, weight, variant, norm, &Ending::Results)?)
    }

    pub(crate) fn run_gated_linear(&self, op: GatedLinear<'_>) -> Result<(), OpError> {
        if let Some(weight) = op.product.weight.layout::<Float8Weight>() {
            return self.run_gated_float8(op, weight);
        }
        let fusable = self.fusable(op.product.weight, op.product.x.rows());
        let Some((weight, variant)) = fusable else {
            return op.compose(self);
        };
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        let even = op.product.weight.rows().is_multiple_of(16);
        if !even || !product.rows_are_pieces() || product.out.dtype() != DType::BF16 {
            return GatedLinear {
                out: product.out,
                ..op
            }
            .compose(self);
        }
        let gelu = op.activation == Activation::GeluTanh;
        let ending = Ending::Gated { gelu };
        Ok(self
            .products
            .run_fused(&product, weight, variant, op.norm, &ending)?)
    }

    pub(crate) fn run_linear_add_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let rows = op.product.x.rows();
        let read_late = !op.readers.is_empty()
            && op
                .readers
                .iter()
                .all(|reader| self.reads_late(reader, rows));
        // Readers take the sums by 16-byte pieces, and a late norm in their stead.
        let pieces = are_pieces(op.out.cols(), &[(op.out.address() as u64, op.out.stride())]);
        let typed = op.residual.dtype() == DType::BF16 && op.weight.dtype() == DType::F32;
        if let (Some(weight), true) = (
            op.product.weight.layout::<Float8Weight>(),
            read_late && pieces && typed,
        ) {
            return self.run_onward_float8(op, weight);
        }
        let fusable = self.fusable(op.product.weight, rows);
        let (Some((weight, variant)), true) = (fusable, read_late && pieces && typed) else {
            return op.compose(self);
        };
        let product = Product {
            x: op.product.x,
            bias: op.product.bias,
            out: op.out,
        };
        assert!(
            product.rows_are_pieces(),
            "what fusable weights multiply is made of 16-byte pieces"
        );
        let ending = Ending::Onward(Onward {
            residual: op.residual,
            norm: op.weight,
            squares: op.squares,
        });
        self.products
            .run_fused(&product, weight, variant, None, &ending)?;
        Ok(NormState::Late)
    }
}

fn whole(op: Linear<'_>) -> Product<'_> {
    Product {
        x: op.x,
        bias: op.bias,
        out: op.out,
    }
}
