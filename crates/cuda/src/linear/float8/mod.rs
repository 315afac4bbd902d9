//! Products with weights of eight-bit floats.
//!
//! Few rows go through our own kernel, which reads codes at the speed of memory and rounds nothing; many rows through
//! cuBLASLt, for which activations are rounded to eight bits too; what neither takes is widened to bf16 piece by piece.

mod choose;
mod launch;
mod pack;
mod weight;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ops::DeviceError;
use tensor::{Buffer, DType};

use super::blas::{Algorithm, Factors};
use super::team::{Shapes, Team};
use super::{MOST_WIDE, Product, Products, Shape, locked};
use crate::memory::allocate;
use crate::module::{Function, Modules};

use pack::{LONGEST, Packers, Scaling};
use weight::Kind;

pub(crate) use pack::{Lacking, PackedRows, Source};
pub(crate) use weight::{Float8Weight, ScaleGrid, Scales};

/// Codes that lie together: rows are padded to so many, and scales cover so many at least.
pub(crate) const SEGMENT: usize = 128;
/// Rows of x that the compiled shapes take.
const ROWS: [usize; 4] = [8, 16, 32, 64];
/// Names of the kernels: results, gated ones, and the end of a layer.
const NAMES: [&str; 3] = [
    "linear_float8",
    "linear_float8_gated",
    "linear_float8_add_norm",
];
/// Rows whose activations are rounded at once.
const MOST_ROUNDED: usize = 4096;
/// Bytes of a weight that are widened at once.
const WIDENED: usize = 64 << 20;

/// How a product is computed.
#[derive(Clone, Copy)]
enum Way {
    /// By our kernel.
    Stream(Team),
    /// By cuBLASLt, activations rounded.
    Rounded(Algorithm),
    /// The same for who scales results himself; no way for others.
    Bare(Algorithm),
    /// By cuBLASLt, the weight widened to bf16 before.
    Widened,
}

/// A way, and milliseconds of each kind when it was chosen; infinite where there is none.
#[derive(Clone, Copy)]
struct Choice {
    way: Way,
    /// Where sums of codes are there sooner than results.
    bare: Option<Algorithm>,
    times: [f32; 4],
}

/// Workspaces that products share, as large as the largest weight so far needs.
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

    /// Ways to compute a product by our kernel; none where threads cannot take its results by fours.
    fn variants(&self, product: &Product<'_>, weight: &Float8Weight) -> Vec<Team> {
        if !product.results_are_quads() {
            return Vec::new();
        }
        let shape = (weight.outputs, weight.padded());
        self.stream.variants(product.x.rows(), shape)
    }
}

impl Products {
    /// Enqueues a product with a weight of eight-bit floats.
    pub(crate) fn run_float8(
        &self,
        product: &mut Product<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        let rows = product.x.rows();
        if !product.rows_are_pieces() {
            return self.run_float8_any(product, weight);
        }
        let most = if product.out.dtype() == DType::F32 {
            MOST_WIDE
        } else {
            MOST_ROUNDED
        };
        if rows > most {
            for start in (0..rows).step_by(most) {
                let mut part = product.rows(start..rows.min(start + most));
                self.run_float8(&mut part, weight)?;
            }
            return Ok(());
        }
        // cuBLASLt wants a bias in the type of the results.
        let wide_bias = product.bias.is_some() && product.out.dtype() == DType::F32;
        if product.results_are_quads() && !wide_bias {
            let way = self.float8_way(product, weight)?;
            return self.run_float8_way(product, weight, &way);
        }
        match self.float8().variants(product, weight).first() {
            Some(&variant) => self.run_float8_stream(product, weight, variant),
            None => self.run_float8_any(product, weight),
        }
    }

    /// The shape of our kernel for products of so many rows, where it was chosen: then it does the work of small kernels too.
    pub(crate) fn float8_fusable(&self, weight: &Float8Weight, rows: usize) -> Option<Team> {
        let shape = Shape::plain((weight.outputs, weight.inputs), rows)?;
        match locked(&self.float8().chosen)
            .get(&(shape, weight.kind()))?
            .way
        {
            Way::Stream(variant) => Some(variant),
            Way::Rounded(_) | Way::Bare(_) | Way::Widened => None,
        }
    }

    fn run_float8_way(
        &self,
        product: &mut Product<'_>,
        weight: &Float8Weight,
        way: &Way,
    ) -> Result<(), DeviceError> {
        match way {
            Way::Stream(variant) => self.run_float8_stream(product, weight, *variant),
            Way::Rounded(algorithm) => {
                self.run_rounded(product, weight, (algorithm, Scaling::Whole))
            }
            Way::Bare(algorithm) => self.run_rounded(product, weight, (algorithm, Scaling::Bare)),
            Way::Widened => self.run_widened(product, weight),
        }
    }

