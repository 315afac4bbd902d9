//! GEMM autotuning: how long GEMMs take in a step.
//!
//! Every GEMM reads another weight, so that none is found in L2. GEMMs of our kernels follow each other, since they do the work
//! of the small kernels around them; cuBLASLt's alternate with a small kernel that makes their inputs. Kernels overlap as in a
//! step.

use ops::{DeviceError, Graph as _, OpError};
use tensor::{Buffer, DType, View};

use super::{Gemm, Gemms, Shape};
use crate::event::Event;
use crate::graph;
use crate::launch::gather::GatherParams;
use crate::launch::{Grid, launch};
use crate::memory::allocate;

/// Bytes of weights that are read in turn, and the most weights.
const TURNS: usize = 160 << 20;
const MOST_TURNS: usize = 16;
/// The fewest GEMMs per timing, and milliseconds of a timing.
const FEWEST: usize = 3;
const ENOUGH: f32 = 0.3;
/// Timings of each candidate; the shortest counts.
const REPEATS: usize = 5;
/// Milliseconds of a GEMM whose time hardly varies: timed alone, and that many times.
const LONG: f32 = 0.5;
const LONG_REPEATS: usize = 2;
/// Ratio to the best candidate, and milliseconds, beyond which a candidate is dropped.
const HOPELESS: f32 = 1.5;
const NOTICEABLE: f32 = 0.02;

/// Seed of the random operands.
pub(super) const SEED: u64 = 1;

/// A GEMM candidate that can be timed.
pub(super) trait TimedCandidate: Copy {
    /// The weight's type.
    type Weight;

    /// Enqueues it.
    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &Self::Weight,
    ) -> Result<(), DeviceError>;

    /// cuBLASLt's candidates may be refused when they are tried.
    fn is_library(&self) -> bool;
}

/// Weights of one shape that are read in turn, and what their inputs are made from.
pub(super) struct Bench<'w, W> {
    pub(super) weights: Vec<&'w W>,
    inputs: &'w TimedInputs,
}

/// Inputs of GEMMs that are timed.
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

/// What runs between GEMMs that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    Neighbour,
}

/// Weights of that many bytes that are needed beside one, so that L2 does not hold them all.
pub(super) fn others(bytes: usize) -> usize {
    (TURNS / bytes.max(1)).min(MOST_TURNS - 1)
}

impl Gemms {
    /// Calls `time` with a GEMM of each of these shapes, all with weights of one shape.
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

    /// Random inputs: zeros would cost less power, and power limits GEMMs of many rows.
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

    /// The fastest candidate and its milliseconds; candidates that cuBLASLt refuses do not count.
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
            // A first run, untimed: cuBLASLt sets things up.
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

    /// Milliseconds of one GEMM and what runs between; roughly, where that is more than `record`.
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
        // In a graph, as in a decode step: launched one by one, short GEMMs would wait for the host.
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
