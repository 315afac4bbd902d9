//! Rows that go from one product of eight-bit floats to the next as codes: what makes them packs them.

use ops::{Activation, Linear, OpError};
use tensor::DType;

use crate::device::CudaDevice;
use crate::launch::are_aligned;
use crate::linear::{Float8Weight, Gemm, Lacking, PackedRows, Source};
use crate::lower::{GatedGemm, GemmAddNorm, GemmInput, RowForm};

impl CudaDevice {
    /// A GEMM of rows that are codes.
    pub(crate) fn run_codes(&self, op: Linear<'_>) -> Result<(), OpError> {
        let Some(weight) = op.weight.layout::<Float8Weight>() else {
            return Err(OpError::NotTaken {
                op: "linear of codes",
            });
        };
        if op.x.rows() == 0 {
            return Ok(());
        }
        Ok(self.gemms.run_packed(&Gemm::from(op), weight)?)
    }

    /// A product, and its gates packed where its readers want them so.
    pub(crate) fn run_gates(&self, op: GatedGemm<'_>) -> Result<RowForm, OpError> {
        let gates = &op.gemm.out;
        let gates = (gates.address() as u64, gates.stride());
        let packing = self.gemms.packing(op.readers, &op.out);
        let Some(to) = packing.filter(|_| are_aligned(op.out.cols(), &[gates])) else {
            return self.run_gates_apart(op);
        };
        let mut product = op.gemm;
        let lacking = self.multiply_bare(op.input, product.reborrow())?;
        let source = Source::Gates {
            gate_up: product.out.view(),
            lacking,
            gelu: op.activation == Activation::GeluTanh,
        };
        self.gemms.pack(source, &to)?;
        Ok(RowForm::Codes)
    }

    /// A product, and the norm behind it packed where its readers want it so.
    pub(crate) fn run_norm(&self, op: GemmAddNorm<'_>) -> Result<RowForm, OpError> {
        let Some(to) = self.norm_packing(&op) else {
            return self.run_norm_apart(op);
        };
        let residual = (op.residual.address() as u64, op.residual.stride());
        let mut product = op.gemm;
        let lacking = self.multiply_bare(op.input, product.reborrow())?;
        let source = Source::Norm {
            x: product.out.view(),
            lacking,
            residual,
            weight: op.weight,
            eps: op.eps,
        };
        self.gemms.pack(source, &to)?;
        Ok(RowForm::Codes)
    }

    /// A product whose results may lack their scales, for the kernel that packs them; says which.
    fn multiply_bare(
        &self,
        input: GemmInput<'_>,
        mut product: Linear<'_>,
    ) -> Result<Option<Lacking>, OpError> {
        let form = match input {
            GemmInput::Plain => Some(RowForm::Plain),
            GemmInput::Codes => Some(RowForm::Codes),
            GemmInput::Deferred(_) => None,
        };
        if let (Some(form), Some(weight)) = (form, product.weight.layout::<Float8Weight>()) {
            let bare = Gemm::from(product.reborrow());
            let lacking = self.gemms.run_bare(&bare, weight, form)?;
            if lacking.is_some() {
                return Ok(lacking);
            }
        }
        self.multiply(input, product)?;
        Ok(None)
    }

    fn norm_packing(&self, op: &GemmAddNorm<'_>) -> Option<PackedRows> {
        let to = self.gemms.packing(op.readers, &op.out)?;
        let (x, residual) = (&op.gemm.out, &op.residual);
        let matrices = [
            (x.address() as u64, x.stride()),
            (residual.address() as u64, residual.stride()),
            (op.weight.address() as u64, 0),
        ];
        let typed = [x.dtype(), residual.dtype()] == [DType::BF16; 2];
        (typed && are_aligned(op.out.cols(), &matrices)).then_some(to)
    }
}
