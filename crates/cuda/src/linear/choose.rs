//! Which way a product goes: all are timed when a weight of a new shape is loaded.
//!
//! As in a step, every product reads another weight, so that none is found in the cache. Products of our kernels follow
//! each other, since they do the work of the small kernels around them; those of the library take turns with a small
//! kernel that makes their inputs. Either way kernels overlap as they will.

use std::sync::PoisonError;

use ops::{DeviceError, Graph as _, OpError};
use tensor::{Buffer, DType};

use super::{
    BUCKETS, Choice, DeviceWeight, MOST_WIDE, Product, Products, Shape, Way, blas, none_found,
};
use crate::device::ProductChoice;
use crate::event::Event;
use crate::graph;
use crate::launch::gather::GatherParams;
use crate::launch::{Grid, launch};
use crate::memory::allocate;

/// Bytes of weights that take turns, and the most weights that do.
const TURNS: usize = 160 << 20;
const MOST_TURNS: usize = 16;
/// The fewest products that are timed at once, and milliseconds that they take in all.
const FEWEST: usize = 3;
const ENOUGH: f32 = 0.3;
/// Timings of each way; the shortest counts.
const REPEATS: usize = 5;
/// Milliseconds of a product that hardly varies: timed by itself, and so often.
const LONG: f32 = 0.5;
const LONG_REPEATS: usize = 2;
/// Weights of more outputs are heads, whose results are floats.
const MOST_OUTPUTS: usize = 1 << 16;
/// A way that took so much longer than the best one, at least so many milliseconds, will not catch up.
const HOPELESS: f32 = 1.5;
const NOTICEABLE: f32 = 0.02;

/// Of the numbers that are multiplied.
const SEED: u64 = 1;

/// Weights of one shape that take turns, and what their inputs are made from.
struct Bench<'w> {
    weights: Vec<&'w DeviceWeight>,
    source: &'w Buffer,
    indices: &'w Buffer,
}

/// What stands between products that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    Neighbour,
}

