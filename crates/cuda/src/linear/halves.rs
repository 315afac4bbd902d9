//! Products that are cut in two along their inputs, whose sums the norm behind them adds up.
//!
//! A few hundred rows and few outputs make fewer tiles than there are multiprocessors. The library then cuts the inputs
//! and adds up sums by a kernel of its own; here it makes two products, and the norm reads one more matrix.

use std::sync::Arc;

use ops::{DeviceError, Weight};
use tensor::{Buffer, DType, View};

use super::blas::{CANDIDATES, Factors};
use super::timing::{Bench, Between, TimedWay};
use super::{Algorithm, DeviceWeight, Product, Products, Shape, Way, locked};
use crate::context::Context;
use crate::launch::norm::{Behind, NormParams};
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::options::ProductChoice;

/// More rows make tiles enough.
const MOST_ROWS: usize = 256;
/// Results of a row at most: as many as a norm takes by pieces.
const WIDEST: usize = 8192;
/// Fewer inputs are not worth cutting.
const FEWEST_INPUTS: usize = 256;

/// Room for sums, and the norms behind one product and behind two.
pub(super) struct Halves {
    context: Arc<Context>,
    sums: Buffer,
    norms: [Function; 2],
    units: usize,
}

impl Halves {
    pub(super) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        let bytes = 2 * MOST_ROWS * WIDEST * DType::BF16.size();
        Ok(Self {
            context: Arc::clone(context),
            sums: allocate(context, bytes, "halves of products")?,
            norms: [
                modules.find("add_rms_norm_short")?,
                modules.find("add_halves_norm_short")?,
            ],
            units,
        })
    }

    /// True when a product of this shape can be cut. What a norm is behind is seldom wider than its inputs.
    fn take(shape: &Shape, rows: usize) -> bool {
        rows <= MOST_ROWS
            && (shape.outputs..).contains(&shape.inputs)
            && shape.outputs <= WIDEST
            && shape.inputs >= FEWEST_INPUTS
            && shape.inputs.is_multiple_of(16)
            && shape.outputs.is_multiple_of(8)
            && !shape.wide
            && !shape.bias
    }

    /// Sums of the first half of a product's inputs, `[rows, outputs]`; those of the second lie behind them.
    fn sums(&self, product: &Product<'_>) -> View<'_> {
        let (rows, outputs) = (product.x.rows(), product.out.cols());
        self.sums.view(0, rows, outputs, DType::BF16)
    }

    fn factors(&self) -> Factors<'static> {
        Factors::Halves(self.sums.address() as u64)
    }

    /// Adds to the residual what one product gave, or two.
    fn normalise(&self, params: &NormParams, cut: bool) -> Result<(), DeviceError> {
        let function = self.norms[usize::from(cut)];
        params.launch_short(&self.context, function, self.units)
    }
}

/// How a product and the norm behind it are computed.
#[derive(Clone, Copy)]
enum NormedWay {
    Whole(Algorithm),
    Cut(Algorithm),
}

impl TimedWay for NormedWay {
    type Weight = DeviceWeight;

    /// The norm's residual and results are wherever sums are not.
    fn run(
        &self,
        products: &Products,
        product: &mut Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        let (halves, address) = (&products.halves, weight.buffer.address() as u64);
        let (sums, out) = (halves.sums(product), product.out.view());
        let (factors, algorithm, x, other) = match self {
            Self::Whole(algorithm) => (Factors::Plain, algorithm, out, sums),
            Self::Cut(algorithm) => (halves.factors(), algorithm, sums, out),
        };
        products
            .blas
            .enqueue(product, address, factors, algorithm)?;
        let other = (other.address() as u64, other.stride());
        let behind = Behind {
            residual: other,
            weight: product.x.cast(0, 1, product.out.cols(), DType::BF16),
            out: other,
            eps: 1e-6,
        };
        halves.normalise(&behind.params(x), matches!(self, Self::Cut(_)))
    }

    fn is_library(&self) -> bool {
        true
    }
}

impl Products {
    /// The algorithm that makes two products, where they and a norm take less time than one by `whole` and a norm.
    pub(super) fn faster_halves(
        &self,
        product: &mut Product<'_>,
        bench: &Bench<'_, DeviceWeight>,
        whole: Algorithm,
    ) -> Result<Option<Algorithm>, DeviceError> {
        if !Halves::take(&Shape::of(product), product.x.rows()) {
            return Ok(None);
        }
        let factors = self.halves.factors();
        // A shape that the library does not take is no failure.
        let found = self.blas.candidates(product, factors, CANDIDATES);
        let ways = found.unwrap_or_default().into_iter().map(NormedWay::Cut);
        let best = self.shortest(product, bench, ways, Between::Nothing)?;
        let Some((time, NormedWay::Cut(algorithm))) = best else {
            return Ok(None);
        };
        let whole = NormedWay::Whole(whole);
        let whole = self.time(product, bench, &whole, f32::INFINITY, Between::Nothing)?;
        // comparisons of the library's products have those in halves too
        let cut = time < whole || self.choice == ProductChoice::Library;
        Ok(cut.then_some(algorithm))
    }

    /// Enqueues a product in two halves and the norm behind it, where that was faster; false where it was not.
    pub(crate) fn run_in_halves(
        &self,
        product: &Product<'_>,
        weight: &Weight,
        behind: &Behind<'_>,
    ) -> Result<bool, DeviceError> {
        let Some(weight) = weight.layout::<DeviceWeight>() else {
            return Ok(false);
        };
        let shape = Shape::of(product);
        if !(weight.streams && product.rows_are_pieces() && Halves::take(&shape, product.x.rows()))
        {
            return Ok(false);
        }
        let algorithm = {
            let chosen = locked(&self.chosen);
            let choice = chosen.get(&shape);
            let choice = choice.filter(|choice| matches!(choice.way_for(weight), Way::Blas(_)));
            choice.and_then(|choice| choice.halves)
        };
        let params = behind.params(self.halves.sums(product));
        let Some(algorithm) = algorithm.filter(|_| params.is_short()) else {
            return Ok(false);
        };
        let address = weight.buffer.address() as u64;
        self.blas
            .enqueue(product, address, self.halves.factors(), &algorithm)?;
        self.halves.normalise(&params, true)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_that_a_norm_may_be_behind_are_cut_where_there_is_room() {
        let down = Shape::plain((4096, 12288), 256).expect("few rows");
        let with = |change: fn(&mut Shape)| {
            let mut shape = down;
            change(&mut shape);
            shape
        };
        for (shape, rows, expected) in [
            (down, 256, true),
            (down, 257, false),
            (with(|shape| shape.outputs = 8192), 256, true),
            (with(|shape| shape.outputs = 8200), 256, false),
            (with(|shape| shape.inputs = 4096), 256, true),
            (with(|shape| shape.inputs = 4080), 256, false),
            (with(|shape| shape.inputs = 12_296), 256, false),
            (
                with(|shape| (shape.outputs, shape.inputs) = (128, 240)),
                256,
                false,
            ),
            (down.biased(), 256, false),
            (with(|shape| shape.wide = true), 256, false),
        ] {
            assert_eq!(Halves::take(&shape, rows), expected, "{shape}, {rows} rows");
        }
    }
}
