use half::f16;
use ops::{KvCache, OpError, StoreKv};
use tensor::{DType, Element, View};

use super::rows::RowsMut;
use super::{CpuKernels, f32_only};
use crate::simd::{LANES, Level, Simd, Vectorised};

pub(super) fn store_kv(kernels: &CpuKernels, op: &StoreKv<'_>) -> Result<(), OpError> {
    let &StoreKv {
        key,
        value,
        slots,
        cache,
    } = op;
    f32_only(
        "store_kv",
        &[("key", key.dtype()), ("value", value.dtype())],
    )?;
    match cache.dtype() {
        DType::F16 => store::<f16>(kernels, (key, value), slots, cache),
        DType::F32 => store::<f32>(kernels, (key, value), slots, cache),
        found => {
            let (op, what) = ("store_kv", "cache");
            return Err(OpError::Type { op, what, found });
        }
    }
    Ok(())
}

fn store<E: Stored>(
    kernels: &CpuKernels,
    (key, value): (View<'_>, View<'_>),
    slots: View<'_>,
    cache: KvCache<'_>,
) {
    let (slots, level) = (slots.into_slice::<u32>(), kernels.level);
    // SAFETY: slots of one step are distinct and belong to its tokens.
    let (keys, values) = unsafe { (cache.keys_mut(), cache.values_mut()) };
    let (keys, values) = (RowsMut::<E>::new(keys), RowsMut::<E>::new(values));
    let grain = CpuKernels::grain(2 * key.cols());
    kernels.pool.split(slots.len(), grain, |range| {
        for row in range {
            let slot = slots[row] as usize;
            // SAFETY: every slot belongs to one row, every row to one task.
            let (keys, values) = unsafe { (keys.row(slot), values.row(slot)) };
            store_row(level, key.row(row), keys);
            store_row(level, value.row(row), values);
        }
    });
}

/// A type that keys and values are kept in.
pub(super) trait Stored: Element {
    /// Rounds sixteen floats.
    fn put<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]);
    /// Widens sixteen numbers.
    fn get<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
    /// Zero.
    const ZERO: Self;
}

impl Stored for f32 {
    #[inline(always)]
    fn put<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]) {
        s.store(value, to);
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load(from)
    }
    const ZERO: Self = 0.0;
}

impl Stored for f16 {
    #[inline(always)]
    fn put<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]) {
        s.store_f16(value, to);
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_f16(from)
    }
    const ZERO: Self = f16::ZERO;
}

/// Rounds a row into the cache.
pub(super) fn store_row<E: Stored>(level: Level, from: &[f32], to: &mut [E]) {
    level.run(StoreRow { from, to });
}

struct StoreRow<'a, E> {
    from: &'a [f32],
    to: &'a mut [E],
}

impl<E: Stored> Vectorised for StoreRow<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (from, from_tail) = self.from.as_chunks::<LANES>();
        let (to, to_tail) = self.to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            E::put(s, s.load(from), to);
        }
        let mut tail = [E::ZERO; LANES];
        E::put(s, s.load_tail(from_tail), &mut tail);
        to_tail.copy_from_slice(&tail[..to_tail.len()]);
    }
}
