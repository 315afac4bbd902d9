//! Which way a product goes: all are timed when a weight of a new shape is loaded.

use ops::DeviceError;

use super::timing::{Bench, Between, SEED, TimedWay, others};
use super::{Choice, DeviceWeight, Factors, Product, Products, Shape, Variant, Way, blas, locked};
use crate::memory::allocate;
use crate::options::ProductChoice;

impl TimedWay for Way {
    type Weight = DeviceWeight;

    fn run(
        &self,
        products: &Products,
        product: &mut Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        products.run_way(product, weight, self)
    }

    fn is_library(&self) -> bool {
        matches!(self, Self::Blas(_))
    }
}

impl Products {
    /// Times all ways for a weight of a new shape, `[outputs, inputs]`, with up to `most_rows` rows.
    pub(super) fn choose(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        self.time_all(weight, Shape::all(shape, most_rows))
    }

    /// Products of the weight, `[outputs, inputs]`, add a bias: those that are the library's are timed with one as well.
    /// Ours cost the same with and without.
    pub(crate) fn expect_bias(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let library = |shape: &Shape| {
            let chosen = locked(&self.chosen);
            let choice = chosen.get(shape);
            choice.is_some_and(|choice| choice.way.is_library())
        };
        let shapes = Shape::all(shape, most_rows).into_iter();
        // The library takes no bias where results are floats.
        let shapes = shapes.filter(|shape| !shape.wide && library(shape));
        self.time_all(weight, shapes.map(Shape::biased).collect())
    }

    /// Those shapes of products with a weight that nobody timed yet.
    fn time_all(&self, weight: &DeviceWeight, mut shapes: Vec<Shape>) -> Result<(), DeviceError> {
        shapes.retain(|shape| !locked(&self.chosen).contains_key(shape));
        let Some(&Shape {
            outputs, inputs, ..
        }) = shapes.first()
        else {
            return Ok(());
        };
        let began = std::time::Instant::now();
        let others = self.others(outputs, inputs)?;
        let weights = std::iter::once(weight).chain(&others).collect();
        self.time_shapes(&shapes, weights, |shape, product, bench| {
            let choice = self.fastest(product, bench)?;
            locked(&self.chosen).insert(shape, choice);
            Ok(())
        })?;
        let (seconds, with) = (
            began.elapsed().as_secs_f64(),
            if shapes[0].bias { " with a bias" } else { "" },
        );
        tracing::info!("products of weights [{outputs}, {inputs}]{with} timed in {seconds:.2} s");
        Ok(())
    }

    /// Enough weights of the shape that the cache does not hold them all.
    pub(super) fn others(
        &self,
        outputs: usize,
        inputs: usize,
    ) -> Result<Vec<DeviceWeight>, DeviceError> {
        let bytes = 2 * outputs * inputs;
        (0..others(bytes))
            .map(|_| {
                let buffer = allocate(&self.context, bytes, "choosing ways")?;
                self.invent(&buffer, outputs * inputs, SEED)?;
                Ok(DeviceWeight::new(buffer, true))
            })
            .collect()
    }

    fn fastest(
        &self,
        product: &mut Product<'_>,
        bench: &Bench<'_, DeviceWeight>,
    ) -> Result<Choice, DeviceError> {
        let variants = self.variants(product);
        let ways = variants.into_iter().map(Way::Stream);
        let fused = self.shortest(product, bench, ways, Between::Nothing)?;
        let own = fused
            .map(|(_, way)| self.time(product, bench, &way, f32::INFINITY, Between::Neighbour))
            .transpose()?;
        // Nobody asks how fast the library is where ours are always taken.
        let candidates = if self.choice == ProductChoice::Own && fused.is_some() {
            0
        } else {
            blas::CANDIDATES
        };
        let ways = self.blas.candidates(product, Factors::Plain, candidates)?;
        let ways = ways.into_iter().map(Way::Blas);
        let blas = self.shortest(product, bench, ways, Between::Neighbour)?;
        let of = |timed: Option<(f32, Way)>| timed.map_or(f32::INFINITY, |(time, _)| time);
        let times = [own.unwrap_or(f32::INFINITY), of(blas)];
        let way = match (fused, blas) {
            (Some((_, way)), _) if self.prefers_own(times) => way,
            (_, Some((_, way))) => way,
            _ => return Err(Shape::of(product).impossible()),
        };
        let variant = match fused {
            Some((_, Way::Stream(variant))) => Some(variant),
            _ => None,
        };
        let library = match blas {
            Some((_, Way::Blas(algorithm))) => Some(algorithm),
            _ => None,
        };
        let gates = match variant {
            Some(wide @ Variant::Wide) => {
                Some(self.prefers_own_gates(product, bench, wide, library)?)
            }
            _ => None,
        };
        let halves = match (way, library) {
            (Way::Blas(_), Some(whole)) => self.faster_halves(product, bench, whole)?,
            _ => None,
        };
        Ok(Choice {
            way,
            variant,
            folded: None,
            gates,
            halves,
            fused: of(fused),
            own: times[0],
            blas: times[1],
        })
    }

    fn prefers_own(&self, [own, blas]: [f32; 2]) -> bool {
        match self.choice {
            ProductChoice::Fastest => own <= blas,
            ProductChoice::Own => true,
            ProductChoice::Library => false,
        }
    }
}
