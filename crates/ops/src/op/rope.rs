use tensor::{Buffer, DType, View, ViewMut};

use super::norm::normalise;
use super::{dims, dims_mut, shape, typed};
use crate::handles::{Access, Field, op_fields};
use crate::program::{Binder, Val};
use crate::{Bound, Handles, Heads, Kernels, OpError, Recorded, StoreKv};

/// A normalisation of every head by itself, before it is rotated.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm<H: Handles> {
    /// `[1, head dim]`.
    pub weight: H::Vector,
    /// Keeps the root away from zero.
    pub eps: f32,
}

op_fields!(HeadNorm { weight, eps });

impl<'a> HeadNorm<Bound<'a>> {
    /// The same for a shorter time.
    pub fn shorter<'b>(self) -> HeadNorm<Bound<'b>>
    where
        'a: 'b,
    {
        HeadNorm {
            weight: self.weight,
            eps: self.eps,
        }
    }
}

impl Field for HeadNorm<Recorded> {
    type Bound<'a> = HeadNorm<Bound<'a>>;

    fn bind<'a>(self, binder: &Binder<'a>) -> Self::Bound<'a> {
        Self::bind(&self, binder)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        Self::visit(&self, visit);
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        Self::rename(&self, to)
    }
}

/// Normalises each head if asked, then rotates the pairs (i, i + d/2) of its first d elements by the token's position.
///
/// x: `[tokens, heads × head dim]`, in place; positions: `[1, tokens]` u32; table: `[positions, d]` f32, the first d/2
/// columns cosines, the rest sines.
pub struct Rope<'a> {
    /// Queries or keys.
    pub x: ViewMut<'a>,
    /// Elements in a head.
    pub head_dim: usize,
    /// Normalisation before the rotation.
    pub norm: Option<HeadNorm<Bound<'a>>>,
    /// Where each token stands.
    pub positions: View<'a>,
    /// Cosines and sines.
    pub table: View<'a>,
}

impl Rope<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "rope";
        shape(op, "positions", dims(&self.positions), (1, self.x.rows()))?;
        typed(op, "table", self.table.dtype(), DType::F32)?;
        let heads = self.x.cols() / self.head_dim;
        shape(
            op,
            "x",
            dims_mut(&self.x),
            (self.x.rows(), heads * self.head_dim),
        )?;
        let rotated = self.table.cols().min(self.head_dim);
        shape(op, "table", dims(&self.table), (self.table.rows(), rotated))?;
        match &self.norm {
            Some(norm) => shape(op, "norm", dims(&norm.weight), (1, self.head_dim)),
            None => Ok(()),
        }
    }

    /// The meaning.
    pub fn reference(mut self) {
        let half = self.table.cols() / 2;
        for row in 0..self.x.rows() {
            let angles = self
                .table
                .row::<f32>(self.positions.row::<u32>(0)[row] as usize);
            for head in (0..self.x.cols()).step_by(self.head_dim) {
                let mut values: Vec<f32> = (0..self.head_dim)
                    .map(|i| self.x.value(row, head + i))
                    .collect();
                if let Some(norm) = &self.norm {
                    let before = values.clone();
                    normalise(&before, norm.weight, norm.eps, |i, value| values[i] = value);
                }
                for i in 0..half {
                    let (cos, sin) = (angles[i], angles[half + i]);
                    let (a, b) = (values[i], values[half + i]);
                    values[i] = a * cos - b * sin;
                    values[half + i] = b * cos + a * sin;
                }
                for (i, &value) in values.iter().enumerate() {
                    self.x.set(row, head + i, value);
                }
            }
        }
    }
}

/// Rotates queries and keys, then stores keys and values: [`Rope`] twice and [`StoreKv`], with keys that are rounded once,
/// to the cache's type.
#[derive(Clone, Copy, Debug)]
pub struct RopeStoreKv<H: Handles> {
    /// `[tokens, query heads × head dim]`, rotated in place.
    pub query: H::InOut,
    /// `[tokens, kv heads × head dim]`, rotated in place.
    pub key: H::InOut,
    /// `[tokens, kv heads × head dim]`.
    pub value: H::In,
    /// Shape of the heads.
    pub heads: Heads,
    /// Normalisation of query heads.
    pub query_norm: Option<HeadNorm<H>>,
    /// Normalisation of key heads.
    pub key_norm: Option<HeadNorm<H>>,
    /// `[1, tokens]` u32.
    pub positions: H::In,
    /// Cosines and sines, as in [`Rope`].
    pub table: H::Vector,
    /// `[1, tokens]` u32: where each token's key and value go.
    pub slots: H::In,
    /// Where they are kept.
    pub cache: H::Cache,
}

op_fields!(RopeStoreKv {
    query,
    key,
    value,
    heads,
    query_norm,
    key_norm,
    positions,
    table,
    slots,
    cache
});

impl RopeStoreKv<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let (op, tokens) = ("rope_store_kv", self.query.rows());
        shape(
            op,
            "query",
            dims_mut(&self.query),
            (tokens, self.heads.query_width()),
        )?;
        shape(
            op,
            "key",
            dims_mut(&self.key),
            (tokens, self.heads.kv_width()),
        )?;
        shape(
            op,
            "value",
            dims(&self.value),
            (tokens, self.heads.kv_width()),
        )?;
        shape(op, "positions", dims(&self.positions), (1, tokens))?;
        shape(op, "slots", dims(&self.slots), (1, tokens))
    }

    /// The meaning.
    pub fn reference(mut self) {
        let (rows, cols, head_dim) = (self.key.rows(), self.key.cols(), self.heads.dim);
        let (positions, table) = (self.positions, self.table);
        Rope {
            x: self.query.reborrow(),
            head_dim,
            norm: self.query_norm.map(HeadNorm::shorter),
            positions,
            table,
        }
        .reference();
        let mut wide = Buffer::host(rows * cols * DType::F32.size());
        let mut key = wide.view_mut(0, rows, cols, DType::F32);
        copy_values(self.key.view(), &mut key);
        Rope {
            x: key.reborrow(),
            head_dim,
            norm: self.key_norm.map(HeadNorm::shorter),
            positions,
            table,
        }
        .reference();
        copy_values(key.view(), &mut self.key);
        StoreKv {
            key: key.into_view(),
            value: self.value,
            slots: self.slots,
            cache: self.cache,
        }
        .reference();
    }

    /// Runs the three ops that it stands for. Where activations are narrow, keys are rounded to their type on the way.
    pub fn compose<K: Kernels + ?Sized>(mut self, kernels: &K) -> Result<(), OpError> {
        let head_dim = self.heads.dim;
        let (positions, table) = (self.positions, self.table);
        kernels.rope(Rope {
            x: self.query.reborrow(),
            head_dim,
            norm: self.query_norm.map(HeadNorm::shorter),
            positions,
            table,
        })?;
        kernels.rope(Rope {
            x: self.key.reborrow(),
            head_dim,
            norm: self.key_norm.map(HeadNorm::shorter),
            positions,
            table,
        })?;
        kernels.store_kv(StoreKv {
            key: self.key.view(),
            value: self.value,
            slots: self.slots,
            cache: self.cache,
        })
    }
}

/// Numbers of one type as another.
fn copy_values(from: View<'_>, to: &mut ViewMut<'_>) {
    for row in 0..from.rows() {
        for col in 0..from.cols() {
            to.set(row, col, from.value(row, col));
        }
    }
}