impl Products {
    /// Times all ways for a weight of a new shape, `[outputs, inputs]`, with up to `most_rows` rows.
    pub(super) fn choose(
        &self,
        weight: &DeviceWeight,
        (outputs, inputs): (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let largest = BUCKETS.into_iter().find(|&bucket| bucket >= most_rows);
        let largest = largest.unwrap_or(BUCKETS[BUCKETS.len() - 1]);
        let is_head = outputs > MOST_OUTPUTS;
        if self.knows((outputs, inputs), largest, is_head) {
            return Ok(());
        }
        let began = std::time::Instant::now();
        let room = |bytes| allocate(&self.context, bytes, "choosing ways");
        let (source, x) = (room(2 * largest * inputs)?, room(2 * largest * inputs)?);
        let indices = room(4 * largest)?;
        // Zeros cost less power than numbers, and power is what limits products of many rows.
        self.invent(&source, largest * inputs, SEED)?;
        let others = self.others(outputs, inputs)?;
        let bench = Bench {
            weights: std::iter::once(weight).chain(&others).collect(),
            source: &source,
            indices: &indices,
        };
        let halves = if is_head { 0 } else { largest };
        for (limit, dtype) in [(halves, DType::BF16), (largest.min(MOST_WIDE), DType::F32)] {
            let mut out = room(limit * outputs * dtype.size())?;
            for rows in BUCKETS.into_iter().take_while(|&rows| rows <= limit) {
                let product = Product {
                    x: x.view(0, rows, inputs, DType::BF16),
                    bias: None,
                    out: out.view_mut(0, rows, outputs, dtype),
                };
                let choice = self.fastest(&product, &bench)?;
                self.chosen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(Shape::of(&product), choice);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!("products of weights [{outputs}, {inputs}] timed in {seconds:.2} s");
        Ok(())
    }

    fn knows(&self, (outputs, inputs): (usize, usize), bucket: usize, wide: bool) -> bool {
        let shape = Shape {
            outputs,
            inputs,
            bucket: if wide { bucket.min(MOST_WIDE) } else { bucket },
            wide,
            bias: false,
        };
        let chosen = self.chosen.lock();
        chosen
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&shape)
    }

    /// Enough weights of the shape that the cache does not hold them all.
    fn others(&self, outputs: usize, inputs: usize) -> Result<Vec<DeviceWeight>, DeviceError> {
        let bytes = 2 * outputs * inputs;
        let count = (TURNS / bytes.max(1)).min(MOST_TURNS - 1);
        (0..count)
            .map(|_| {
                let buffer = allocate(&self.context, bytes, "choosing ways")?;
                self.invent(&buffer, outputs * inputs, SEED)?;
                let streams = true;
                Ok(DeviceWeight { buffer, streams })
            })
            .collect()
    }

    fn fastest(&self, product: &Product<'_>, bench: &Bench<'_>) -> Result<Choice, DeviceError> {
        let variants = self
            .stream
            .variants(product.x.rows(), (product.out.cols(), product.x.cols()));
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
        let ways = self.blas.candidates(product, candidates)?;
        let ways = ways.into_iter().map(Way::Blas);
        let blas = self.shortest(product, bench, ways, Between::Neighbour)?;
        let of = |timed: Option<(f32, Way)>| timed.map_or(f32::INFINITY, |(time, _)| time);
        let times = [own.unwrap_or(f32::INFINITY), of(blas)];
        let way = match (fused, blas) {
            (Some((_, way)), _) if self.prefers_own(times) => way,
            (_, Some((_, way))) => way,
            _ => return Err(none_found(&Shape::of(product))),
        };
        let variant = match fused {
            Some((_, Way::Stream(variant))) => Some(variant),
            _ => None,
        };
        Ok(Choice {
            way,
            variant,
            fused: of(fused),
            own: times[0],
            blas: times[1],
        })
    }

    /// The way that takes the shortest time, in milliseconds; ways that the library refuses do not count.
    fn shortest(
        &self,
        product: &Product<'_>,
        bench: &Bench<'_>,
        ways: impl Iterator<Item = Way>,
        between: Between,
    ) -> Result<Option<(f32, Way)>, DeviceError> {
        let mut best: Option<(f32, Way)> = None;
        for way in ways {
            let record = best.map_or(f32::INFINITY, |(time, _)| time);
            // Whatever the library sets up at a first call is not timed.
            let tried = self.run_way(product, bench.weights[0], &way);
            if tried.is_err() && matches!(way, Way::Blas(_)) {
                continue;
            }
            tried?;
            let time = self.time(product, bench, &way, record, between)?;
            if time < record {
                best = Some((time, way));
            }
        }
        Ok(best)
    }

    fn prefers_own(&self, [own, blas]: [f32; 2]) -> bool {
        match self.choice {
            ProductChoice::Fastest => own <= blas,
            ProductChoice::Own => true,
            ProductChoice::Library => false,
        }
    }

    /// Milliseconds of one product and what stands between; roughly, where that is more than `record`.
    fn time(
        &self,
        product: &Product<'_>,
        bench: &Bench<'_>,
        way: &Way,
        record: f32,
        between: Between,
    ) -> Result<f32, DeviceError> {
        let take_turn = |turn| {
            if between == Between::Neighbour {
                self.make_inputs(product, bench)?;
            }
            self.run_way(product, bench.weights[turn % bench.weights.len()], way)
        };
        let mut once = self.between_events(|| take_turn(0))?;
        if once > HOPELESS * record + NOTICEABLE {
            return Ok(once);
        }
        if once > LONG {
            for turn in 0..LONG_REPEATS {
                once = once.min(self.between_events(|| take_turn(turn))?);
            }
            return Ok(once);
        }
        // As in a decode step: launched one by one, short products would wait for the host.
        let turns = ((ENOUGH / once).ceil() as usize).clamp(FEWEST, MOST_TURNS);
        let graph = graph::capture(&self.context, &mut || {
            let mut turns = 0..turns;
            Ok(turns.try_for_each(take_turn)?)
        });
        let graph = graph.map_err(|error| match error {
            OpError::Device(error) => error,
            other => unreachable!("{other}"),
        })?;
        let mut shortest = f32::INFINITY;
        for _ in 0..=REPEATS {
            shortest = shortest.min(self.between_events(|| graph.replay())?);
        }
        Ok(shortest / turns as f32)
    }

    /// Milliseconds of what `run` enqueues.
    fn between_events(
        &self,
        run: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<f32, DeviceError> {
        let (before, after) = (
            Event::new(&self.context, true)?,
            Event::new(&self.context, true)?,
        );
        before.record()?;
        run()?;
        after.record()?;
        after.wait()?;
        after.since(&before)
    }

    fn make_inputs(&self, product: &Product<'_>, bench: &Bench<'_>) -> Result<(), DeviceError> {
        let (rows, inputs) = (product.x.rows(), product.x.cols());
        let params = GatherParams {
            x: bench.source.address() as u64,
            indices: bench.indices.address() as u64,
            out: product.x.address() as u64,
            x_stride: inputs as u32,
            out_stride: inputs as u32,
            width: inputs as u32,
            pieces: 1,
        };
        // SAFETY: the struct of the kernel; all indices are zero, and both matrices have that row.
        unsafe {
            launch(
                &self.context,
                self.neighbour,
                Grid::line(rows, 128),
                &params,
            )
        }
    }
}
