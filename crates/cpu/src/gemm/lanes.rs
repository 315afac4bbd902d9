use half::f16;
use tensor::Buffer;

use crate::memory::Store;
use crate::simd::{LANES, Simd};

/// Sixteen numbers a place, a place being a group of a tile; written as small as they can be without loss.
pub(super) enum Lanes {
    /// As they are.
    Single(Buffer),
    /// As halves.
    Half(Buffer),
    /// A half for several groups in a row, times a signed byte for each.
    Product {
        wholes: Buffer,
        steps: Buffer,
        /// Groups that share a half.
        groups: usize,
    },
}

impl Lanes {
    /// Numbers by rows and groups; `together` groups may share a factor.
    pub(super) fn pack(
        values: &[f32],
        (rows, groups): (usize, usize),
        together: usize,
        store: &mut Store,
    ) -> Self {
        let half = |value: f32| f16::from_f32(value);
        if values
            .iter()
            .all(|&v| half(v).to_f32().to_bits() == v.to_bits())
        {
            let halves = by_lanes(values, rows, groups).into_iter().map(half);
            return Self::Half(filled(store, halves));
        }
        let factored = (groups.is_multiple_of(together))
            .then(|| values.chunks_exact(together).map(factor).collect())
            .flatten();
        let factored: Vec<(f16, Vec<i8>)> = match factored {
            Some(factored) => factored,
            None => return Self::Single(filled(store, by_lanes(values, rows, groups).into_iter())),
        };
        let wholes: Vec<f16> = factored.iter().map(|(whole, _)| *whole).collect();
        let steps: Vec<i8> = factored.into_iter().flat_map(|(_, steps)| steps).collect();
        Self::Product {
            wholes: filled(
                store,
                by_lanes(&wholes, rows, groups / together).into_iter(),
            ),
            steps: filled(store, by_lanes(&steps, rows, groups).into_iter()),
            groups: together,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Single(buffer) | Self::Half(buffer) => buffer.bytes(),
            Self::Product { wholes, steps, .. } => wholes.bytes() + steps.bytes(),
        }
    }

    /// The numbers of place `index` (tile × groups + group).
    ///
    /// # Safety
    /// `index` must be below the number of places.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simd>(&self, s: S, index: usize) -> S::F {
        // SAFETY: inside the buffers by the caller's promise.
        unsafe {
            match self {
                Self::Half(buffer) => {
                    s.load_f16(&*buffer.address().cast::<[f16; LANES]>().add(index))
                }
                Self::Single(buffer) => {
                    s.load(&*buffer.address().cast::<[f32; LANES]>().add(index))
                }
                Self::Product {
                    wholes,
                    steps,
                    groups,
                } => {
                    let whole = wholes.address().cast::<[f16; LANES]>().add(index / groups);
                    let step = &*steps.address().cast::<[i8; LANES]>().add(index);
                    s.mul(s.load_f16(&*whole), s.load_i8(step))
                }
            }
        }
    }

    /// One number.
    pub(super) fn value(&self, index: usize, lane: usize) -> f32 {
        let at = index * LANES + lane;
        match self {
            Self::Single(buffer) => slice::<f32>(buffer)[at],
            Self::Half(buffer) => slice::<f16>(buffer)[at].to_f32(),
            Self::Product {
                wholes,
                steps,
                groups,
            } => {
                let whole = slice::<f16>(wholes)[index / groups * LANES + lane];
                whole.to_f32() * f32::from(slice::<i8>(steps)[at])
            }
        }
    }
}

fn slice<T: tensor::Element>(buffer: &Buffer) -> &[T] {
    let len = buffer.bytes() / size_of::<T>();
    buffer.view(0, 1, len, T::DTYPE).into_slice()
}

fn filled<T: tensor::Element>(
    store: &mut Store,
    values: impl ExactSizeIterator<Item = T>,
) -> Buffer {
    let mut buffer = store.take(values.len() * size_of::<T>());
    let to = buffer
        .view_mut(0, 1, values.len(), T::DTYPE)
        .into_slice::<T>();
    for (to, value) in to.iter_mut().zip(values) {
        *to = value;
    }
    buffer
}

/// Values by rows and groups reordered by tiles, groups and lanes; rows past the end are zeros.
fn by_lanes<T: Copy + Default>(values: &[T], rows: usize, groups: usize) -> Vec<T> {
    let mut lanes = vec![T::default(); rows.div_ceil(LANES) * groups * LANES];
    for (row, values) in values.chunks_exact(groups.max(1)).take(rows).enumerate() {
        for (group, &value) in values.iter().enumerate() {
            lanes[(row / LANES * groups + group) * LANES + row % LANES] = value;
        }
    }
    lanes
}

/// A half and signed bytes whose products are exactly these numbers, if there are any.
fn factor(values: &[f32]) -> Option<(f16, Vec<i8>)> {
    let size = |value: &f32| value.abs();
    let Some(least) = values
        .iter()
        .map(size)
        .filter(|&v| v > 0.0)
        .reduce(f32::min)
    else {
        return Some((f16::ZERO, vec![0; values.len()]));
    };
    // The least one is some small number of steps: which, follows from the others.
    (1..=127u8).find_map(|steps| {
        let whole = f16::from_f32(least / f32::from(steps));
        let step = |&value: &f32| {
            let steps = (value / whole.to_f32()).round();
            let exact = (steps * whole.to_f32()).to_bits() == value.to_bits() || value == 0.0;
            (exact && steps.abs() <= 127.0).then_some(steps as i8)
        };
        let steps: Option<Vec<i8>> = values.iter().map(step).collect();
        Some((whole, steps?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_a_half_and_bytes_are_found_and_others_are_not() {
        let whole = f16::from_f32(0.003_77).to_f32();
        let values: Vec<f32> = [12, -7, 0, 63, 35]
            .map(|n: i16| whole * f32::from(n))
            .into();
        let (found, steps) = factor(&values).unwrap();
        for (value, step) in values.iter().zip(steps) {
            assert_eq!(
                (found.to_f32() * f32::from(step)).to_bits(),
                (value + 0.0).to_bits()
            );
        }
        assert!(factor(&[0.1, 0.123_456]).is_none());
        assert_eq!(factor(&[0.0; 3]).unwrap().1, [0; 3]);
    }
}