    /// The way chosen for the shape, or what should do for shapes that were not tried.
    fn float8_way(&self, product: &Product<'_>, weight: &Float8Weight) -> Result<Way, DeviceError> {
        let key = (Shape::of(product), weight.kind());
        if let Some(choice) = locked(&self.float8().chosen).get(&key) {
            return Ok(choice.way);
        }
        self.tell_unforeseen(&key.0);
        let variants = self.float8().variants(product, weight);
        let way = if let Some(&variant) = variants.first() {
            Way::Stream(variant)
        } else {
            let suggested = self.code_candidates(product, weight, (1, Scaling::Whole))?;
            suggested.first().map_or(Way::Widened, |&a| Way::Rounded(a))
        };
        let untried = Choice {
            way,
            bare: None,
            times: [f32::INFINITY; _],
        };
        locked(&self.float8().chosen).insert(key, untried);
        Ok(way)
    }

    /// Algorithms of cuBLASLt for rounded activations; none where it does not take the shape or the blocks.
    fn code_candidates(
        &self,
        product: &Product<'_>,
        weight: &Float8Weight,
        (most, scaling): (usize, Scaling),
    ) -> Result<Vec<Algorithm>, DeviceError> {
        if weight.padded() > LONGEST {
            return Ok(Vec::new());
        }
        let room = self.float8_room(weight.padded())?;
        let Some(scaled) = room.packed(product, weight).scaled(weight, scaling) else {
            return Ok(Vec::new());
        };
        // A shape that the library does not take is no failure.
        Ok(self
            .blas
            .candidates(product, Factors::Scaled(&scaled), most)
            .unwrap_or_default())
    }

    /// Rounds activations and multiplies codes; rows that do not make four go through our kernel.
    fn run_rounded(
        &self,
        product: &mut Product<'_>,
        weight: &Float8Weight,
        how: (&Algorithm, Scaling),
    ) -> Result<(), DeviceError> {
        let rows = product.x.rows();
        let whole = if weight.is_grouped() {
            rows / 4 * 4
        } else {
            rows
        };
        if whole > 0 {
            let room = self.float8_room(weight.padded())?;
            let part = product.rows(0..whole);
            let packed = room.packed(&part, weight);
            self.pack(Source::Rows(part.x), &packed)?;
            self.multiply_codes(&part, weight, &packed, how)?;
        }
        if whole < rows {
            let rest = product.rows(whole..rows);
            let variants = self.float8().variants(&rest, weight);
            let variant = variants
                .first()
                .ok_or_else(|| Shape::of(&rest).impossible())?;
            self.run_float8_stream(&rest, weight, *variant)?;
        }
        Ok(())
    }

    /// Widens as many outputs at once as fit into the workspace, and multiplies bf16.
    fn run_widened(
        &self,
        product: &mut Product<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        let (outputs, inputs) = (weight.outputs, weight.inputs);
        let room = self.float8_room(weight.padded())?;
        let height = (WIDENED / (2 * inputs) / 64 * 64).max(64);
        for start in (0..outputs).step_by(height) {
            let columns = start..outputs.min(start + height);
            self.widen_rows(weight, columns.clone(), &room.widened)?;
            let part = Product {
                x: product.x,
                bias: product.bias.map(|bias| bias.columns(columns.clone())),
                out: product.out.reborrow().columns(columns),
            };
            let algorithm = self.suggested(&part)?;
            let address = room.widened.address() as u64;
            self.blas
                .enqueue(&part, address, Factors::Plain, &algorithm)?;
        }
        Ok(())
    }

    fn suggested(&self, product: &Product<'_>) -> Result<Algorithm, DeviceError> {
        let shape = Shape::of(product);
        if let Some(algorithm) = locked(&self.float8().suggested).get(&shape) {
            return Ok(*algorithm);
        }
        let candidates = self.blas.candidates(product, Factors::Plain, 1)?;
        let algorithm = candidates.first().ok_or_else(|| shape.impossible())?;
        locked(&self.float8().suggested).insert(shape, *algorithm);
        Ok(*algorithm)
    }

    /// Workspaces for weights whose rows have so many codes.
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
    /// Where the inputs of a product are packed.
    fn packed(&self, product: &Product<'_>, weight: &Float8Weight) -> PackedRows {
        let shape = (product.x.rows(), weight.inputs);
        PackedRows::in_room((&self.codes, &self.scales), shape, weight.is_grouped())
    }
}
