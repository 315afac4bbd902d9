use ops::AffineRows;
use tensor::{Buffer, DType};

use super::Shared;
use super::lanes::Lanes;
use super::quants::Layout;
use crate::memory::Store;
use crate::simd::LANES;
use crate::thread_pool::ThreadPool;

/// A quantised matrix in tiles of sixteen rows: quants in groups as [`Layout`] says, scales and minimums in lanes.
pub(crate) struct AffineTiles {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) layout: Layout,
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
        pool: &ThreadPool,
        store: &mut Store,
    ) -> Self {
        let largest = from.quants.iter().copied().max().unwrap_or(0);
        let (layout, tiles) = (Layout::of(largest, from.group), rows.div_ceil(LANES));
        let lanes = |values: &[f32], store: &mut Store| {
            Lanes::pack(values, (rows, cols / from.group), 256 / from.group, store)
        };
        let minimum = match common_zero(from) {
            Some(zero) => Minimum::Zero(zero),
            None => Minimum::Given(lanes(&from.minimums, store)),
        };
        let tile_bytes = cols / from.group * layout.group_bytes();
        let mut quants = store.take(tiles * tile_bytes);
        let target = Shared(quants.view_mut(0, tiles, tile_bytes, DType::U8).address());
        pool.split(tiles, 1, |range| {
            for tile in range {
                // SAFETY: every tile is written by one task, inside the buffer, which is aligned to vectors.
                let words = unsafe {
                    let start = target.get().add(tile * tile_bytes);
                    std::slice::from_raw_parts_mut(start.cast(), tile_bytes / 64)
                };
                pack_tile(layout, tile, (rows, cols), &from.quants, words);
            }
        });
        Self {
            rows,
            cols,
            layout,
            quants,
            scales: lanes(&from.scales, store),
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

    /// Groups in a row.
    pub(super) fn groups(&self) -> usize {
        self.cols / self.layout.group
    }

    /// Where the quants of a tile start.
    #[inline(always)]
    pub(super) fn tile(&self, tile: usize) -> *const u8 {
        let bytes = self.groups() * self.layout.group_bytes();
        self.quants
            .address()
            .cast_const()
            .wrapping_add(tile * bytes)
    }

    /// One row as plain numbers.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let (tile, lane) = (row / LANES, row % LANES);
        let words = self.layout.group_bytes() / 64;
        // SAFETY: the tile has that many vectors, and the buffer is aligned to them.
        let tile_words: &[[u32; LANES]] =
            unsafe { std::slice::from_raw_parts(self.tile(tile).cast(), self.groups() * words) };
        let groups = tile_words.chunks_exact(words);
        for (index, (out, group)) in out
            .chunks_exact_mut(self.layout.group)
            .zip(groups)
            .enumerate()
        {
            let place = tile * self.groups() + index;
            let scale = self.scales.value(place, lane);
            let minimum = match &self.minimum {
                Minimum::Zero(zero) => -(*zero as f32) * scale,
                Minimum::Given(lanes) => lanes.value(place, lane),
            };
            for (vector, out) in out.chunks_exact_mut(4).enumerate() {
                let quants = self.layout.get(group, vector, lane);
                for (out, quant) in out.iter_mut().zip(quants) {
                    *out = scale * f32::from(quant) + minimum;
                }
            }
        }
    }
}

