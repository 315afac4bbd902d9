use ops::AffineRows;
use tensor::{Buffer, DType};

use super::Shared;
use super::lanes::Lanes;
use crate::memory::Store;
use crate::simd::LANES;
use crate::team::Team;

/// A quantised matrix in tiles of sixteen rows.
///
/// A vector of 64 bytes holds four consecutive columns of the sixteen rows of a tile, row by row. Quants of four bits lie
/// two to a byte: the lower ones are a group's first half of vectors, the upper ones its second half.
pub(crate) struct AffineTiles {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) bits: u8,
    /// Bits that the largest quant needs: 4, 7 or 8.
    pub(super) used_bits: u8,
    pub(super) group: usize,
    pub(super) quants: Buffer,
    pub(super) scales: Lanes,
    pub(super) minimum: Minimum,
}

/// What is added to scale × quant.
pub(super) enum Minimum {
    /// −zero × scale, one `zero` for the whole matrix.
    Zero(i32),
    /// A number a group.
    Given(Lanes),
}

impl AffineTiles {
    /// Brings rows into tiles; rows past the end are zeros.
    pub(crate) fn pack(
        (rows, cols): (usize, usize),
        from: &AffineRows,
        team: &Team,
        store: &mut Store,
    ) -> Self {
        let (group, tiles) = (from.group, rows.div_ceil(LANES));
        let scales = by_lanes(&from.scales, rows, cols / group);
        let minimum = match common_zero(from) {
            Some(zero) => Minimum::Zero(zero),
            None => Minimum::Given(Lanes::new(
                &by_lanes(&from.minimums, rows, cols / group),
                store,
            )),
        };
        let tile_bytes = cols * LANES * usize::from(from.bits) / 8;
        let mut quants = store.take(tiles * tile_bytes);
        let target = Shared(quants.view_mut(0, tiles, tile_bytes, DType::U8).address());
        team.split(tiles, 1, |range| {
            for tile in range {
                // SAFETY: every tile is written by one task, inside the buffer.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(target.get().add(tile * tile_bytes), tile_bytes)
                };
                pack_tile(tile, rows, cols, from, bytes);
            }
        });
        Self {
            rows,
            cols,
            bits: from.bits,
            used_bits: match from.bits {
                4 => 4,
                _ if from.quants.iter().all(|&quant| quant < 128) => 7,
                _ => 8,
            },
            group,
            quants,
            scales: Lanes::new(&scales, store),
            minimum,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let minimum = match &self.minimum {
            Minimum::Zero(_) => 0,
            Minimum::Given(lanes) => lanes.bytes(),
        };
        self.quants.bytes() + self.scales.bytes() + minimum
    }

    /// Bytes of quants in a tile.
    pub(super) fn tile_bytes(&self) -> usize {
        self.cols * LANES * usize::from(self.bits) / 8
    }

    /// One row as plain numbers.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        let (tile, lane) = (row / LANES, row % LANES);
        let quants = self
            .quants
            .view(0, self.rows.div_ceil(LANES), self.tile_bytes(), DType::U8);
        let quants = quants.row::<u8>(tile);
        for (index, out) in out.chunks_exact_mut(self.group).enumerate() {
            let place = (tile * (self.cols / self.group) + index) * LANES + lane;
            let scale = self.scales.value(place);
            let minimum = match &self.minimum {
                Minimum::Zero(zero) => -(*zero as f32) * scale,
                Minimum::Given(lanes) => lanes.value(place),
            };
            for (k, out) in out.iter_mut().enumerate() {
                let quant = quant_at(quants, self.bits, self.group, index, k, lane);
                *out = scale * f32::from(quant) + minimum;
            }
        }
    }
}

/// Where element `k` of group `index` of row `lane` lies in a tile: its byte and how far it is shifted.
fn place(bits: u8, group: usize, index: usize, k: usize, lane: usize) -> (usize, u32) {
    let (vector, byte) = (k / 4, lane * 4 + k % 4);
    let start = index * group * LANES;
    if bits == 8 {
        return (start + vector * 64 + byte, 0);
    }
    let half = group / 8;
    (
        start / 2 + vector % half * 64 + byte,
        4 * (vector / half) as u32,
    )
}

