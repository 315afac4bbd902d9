//! GEMMs with weights of eight-bit floats.
//!
//! Few rows go through our own kernel, which reads codes at memory bandwidth and rounds nothing; many rows through cuBLASLt,
//! for which activations are rounded to eight bits too; what neither takes is widened to bf16 in parts.

mod choose;
mod launch;
mod pack;
mod weight;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ops::DeviceError;
use tensor::{Buffer, DType};

use super::blas::{Algorithm, Factors};
use super::cluster::{Cluster, Shapes};
use super::{Gemm, Gemms, MOST_WIDE, Shape, locked};
use crate::memory::allocate;
use crate::module::{Function, Modules};

use pack::{LONGEST, Packers, Scaling};
use weight::Kind;

pub(crate) use pack::{Lacking, PackedRows, Source};
pub(crate) use weight::{Float8Weight, ScaleGrid, Scales};

/// Codes that lie together: rows are padded to whole segments, and a scale covers one at least.
pub(crate) const SEGMENT: usize = 128;
/// Rows of x that the compiled shapes take.
const ROWS: [usize; 4] = [8, 16, 32, 64];
/// Prefixes of kernel names: store, gated, residual add.
const NAMES: [&str; 3] = [
    "linear_float8",
    "linear_float8_gated",
    "linear_float8_add_norm",
];
/// Rows whose activations are rounded at once.
const MOST_ROUNDED: usize = 4096;
/// Bytes of a weight that are widened at once.
const WIDENED: usize = 64 << 20;

/// How a GEMM is computed.
#[derive(Clone, Copy)]
enum Candidate {
    /// By our kernel.
    Own(Cluster),
    /// By cuBLASLt, activations rounded.
    Rounded(Algorithm),
    /// The same without scales, where the next kernel applies them; no candidate otherwise.
    Bare(Algorithm),
    /// By cuBLASLt, the weight widened to bf16 before.
    Widened,
}

/// A candidate, and milliseconds of each kind when it was chosen; infinite where there is none.
#[derive(Clone, Copy)]
struct Choice {
    candidate: Candidate,
    /// cuBLASLt's algorithm for unscaled sums, where those take less time than results.
    bare: Option<Algorithm>,
    times: [f32; 4],
}

/// Workspaces that GEMMs share, as large as the largest weight so far needs.
struct Room {
    /// Rounded activations and their scales.
    codes: Buffer,
    scales: Buffer,
    /// Widened weights.
    widened: Buffer,
}

/// The kernels and what they share.
pub(crate) struct Float8Kernels {
    stream: Shapes<{ ROWS.len() }>,
    any: Function,
    arrange: Function,
    invent: Function,
    widen: Function,
    packers: Packers,
    /// Made with the first weight.
    room: Mutex<Option<Arc<Room>>>,
    chosen: Mutex<BTreeMap<(Shape, Kind), Choice>>,
    /// Algorithms for widened weights.
    suggested: Mutex<BTreeMap<Shape, Algorithm>>,
}

impl Float8Kernels {
    pub(crate) fn new(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let stream = Shapes::find((modules, units), NAMES, ROWS, (SEGMENT, 1))?;
        Ok(Self {
            stream,
            any: modules.find("linear_float8_any")?,
            arrange: modules.find("float8_arrange")?,
            invent: modules.find("float8_invent")?,
            widen: modules.find("float8_widen")?,
            packers: Packers::find(modules)?,
            room: Mutex::default(),
            chosen: Mutex::default(),
            suggested: Mutex::default(),
        })
    }

    /// Candidates of our kernel for a GEMM; none where threads cannot take its results by fours.
    fn variants(&self, gemm: &Gemm<'_>, weight: &Float8Weight) -> Vec<Cluster> {
        if !gemm.results_are_quads() {
            return Vec::new();
        }
        let shape = (weight.outputs, weight.padded());
        self.stream.variants(gemm.x.rows(), shape)
    }
}

impl Gemms {
    /// Enqueues a GEMM with a weight of eight-bit floats.
    pub(crate) fn run_float8(
        &self,
        gemm: &mut Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        let rows = gemm.x.rows();
        if !gemm.rows_are_aligned() {
            return self.run_float8_any(gemm, weight);
        }
        let most = if gemm.out.dtype() == DType::F32 {
            MOST_WIDE
        } else {
            MOST_ROUNDED
        };
        if rows > most {
            for start in (0..rows).step_by(most) {
                let mut part = gemm.rows(start..rows.min(start + most));
                self.run_float8(&mut part, weight)?;
            }
            return Ok(());
        }
        // cuBLASLt wants a bias in the type of the results.
        let wide_bias = gemm.bias.is_some() && gemm.out.dtype() == DType::F32;
        if gemm.results_are_quads() && !wide_bias {
            let candidate = self.float8_candidate(gemm, weight)?;
            return self.run_float8_candidate(gemm, weight, &candidate);
        }
        match self.float8().variants(gemm, weight).first() {
            Some(&variant) => self.run_float8_own(gemm, weight, variant),
            None => self.run_float8_any(gemm, weight),
        }
    }

    /// Our kernel for GEMMs of `rows` rows, where it was chosen: then it does the work of small kernels too.
    pub(crate) fn float8_fusable(&self, weight: &Float8Weight, rows: usize) -> Option<Cluster> {
        let shape = Shape::plain((weight.outputs, weight.inputs), rows)?;
        match locked(&self.float8().chosen)
            .get(&(shape, weight.kind()))?
            .candidate
        {
            Candidate::Own(variant) => Some(variant),
            Candidate::Rounded(_) | Candidate::Bare(_) | Candidate::Widened => None,
        }
    }

