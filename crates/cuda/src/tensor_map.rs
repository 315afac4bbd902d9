//! Descriptions of matrices for the copy engine.

use cudarc::driver::sys;
use ops::DeviceError;

use crate::driver::check;

/// A matrix in device memory and the tile of it that one TMA copy brings.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct TensorMap([u64; 16]);

/// What a map describes, innermost dimension first.
pub(crate) struct TiledMatrix<'a> {
    pub(crate) address: u64,
    /// Elements in each dimension.
    pub(crate) sizes: &'a [u64],
    /// Bytes from one to the next in each dimension but the first.
    pub(crate) strides: &'a [u64],
    /// Elements of a tile in each dimension.
    pub(crate) shape: &'a [u32],
}

impl TensorMap {
    /// Describes nothing.
    pub(crate) const NONE: Self = Self([0; 16]);
    /// Elements of a tile along a row.
    pub(crate) const SLICE: u32 = 64;

    /// Elements of bf16: rows of 64 are turned by 128-byte swizzling.
    pub(crate) fn new(tiled: &TiledMatrix<'_>) -> Result<Self, DeviceError> {
        Self::encode(
            tiled,
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        )
    }

    /// Words of eight bytes, as they lie.
    pub(crate) fn words(tiled: &TiledMatrix<'_>) -> Result<Self, DeviceError> {
        Self::encode(
            tiled,
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        )
    }

    fn encode(
        tiled: &TiledMatrix<'_>,
        element: sys::CUtensorMapDataType,
        swizzle: sys::CUtensorMapSwizzle,
    ) -> Result<Self, DeviceError> {
        let rank = tiled.sizes.len();
        assert!(
            tiled.strides.len() + 1 == rank && tiled.shape.len() == rank,
            "one size, stride and tile per dimension"
        );
        let mut map = Self([0; 16]);
        let steps = [1u32; 5];
        // SAFETY: every array has `rank` entries (asserted; `steps` has more); the map has the driver's size and alignment.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                (&raw mut map).cast(),
                element,
                rank as u32,
                tiled.address as *mut _,
                tiled.sizes.as_ptr(),
                tiled.strides.as_ptr(),
                tiled.shape.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                // Not 256: then memory gives 4.2 TB/s where it gives 4.6.
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check(result, "describing a matrix to the copy engine")?;
        Ok(map)
    }
}