fn quant_at(tile: &[u8], bits: u8, group: usize, index: usize, k: usize, lane: usize) -> u8 {
    let (byte, shift) = place(bits, group, index, k, lane);
    if bits == 8 {
        tile[byte]
    } else {
        tile[byte] >> shift & 15
    }
}

fn pack_tile(tile: usize, rows: usize, cols: usize, from: &AffineRows, bytes: &mut [u8]) {
    let group = from.group;
    for lane in 0..LANES.min(rows - tile * LANES) {
        let row = (tile * LANES + lane) * cols;
        for (index, quants) in from.quants[row..row + cols].chunks_exact(group).enumerate() {
            for (k, &quant) in quants.iter().enumerate() {
                let (byte, shift) = place(from.bits, group, index, k, lane);
                bytes[byte] |= quant << shift;
            }
        }
    }
}

/// Numbers by rows and groups reordered by tiles, groups and lanes.
fn by_lanes(values: &[f32], rows: usize, groups: usize) -> Vec<f32> {
    let mut lanes = vec![0.0; rows.div_ceil(LANES) * groups * LANES];
    for (row, values) in values.chunks_exact(groups.max(1)).take(rows).enumerate() {
        for (group, &value) in values.iter().enumerate() {
            lanes[(row / LANES * groups + group) * LANES + row % LANES] = value;
        }
    }
    lanes
}

/// The one integer z with minimum = −z × scale in every group, if there is one.
fn common_zero(from: &AffineRows) -> Option<i32> {
    let pairs = || from.scales.iter().zip(&from.minimums);
    let (&scale, &minimum) = pairs().find(|(scale, _)| **scale != 0.0)?;
    let zero = (-minimum / scale).round();
    let fits = (0.0..=255.0).contains(&zero)
        && pairs().all(|(scale, minimum)| (-zero * scale - minimum).abs() <= 0.0);
    fits.then_some(zero as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops::{HostValues, HostWeight};

    fn weight(
        rows: usize,
        cols: usize,
        bits: u8,
        group: usize,
        zero: Option<f32>,
    ) -> HostWeight<'static> {
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let quants = (0..rows * cols)
            .map(|_| (next() % (1 << bits)) as u8)
            .collect();
        let scales: Vec<f32> = (0..rows * cols / group)
            .map(|_| half::f16::from_f32(next() as f32 / 1e7).to_f32())
            .collect();
        let minimums = scales
            .iter()
            .map(|&scale| zero.map_or_else(|| next() as f32 / 1e7 - 1.0, |zero| -zero * scale))
            .collect();
        HostWeight {
            rows,
            cols,
            values: HostValues::Affine(AffineRows {
                bits,
                group,
                quants,
                scales,
                minimums,
            }),
        }
    }

    #[test]
    fn packed_rows_are_the_rows_that_were_packed() {
        let team = Team::new(2);
        for (bits, group) in [(4, 32), (4, 16), (8, 32), (8, 16)] {
            for zero in [None, Some(8.0)] {
                let weight = weight(37, 96, bits, group, zero);
                let HostValues::Affine(from) = &weight.values else {
                    unreachable!("made above")
                };
                let tiles = AffineTiles::pack((37, 96), from, &team, &mut Store::default());
                let mut row = vec![0.0; 96];
                for index in 0..37 {
                    tiles.row(index, &mut row);
                    assert_eq!(row, weight.row(index));
                }
            }
        }
    }

    #[test]
    fn formats_of_smollm2_take_no_more_memory_than_their_file() {
        let team = Team::new(1);
        let packed = |bits, zero: Option<f32>, half: bool| {
            let mut weight = weight(64, 576, bits, 32, zero);
            let HostValues::Affine(from) = &mut weight.values else {
                unreachable!("made above")
            };
            if half {
                for minimum in &mut from.minimums {
                    *minimum = half::f16::from_f32(*minimum).to_f32();
                }
            }
            AffineTiles::pack((64, 576), from, &team, &mut Store::default()).bytes()
        };
        let blocks = 64 * 576 / 32;
        assert_eq!(packed(4, None, true), blocks * 20);
        assert_eq!(packed(8, Some(128.0), false), blocks * 34);
        assert_eq!(packed(4, Some(8.0), false), blocks * 18);
    }
}
