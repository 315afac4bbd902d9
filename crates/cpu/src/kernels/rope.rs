use half::f16;
use ops::{HeadNorm, OpError, Rope, RopeStoreKv};
use tensor::{DType, View};

use super::norm::inverse_root_mean_square;
use super::rows::RowsMut;
use super::store_kv::store_row;
use super::{CpuKernels, f32_only};
use crate::simd::{LANES, Simd, Vectorised};

pub(super) fn rope(kernels: &CpuKernels, op: Rope<'_>) -> Result<(), OpError> {
    f32_only("rope", &[("x", op.x.dtype())])?;
    let (rows, cols, level) = (op.x.rows(), op.x.cols(), kernels.level);
    let positions = op.positions.into_slice::<u32>();
    let rotation = Rotation::new(op.head_dim, op.norm, op.table);
    let x = RowsMut::<f32>::new(op.x);
    kernels.pool.split(rows, CpuKernels::grain(cols), |range| {
        for row in range {
            // SAFETY: every row belongs to one task.
            let x = unsafe { x.row(row) };
            level.run(rotation.row(x, positions[row]));
        }
    });
    Ok(())
}

pub(super) fn rope_store_kv(kernels: &CpuKernels, op: RopeStoreKv<'_>) -> Result<(), OpError> {
    let types = [
        ("query", op.query.dtype()),
        ("key", op.key.dtype()),
        ("value", op.value.dtype()),
    ];
    f32_only("rope_store_kv", &types)?;
    match op.cache.dtype() {
        DType::F16 => turn_and_store::<f16>(kernels, op),
        DType::F32 => turn_and_store::<f32>(kernels, op),
        found => {
            return Err(OpError::Type {
                op: "rope_store_kv",
                what: "cache",
                found,
            });
        }
    }
    Ok(())
}

fn turn_and_store<E: super::store_kv::Stored>(kernels: &CpuKernels, op: RopeStoreKv<'_>) {
    let (rows, dim, level) = (op.query.rows(), op.heads.dim, kernels.level);
    let width = op.heads.query_width() + 2 * op.heads.kv_width();
    let (positions, slots) = (
        op.positions.into_slice::<u32>(),
        op.slots.into_slice::<u32>(),
    );
    let turn_query = Rotation::new(dim, op.query_norm, op.table);
    let turn_key = Rotation::new(dim, op.key_norm, op.table);
    let (query, key) = (RowsMut::<f32>::new(op.query), RowsMut::<f32>::new(op.key));
    // SAFETY: slots of one step are distinct and belong to its tokens.
    let (keys, values) = unsafe { (op.cache.keys_mut(), op.cache.values_mut()) };
    let (keys, values) = (RowsMut::<E>::new(keys), RowsMut::<E>::new(values));
    kernels.pool.split(rows, CpuKernels::grain(width), |range| {
        for row in range {
            // SAFETY: every row belongs to one task, and every slot to one row.
            let (query, key) = unsafe { (query.row(row), key.row(row)) };
            // SAFETY: as above.
            let (keys, values) = unsafe {
                let slot = slots[row] as usize;
                (keys.row(slot), values.row(slot))
            };
            level.run(turn_query.row(query, positions[row]));
            level.run(turn_key.row(key, positions[row]));
            store_row(level, key, keys);
            store_row(level, op.value.row(row), values);
        }
    });
}

/// What all rows of a rotation share.
struct Rotation<'a> {
    dim: usize,
    norm: Option<(&'a [f32], f32)>,
    table: View<'a>,
}

impl<'a> Rotation<'a> {
    fn new(dim: usize, norm: Option<HeadNorm<'a>>, table: View<'a>) -> Self {
        let norm = norm.map(|norm| (norm.weight.into_slice::<f32>(), norm.eps));
        Self { dim, norm, table }
    }

    fn row<'r>(&'r self, x: &'r mut [f32], position: u32) -> TurnRow<'r> {
        let (cosines, sines) = self
            .table
            .row::<f32>(position as usize)
            .split_at(self.table.cols() / 2);
        TurnRow {
            x,
            dim: self.dim,
            norm: self.norm,
            cosines,
            sines,
        }
    }
}

/// All heads of a token.
struct TurnRow<'a> {
    x: &'a mut [f32],
    dim: usize,
    norm: Option<(&'a [f32], f32)>,
    cosines: &'a [f32],
    sines: &'a [f32],
}

impl Vectorised for TurnRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let half = self.cosines.len();
        for head in self.x.chunks_exact_mut(self.dim) {
            if let Some((weight, eps)) = self.norm {
                let factor = inverse_root_mean_square(s, head, eps);
                for (x, &weight) in head.iter_mut().zip(weight) {
                    *x = *x * factor * weight;
                }
            }
            let (first, rest) = head.split_at_mut(half);
            rotate(s, first, &mut rest[..half], self.cosines, self.sines);
        }
    }
}

/// Rotates the pairs (a, b).
#[inline(always)]
fn rotate<S: Simd>(s: S, a: &mut [f32], b: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let (a, a_tail) = a.as_chunks_mut::<LANES>();
    let (b, b_tail) = b.as_chunks_mut::<LANES>();
    let (cos, cos_tail) = cosines.as_chunks::<LANES>();
    let (sin, sin_tail) = sines.as_chunks::<LANES>();
    for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        let (x, y, cos, sin) = (s.load(a), s.load(b), s.load(cos), s.load(sin));
        s.store(s.sub(s.mul(x, cos), s.mul(y, sin)), a);
        s.store(s.mul_add(y, cos, s.mul(x, sin)), b);
    }
    for (((a, b), cos), sin) in a_tail.iter_mut().zip(b_tail).zip(cos_tail).zip(sin_tail) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
