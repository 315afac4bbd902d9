//! From pixels to planes of brightness and colour.

use super::Picture;

/// One component of a picture, padded to whole blocks.
pub(super) struct Plane {
    samples: Vec<u8>,
    stride: usize,
    /// Blocks across.
    pub(super) columns: usize,
    /// Blocks down.
    pub(super) rows: usize,
    /// Blocks along the side of a unit.
    pub(super) blocks_per_unit: usize,
}

impl Plane {
    /// A plane from rows of samples; the last row is repeated down to whole blocks.
    fn new(mut samples: Vec<u8>, stride: usize, blocks_per_unit: usize) -> Self {
        let height = samples.len() / stride;
        let rows = height.div_ceil(8);
        let last = samples[(height - 1) * stride..].to_vec();
        for _ in height..rows * 8 {
            samples.extend_from_slice(&last);
        }
        Self {
            samples,
            stride,
            columns: stride / 8,
            rows,
            blocks_per_unit,
        }
    }

    /// The samples of a block, around zero.
    pub(super) fn block(&self, column: usize, row: usize) -> [i32; 64] {
        let mut block = [0; 64];
        for (y, line) in block.chunks_exact_mut(8).enumerate() {
            let from = (row * 8 + y) * self.stride + column * 8;
            for (sample, value) in line.iter_mut().zip(&self.samples[from..from + 8]) {
                *sample = i32::from(*value) - 128;
            }
        }
        block
    }
}

/// The three planes: full brightness, both colours at half resolution.
pub(super) fn planes(picture: &Picture<'_>) -> [Plane; 3] {
    let mut full = [Vec::new(), Vec::new(), Vec::new()];
    for pixel in picture.pixels.chunks_exact(3) {
        for (plane, value) in full.iter_mut().zip(converted(pixel)) {
            plane.push(value);
        }
    }
    let [bright, blue, red] = full;
    let stride = picture.width.div_ceil(8) * 8;
    [
        Plane::new(widened(&bright, picture.width, stride), stride, 2),
        halved(&blue, picture),
        halved(&red, picture),
    ]
}

/// Brightness, blueness and redness in sixteen-bit fixed point.
fn converted(pixel: &[u8]) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    const CENTRE: i32 = (128 << 16) + HALF - 1;
    let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
    [
        (19_595 * red + 38_470 * green + 7_471 * blue + HALF) >> 16,
        (-11_059 * red - 21_709 * green + 32_768 * blue + CENTRE) >> 16,
        (32_768 * red - 27_439 * green - 5_329 * blue + CENTRE) >> 16,
    ]
    .map(|value| value as u8)
}

/// Rows made longer by repeating their last sample.
fn widened(samples: &[u8], width: usize, stride: usize) -> Vec<u8> {
    let mut wide = Vec::with_capacity(samples.len() / width * stride);
    for row in samples.chunks_exact(width) {
        wide.extend_from_slice(row);
        wide.resize(wide.len() + stride - width, row[width - 1]);
    }
    wide
}

/// Means of two by two samples, rounded down and up in turn.
fn halved(samples: &[u8], picture: &Picture<'_>) -> Plane {
    let half = picture.width.div_ceil(2);
    let stride = half.div_ceil(8) * 8;
    let wide = widened(samples, picture.width, stride * 2);
    let rows: Vec<&[u8]> = wide.chunks_exact(stride * 2).collect();
    let mut means = Vec::with_capacity(stride * rows.len().div_ceil(2));
    for pair in rows.chunks(2) {
        let (upper, lower) = (pair[0], pair[pair.len() - 1]);
        let mut bias = 1;
        for (above, below) in upper.chunks_exact(2).zip(lower.chunks_exact(2)) {
            let sum: u16 = above
                .iter()
                .chain(below)
                .map(|sample| u16::from(*sample))
                .sum();
            means.push(((sum + bias) >> 2) as u8);
            bias ^= 3;
        }
    }
    Plane::new(means, stride, 1)
}
