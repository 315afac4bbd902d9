//! Weights of eight-bit floats: loaded, made up, looked up.

use std::time::Instant;

use ops::{DeviceError, Embed, Float8Rows, InventedWeight, OpError, Weight, WeightFormat};
use tensor::{Buffer, DType};

use crate::device::CudaDevice;
use crate::linear::{Float8Weight, ScaleGrid};

/// The largest number of made-up weights.
const LARGEST_INVENTED: f32 = 0.05;

impl CudaDevice {
    /// True when scales cover whole rows, or whole segments of what the tensor cores sum at once.
    pub(crate) fn takes_groups(group: u32) -> bool {
        group.is_multiple_of(128)
    }

    pub(crate) fn load_float8(
        &self,
        shape: (usize, usize),
        rows: &Float8Rows<'_>,
        format: WeightFormat,
    ) -> Result<Weight, DeviceError> {
        let brought = self.upload(&rows.codes, "weights on their way")?;
        self.adopt_codes(brought, shape, rows, format)
    }

    /// A weight of codes that lie in this buffer as files have them, with the scales of `rows`.
    pub(crate) fn adopt_codes(
        &self,
        brought: Buffer,
        shape: (usize, usize),
        rows: &Float8Rows<'_>,
        format: WeightFormat,
    ) -> Result<Weight, DeviceError> {
        let codes = self.gemms.arrange_float8(&brought, shape)?;
        drop(brought);
        self.adopt_float8(shape, codes, rows, format)
    }

    /// Small random numbers with one scale a row, or for 128 × 128 of them.
    pub(crate) fn invent_float8(
        &self,
        shape: (usize, usize),
        group: u32,
        seed: u64,
    ) -> Result<InventedWeight, DeviceError> {
        let (rows, cols) = shape;
        let block = match group as usize {
            0 => [1, cols],
            group => [128, group],
        };
        let blocks = rows.div_ceil(block[0]) * cols.div_ceil(block[1]);
        let rows = Float8Rows {
            codes: Vec::new().into(),
            block,
            scales: vec![LARGEST_INVENTED / ops::float8::LARGEST; blocks],
        };
        let codes = self.gemms.invent_float8(shape, seed)?;
        let made = Instant::now();
        let weight = self.adopt_float8(shape, codes, &rows, WeightFormat::Float8 { group })?;
        Ok(InventedWeight { weight, made })
    }

    fn adopt_float8(
        &self,
        shape: (usize, usize),
        codes: Buffer,
        rows: &Float8Rows<'_>,
        format: WeightFormat,
    ) -> Result<Weight, DeviceError> {
        use ops::Device as _;
        let grid = ScaleGrid::of(rows, shape.1);
        let scales = self.load_values(&rows.scales, DType::F32)?;
        let library = grid.for_library(&rows.scales, shape.0, shape.1);
        let library = library.map(|scales| self.load_values(&scales, DType::F32));
        let weight = Float8Weight::new(shape, codes, grid, scales, library.transpose()?)?;
        let weight = self.gemms.adopt_float8(weight, self.max_rows)?;
        let bytes = weight.bytes();
        Ok(Weight::new(
            shape.0,
            shape.1,
            format,
            bytes,
            Box::new(weight),
        ))
    }

    pub(crate) fn embed_float8(&self, op: &Embed<'_>, table: &Float8Weight) -> Result<(), OpError> {
        if op.out.dtype() != DType::BF16 {
            return Err(OpError::Type {
                op: "embed",
                what: "out",
                found: op.out.dtype(),
            });
        }
        Ok(self.gemms.gather_float8(table, op.ids, &op.out)?)
    }
}
