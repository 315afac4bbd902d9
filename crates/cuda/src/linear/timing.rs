//! How long products take, as steps use them.
//!
//! Every product reads another weight, so that none is found in the cache. Products of our kernels follow each other, since
//! they do the work of the small kernels around them; those of the library take turns with a small kernel that makes
//! their inputs. Either way kernels overlap as they will.

use ops::{DeviceError, Graph as _, OpError};
use tensor::{Buffer, DType, View};

use super::{Gemm, Gemms, Shape};
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
/// A way that took so much longer than the best one, at least so many milliseconds, will not catch up.
const HOPELESS: f32 = 1.5;
const NOTICEABLE: f32 = 0.02;

/// Of the numbers that are multiplied.
pub(super) const SEED: u64 = 1;

/// How a product can be computed.
pub(super) trait TimedCandidate: Copy {
    /// What the product is with.
    type Weight;

    /// Enqueues it.
    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &Self::Weight,
    ) -> Result<(), DeviceError>;

    /// The library's ways may be refused when they are tried.
    fn is_library(&self) -> bool;
}

/// Weights of one shape that take turns, and what their inputs are made from.
pub(super) struct Bench<'w, W> {
    pub(super) weights: Vec<&'w W>,
    inputs: &'w TimedInputs,
}

/// Inputs of products that are timed.
pub(super) struct TimedInputs {
    x: Buffer,
    source: Buffer,
    indices: Buffer,
    width: usize,
}

impl TimedInputs {
    /// Some rows.
    fn rows(&self, rows: usize) -> View<'_> {
        self.x.view(0, rows, self.width, DType::BF16)
    }
}

/// What stands between products that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    Neighbour,
}

/// Weights of so many bytes that are needed beside one, so that the cache does not hold them all.
pub(super) fn others(bytes: usize) -> usize {
    (TURNS / bytes.max(1)).min(MOST_TURNS - 1)
}

impl Gemms {
    /// Makes a product of each of these shapes, all with weights of one shape, and hands it over to be timed.
    pub(super) fn time_shapes<W>(
        &self,
        shapes: &[Shape],
        weights: Vec<&W>,
        mut time: impl FnMut(Shape, &mut Gemm<'_>, &Bench<'_, W>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Some(&Shape {
            outputs, inputs, ..
        }) = shapes.first()
        else {
            return Ok(());
        };
        let largest = |of: fn(&Shape) -> usize| shapes.iter().map(of).max().unwrap_or(0);
        let room = |bytes| allocate(&self.context, bytes, "GEMM autotuning");
        let inputs = self.timed_inputs(largest(|shape| shape.bucket), inputs)?;
        let mut out = room(largest(Shape::result_bytes))?;
        let bias = room(2 * outputs)?;
        let bench = Bench {
            weights,
            inputs: &inputs,
        };
        for &shape in shapes {
            let mut gemm = Gemm {
                x: inputs.rows(shape.bucket),
                bias: shape.bias.then(|| bias.view(0, 1, outputs, DType::BF16)),
                out: out.view_mut(0, shape.bucket, outputs, shape.dtype()),
            };
            time(shape, &mut gemm, &bench)?;
        }
        Ok(())
    }

    /// Room for up to so many rows, with numbers: zeros cost less power, and power is what limits products of many rows.
    fn timed_inputs(&self, rows: usize, width: usize) -> Result<TimedInputs, DeviceError> {
        let room = |bytes| allocate(&self.context, bytes, "GEMM autotuning");
        let inputs = TimedInputs {
            x: room(2 * rows * width)?,
            source: room(2 * width)?,
            indices: room(4 * rows)?,
            width,
        };
        self.invent(&inputs.x, rows * width, SEED)?;
        self.invent(&inputs.source, width, SEED)?;
        Ok(inputs)
    }

    /// The way that takes the shortest time, in milliseconds; ways that the library refuses do not count.
    pub(super) fn shortest<W: TimedCandidate>(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, W::Weight>,
        candidates: impl IntoIterator<Item = W>,
        between: Between,
    ) -> Result<Option<(f32, W)>, DeviceError> {
        let mut best: Option<(f32, W)> = None;
        for candidate in candidates {
            let record = best.map_or(f32::INFINITY, |(time, _)| time);
            // Whatever the library sets up at a first call is not timed.
            let tried = candidate.run(self, gemm, bench.weights[0]);
            if tried.is_err() && candidate.is_library() {
                continue;
            }
            tried?;
            let time = self.time(gemm, bench, &candidate, record, between)?;
            if time < record {
                best = Some((time, candidate));
            }
        }
        Ok(best)
    }

    /// Milliseconds of one product and what stands between; roughly, where that is more than `record`.
    pub(super) fn time<W: TimedCandidate>(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, W::Weight>,
        candidate: &W,
        record: f32,
        between: Between,
    ) -> Result<f32, DeviceError> {
        let mut take_turn = |turn: usize| {
            if between == Between::Neighbour {
                self.make_inputs(gemm.x, bench.inputs)?;
            }
            candidate.run(self, gemm, bench.weights[turn % bench.weights.len()])
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
            Ok(turns.try_for_each(&mut take_turn)?)
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

    fn make_inputs(&self, x: View<'_>, inputs: &TimedInputs) -> Result<(), DeviceError> {
        let width = inputs.width as u32;
        let params = GatherParams {
            x: inputs.source.address() as u64,
            indices: inputs.indices.address() as u64,
            out: x.address() as u64,
            x_stride: width,
            out_stride: width,
            width,
            vectors: 1,
        };
        let grid = Grid::line(x.rows(), 128);
        // SAFETY: the struct of the kernel; all indices are zero, and both matrices have that row.
        unsafe { launch(&self.context, self.neighbour, grid, &params) }
    }
}