fn pack_tile(
    layout: Layout,
    tile: usize,
    (rows, cols): (usize, usize),
    quants: &[u8],
    words: &mut [[u32; LANES]],
) {
    for lane in 0..LANES.min(rows - tile * LANES) {
        let row = (tile * LANES + lane) * cols;
        let groups = words.chunks_exact_mut(layout.group_bytes() / 64);
        for (quants, group) in quants[row..row + cols]
            .chunks_exact(layout.group)
            .zip(groups)
        {
            for (vector, &four) in quants.as_chunks::<4>().0.iter().enumerate() {
                layout.put(group, vector, lane, four);
            }
        }
    }
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
    use half::f16;
    use ops::{HostValues, HostWeight};

    /// Quants and scales as a file format has them.
    struct Format {
        name: &'static str,
        largest: u32,
        group: usize,
        /// Steps of a scale within a block of 256, for formats with two levels.
        steps: Option<u32>,
        zero: Option<f32>,
        /// Bits a weight in the file, and here.
        bits: (f64, f64),
    }

    const FORMATS: [Format; 8] = [
        Format {
            name: "q4_0",
            largest: 15,
            group: 32,
            steps: None,
            zero: Some(8.0),
            bits: (4.5, 4.5),
        },
        Format {
            name: "q4_1",
            largest: 15,
            group: 32,
            steps: None,
            zero: None,
            bits: (5.0, 5.0),
        },
        Format {
            name: "q5_0",
            largest: 31,
            group: 32,
            steps: None,
            zero: Some(16.0),
            bits: (5.5, 5.5),
        },
        Format {
            name: "q5_1",
            largest: 31,
            group: 32,
            steps: None,
            zero: None,
            bits: (6.0, 6.0),
        },
        Format {
            name: "q8_0",
            largest: 255,
            group: 32,
            steps: None,
            zero: Some(128.0),
            bits: (8.5, 8.5),
        },
        Format {
            name: "q4_k",
            largest: 15,
            group: 32,
            steps: Some(64),
            zero: None,
            bits: (4.5, 4.625),
        },
        Format {
            name: "q5_k",
            largest: 31,
            group: 32,
            steps: Some(64),
            zero: None,
            bits: (5.5, 5.625),
        },
        Format {
            name: "q6_k",
            largest: 63,
            group: 16,
            steps: Some(128),
            zero: Some(32.0),
            bits: (6.5625, 6.5625),
        },
    ];

    fn weight(format: &Format, rows: usize, cols: usize) -> HostWeight<'static> {
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let quants = (0..rows * cols)
            .map(|_| (next() % (format.largest + 1)) as u8)
            .collect();
        let mut scales = |sign: f32| -> Vec<f32> {
            let mut whole = 0.0;
            (0..rows * cols / format.group)
                .map(|group| {
                    if format.steps.is_none() || group % (256 / format.group) == 0 {
                        whole = f16::from_f32(sign * (next() % 4000 + 1) as f32 / 1e5).to_f32();
                    }
                    whole * format.steps.map_or(1.0, |steps| (next() % steps) as f32)
                })
                .collect()
        };
        let (scales, given) = (scales(1.0), scales(-1.0));
        let minimums = match format.zero {
            Some(zero) => scales.iter().map(|scale| -zero * scale).collect(),
            None => given,
        };
        let bits = if format.largest < 16 { 4 } else { 8 };
        let values = HostValues::Affine(AffineRows {
            bits,
            group: format.group,
            quants,
            scales,
            minimums,
        });
        HostWeight { rows, cols, values }
    }

    #[test]
    fn packed_rows_are_those_that_were_packed_and_about_as_small_as_in_a_file() {
        let pool = ThreadPool::new(2);
        for format in &FORMATS {
            for (rows, cols) in [(37, 512), (64, 768)] {
                let weight = weight(format, rows, cols);
                let HostValues::Affine(from) = &weight.values else {
                    unreachable!("made above")
                };
                let tiles = AffineTiles::pack((rows, cols), from, &pool, &mut Store::default());
                let mut row = vec![0.0; cols];
                for index in 0..rows {
                    tiles.row(index, &mut row);
                    assert_eq!(row, weight.row(index), "{} row {index}", format.name);
                }
                if rows % LANES == 0 {
                    let bits = tiles.bytes() as f64 * 8.0 / (rows * cols) as f64;
                    assert!(
                        (bits - format.bits.1).abs() < 1e-9,
                        "{}: {bits} bits",
                        format.name
                    );
                    assert!(bits <= format.bits.0 * 1.03, "{}: {bits} bits", format.name);
                }
            }
        }
    }
}
