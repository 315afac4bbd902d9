//! Which way a product goes: all are timed when a weight of a new shape is loaded.

use ops::DeviceError;
use tensor::DType;

use super::{Choice, Float8Weight, MOST_ROUNDED, Scaling, Way};
use crate::linear::blas::Algorithm;
use crate::linear::timing::{Bench, Between, SEED, TimedWay, others};
use crate::linear::{Product, Products, Shape, locked};
use crate::memory::allocate;
use crate::options::ProductChoice;

/// What rounding activations must gain to be worth their precision.
const ROUNDING: f32 = 1.1;
/// Algorithms of cuBLASLt that are tried.
const CANDIDATES: usize = 4;

impl TimedWay for Way {
    type Weight = Float8Weight;

    fn run(
        &self,
        products: &Products,
        product: &mut Product<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        products.run_float8_way(product, weight, self)
    }

    fn is_library(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }
}

impl Products {
    /// Takes over a weight and decides how products of it with up to `most_rows` rows are computed.
    pub(crate) fn adopt_float8(
        &self,
        weight: Float8Weight,
        most_rows: usize,
    ) -> Result<Float8Weight, DeviceError> {
        if weight.outputs.is_multiple_of(8) && weight.inputs.is_multiple_of(8) {
            self.time_all_float8(&weight, weight.shapes(most_rows))?;
        }
        Ok(weight)
    }

    /// As [`Self::expect_bias`], for weights of eight-bit floats.
    pub(crate) fn expect_float8_bias(
        &self,
        weight: &Float8Weight,
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let kind = weight.kind();
        let choice = |shape: Shape| locked(&self.float8().chosen).get(&(shape, kind)).copied();
        let mut library = Vec::new();
        for shape in weight.shapes(most_rows).into_iter().filter(|s| !s.wide) {
            match choice(shape) {
                // A bias costs our kernel nothing.
                Some(choice) if !choice.way.is_library() => {
                    let key = (shape.biased(), kind);
                    locked(&self.float8().chosen).insert(key, choice);
                }
                Some(_) => library.push(shape.biased()),
                None => {}
            }
        }
        self.time_all_float8(weight, library)
    }

    /// Those shapes of products with a weight that nobody timed yet.
    fn time_all_float8(
        &self,
        weight: &Float8Weight,
        mut shapes: Vec<Shape>,
    ) -> Result<(), DeviceError> {
        let kind = weight.kind();
        shapes.retain(|shape| !locked(&self.float8().chosen).contains_key(&(*shape, kind)));
        if shapes.is_empty() {
            return Ok(());
        }
        let others = self.float8_others(weight)?;
        let weights = std::iter::once(weight).chain(&others).collect();
        self.time_shapes(&shapes, weights, |shape, product, bench| {
            let choice = self.fastest_float8(product, bench)?;
            locked(&self.float8().chosen).insert((shape, kind), choice);
            Ok(())
        })
    }

    /// Enough weights of the shape that the cache does not hold them all.
    fn float8_others(&self, weight: &Float8Weight) -> Result<Vec<Float8Weight>, DeviceError> {
        let shape = (weight.outputs, weight.inputs);
        let copy = |bytes| allocate(&self.context, bytes, "choosing ways");
        (0..others(weight.codes.bytes()))
            .map(|_| {
                let library = weight.library_scales().map(|scales| copy(scales.bytes()));
                Float8Weight::new(
                    shape,
                    self.invent_float8(shape, SEED)?,
                    weight.grid,
                    copy(weight.scales.bytes())?,
                    library.transpose()?,
                )
            })
            .collect()
    }

