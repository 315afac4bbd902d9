use half::f16;
use tensor::{Buffer, DType};

use crate::memory::Store;
use crate::simd::{LANES, Simd};

/// Sixteen numbers a (tile, group), as halves when that loses nothing.
pub(super) struct Lanes {
    buffer: Buffer,
    half: bool,
}

impl Lanes {
    /// Numbers in the order of tiles, groups and lanes.
    pub(super) fn new(values: &[f32], store: &mut Store) -> Self {
        let half = values
            .iter()
            .all(|&value| f16::from_f32(value).to_f32().to_bits() == value.to_bits());
        let dtype = if half { DType::F16 } else { DType::F32 };
        let mut buffer = store.take(values.len() * dtype.size());
        let mut view = buffer.view_mut(0, 1, values.len(), dtype);
        if half {
            for (to, &value) in view.row_mut::<f16>(0).iter_mut().zip(values) {
                *to = f16::from_f32(value);
            }
        } else {
            view.row_mut::<f32>(0).copy_from_slice(values);
        }
        Self { buffer, half }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// The numbers of place `index` (tile × groups + group).
    ///
    /// # Safety
    /// `index` must be below the number of places.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simd>(&self, s: S, index: usize) -> S::F {
        let address = self.buffer.address();
        if self.half {
            // SAFETY: inside the buffer by the caller's promise.
            s.load_f16(unsafe { &*address.cast::<[f16; LANES]>().add(index) })
        } else {
            // SAFETY: as above.
            s.load(unsafe { &*address.cast::<[f32; LANES]>().add(index) })
        }
    }

    /// One number.
    pub(super) fn value(&self, index: usize) -> f32 {
        let len = self.buffer.bytes() / if self.half { 2 } else { 4 };
        if self.half {
            self.buffer.view(0, 1, len, DType::F16).row::<f16>(0)[index].to_f32()
        } else {
            self.buffer.view(0, 1, len, DType::F32).row::<f32>(0)[index]
        }
    }
}
