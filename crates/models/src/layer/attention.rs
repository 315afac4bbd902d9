use ops::{GatherRows, Heads, Inputs, OpError, RopeAttend, RopeStoreKv, Weight};
use tensor::{Scope, View, ViewMut};

use crate::layer::{Norm, Normed, Onward, Projection, Stream};
use crate::loader::Loader;
use crate::{LoadError, ModelSpec, Step};

/// Grouped-query attention with rotated positions.
pub(crate) struct Attention {
    layer: usize,
    heads: Heads,
    qkv: Projection,
    output: Projection,
    norms: Option<(Norm, Norm)>,
    scale: f32,
}

impl Attention {
    pub(crate) fn load(
        loader: &Loader<'_>,
        prefix: &str,
        layer: usize,
        spec: &ModelSpec,
    ) -> Result<Self, LoadError> {
        let name = |part: &str| format!("{prefix}.{part}_proj");
        let (query, kv) = (spec.heads.query_width(), spec.heads.kv_width());
        let norm = |part: &str| {
            loader.norm(
                &format!("{prefix}.{part}_norm"),
                spec.heads.dim,
                spec.norm_eps,
            )
        };
        let norms = if spec.head_norm {
            Some((norm("q")?, norm("k")?))
        } else {
            None
        };
        let qkv = [name("q"), name("k"), name("v")];
        Ok(Self {
            layer,
            heads: spec.heads,
            qkv: loader.projection(&qkv, (&[query, kv, kv], spec.hidden), spec.biases.qkv)?,
            output: loader.projection(&[name("o")], (&[spec.hidden], query), spec.biases.output)?,
            norms,
            scale: 1.0 / (spec.heads.dim as f32).sqrt(),
        })
    }

    pub(crate) fn forward(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        stream: &mut Stream<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        let scope = step.scratch.scope();
        let mixed = self.mix(step, rope, &stream.normed, &scope)?;
        self.output
            .forward_onward(step.kernels, (mixed, Inputs::Plain), stream, onward)
    }

    /// As `forward`, where only the tokens at these places go on, in a stream of their own.
    pub(crate) fn forward_wanted(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        (all, places): (&Normed<'_>, View<'_>),
        stream: &mut Stream<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        let scope = step.scratch.scope();
        let mixed = self.mix(step, rope, all, &scope)?;
        let mut wanted = scope.matrix(stream.tokens(), mixed.cols(), step.dtype);
        step.kernels.gather_rows(GatherRows {
            x: mixed,
            indices: places,
            out: wanted.reborrow(),
        })?;
        let wanted = (wanted.view(), Inputs::Plain);
        self.output
            .forward_onward(step.kernels, wanted, stream, onward)
    }

    /// Stores keys and values; nobody goes on.
    pub(crate) fn store(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        normed: &Normed<'_>,
    ) -> Result<(), OpError> {
        let scope = step.scratch.scope();
        let qkv = self.project(step, normed, &scope)?;
        step.kernels.rope_store_kv(self.rotation(step, rope, qkv))
    }

    /// Stores keys and values, and gives what each token's heads see.
    fn mix<'s>(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        normed: &Normed<'_>,
        scope: &'s Scope<'_>,
    ) -> Result<View<'s>, OpError> {
        let qkv = self.project(step, normed, scope)?;
        let mut mixed = scope.matrix(step.tokens(), self.heads.query_width(), step.dtype);
        step.kernels.rope_attend(RopeAttend {
            rope: self.rotation(step, rope, qkv),
            batch: step.batch,
            scale: self.scale,
            window: None,
            soft_cap: None,
            sinks: None,
            out: mixed.reborrow(),
        })?;
        Ok(mixed.into_view())
    }

    fn project<'s>(
        &self,
        step: &Step<'_>,
        normed: &Normed<'_>,
        scope: &'s Scope<'_>,
    ) -> Result<ViewMut<'s>, OpError> {
        let mut qkv = scope.matrix(step.tokens(), self.qkv.width(), step.dtype);
        self.qkv
            .forward(step.kernels, normed.view(), qkv.reborrow())?;
        Ok(qkv)
    }

    fn rotation<'a>(
        &'a self,
        step: &Step<'a>,
        rope: View<'a>,
        qkv: ViewMut<'a>,
    ) -> RopeStoreKv<'a> {
        let (query, kv) = qkv.split_columns(self.heads.query_width());
        let (key, value) = kv.split_columns(self.heads.kv_width());
        RopeStoreKv {
            query,
            key,
            value: value.into_view(),
            heads: self.heads,
            query_norm: self.norms.as_ref().map(|(query, _)| query.as_head_norm()),
            key_norm: self.norms.as_ref().map(|(_, key)| key.as_head_norm()),
            positions: step.positions,
            table: rope,
            slots: step.slots,
            cache: step.kv[self.layer],
        }
    }

    /// What reads normalised rows.
    pub(crate) fn readers(&self) -> &[Weight] {
        self.qkv.weights()
    }

    pub(crate) fn bytes(&self) -> usize {
        let norms = self
            .norms
            .as_ref()
            .map_or(0, |(query, key)| query.bytes() + key.bytes());
        self.qkv.bytes() + self.output.bytes() + norms
    }
}
