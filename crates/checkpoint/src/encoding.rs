//! How the elements of a tensor are written in a file.

use tensor::DType;

/// A GGUF block format: a fixed run of elements that share scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    non_camel_case_types,
    reason = "these are the names everybody knows them by"
)]
pub enum BlockFormat {
    /// 32 elements: f16 scale, 4-bit values around 8.
    Q4_0,
    /// 32 elements: f16 scale and minimum, 4-bit values.
    Q4_1,
    /// 32 elements: f16 scale, 5-bit values around 16.
    Q5_0,
    /// 32 elements: f16 scale and minimum, 5-bit values.
    Q5_1,
    /// 32 elements: f16 scale, 8-bit signed values.
    Q8_0,
    /// 256 elements: f16 scale and minimum over eight 6-bit pairs, 4-bit values.
    Q4_K,
    /// 256 elements: f16 scale and minimum over eight 6-bit pairs, 5-bit values.
    Q5_K,
    /// 256 elements: f16 scale over sixteen 8-bit scales, 6-bit values around 32.
    Q6_K,
}

impl BlockFormat {
    /// Every format, in the order of the enum.
    pub const ALL: [Self; 8] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
    ];

    /// Elements in one block.
    pub const fn elements(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// The name ggml gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4_K => "Q4_K",
            Self::Q5_K => "Q5_K",
            Self::Q6_K => "Q6_K",
        }
    }
}

/// How the elements of a tensor are written: one by one, or in blocks along the last dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// One element after the other, little endian.
    Plain(DType),
    /// Blocks of elements with shared scales.
    Block(BlockFormat),
}

impl Encoding {
    /// Elements that cannot be separated: 1, or the elements of a block.
    pub const fn elements(self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Block(format) => format.elements(),
        }
    }

    /// Bytes of such a run.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Plain(dtype) => dtype.size(),
            Self::Block(format) => format.bytes(),
        }
    }

    /// Bytes of a tensor of this shape; `None` when it overflows or a block would cross a row.
    pub fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(self.elements()) {
            return None;
        }
        let elements = shape
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n))?;
        (elements / self.elements()).checked_mul(self.bytes())
    }

    /// The name the file format gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(dtype) => dtype.name(),
            Self::Block(format) => format.name(),
        }
    }
}
