//! Products that do the work of the small kernels around them.

use std::sync::PoisonError;

use ops::{DeviceError, LateNorm};

use super::stream::{Ending, Variant};
use super::{BUCKETS, DeviceWeight, Product, Products, Shape};
use crate::device::ProductChoice;

/// Milliseconds that a small kernel costs, whatever it does.
const SMALL: f32 = 3e-3;

impl Products {
    /// The shape of our kernel for products of so many rows with a weight, where it and one small kernel less take no
    /// longer than cuBLASLt.
    pub(crate) fn fusable(
        &self,
        weight: &DeviceWeight,
        (outputs, inputs): (usize, usize),
        rows: usize,
    ) -> Option<Variant> {
        if !weight.streams {
            return None;
        }
        let shape = Shape {
            outputs,
            inputs,
            bucket: BUCKETS.into_iter().find(|&bucket| bucket >= rows)?,
            wide: false,
            bias: false,
        };
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let choice = chosen.get(&shape)?;
        let faster = match self.choice {
            ProductChoice::Fastest => choice.own <= choice.blas + SMALL,
            ProductChoice::Own => true,
            ProductChoice::Library => false,
        };
        choice.variant.filter(|_| faster && rows > 0)
    }

    /// Enqueues a product in a shape that is [fusable](Self::fusable); inputs and results are made of 16-byte pieces.
    pub(crate) fn run_fused(
        &self,
        product: &Product<'_>,
        weight: &DeviceWeight,
        variant: Variant,
        norm: Option<LateNorm<'_>>,
        ending: &Ending<'_>,
    ) -> Result<(), DeviceError> {
        let how = (norm, ending);
        self.stream
            .run(&self.context, variant, product, weight, how)
    }
}