    fn fastest_float8(
        &self,
        product: &mut Product<'_>,
        bench: &Bench<'_, Float8Weight>,
    ) -> Result<Choice, DeviceError> {
        let variants = self.float8().variants(product, bench.weights[0]);
        let streams: Vec<Way> = variants.into_iter().map(Way::Stream).collect();
        let candidates =
            |scaling| self.code_candidates(product, bench.weights[0], (CANDIDATES, scaling));
        let algorithms = candidates(Scaling::Whole)?;
        let rounded: Vec<Way> = algorithms.into_iter().map(Way::Rounded).collect();
        let kinds = match self.choice {
            ProductChoice::Own if !streams.is_empty() => [streams, Vec::new(), Vec::new()],
            ProductChoice::Library if !rounded.is_empty() => [Vec::new(), rounded, Vec::new()],
            _ => [streams, rounded, vec![Way::Widened]],
        };
        let mut times = [f32::INFINITY; 4];
        let mut fastest = None;
        for (time, ways) in times.iter_mut().zip(kinds) {
            // Ours does the work of a small kernel too.
            let between = match ways.first() {
                Some(way) if way.is_library() => Between::Neighbour,
                _ => Between::Nothing,
            };
            let Some((shortest, way)) = self.shortest(product, bench, ways, between)? else {
                continue;
            };
            *time = shortest;
            let price = match way {
                Way::Rounded(_) => shortest * ROUNDING,
                Way::Stream(_) | Way::Bare(_) | Way::Widened => shortest,
            };
            if fastest.is_none_or(|(best, _)| price < best) {
                fastest = Some((price, way));
            }
        }
        let (_, way) = fastest.ok_or_else(|| Shape::of(product).impossible())?;
        let mut bare = None;
        if matches!(way, Way::Rounded(_)) {
            (times[3], bare) = self.fastest_bare(product, bench)?;
        }
        let bare = bare.filter(|_| times[3] < times[1]);
        Ok(Choice { way, bare, times })
    }

    /// The library's way to sums of codes, where scales are of rows and nothing is to be added to results.
    fn fastest_bare(
        &self,
        product: &mut Product<'_>,
        bench: &Bench<'_, Float8Weight>,
    ) -> Result<(f32, Option<Algorithm>), DeviceError> {
        let weight = bench.weights[0];
        let none = (f32::INFINITY, None);
        if weight.is_grouped() || product.bias.is_some() || product.out.dtype() == DType::F32 {
            return Ok(none);
        }
        let algorithms = self.code_candidates(product, weight, (CANDIDATES, Scaling::Bare))?;
        let ways = algorithms.into_iter().map(Way::Bare);
        let found = self.shortest(product, bench, ways, Between::Neighbour)?;
        Ok(match found {
            Some((time, Way::Bare(algorithm))) => (time, Some(algorithm)),
            _ => none,
        })
    }

    /// How products of a weight are computed, one line a row count; for people.
    pub(crate) fn describe_float8(&self, outputs: usize, inputs: usize) -> Vec<String> {
        let chosen = locked(&self.float8().chosen);
        let mine = chosen.iter().filter(|((shape, _), _)| {
            shape.outputs == outputs && shape.inputs == inputs && !shape.bias
        });
        mine.map(|((shape, kind), choice)| {
            let kind = if kind.grouped { "128×128" } else { "a row" };
            let how = match choice.way {
                Way::Stream(variant) => format!("{variant:?}"),
                Way::Rounded(_) | Way::Bare(_) => "cuBLASLt, rounded".into(),
                Way::Widened => "cuBLASLt, widened".into(),
            };
            let [own, rounded, widened, bare] = choice.times.map(|time| 1e3 * time);
            let rows = shape.bucket;
            format!(
                "{rows:5} rows, scales {kind}: own {own:8.1} µs, rounded {rounded:8.1} µs, without scales {bare:8.1} µs, widened {widened:8.1} µs, {how}"
            )
        })
        .collect()
    }
}

impl Float8Weight {
    /// Shapes of its products, with up to `most_rows` rows; more than are rounded at once come one part after the other.
    fn shapes(&self, most_rows: usize) -> Vec<Shape> {
        Shape::likely((self.outputs, self.inputs), most_rows.min(MOST_ROUNDED))
    }
}
