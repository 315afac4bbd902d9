//! Whether gates are faster in the epilogue of a GEMM of ours, or in a kernel after cuBLASLt's.

use ops::DeviceError;

use super::timing::{Bench, Between, TimedCandidate};
use super::{Algorithm, Candidate, DeviceWeight, Epilogue, Gemm, Gemms, Variant};
use crate::launch::gather::launch_activation;
use crate::options::GemmChoice;

/// How a gated GEMM is computed.
#[derive(Clone, Copy)]
enum GatedCandidate {
    Own(Variant),
    Library(Algorithm),
}

impl TimedCandidate for GatedCandidate {
    type Weight = DeviceWeight;

    /// Results overwrite the first half of gates and up values.
    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        let (x, bias, half) = (gemm.x, gemm.bias, gemm.out.cols() / 2);
        match self {
            Self::Own(variant) => {
                let out = gemm.out.reborrow().columns(0..half);
                let how = (None, &Epilogue::Gated { gelu: false });
                let gated = Gemm { x, bias, out };
                gemms
                    .own()
                    .run(&gemms.context, *variant, &gated, weight, how)
            }
            Self::Library(algorithm) => {
                gemms.run_candidate(gemm, weight, &Candidate::Blas(*algorithm))?;
                let all = (gemm.out.address() as u64, gemm.out.stride());
                let shape = (x.rows(), half);
                launch_activation(&gemms.context, gemms.activation, [all; 2], shape, false)
            }
        }
    }

    fn is_library(&self) -> bool {
        matches!(self, Self::Library(_))
    }
}

impl Gemms {
    /// True when the gated epilogue of this kernel is faster than cuBLASLt's GEMM and a kernel for gates.
    pub(super) fn prefers_own_gates(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, DeviceWeight>,
        own: Variant,
        library: Option<Algorithm>,
    ) -> Result<bool, DeviceError> {
        let Some(algorithm) = library else {
            return Ok(true);
        };
        if self.choice != GemmChoice::Fastest {
            return Ok(self.choice == GemmChoice::Own);
        }
        let mut time =
            |candidate| self.time(gemm, bench, &candidate, f32::INFINITY, Between::Nothing);
        Ok(time(GatedCandidate::Own(own))? <= time(GatedCandidate::Library(algorithm))?)
    }
}
