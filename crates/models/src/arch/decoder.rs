use std::time::Duration;

use checkpoint::WeightSource;
use ops::{Device, Draw, Inputs, Kernels, Linear, LinearLargest, OpError, Sample, Weight};
use tensor::{Buffer, DType, Scratch, View, ViewMut};

use crate::layer::{Attention, Embedding, GatedMlp, Norm, NormedView, Onward, Projection, Stream};
use crate::loader::{Loader, SetUp};
use crate::{LoadError, LoadOptions, Model, ModelSpec, Progress, Step, WantedTokens};

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
    set_up: SetUp,
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

    fn forward(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        stream: &mut Stream<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        self.attention.forward(step, rope, stream, self.inward())?;
        self.mlp.forward(step, stream, onward)
    }

    /// As the last layer: all tokens leave keys and values, and only the wanted ones go on, to become `hidden`.
    fn forward_wanted(
        &self,
        step: &Step<'_>,
        rope: View<'_>,
        (all, places): (&Stream<'_>, View<'_>),
        hidden: ViewMut<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        if places.cols() == 0 {
            return self.attention.store(step, rope, &all.normed);
        }
        let scope = step.scratch.scope();
        let mut wanted = Stream::new(hidden, &scope);
        wanted.branch_off(step.kernels, all, places)?;
        let from = (&all.normed, places);
        self.attention
            .forward_wanted(step, rope, from, &mut wanted, self.inward())?;
        self.mlp.forward(step, &mut wanted, onward)
    }

    /// What comes between attention and the gated layer.
    fn inward(&self) -> Onward<'_> {
        Onward {
            norm: &self.mlp_norm,
            readers: self.mlp.readers(),
        }
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
        let loader = Loader::new(
            source,
            device,
            &spec.quantisation,
            options.fold,
            &mut progress,
        )?;
        let embedding = loader.embedding("model.embed_tokens", spec.vocabulary, spec.hidden)?;
        let layers = (0..spec.layers)
            .map(|layer| Layer::load(&loader, layer, &spec))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = loader.norm("model.norm", spec.hidden, spec.norm_eps)?;
        let head = if spec.tied {
            loader.fold(embedding.weights())?;
            None
        } else {
            let shape = (&[spec.vocabulary][..], spec.hidden);
            Some(loader.projection(&["lm_head".into()], shape, false)?)
        };
        // Some tied checkpoints carry the head all the same.
        let head_too: &[&str] = if spec.tied { &["lm_head.weight"] } else { &[] };
        let set_up = loader.finish(&[&DERIVED, head_too].concat())?;
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
            set_up,
        })
    }

    /// What comes behind so many layers; behind the last, `readers` multiply what it leaves.
    fn after<'a>(&'a self, layers: usize, readers: &'a [Weight]) -> Onward<'a> {
        match self.layers.get(layers) {
            Some(next) => Onward {
                norm: &next.attention_norm,
                readers: next.attention.readers(),
            },
            None => Onward {
                norm: &self.norm,
                readers,
            },
        }
    }

    /// Runs the first layers for every token.
    fn run(
        &self,
        step: &Step<'_>,
        stream: &mut Stream<'_>,
        first_layers: &[Layer],
        readers: &[Weight],
    ) -> Result<(), OpError> {
        let kernels = step.kernels;
        self.embedding
            .forward(kernels, step.ids, stream.residual.reborrow())?;
        let (residual, normed) = (stream.residual.view(), &mut stream.normed.values);
        let first = self.after(0, readers).norm;
        first.forward(kernels, residual, normed.reborrow())?;
        for (index, layer) in first_layers.iter().enumerate() {
            layer.forward(step, self.rope(), stream, self.after(index + 1, readers))?;
        }
        Ok(())
    }

    /// Runs the layers for every wanted token and hands on what the output head reads, as the head alone takes it.
    fn run_to_head(
        &self,
        step: &Step<'_>,
        mut hidden: ViewMut<'_>,
        head: impl FnOnce(NormedView<'_>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let WantedTokens::All = step.wanted else {
            self.forward(step, hidden.reborrow())?;
            return head(plain(hidden.view()));
        };
        let scope = step.scratch.scope();
        let mut stream = Stream::new(hidden, &scope);
        self.run(step, &mut stream, &self.layers, self.head_weights())?;
        head(stream.normed.view())
    }

    fn head_weights(&self) -> &[Weight] {
        match &self.head {
            Some(head) => head.weights(),
            None => self.embedding.weights(),
        }
    }

    fn score(
        &self,
        kernels: &dyn Kernels,
        x: NormedView<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError> {
        match &self.head {
            Some(head) => head.forward(kernels, x, logits),
            None => self.embedding.score(kernels, x, logits),
        }
    }

    fn rope(&self) -> View<'_> {
        self.rope
            .view(0, self.positions, self.spec.rope.dim, DType::F32)
    }
}

/// Rows that lack nothing.
fn plain(rows: View<'_>) -> NormedView<'_> {
    NormedView {
        values: rows,
        inputs: Inputs::Plain,
    }
}

impl Model for Decoder {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn forward(&self, step: &Step<'_>, hidden: ViewMut<'_>) -> Result<(), OpError> {
        let scope = step.scratch.scope();
        let WantedTokens::At(places) = step.wanted else {
            return self.run(step, &mut Stream::new(hidden, &scope), &self.layers, &[]);
        };
        let (last, earlier) = self.layers.split_last().expect("a decoder has layers");
        let normed = scope.matrix(step.tokens(), self.spec.hidden, step.dtype);
        let mut all = Stream::new(normed, &scope);
        self.run(step, &mut all, earlier, &[])?;
        let onward = self.after(self.layers.len(), &[]);
        last.forward_wanted(step, self.rope(), (&all, places), hidden, onward)
    }

    fn head(
        &self,
        kernels: &dyn Kernels,
        _scratch: &Scratch,
        rows: View<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError> {
        self.score(kernels, plain(rows), logits)
    }

    fn forward_to_logits(
        &self,
        step: &Step<'_>,
        hidden: ViewMut<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError> {
        self.run_to_head(step, hidden, |x| self.score(step.kernels, x, logits))
    }

    fn forward_to_tokens(
        &self,
        step: &Step<'_>,
        hidden: ViewMut<'_>,
        mut logits: ViewMut<'_>,
        draw: Draw<'_>,
    ) -> Result<(), OpError> {
        let kernels = step.kernels;
        self.run_to_head(step, hidden, |x| {
            let [weight] = self.head_weights() else {
                self.score(kernels, x, logits.reborrow())?;
                return kernels.sample(Sample {
                    logits: logits.view(),
                    draw,
                });
            };
            kernels.linear_largest(LinearLargest {
                product: Linear {
                    x: x.values,
                    weight,
                    bias: None,
                    out: logits,
                },
                inputs: x.inputs,
                draw,
            })
        })
    }

    fn weight_bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        let head = self.head.as_ref().map_or(0, Projection::bytes);
        self.embedding.bytes() + layers + self.norm.bytes() + head + self.rope.bytes()
    }

    fn folded_bytes(&self) -> usize {
        self.set_up.folded
    }

    fn set_up_time(&self) -> Duration {
        self.set_up.time
    }
}
