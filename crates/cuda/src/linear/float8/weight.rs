//! A matrix of codes in device layout, and its scales in the forms that our kernels and cuBLASLt take.

use ops::{DeviceError, Float8Rows};
use tensor::Buffer;

use super::SEGMENT;
use crate::tensor_map::{TensorMap, TiledMatrix};

/// Outputs of a TMA tile.
const TILE_OUTPUTS: u32 = 64;

/// A matrix of eight-bit floats.
pub(crate) struct Float8Weight {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    /// `[outputs, padded]`, ordered as kernels/common/float8.cuh says.
    pub(super) codes: Buffer,
    pub(super) map: TensorMap,
    pub(super) grid: ScaleGrid,
    /// Where the scales of the grid lie.
    pub(super) scales: Buffer,
    library: Option<Buffer>,
}

/// `Scales` of the kernels: their address, and which belong to which codes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Scales {
    values: u64,
    block_rows: u32,
    groups: u32,
    group_segments: u32,
}

impl Scales {
    /// True when weights are not scaled.
    pub(crate) fn are_none(&self) -> bool {
        self.values == 0
    }
}

/// How a weight is scaled, as far as the choice of a candidate depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// A row has more than one scale.
    pub(super) grouped: bool,
    /// cuBLASLt takes the scales.
    library: bool,
}

/// Which scale belongs to which codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScaleGrid {
    /// Rows that share scales.
    pub(super) block_rows: usize,
    /// Scales of a row.
    pub(super) groups: usize,
    /// Segments of a row that share a scale.
    pub(super) group_segments: usize,
}

/// Codes of a row when it is padded to whole segments.
pub(crate) fn padded(inputs: usize) -> usize {
    inputs.next_multiple_of(SEGMENT)
}

impl ScaleGrid {
    /// The grid of a matrix of `inputs` inputs; groups are whole segments, or rows.
    pub(crate) fn of(rows: &Float8Rows<'_>, inputs: usize) -> Self {
        let groups = rows.groups(inputs);
        Self {
            block_rows: rows.block[0],
            groups,
            group_segments: if groups == 1 {
                padded(inputs) / SEGMENT
            } else {
                rows.block[1] / SEGMENT
            },
        }
    }

    /// The scales as cuBLASLt reads them: one an output where rows have one scale, else one for 128 × 128 codes, every
    /// row of them padded to four; none where blocks are lower than that.
    pub(crate) fn for_library(
        self,
        scales: &[f32],
        outputs: usize,
        inputs: usize,
    ) -> Option<Vec<f32>> {
        let of_row = |row: usize| &scales[row / self.block_rows * self.groups..][..self.groups];
        if !outputs.is_multiple_of(16) {
            return None;
        }
        if self.groups == 1 {
            return Some((0..outputs).map(|row| of_row(row)[0]).collect());
        }
        let whole = self.block_rows.is_multiple_of(SEGMENT) || self.block_rows >= outputs;
        let segments = padded(inputs) / SEGMENT;
        let wide = segments.next_multiple_of(4);
        let rows = (0..outputs).step_by(SEGMENT).map(of_row);
        let expanded = rows.flat_map(|scales| {
            (0..wide).map(|segment| {
                scales
                    .get(segment / self.group_segments)
                    .copied()
                    .unwrap_or(0.0)
            })
        });
        whole.then(|| expanded.collect())
    }
}

impl Float8Weight {
    /// Describes codes in device layout; `scales` are those of the grid, `library` the same for cuBLASLt.
    pub(crate) fn new(
        (outputs, inputs): (usize, usize),
        codes: Buffer,
        grid: ScaleGrid,
        scales: Buffer,
        library: Option<Buffer>,
    ) -> Result<Self, DeviceError> {
        let row = padded(inputs) as u64;
        // The tensor map counts in pairs of codes.
        let map = TensorMap::new(&TiledMatrix {
            address: codes.address() as u64,
            sizes: &[row / 2, outputs as u64],
            strides: &[row],
            shape: &[TensorMap::SLICE, TILE_OUTPUTS],
        })?;
        Ok(Self {
            outputs,
            inputs,
            codes,
            map,
            grid,
            scales,
            library,
        })
    }

    /// TMA tiles of gates and up rows, eight of each in turn.
    pub(super) fn gated_map(&self) -> Result<TensorMap, DeviceError> {
        let (row, outputs) = (padded(self.inputs) as u64, self.outputs as u64);
        TensorMap::new(&TiledMatrix {
            address: self.codes.address() as u64,
            sizes: &[row / 2, 8, 2, outputs / 16],
            strides: &[row, outputs / 2 * row, 8 * row],
            shape: &[TensorMap::SLICE, 8, 2, TILE_OUTPUTS / 16],
        })
    }

    /// Where the codes lie.
    pub(crate) fn address(&self) -> u64 {
        self.codes.address() as u64
    }

    /// The scales as kernels read them.
    pub(crate) fn scales(&self) -> Scales {
        Scales {
            values: self.scales.address() as u64,
            block_rows: self.grid.block_rows as u32,
            groups: self.grid.groups as u32,
            group_segments: self.grid.group_segments as u32,
        }
    }

    /// Device memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let library = self.library.as_ref().map_or(0, Buffer::bytes);
        self.codes.bytes() + self.scales.bytes() + library
    }

    pub(super) fn padded(&self) -> usize {
        padded(self.inputs)
    }

    /// True when a row has more than one scale.
    pub(super) fn is_grouped(&self) -> bool {
        self.grid.groups > 1
    }

    /// What the choice of a candidate depends on, besides the shape.
    pub(super) fn kind(&self) -> Kind {
        Kind {
            grouped: self.is_grouped(),
            library: self.library.is_some(),
        }
    }

    pub(super) fn library_scales(&self) -> Option<&Buffer> {
        self.library.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(block: [usize; 2], scales: usize) -> Float8Rows<'static> {
        Float8Rows {
            codes: Vec::new().into(),
            block,
            scales: (1..=scales).map(|i| i as f32).collect(),
        }
    }

    #[test]
    fn scales_a_row_or_a_tensor_become_one_an_output() {
        let parts = rows([16, 300], 2);
        let grid = ScaleGrid::of(&parts, 300);
        assert_eq!((grid.groups, grid.group_segments), (1, 3));
        let expanded = grid.for_library(&parts.scales, 32, 300).expect("sixteens");
        assert_eq!((expanded.len(), expanded[15], expanded[16]), (32, 1.0, 2.0));
        assert_eq!(grid.for_library(&parts.scales, 31, 300), None);
    }

    #[test]
    fn blocks_become_squares_of_128_padded_to_four() {
        let parts = rows([256, 256], 4);
        let grid = ScaleGrid::of(&parts, 500);
        let expanded = grid.for_library(&parts.scales, 512, 500);
        let expected = [[1.0, 1.0, 2.0, 2.0]; 2].concat();
        let lower = [[3.0, 3.0, 4.0, 4.0]; 2].concat();
        assert_eq!(expanded, Some([expected, lower].concat()));
        let narrow = rows([64, 128], 8);
        let grid = ScaleGrid::of(&narrow, 200);
        assert_eq!(grid.for_library(&narrow.scales, 256, 200), None);
        let one = rows([128, 128], 2);
        let grid = ScaleGrid::of(&one, 200);
        assert_eq!(
            grid.for_library(&one.scales, 64, 200),
            Some(vec![1.0, 2.0, 0.0, 0.0])
        );
    }
}
