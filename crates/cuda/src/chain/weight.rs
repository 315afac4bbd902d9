//! A weight as links read it, stage by stage: sixteen outputs, and for each of eight warps a slice of their inputs.

use ops::{DeviceError, Weight};

use super::variety::Elements;
use crate::linear::{
    DeviceWeight, Float8Weight, FoldedPlaces, HEAD_BYTES, SEGMENT, Scales, UNIT_BYTES, UNIT_INPUTS,
    UNIT_ROWS,
};
use crate::tensor_map::{Boxes, TensorMap};

/// Outputs of a group.
pub(super) const GROUP: usize = 16;
/// Slices of a stage: one a warp.
const SLICES: usize = 8;
/// Of codes: a lane keeps what is known of one stage.
const MOST_NARROW_STAGES: usize = 32;
/// Bytes of a word, of which folded weights are made to the copy engine.
const WORD: usize = 8;

/// Where its elements lie, and what they are.
pub(super) struct LinkWeight {
    inputs: usize,
    kind: Kind,
}

enum Kind {
    Plain(u64),
    Codes(u64, Scales),
    Folded(FoldedPlaces),
}

impl LinkWeight {
    /// None when no link takes it, `folded` where it is or as it came: slices are whole, and not too many.
    pub(super) fn of(weight: &Weight, folded: bool) -> Option<Self> {
        let inputs = weight.cols();
        let kind = if let Some(plain) = weight.layout::<DeviceWeight>() {
            let places = plain.folded_places((weight.rows(), inputs));
            let places = places.filter(|_| folded);
            places.map_or(Kind::Plain(plain.buffer.address() as u64), Kind::Folded)
        } else {
            let codes = weight.layout::<Float8Weight>()?;
            Kind::Codes(codes.address(), codes.scales())
        };
        let made = Self { inputs, kind };
        let stages = inputs.div_ceil(made.stage());
        let fits = made.elements() != Elements::Codes || stages <= MOST_NARROW_STAGES;
        (inputs.is_multiple_of(slice(made.elements())) && fits).then_some(made)
    }

    pub(super) fn elements(&self) -> Elements {
        match self.kind {
            Kind::Plain(_) => Elements::Plain,
            Kind::Codes(..) => Elements::Codes,
            Kind::Folded(_) => Elements::Folded,
        }
    }

    /// Inputs of a stage.
    pub(super) fn stage(&self) -> usize {
        stage(self.elements())
    }

    /// Of codes; none of others.
    pub(super) fn scales(&self) -> Scales {
        match self.kind {
            Kind::Codes(_, scales) => scales,
            Kind::Plain(_) | Kind::Folded(_) => Scales::default(),
        }
    }

    /// Where strays of a folded weight lie; nowhere where it is not.
    pub(super) fn strays(&self) -> u64 {
        match self.kind {
            Kind::Folded(places) => places.strays,
            Kind::Plain(_) | Kind::Codes(..) => 0,
        }
    }

    /// Boxes of one group and one stage: of the weight itself, and of what else it has.
    pub(super) fn maps(&self, outputs: usize, gated: bool) -> Result<[TensorMap; 2], DeviceError> {
        match self.kind {
            Kind::Plain(address) | Kind::Codes(address, _) => {
                Ok([self.rows(address, outputs, gated)?, TensorMap::NONE])
            }
            Kind::Folded(places) => Ok([
                self.units(places.units, outputs, gated)?,
                self.heads(places.heads, outputs, gated)?,
            ]),
        }
    }

    /// Rows of 128 bytes, in words of two.
    fn rows(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let word = TensorMap::SLICE;
        let slices = (self.inputs / slice(self.elements())) as u64;
        let each = 2 * u64::from(word);
        let row = slices * each;
        let stage = SLICES as u32;
        if gated {
            let groups = (outputs / GROUP) as u64;
            return TensorMap::new(&Boxes {
                address,
                sizes: &[u64::from(word), 8, 2, groups, slices],
                strides: &[row, outputs as u64 / 2 * row, 8 * row, each],
                shape: &[word, 8, 2, 1, stage],
            });
        }
        TensorMap::new(&Boxes {
            address,
            sizes: &[u64::from(word), outputs as u64, slices],
            strides: &[row, each],
            shape: &[word, GROUP as u32, stage],
        })
    }

    /// Two units of every segment: neighbours, or of gates and of their factors.
    fn units(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let pairs = outputs / GROUP;
        let (to_other, to_next) = if gated { (pairs, 1) } else { (1, 2) };
        self.pieces(
            address,
            (UNIT_BYTES, outputs / UNIT_ROWS * UNIT_BYTES),
            (2, to_other * UNIT_BYTES),
            (pairs, to_next * UNIT_BYTES),
        )
    }

    /// Their heads, which begin at multiples of sixteen bytes only by pairs; so those of gates bring neighbours along.
    fn heads(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let units = outputs / UNIT_ROWS;
        let parts = if gated { 2 } else { 1 };
        self.pieces(
            address,
            (2 * HEAD_BYTES, units * HEAD_BYTES),
            (parts, units / 2 * HEAD_BYTES),
            (units / 2 / parts, 2 * HEAD_BYTES),
        )
    }

    /// Boxes of pieces: so many parts of one piece, for every segment of a stage. Each with the bytes from one to the next.
    fn pieces(
        &self,
        address: u64,
        (piece, segment): (usize, usize),
        (parts, to_part): (usize, usize),
        (count, to_piece): (usize, usize),
    ) -> Result<TensorMap, DeviceError> {
        let words = piece / WORD;
        let segments = self.inputs.div_ceil(UNIT_INPUTS);
        let sizes = [words, parts, count, segments].map(|size| size as u64);
        let strides = [to_part, to_piece, segment].map(|stride| stride as u64);
        let a_stage = self.stage() / UNIT_INPUTS;
        TensorMap::words(&Boxes {
            address,
            sizes: &sizes,
            strides: &strides,
            shape: &[words as u32, parts as u32, 1, a_stage as u32],
        })
    }
}

/// Inputs of a stage of such elements.
pub(super) fn stage(elements: Elements) -> usize {
    SLICES * slice(elements)
}

/// Those that one slice has of an output.
fn slice(elements: Elements) -> usize {
    match elements {
        Elements::Plain | Elements::Folded => TensorMap::SLICE as usize,
        Elements::Codes => SEGMENT,
    }
}
