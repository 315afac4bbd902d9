use checkpoint::WeightSource;
use ops::{Device, Kernels, OpError, Weight};
use tensor::{Buffer, DType, Scratch, View, ViewMut};

use crate::layer::{Attention, Embedding, GatedMlp, Norm, Normed, NormedView, Onward, Projection};
use crate::loader::Loader;
use crate::{LoadError, LoadOptions, Model, ModelSpec, Progress, Step};

/// Tensors that checkpoints carry and we compute ourselves, or do without: activations are scaled as they come.
const DERIVED: [&str; 5] = [
    "rotary_emb.inv_freq",
    "rope_freqs.weight",
    ".input_scale",
    ".k_scale",
    ".v_scale",
];

/// The common decoder: attention and a gated layer, each behind a norm, on one residual stream.
pub(crate) struct Decoder {
    spec: ModelSpec,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: Norm,
    /// The output head; absent when it is the embedding table.
    head: Option<Projection>,
    rope: Buffer,
    positions: usize,
}

struct Layer {
    attention_norm: Norm,
    attention: Attention,
    mlp_norm: Norm,
    mlp: GatedMlp,
}

impl Layer {
    fn load(loader: &Loader<'_>, layer: usize, spec: &ModelSpec) -> Result<Self, LoadError> {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let norm = |part: &str| loader.norm(&name(part), spec.hidden, spec.norm_eps);
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            attention: Attention::load(loader, &name("self_attn"), layer, spec)?,
            mlp_norm: norm("post_attention_layernorm")?,
            mlp: GatedMlp::load(loader, &name("mlp"), spec)?,
        })
    }

    fn bytes(&self) -> usize {
        self.attention_norm.bytes()
            + self.attention.bytes()
            + self.mlp_norm.bytes()
            + self.mlp.bytes()
    }
}

impl Decoder {
    pub(crate) fn load(
        spec: ModelSpec,
        source: &dyn WeightSource,
        device: &dyn Device,
        options: LoadOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Self, LoadError> {
        let mut progress = |done, total| progress(done, total);
        let loader = Loader::new(source, device, &spec.quantisation, &mut progress)?;
        let embedding = loader.embedding("model.embed_tokens", spec.vocabulary, spec.hidden)?;
        let layers = (0..spec.layers)
            .map(|layer| Layer::load(&loader, layer, &spec))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = loader.norm("model.norm", spec.hidden, spec.norm_eps)?;
        let head = if spec.tied {
            None
        } else {
            let shape = (&[spec.vocabulary][..], spec.hidden);
            Some(loader.projection(&["lm_head".into()], shape, false)?)
        };
        // Some tied checkpoints carry the head all the same.
        let head_too: &[&str] = if spec.tied { &["lm_head.weight"] } else { &[] };
        loader.finish(&[&DERIVED, head_too].concat())?;
        let angles = spec.rope.table(options.max_positions);
        let rope = device.load_values(&angles, DType::F32)?;
        Ok(Self {
            spec,
            embedding,
            layers,
            norm,
            head,
            rope,
            positions: options.max_positions,
        })
    }

    /// The norm behind so many layers, and what multiplies its results.
    fn after(&self, layers: usize) -> (&Norm, &[Weight]) {
        match self.layers.get(layers) {
            Some(next) => (&next.attention_norm, next.attention.readers()),
            None => (&self.norm, &[]),
        }
    }

    fn rope(&self) -> View<'_> {
        self.rope
            .view(0, self.positions, self.spec.rope.dim, DType::F32)
    }
}

impl Model for Decoder {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn forward(&self, step: &Step<'_>, hidden: ViewMut<'_>) -> Result<(), OpError> {
        let kernels = step.kernels;
        let scope = step.scratch.scope();
        let mut residual = scope.matrix(step.tokens(), self.spec.hidden, step.dtype);
        let mut delta = scope.matrix(step.tokens(), self.spec.hidden, step.dtype);
        let mut normed = Normed::new(hidden, &scope, step);
        self.embedding
            .forward(kernels, step.ids, residual.reborrow())?;
        let (first, _) = self.after(0);
        first.forward(kernels, residual.view(), normed.values.reborrow())?;
        for (index, layer) in self.layers.iter().enumerate() {
            let onward = Onward {
                residual: residual.reborrow(),
                delta: delta.reborrow(),
                norm: &layer.mlp_norm,
                readers: layer.mlp.readers(),
            };
            layer
                .attention
                .forward(step, self.rope(), &mut normed, onward)?;
            let (norm, readers) = self.after(index + 1);
            let onward = Onward {
                residual: residual.reborrow(),
                delta: delta.reborrow(),
                norm,
                readers,
            };
            layer.mlp.forward(step, &mut normed, onward)?;
        }
        Ok(())
    }

    fn head(
        &self,
        kernels: &dyn Kernels,
        _scratch: &Scratch,
        rows: View<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError> {
        match &self.head {
            Some(head) => {
                let x = NormedView {
                    values: rows,
                    late: None,
                };
                head.forward(kernels, x, logits)
            }
            None => self.embedding.score(kernels, rows, logits),
        }
    }

    fn weight_bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        let head = self.head.as_ref().map_or(0, Projection::bytes);
        self.embedding.bytes() + layers + self.norm.bytes() + head + self.rope.bytes()
    }
}
