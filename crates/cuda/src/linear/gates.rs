//! Whether gates are better off in a product of ours, or in a kernel behind the library's.

use ops::DeviceError;

use super::timing::{Bench, Between, TimedWay};
use super::{Algorithm, DeviceWeight, Ending, Product, Products, Variant, Way};
use crate::launch::gather::launch_activation;
use crate::options::ProductChoice;

/// How a gated product is computed.
#[derive(Clone, Copy)]
enum GatedWay {
    Own(Variant),
    Library(Algorithm),
}

impl TimedWay for GatedWay {
    type Weight = DeviceWeight;

    /// Results take the place of the first half of the gates and factors.
    fn run(
        &self,
        products: &Products,
        product: &mut Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        let (x, bias, half) = (product.x, product.bias, product.out.cols() / 2);
        match self {
            Self::Own(variant) => {
                let out = product.out.reborrow().columns(0..half);
                let how = (None, &Ending::Gated { gelu: false });
                let gated = Product { x, bias, out };
                products
                    .stream()
                    .run(&products.context, *variant, &gated, weight, how)
            }
            Self::Library(algorithm) => {
                products.run_way(product, weight, &Way::Blas(*algorithm))?;
                let all = (product.out.address() as u64, product.out.stride());
                let shape = (x.rows(), half);
                launch_activation(
                    &products.context,
                    products.activation,
                    [all; 2],
                    shape,
                    false,
                )
            }
        }
    }

    fn is_library(&self) -> bool {
        matches!(self, Self::Library(_))
    }
}

impl Products {
    /// True when gates belong into the product by this kernel, false where the library's and one for gates are faster.
    pub(super) fn prefers_own_gates(
        &self,
        product: &mut Product<'_>,
        bench: &Bench<'_, DeviceWeight>,
        own: Variant,
        library: Option<Algorithm>,
    ) -> Result<bool, DeviceError> {
        let Some(algorithm) = library else {
            return Ok(true);
        };
        if self.choice != ProductChoice::Fastest {
            return Ok(self.choice == ProductChoice::Own);
        }
        let mut time = |way| self.time(product, bench, &way, f32::INFINITY, Between::Nothing);
        Ok(time(GatedWay::Own(own))? <= time(GatedWay::Library(algorithm))?)
    }
}
