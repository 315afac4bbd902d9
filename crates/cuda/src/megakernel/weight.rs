//! A weight as stages read it, tile by tile: sixteen outputs, and a slice of inputs for each of eight warps.

use ops::{DeviceError, Weight};

use super::variety::Elements;
use crate::linear::{
    Bf12Addresses, DeviceWeight, Float8Weight, HEADER_BYTES, SEGMENT, Scales, UNIT_BYTES,
    UNIT_INPUTS, UNIT_ROWS,
};
use crate::tensor_map::{TensorMap, TiledMatrix};

/// Outputs of a group.
pub(super) const GROUP: usize = 16;
/// Slices of a tile: one per warp.
const SLICES: usize = 8;
/// Of e4m3: each lane keeps the scales of one tile.
const MAX_E4M3_TILES: usize = 32;
/// Bytes of a word of bf12 weights, as TMA copies them.
const WORD: usize = 8;

/// A weight's address and format.
pub(super) struct StageWeight {
    inputs: usize,
    format: Format,
}

enum Format {
    Bf16(u64),
    E4m3(u64, Scales),
    Bf12(Bf12Addresses),
}

impl StageWeight {
    /// None when no stage takes it, as bf12 or as it came: slices must be whole, and not too many.
    pub(super) fn of(weight: &Weight, bf12: bool) -> Option<Self> {
        let inputs = weight.cols();
        let format = if let Some(plain) = weight.layout::<DeviceWeight>() {
            let places = plain.bf12_addresses((weight.rows(), inputs));
            let places = places.filter(|_| bf12);
            places.map_or(Format::Bf16(plain.buffer.address() as u64), Format::Bf12)
        } else {
            let codes = weight.layout::<Float8Weight>()?;
            Format::E4m3(codes.address(), codes.scales())
        };
        let made = Self { inputs, format };
        let tiles = inputs.div_ceil(made.tile());
        let fits = made.elements() != Elements::E4m3 || tiles <= MAX_E4M3_TILES;
        (inputs.is_multiple_of(slice(made.elements())) && fits).then_some(made)
    }

    pub(super) fn elements(&self) -> Elements {
        match self.format {
            Format::Bf16(_) => Elements::Bf16,
            Format::E4m3(..) => Elements::E4m3,
            Format::Bf12(_) => Elements::Bf12,
        }
    }

    /// Inputs of a tile.
    pub(super) fn tile(&self) -> usize {
        tile(self.elements())
    }

    /// Of e4m3; none of others.
    pub(super) fn scales(&self) -> Scales {
        match self.format {
            Format::E4m3(_, scales) => scales,
            Format::Bf16(_) | Format::Bf12(_) => Scales::default(),
        }
    }

    /// Address of a bf12 weight's outliers; zero for other formats.
    pub(super) fn outliers(&self) -> u64 {
        match self.format {
            Format::Bf12(places) => places.outliers,
            Format::Bf16(_) | Format::E4m3(..) => 0,
        }
    }

    /// TMA tiles of one group and one k-tile: of the weight itself, and of its headers.
    pub(super) fn maps(&self, outputs: usize, gated: bool) -> Result<[TensorMap; 2], DeviceError> {
        match self.format {
            Format::Bf16(address) | Format::E4m3(address, _) => {
                Ok([self.rows(address, outputs, gated)?, TensorMap::NONE])
            }
            Format::Bf12(places) => Ok([
                self.units(places.units, outputs, gated)?,
                self.headers(places.headers, outputs, gated)?,
            ]),
        }
    }

    /// Rows of 128 bytes, in words of two.
    fn rows(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let word = TensorMap::SLICE;
        let slices = (self.inputs / slice(self.elements())) as u64;
        let each = 2 * u64::from(word);
        let row = slices * each;
        let tile = SLICES as u32;
        if gated {
            let groups = (outputs / GROUP) as u64;
            return TensorMap::new(&TiledMatrix {
                address,
                sizes: &[u64::from(word), 8, 2, groups, slices],
                strides: &[row, outputs as u64 / 2 * row, 8 * row, each],
                shape: &[word, 8, 2, 1, tile],
            });
        }
        TensorMap::new(&TiledMatrix {
            address,
            sizes: &[u64::from(word), outputs as u64, slices],
            strides: &[row, each],
            shape: &[word, GROUP as u32, tile],
        })
    }

    /// Two units of every segment: neighbours, or of gates and of their up rows.
    fn units(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let pairs = outputs / GROUP;
        let (to_other, to_next) = if gated { (pairs, 1) } else { (1, 2) };
        self.word_tiles(
            address,
            (UNIT_BYTES, outputs / UNIT_ROWS * UNIT_BYTES),
            (2, to_other * UNIT_BYTES),
            (pairs, to_next * UNIT_BYTES),
        )
    }

    /// Their headers, which are 16-byte aligned only in pairs; so those of gates bring their neighbours along.
    fn headers(&self, address: u64, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let units = outputs / UNIT_ROWS;
        let parts = if gated { 2 } else { 1 };
        self.word_tiles(
            address,
            (2 * HEADER_BYTES, units * HEADER_BYTES),
            (parts, units / 2 * HEADER_BYTES),
            (units / 2 / parts, 2 * HEADER_BYTES),
        )
    }

    /// TMA tiles of 8-byte words: `parts` parts of one entry, for every segment of a tile. Each with the bytes from one to the next.
    fn word_tiles(
        &self,
        address: u64,
        (entry, segment): (usize, usize),
        (parts, to_part): (usize, usize),
        (count, to_entry): (usize, usize),
    ) -> Result<TensorMap, DeviceError> {
        let words = entry / WORD;
        let segments = self.inputs.div_ceil(UNIT_INPUTS);
        let sizes = [words, parts, count, segments].map(|size| size as u64);
        let strides = [to_part, to_entry, segment].map(|stride| stride as u64);
        let a_tile = self.tile() / UNIT_INPUTS;
        TensorMap::words(&TiledMatrix {
            address,
            sizes: &sizes,
            strides: &strides,
            shape: &[words as u32, parts as u32, 1, a_tile as u32],
        })
    }
}

/// Inputs of a tile in a format.
pub(super) fn tile(elements: Elements) -> usize {
    SLICES * slice(elements)
}

/// Inputs of a warp's slice.
fn slice(elements: Elements) -> usize {
    match elements {
        Elements::Bf16 | Elements::Bf12 => TensorMap::SLICE as usize,
        Elements::E4m3 => SEGMENT,
    }
}
