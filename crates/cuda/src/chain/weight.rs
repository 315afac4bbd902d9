//! A weight as links read it: boxes of sixteen outputs and 128 bytes of each, eight of them a stage.

use ops::{DeviceError, Weight};

use crate::linear::{DeviceWeight, Float8Weight, SEGMENT, Scales};
use crate::tensor_map::{Boxes, TensorMap};

/// Outputs of a group.
pub(super) const GROUP: usize = 16;
/// Slices of a stage: one a warp.
const SLICES: usize = 8;
/// Of codes: a lane keeps what is known of one stage.
const MOST_NARROW_STAGES: usize = 32;

/// Where its elements lie, and what they are.
pub(super) struct LinkWeight {
    address: u64,
    inputs: usize,
    /// None where elements are bf16.
    pub(super) scales: Scales,
}

impl LinkWeight {
    /// None when no link takes it: slices are whole, and not too many.
    pub(super) fn of(weight: &Weight) -> Option<Self> {
        let inputs = weight.cols();
        let made = if let Some(plain) = weight.layout::<DeviceWeight>() {
            Self {
                address: plain.buffer.address() as u64,
                inputs,
                scales: Scales::default(),
            }
        } else {
            let codes = weight.layout::<Float8Weight>()?;
            Self {
                address: codes.address(),
                inputs,
                scales: codes.scales(),
            }
        };
        let narrow = !made.scales.are_none();
        let fits = !narrow || inputs <= MOST_NARROW_STAGES * made.stage();
        (inputs.is_multiple_of(slice(&made.scales)) && fits).then_some(made)
    }

    /// Inputs of a stage.
    pub(super) fn stage(&self) -> usize {
        stage(&self.scales)
    }

    /// Boxes of one group and one stage, in words of two bytes.
    pub(super) fn map(&self, outputs: usize, gated: bool) -> Result<TensorMap, DeviceError> {
        let word = TensorMap::SLICE;
        let (slices, each) = (
            (self.inputs / slice(&self.scales)) as u64,
            2 * u64::from(word),
        );
        let row = slices * each;
        let stage = SLICES as u32;
        if gated {
            let groups = (outputs / GROUP) as u64;
            return TensorMap::new(&Boxes {
                address: self.address,
                sizes: &[u64::from(word), 8, 2, groups, slices],
                strides: &[row, outputs as u64 / 2 * row, 8 * row, each],
                shape: &[word, 8, 2, 1, stage],
            });
        }
        TensorMap::new(&Boxes {
            address: self.address,
            sizes: &[u64::from(word), outputs as u64, slices],
            strides: &[row, each],
            shape: &[word, GROUP as u32, stage],
        })
    }
}

/// Inputs of a stage of a weight with these scales.
pub(super) fn stage(scales: &Scales) -> usize {
    SLICES * slice(scales)
}

/// Those that one slice has of an output.
fn slice(scales: &Scales) -> usize {
    if scales.are_none() {
        TensorMap::SLICE as usize
    } else {
        SEGMENT
    }
}
