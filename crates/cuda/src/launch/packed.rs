//! Rows that go from one eight-bit GEMM to the next as codes, packed by the kernel that makes them.

use ops::{
    Activation, Form, GatedLinear, Inputs, Linear, LinearAddNorm, NormState, OpError, PackedLinear,
};
use tensor::DType;

use crate::device::CudaDevice;
use crate::launch::are_aligned;
use crate::linear::{Float8Weight, Gemm, Lacking, PackedRows, Source};

impl CudaDevice {
    pub(crate) fn run_packed_linear(&self, op: PackedLinear<'_>) -> Result<(), OpError> {
        let op = op.product;
        let Some(weight) = op.weight.layout::<Float8Weight>() else {
            return Err(OpError::NotTaken {
                op: "packed_linear",
            });
        };
        if op.x.rows() == 0 {
            return Ok(());
        }
        Ok(self.gemms.run_packed(&Gemm::from(op), weight)?)
    }

    /// A GEMM, and its gates packed where its readers want them so.
    pub(crate) fn run_gates(&self, op: GatedLinear<'_>) -> Result<Form, OpError> {
        let gates = &op.product.out;
        let gates = (gates.address() as u64, gates.stride());
        let packing = self.gemms.packing(op.readers, &op.out);
        let Some(to) = packing.filter(|_| are_aligned(op.out.cols(), &[gates])) else {
            return op.compose(self);
        };
        let mut product = op.product;
        let lacking = self.multiply_bare(op.inputs, product.reborrow())?;
        let source = Source::Gates {
            gate_up: product.out.view(),
            lacking,
            gelu: op.activation == Activation::GeluTanh,
        };
        self.gemms.pack(source, &to)?;
        Ok(Form::Packed)
    }

    /// A GEMM, and the norm after it packed where its readers want it so.
    pub(crate) fn run_norm(&self, op: LinearAddNorm<'_>) -> Result<NormState, OpError> {
        let Some(to) = self.norm_packing(&op) else {
            return op.compose(self);
        };
        let residual = (op.residual.address() as u64, op.residual.stride());
        let mut product = op.product;
        let lacking = self.multiply_bare(op.inputs, product.reborrow())?;
        let source = Source::Norm {
            x: product.out.view(),
            lacking,
            residual,
            weight: op.weight,
            eps: op.eps,
        };
        self.gemms.pack(source, &to)?;
        Ok(NormState::Packed)
    }

    /// A GEMM that may leave unscaled sums, for the kernel that packs them; returns their scales.
    fn multiply_bare(
        &self,
        inputs: Inputs<'_>,
        mut product: Linear<'_>,
    ) -> Result<Option<Lacking>, OpError> {
        let form = match inputs {
            Inputs::Plain => Some(Form::Plain),
            Inputs::Packed => Some(Form::Packed),
            Inputs::Late(_) => None,
        };
        if let (Some(form), Some(weight)) = (form, product.weight.layout::<Float8Weight>()) {
            let bare = Gemm::from(product.reborrow());
            let lacking = self.gemms.run_bare(&bare, weight, form)?;
            if lacking.is_some() {
                return Ok(lacking);
            }
        }
        inputs.multiply(self, product)?;
        Ok(None)
    }

    fn norm_packing(&self, op: &LinearAddNorm<'_>) -> Option<PackedRows> {
        let to = self.gemms.packing(op.readers, &op.out)?;
        let (x, residual) = (&op.product.out, &op.residual);
        let matrices = [
            (x.address() as u64, x.stride()),
            (residual.address() as u64, residual.stride()),
            (op.weight.address() as u64, 0),
        ];
        let typed = [x.dtype(), residual.dtype()] == [DType::BF16; 2];
        (typed && are_aligned(op.out.cols(), &matrices)).then_some(to)
    }
}