    fn run_float8_candidate(
        &self,
        gemm: &mut Gemm<'_>,
        weight: &Float8Weight,
        candidate: &Candidate,
    ) -> Result<(), DeviceError> {
        match candidate {
            Candidate::Own(variant) => self.run_float8_own(gemm, weight, *variant),
            Candidate::Rounded(algorithm) => {
                self.run_rounded(gemm, weight, (algorithm, Scaling::Whole))
            }
            Candidate::Bare(algorithm) => {
                self.run_rounded(gemm, weight, (algorithm, Scaling::Bare))
            }
            Candidate::Widened => self.run_widened(gemm, weight),
        }
    }

    /// The candidate chosen for the shape, or a likely one for shapes that were not timed.
    fn float8_candidate(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<Candidate, DeviceError> {
        let key = (Shape::of(gemm), weight.kind());
        if let Some(choice) = locked(&self.float8().chosen).get(&key) {
            return Ok(choice.candidate);
        }
        self.warn_unforeseen(&key.0);
        let variants = self.float8().variants(gemm, weight);
        let candidate = if let Some(&variant) = variants.first() {
            Candidate::Own(variant)
        } else {
            let suggested = self.code_candidates(gemm, weight, (1, Scaling::Whole))?;
            suggested
                .first()
                .map_or(Candidate::Widened, |&a| Candidate::Rounded(a))
        };
        let untried = Choice {
            candidate,
            bare: None,
            times: [f32::INFINITY; _],
        };
        locked(&self.float8().chosen).insert(key, untried);
        Ok(candidate)
    }

    /// Algorithms of cuBLASLt for rounded activations; none where it does not take the shape or the blocks.
    fn code_candidates(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
        (most, scaling): (usize, Scaling),
    ) -> Result<Vec<Algorithm>, DeviceError> {
        if weight.padded() > LONGEST {
            return Ok(Vec::new());
        }
        let room = self.float8_room(weight.padded())?;
        let Some(scaled) = room.packed(gemm, weight).scaled(weight, scaling) else {
            return Ok(Vec::new());
        };
        // A shape that cuBLASLt does not take is no failure.
        Ok(self
            .blas
            .candidates(gemm, Factors::Scaled(&scaled), most)
            .unwrap_or_default())
    }

    /// Rounds activations and multiplies codes; rows that do not make four go through our kernel.
    fn run_rounded(
        &self,
        gemm: &mut Gemm<'_>,
        weight: &Float8Weight,
        how: (&Algorithm, Scaling),
    ) -> Result<(), DeviceError> {
        let rows = gemm.x.rows();
        let whole = if weight.is_grouped() {
            rows / 4 * 4
        } else {
            rows
        };
        if whole > 0 {
            let room = self.float8_room(weight.padded())?;
            let part = gemm.rows(0..whole);
            let packed = room.packed(&part, weight);
            self.pack(Source::Rows(part.x), &packed)?;
            self.multiply_codes(&part, weight, &packed, how)?;
        }
        if whole < rows {
            let rest = gemm.rows(whole..rows);
            let variants = self.float8().variants(&rest, weight);
            let variant = variants
                .first()
                .ok_or_else(|| Shape::of(&rest).impossible())?;
            self.run_float8_own(&rest, weight, *variant)?;
        }
        Ok(())
    }

    /// Widens as many outputs at once as fit into the workspace, and multiplies bf16.
    fn run_widened(&self, gemm: &mut Gemm<'_>, weight: &Float8Weight) -> Result<(), DeviceError> {
        let (outputs, inputs) = (weight.outputs, weight.inputs);
        let room = self.float8_room(weight.padded())?;
        let height = (WIDENED / (2 * inputs) / 64 * 64).max(64);
        for start in (0..outputs).step_by(height) {
            let columns = start..outputs.min(start + height);
            self.widen_rows(weight, columns.clone(), &room.widened)?;
            let part = Gemm {
                x: gemm.x,
                bias: gemm.bias.map(|bias| bias.columns(columns.clone())),
                out: gemm.out.reborrow().columns(columns),
            };
            let algorithm = self.suggested(&part)?;
            let address = room.widened.address() as u64;
            self.blas
                .enqueue(&part, address, Factors::Plain, &algorithm)?;
        }
        Ok(())
    }

    fn suggested(&self, gemm: &Gemm<'_>) -> Result<Algorithm, DeviceError> {
        let shape = Shape::of(gemm);
        if let Some(algorithm) = locked(&self.float8().suggested).get(&shape) {
            return Ok(*algorithm);
        }
        let candidates = self.blas.candidates(gemm, Factors::Plain, 1)?;
        let algorithm = candidates.first().ok_or_else(|| shape.impossible())?;
        locked(&self.float8().suggested).insert(shape, *algorithm);
        Ok(*algorithm)
    }

    /// Workspaces for weights with `padded` codes a row.
    fn float8_room(&self, padded: usize) -> Result<Arc<Room>, DeviceError> {
        let mut room = locked(&self.float8().room);
        if let Some(room) = room
            .as_ref()
            .filter(|room| room.codes.bytes() >= MOST_ROUNDED * padded)
        {
            return Ok(Arc::clone(room));
        }
        let take = |bytes, what| allocate(&self.context, bytes, what);
        let made = Arc::new(Room {
            codes: take(MOST_ROUNDED * padded, "rounded activations")?,
            scales: take(MOST_ROUNDED * padded / SEGMENT * 4, "scales of activations")?,
            widened: take(WIDENED.max(2 * 64 * padded), "widened weights")?,
        });
        *room = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Room {
    /// Where the inputs of a GEMM are packed.
    fn packed(&self, gemm: &Gemm<'_>, weight: &Float8Weight) -> PackedRows {
        let shape = (gemm.x.rows(), weight.inputs);
        PackedRows::in_room((&self.codes, &self.scales), shape, weight.is_grouped())
    }
}
