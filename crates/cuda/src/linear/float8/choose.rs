//! Which way a product goes: all are timed when a weight of a new shape is loaded.

use ops::DeviceError;
use tensor::DType;

use super::{Choice, Float8Weight, MOST_ROUNDED, Way, locked};
use crate::device::ProductChoice;
use crate::event::Event;
use crate::linear::{BUCKETS, Product, Products, Shape, none_found};
use crate::memory::allocate;

/// Bytes of weights that take turns, so that none is found in the cache.
const TURNS: usize = 160 << 20;
const MOST_TURNS: usize = 16;
const FEWEST: usize = 3;
/// Timings of each way; the shortest counts.
const REPEATS: usize = 3;
/// What rounding activations must gain to be worth their precision.
const ROUNDING: f32 = 1.1;
/// Milliseconds that a small kernel costs, whatever it does.
const SMALL: f32 = 3e-3;
/// Algorithms of cuBLASLt that are tried.
const CANDIDATES: usize = 4;

impl Products {
    /// Takes over a weight and decides how products of it with up to `most_rows` rows are computed.
    pub(crate) fn adopt_float8(
        &self,
        weight: Float8Weight,
        most_rows: usize,
    ) -> Result<Float8Weight, DeviceError> {
        if !weight.outputs.is_multiple_of(8) || !weight.inputs.is_multiple_of(8) {
            return Ok(weight);
        }
        let most_rows = most_rows.min(MOST_ROUNDED);
        let largest = BUCKETS.into_iter().find(|&bucket| bucket >= most_rows);
        let largest = largest.unwrap_or(MOST_ROUNDED);
        let (outputs, inputs) = (weight.outputs, weight.inputs);
        let shape = |bucket| Shape {
            outputs,
            inputs,
            bucket,
            wide: false,
            bias: false,
        };
        let key = (shape(largest), weight.kind());
        if locked(&self.float8.chosen).contains_key(&key) {
            return Ok(weight);
        }
        let x = allocate(&self.context, 2 * largest * inputs, "choosing ways")?;
        let mut out = allocate(&self.context, 2 * largest * outputs, "choosing ways")?;
        let others = self.float8_others(&weight)?;
        let weights: Vec<&Float8Weight> = std::iter::once(&weight).chain(&others).collect();
        for rows in BUCKETS.into_iter().take_while(|&rows| rows <= largest) {
            let mut product = Product {
                x: x.view(0, rows, inputs, DType::BF16),
                bias: None,
                out: out.view_mut(0, rows, outputs, DType::BF16),
            };
            let choice = self.fastest_float8(&mut product, &weights)?;
            let key = (shape(rows), weight.kind());
            locked(&self.float8.chosen).insert(key, choice);
            let biased = (
                Shape {
                    bias: true,
                    ..key.0
                },
                key.1,
            );
            // A bias costs our kernel nothing; the library is asked when one comes.
            if matches!(choice.way, Way::Stream(_)) {
                locked(&self.float8.chosen).insert(biased, choice);
            }
        }
        Ok(weight)
    }

    /// Enough weights of the shape that the cache does not hold them all; they share scales.
    fn float8_others(&self, weight: &Float8Weight) -> Result<Vec<Float8Weight>, DeviceError> {
        let bytes = weight.codes.bytes();
        let count = (TURNS / bytes.max(1)).min(MOST_TURNS - 1);
        let copy = |bytes| allocate(&self.context, bytes, "choosing ways");
        (0..count)
            .map(|_| {
                let library = weight.library_scales().map(|scales| copy(scales.bytes()));
                Float8Weight::new(
                    (weight.outputs, weight.inputs),
                    copy(bytes)?,
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
        weights: &[&Float8Weight],
    ) -> Result<Choice, DeviceError> {
        let rows = product.x.rows();
        let variants = self.float8.variants(rows, weights[0]);
        let streams: Vec<Way> = variants.into_iter().map(Way::Stream).collect();
        let algorithms = self.rounded_candidates(product, weights[0], CANDIDATES)?;
        let rounded: Vec<Way> = algorithms.into_iter().map(Way::Rounded).collect();
        let kinds = match self.choice {
            ProductChoice::Own if !streams.is_empty() => [streams, Vec::new(), Vec::new()],
            ProductChoice::Library if !rounded.is_empty() => [Vec::new(), rounded, Vec::new()],
            _ => [streams, rounded, vec![Way::Widened]],
        };
        let mut times = [f32::INFINITY; 3];
        let mut fastest = None;
        for (kind, ways) in kinds.into_iter().enumerate() {
            for way in ways {
                // A way that fails is none.
                let Ok(time) = self.time_float8(product, weights, &way) else {
                    continue;
                };
                times[kind] = times[kind].min(time);
                let price = match way {
                    Way::Stream(_) => time,
                    // Ours does the work of a small kernel too.
                    Way::Rounded(_) => time * ROUNDING + SMALL,
                    Way::Widened => time + SMALL,
                };
                if fastest.is_none_or(|(best, _)| price < best) {
                    fastest = Some((price, way));
                }
            }
        }
        let (_, way) = fastest.ok_or_else(|| none_found(&Shape::of(product)))?;
        Ok(Choice { way, times })
    }

    /// Milliseconds of one product.
    fn time_float8(
        &self,
        product: &mut Product<'_>,
        weights: &[&Float8Weight],
        way: &Way,
    ) -> Result<f32, DeviceError> {
        let before = Event::new(&self.context, true)?;
        let after = Event::new(&self.context, true)?;
        let turns = weights.len().max(FEWEST);
        let mut shortest = f32::INFINITY;
        for _ in 0..=REPEATS {
            before.record()?;
            for turn in 0..turns {
                self.run_float8_way(product, weights[turn % weights.len()], way)?;
            }
            after.record()?;
            after.wait()?;
            shortest = shortest.min(after.since(&before)?);
        }
        Ok(shortest / turns as f32)
    }

    /// How products of a weight are computed, one line a row count; for people.
    pub(crate) fn describe_float8(&self, outputs: usize, inputs: usize) -> Vec<String> {
        let chosen = locked(&self.float8.chosen);
        let mine = chosen.iter().filter(|((shape, _), _)| {
            shape.outputs == outputs && shape.inputs == inputs && !shape.bias
        });
        mine.map(|((shape, kind), choice)| {
            let kind = if kind.grouped { "128×128" } else { "a row" };
            let how = match choice.way {
                Way::Stream(variant) => format!("{variant:?}"),
                Way::Rounded(_) => "cuBLASLt, rounded".into(),
                Way::Widened => "cuBLASLt, widened".into(),
            };
            let [own, rounded, widened] = choice.times.map(|time| 1e3 * time);
            let rows = shape.bucket;
            format!(
                "{rows:5} rows, scales {kind}: own {own:8.1} µs, rounded {rounded:8.1} µs, widened {widened:8.1} µs, {how}"
            )
        })
        .collect()
    }
}
