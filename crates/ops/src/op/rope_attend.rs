use tensor::{View, ViewMut};

use crate::{Attend, Kernels, OpError, RaggedBatch, RopeStoreKv};

/// Rotates and stores new tokens, then attends: [`RopeStoreKv`] and [`Attend`] of its queries.
///
/// What the projections gave (queries and keys) may be left rotated or as it was; only the cache and the results count.
pub struct RopeAttend<'a> {
    /// The new tokens and where their keys and values go.
    pub rope: RopeStoreKv<'a>,
    /// Which tokens belong to whom.
    pub batch: RaggedBatch<'a>,
    /// As in [`Attend`].
    pub scale: f32,
    /// As in [`Attend`].
    pub window: Option<usize>,
    /// As in [`Attend`].
    pub soft_cap: Option<f32>,
    /// As in [`Attend`].
    pub sinks: Option<View<'a>>,
    /// Results.
    pub out: ViewMut<'a>,
}

impl RopeAttend<'_> {
    /// Checks shapes and types.
    pub fn check(&mut self) -> Result<(), OpError> {
        self.rope.check()?;
        self.attend().check()
    }

    /// What is left to do once queries are rotated and keys and values are stored.
    pub fn attend(&mut self) -> Attend<'_> {
        Attend {
            query: self.rope.query.view(),
            cache: self.rope.cache,
            batch: self.batch,
            heads: self.rope.heads,
            scale: self.scale,
            window: self.window,
            soft_cap: self.soft_cap,
            sinks: self.sinks,
            out: self.out.reborrow(),
        }
    }

    /// Runs the two ops that it stands for.
    pub fn compose<K: Kernels + ?Sized>(mut self, kernels: &K) -> Result<(), OpError> {
        let rope = &mut self.rope;
        kernels.rope_store_kv(RopeStoreKv {
            query: rope.query.reborrow(),
            key: rope.key.reborrow(),
            value: rope.value,
            heads: rope.heads,
            query_norm: rope.query_norm,
            key_norm: rope.key_norm,
            positions: rope.positions,
            table: rope.table,
            slots: rope.slots,
            cache: rope.cache,
        })?;
        kernels.attend(self.attend())
    }
}
