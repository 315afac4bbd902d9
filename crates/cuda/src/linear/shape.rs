//! Shapes of GEMMs, as far as the choice of a candidate depends on them.

use ops::DeviceError;
use tensor::DType;

use super::Gemm;

/// Row counts that candidates are chosen for; a GEMM uses the next one above its own. Up to eight rows share one choice, so
/// that a row has the same bits alone and in a small batch.
const BUCKETS: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// The most rows of GEMMs with f32 results; more are multiplied one part after the other.
pub(super) const MOST_WIDE: usize = 512;
/// Weights of more outputs are heads, whose results are floats.
const MOST_OUTPUTS: usize = 1 << 16;

/// A GEMM's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    /// Rows that the choice is made for.
    pub(super) bucket: usize,
    /// Results are floats.
    pub(super) wide: bool,
    pub(super) bias: bool,
}

impl Shape {
    /// That of a GEMM; more rows than the largest bucket use that one.
    pub(super) fn of(gemm: &Gemm<'_>) -> Self {
        Self {
            outputs: gemm.out.cols(),
            inputs: gemm.x.cols(),
            bucket: bucket(gemm.x.rows()),
            wide: gemm.out.dtype() == DType::F32,
            bias: gemm.bias.is_some(),
        }
    }

    /// With results in the type of activations and no bias; none above the largest bucket.
    pub(super) fn plain((outputs, inputs): (usize, usize), rows: usize) -> Option<Self> {
        Some(Self {
            outputs,
            inputs,
            bucket: BUCKETS.into_iter().find(|&bucket| bucket >= rows)?,
            wide: false,
            bias: false,
        })
    }

    /// That of GEMMs between norms: as [`Self::plain`], but results of heads are f32.
    pub(super) fn usual(weight: (usize, usize), rows: usize) -> Option<Self> {
        let wide = is_head(weight.0);
        Self::plain(weight, rows).map(|shape| Self { wide, ..shape })
    }

    /// Those of all GEMMs with a weight, with up to `most_rows` rows.
    pub(super) fn all(weight: (usize, usize), most_rows: usize) -> Vec<Self> {
        let narrow = Self::with_bf16(weight, most_rows);
        let narrow = narrow.into_iter().filter(|_| !is_head(weight.0));
        narrow.chain(Self::with_floats(weight, most_rows)).collect()
    }

    /// Those that a weight of that many outputs is likely to be used for: only heads have f32 results.
    pub(super) fn likely(weight: (usize, usize), most_rows: usize) -> Vec<Self> {
        if is_head(weight.0) {
            Self::with_floats(weight, most_rows)
        } else {
            Self::with_bf16(weight, most_rows)
        }
    }

    fn with_bf16(weight: (usize, usize), most_rows: usize) -> Vec<Self> {
        let largest = bucket(most_rows);
        let buckets = BUCKETS.into_iter().take_while(|&rows| rows <= largest);
        buckets
            .filter_map(|rows| Self::plain(weight, rows))
            .collect()
    }

    fn with_floats(weight: (usize, usize), most_rows: usize) -> Vec<Self> {
        let bf16 = Self::with_bf16(weight, most_rows.min(MOST_WIDE));
        let wide = |shape| Self {
            wide: true,
            ..shape
        };
        bf16.into_iter().map(wide).collect()
    }

    /// The same with a bias.
    pub(super) fn biased(self) -> Self {
        Self { bias: true, ..self }
    }

    /// The same without.
    pub(super) fn unbiased(self) -> Self {
        Self {
            bias: false,
            ..self
        }
    }

    pub(super) fn dtype(&self) -> DType {
        if self.wide { DType::F32 } else { DType::BF16 }
    }

    /// Bytes of the results.
    pub(super) fn result_bytes(&self) -> usize {
        self.bucket * self.outputs * self.dtype().size()
    }

    /// No candidate takes this shape.
    pub(super) fn impossible(&self) -> DeviceError {
        DeviceError::Lost {
            device: "cuda".into(),
            message: format!("no GEMM candidate for {self}"),
        }
    }
}

/// `[outputs, inputs]` with the rows, and what is unusual.
impl std::fmt::Display for Shape {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            outputs,
            inputs,
            bucket,
            ..
        } = self;
        write!(out, "[{outputs}, {inputs}] with {bucket} rows")?;
        if self.wide {
            write!(out, ", f32 results")?;
        }
        if self.bias {
            write!(out, ", plus a bias")?;
        }
        Ok(())
    }
}

fn is_head(outputs: usize) -> bool {
    outputs > MOST_OUTPUTS
}

/// The bucket of that many rows, or the last one.
fn bucket(rows: usize) -> usize {
    let found = BUCKETS.into_iter().find(|&bucket| bucket >= rows);
    found.unwrap_or(BUCKETS[BUCKETS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets of those with bf16 results, and of those with f32 results.
    fn buckets(shapes: &[Shape]) -> [Vec<usize>; 2] {
        [false, true].map(|wide| {
            let some = shapes.iter().filter(|shape| shape.wide == wide);
            some.map(|shape| shape.bucket).collect()
        })
    }

    #[test]
    fn every_step_finds_its_shape_among_those_that_are_timed() {
        let projection = Shape::all((6144, 4096), 20_480);
        assert_eq!(
            buckets(&projection),
            [BUCKETS.to_vec(), BUCKETS[..7].to_vec()]
        );
        let head = Shape::all((151_936, 4096), 20_480);
        assert_eq!(buckets(&head), [Vec::new(), BUCKETS[..7].to_vec()]);
        let few = Shape::all((6144, 4096), 17);
        assert_eq!(buckets(&few), [vec![8, 16, 32], vec![8, 16, 32]]);
        for rows in [1, 8, 9, 8192, 20_480] {
            assert!(
                projection.iter().any(|shape| shape.bucket == bucket(rows)),
                "{rows} rows"
            );
        }
    }

    #[test]
    fn eight_bit_weights_give_floats_only_where_they_are_heads() {
        let likely = |outputs| buckets(&Shape::likely((outputs, 4096), 8));
        assert_eq!(likely(6144), [vec![8], Vec::new()]);
        assert_eq!(likely(151_936), [Vec::new(), vec![8]]);
    }

    #[test]
    fn a_shape_names_what_it_is() {
        let plain = Shape::plain((16, 8), 3).expect("few rows");
        let wide = Shape {
            wide: true,
            ..plain
        };
        for (shape, expected) in [
            (plain, "[16, 8] with 8 rows"),
            (plain.biased(), "[16, 8] with 8 rows, plus a bias"),
            (wide, "[16, 8] with 8 rows, f32 results"),
        ] {
            assert_eq!(shape.to_string(), expected);
        }
    }
}
