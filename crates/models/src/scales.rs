//! Scales of eight-bit floats: how a checkpoint's tensor of them covers a matrix, and several such grids as one.

use checkpoint::{Encoding, TensorInfo, WeightSource};
use ops::{Float8Rows, WeightFormat};
use tensor::DType;

use crate::Quantisation;

/// The last parts of the names that scales have in checkpoints.
pub(crate) const NAMES: [&str; 2] = ["weight_scale_inv", "weight_scale"];

/// The scales of a weight, under whichever name; none for numbers that need none.
pub(crate) fn of<'a>(source: &'a dyn WeightSource, weight: &TensorInfo) -> Option<&'a TensorInfo> {
    if weight.encoding != Encoding::Plain(DType::F8E4M3) {
        return None;
    }
    let module = weight.name.strip_suffix(".weight")?;
    let mut names = NAMES.iter().map(|name| format!("{module}.{name}"));
    names.find_map(|name| source.find(&name))
}

/// The block that the scales of a weight cover; none when there are no scales, or none that fit it.
pub(crate) fn block_of(
    source: &dyn WeightSource,
    weight: &TensorInfo,
    quantisation: &Quantisation,
) -> Option<[usize; 2]> {
    let &[rows, cols] = weight.shape.as_slice() else {
        return None;
    };
    let scales = of(source, weight)?;
    Grid::block([rows, cols], &scales.shape, quantisation.block())
}

/// The format of eight-bit floats in such blocks.
pub(crate) fn format(block: [usize; 2], cols: usize) -> WeightFormat {
    let whole = block[1] >= cols;
    WeightFormat::Float8 {
        group: if whole { 0 } else { block[1] as u32 },
    }
}

/// One scale for each block of a matrix.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// A row of blocks after the other.
    pub(crate) scales: Vec<f32>,
}

impl Grid {
    /// The block that a tensor of scales of this shape covers in a matrix: as configured, the matrix or a row of it.
    pub(crate) fn block(
        matrix: [usize; 2],
        scales: &[usize],
        configured: Option<[usize; 2]>,
    ) -> Option<[usize; 2]> {
        let [rows, cols] = matrix;
        if let Some(block) = configured
            && scales == [rows.div_ceil(block[0]), cols.div_ceil(block[1])]
        {
            return Some(block);
        }
        match scales {
            [] | [1] | [1, 1] => Some([rows, cols]),
            [each] | [each, 1] if *each == rows => Some([1, cols]),
            _ => None,
        }
    }

    /// The scales of a row, one a group of columns.
    pub(crate) fn row(&self, row: usize, cols: usize) -> &[f32] {
        let groups = cols.div_ceil(self.block[1]);
        &self.scales[row / self.block[0] * groups..][..groups]
    }
}

/// Grids of matrices that lie below each other, all of the same columns: the largest blocks that cross no boundary.
pub(crate) fn below_each_other(parts: &[(usize, &Grid)], cols: usize) -> Float8Rows<'static> {
    let total: usize = parts.iter().map(|(rows, _)| rows).sum();
    let (mut height, mut start) = (0, 0);
    for (rows, grid) in parts {
        height = common_divisor(height, start);
        if *rows > grid.block[0] {
            height = common_divisor(height, grid.block[0]);
        }
        start += rows;
    }
    let height = if height == 0 { total.max(1) } else { height };
    let mut scales = Vec::new();
    for block in 0..total.div_ceil(height) {
        let mut row = block * height;
        for (rows, grid) in parts {
            if row < *rows {
                scales.extend_from_slice(grid.row(row, cols));
                break;
            }
            row -= rows;
        }
    }
    Float8Rows {
        codes: Vec::new().into(),
        block: [height, parts[0].1.block[1]],
        scales,
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(block: [usize; 2], scales: &[f32]) -> Grid {
        Grid {
            block,
            scales: scales.to_vec(),
        }
    }

    #[test]
    fn a_tensor_of_scales_is_understood_by_its_shape() {
        let block = Some([128, 128]);
        for (scales, configured, expected) in [
            (&[2, 3][..], block, block),
            (&[2, 3], None, None),
            (&[], None, Some([200, 300])),
            (&[1], block, Some([200, 300])),
            (&[200, 1], None, Some([1, 300])),
            (&[200], None, Some([1, 300])),
            (&[300], None, None),
        ] {
            assert_eq!(Grid::block([200, 300], scales, configured), expected);
        }
    }

    #[test]
    fn fused_grids_keep_every_rows_scales_whatever_their_boundaries() {
        let tensor = |rows, scale| (rows, grid([rows, 64], &[scale]));
        let blocks = |rows: usize| {
            let scales: Vec<f32> = (0..2 * rows.div_ceil(32)).map(|i| i as f32).collect();
            (rows, grid([32, 32], &scales))
        };
        let rows_alone: Vec<f32> = (0..10).map(|i| i as f32).collect();
        for (parts, height) in [
            (vec![tensor(96, 1.0), tensor(32, 2.0), tensor(32, 3.0)], 32),
            (vec![tensor(50, 1.0)], 50),
            (vec![blocks(64), blocks(32), blocks(40)], 32),
            (vec![blocks(40), blocks(24)], 8),
            (vec![(10, grid([1, 64], &rows_alone)), tensor(5, 9.0)], 1),
        ] {
            let borrowed: Vec<_> = parts.iter().map(|(rows, grid)| (*rows, grid)).collect();
            let fused = below_each_other(&borrowed, 64);
            assert_eq!(fused.block[0], height);
            let mut row = 0;
            for (rows, grid) in &parts {
                for inner in 0..*rows {
                    assert_eq!(fused.scales_of(row, 64), grid.row(inner, 64), "row {row}");
                    row += 1;
                }
            }
        }
    }
}
