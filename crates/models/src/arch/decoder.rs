use std::sync::Arc;

use ops::op::HeadNorm;
use ops::program::{
    Attention, CacheDecl, Change, Elements, Projected, Recorder, Val, VectorDecl, VectorId,
    VectorSource, WeightDecl, WeightId, WeightPart,
};
use ops::{Program, Recorded};
use tensor::DType;

use crate::{LayerSpec, ModelSpec, QueryKeyNorm, RopeSpec};

/// Writes down the step of the common decoder: attention and a gated layer, each after a norm, on one residual stream.
///
/// Sequences reach so many positions at most. Nothing is loaded.
pub(crate) fn record(spec: &ModelSpec, max_positions: usize) -> Program {
    let mut decoder = Decoder {
        recorder: Recorder::default(),
        spec,
    };
    let table = decoder.weight(
        &["model.embed_tokens".to_owned()],
        &[spec.vocabulary],
        spec.hidden,
    );
    let ropes = spec.ropes.iter();
    let angles: Vec<VectorId> = ropes
        .map(|rope| decoder.angles(rope, max_positions))
        .collect();
    let tokens = decoder.recorder.tokens();
    let mut residual = decoder.recorder.embed(tokens, table, spec.embedding_scale);
    let mut delta = None;
    for (index, layer) in spec.layers.iter().enumerate() {
        decoder.recorder.layer(Some(index));
        let angles = angles[layer.rope];
        (residual, delta) = decoder.layer(index, (layer, angles), (residual, delta));
    }
    decoder.recorder.layer(None);
    let norm = decoder.norm("model.norm", spec.hidden);
    let (_, hidden) = decoder.normalise((residual, delta), norm);
    let head = if spec.tied {
        table
    } else {
        decoder.weight(&["lm_head".to_owned()], &[spec.vocabulary], spec.hidden)
    };
    decoder.recorder.head(hidden, head);
    decoder.recorder.finish()
}

struct Decoder<'s> {
    recorder: Recorder,
    spec: &'s ModelSpec,
}

impl Decoder<'_> {
    /// One layer: from the residual, and what is still to be added to it, to the same after the layer.
    fn layer(
        &mut self,
        index: usize,
        layer: (&LayerSpec, VectorId),
        stream: (Val, Option<Val>),
    ) -> (Val, Option<Val>) {
        let spec = self.spec;
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let norm = self.norm(&name("input_layernorm"), spec.hidden);
        let (residual, normed) = self.normalise(stream, norm);
        let mixed = self.attention(index, layer, normed);
        let output = name("self_attn.o_proj");
        let mut delta = self.projection(&[output], &[spec.hidden], mixed, spec.biases.output);
        let mut before = "post_attention_layernorm";
        if spec.norms.around {
            delta = self.after(&name(before), delta);
            before = "pre_feedforward_layernorm";
        }
        let norm = self.norm(&name(before), spec.hidden);
        let (residual, normed) = self.normalise((residual, Some(delta)), norm);
        let gate_up = [name("mlp.gate_proj"), name("mlp.up_proj")];
        let wide = [spec.feed_forward; 2];
        let gate_up = self.projection(&gate_up, &wide, normed, spec.biases.mlp);
        let inner = self.recorder.gated_activation(gate_up, spec.activation);
        let down = [name("mlp.down_proj")];
        let mut delta = self.projection(&down, &[spec.hidden], inner, spec.biases.mlp);
        if spec.norms.around {
            delta = self.after(&name("post_feedforward_layernorm"), delta);
        }
        (residual, Some(delta))
    }

    fn attention(&mut self, index: usize, layer: (&LayerSpec, VectorId), normed: Val) -> Val {
        let (spec, heads) = (self.spec, self.spec.heads);
        let (&LayerSpec { window, .. }, table) = layer;
        let name = |part: &str| format!("model.layers.{index}.self_attn.{part}");
        let (query, kv) = (heads.query_width(), heads.kv_width());
        let projected = if spec.query_key_norm == QueryKeyNorm::Width {
            let bias = spec.biases.qkv;
            let [q, k, v] = [("q_proj", query), ("k_proj", kv), ("v_proj", kv)]
                .map(|(part, rows)| self.projection(&[name(part)], &[rows], normed, bias));
            let [q, k] = [("q_norm", q, query), ("k_norm", k, kv)].map(|(part, x, width)| {
                let norm = self.norm(&name(part), width);
                self.recorder.rms_norm(x, norm, spec.norm_eps)
            });
            Projected::Apart([q, k, v])
        } else {
            let qkv = ["q_proj", "k_proj", "v_proj"].map(name);
            Projected::Together(self.projection(&qkv, &[query, kv, kv], normed, spec.biases.qkv))
        };
        let norms = (spec.query_key_norm == QueryKeyNorm::Head).then(|| {
            ["q_norm", "k_norm"].map(|part| HeadNorm::<Recorded> {
                weight: self.norm(&name(part), heads.dim),
                eps: spec.norm_eps,
            })
        });
        let cache = self.recorder.cache(CacheDecl {
            layer: index,
            width: kv,
            window,
        });
        self.recorder.attend(
            projected,
            &Attention {
                heads,
                norms,
                table,
                cache,
                scale: spec.attention_scale,
                window,
                soft_cap: None,
                sinks: None,
            },
        )
    }

    /// A norm of what is still to be added to the residual.
    fn after(&mut self, module: &str, delta: Val) -> Val {
        let norm = self.norm(module, self.spec.hidden);
        self.recorder.rms_norm(delta, norm, self.spec.norm_eps)
    }

    /// Adds what is still to be added to the residual, and normalises the sum.
    fn normalise(&mut self, (residual, delta): (Val, Option<Val>), norm: VectorId) -> (Val, Val) {
        let eps = self.spec.norm_eps;
        match delta {
            Some(delta) => self.recorder.add_rms_norm((delta, residual), norm, eps),
            None => (residual, self.recorder.rms_norm(residual, norm, eps)),
        }
    }

    /// Matrices side by side on one input, and perhaps a bias.
    fn projection(&mut self, modules: &[String], rows: &[usize], x: Val, bias: bool) -> Val {
        let weight = self.weight(modules, rows, self.recorder.cols(x));
        let bias = bias.then(|| {
            let names = modules.iter().map(|module| format!("{module}.bias"));
            let stored = names.zip(rows.iter().copied()).collect();
            self.vector(stored, Change::AsStored, Elements::Activation)
        });
        self.recorder.linear(x, weight, bias)
    }

    fn weight(&mut self, modules: &[String], rows: &[usize], cols: usize) -> WeightId {
        let parts = modules.iter().zip(rows).map(|(module, &rows)| WeightPart {
            module: module.clone(),
            rows,
        });
        self.recorder.weight(WeightDecl {
            parts: parts.collect(),
            cols,
        })
    }

    fn norm(&mut self, module: &str, width: usize) -> VectorId {
        let stored = vec![(format!("{module}.weight"), width)];
        let change = if self.spec.norms.plus_one {
            Change::PlusOne
        } else {
            Change::AsStored
        };
        self.vector(stored, change, Elements::Fixed(DType::F32))
    }

    fn vector(
        &mut self,
        stored: Vec<(String, usize)>,
        change: Change,
        elements: Elements,
    ) -> VectorId {
        let cols = stored.iter().map(|(_, length)| length).sum();
        self.recorder.vector(VectorDecl {
            source: VectorSource::Stored(stored, change),
            rows: 1,
            cols,
            elements,
        })
    }

    /// Cosines and sines of every position.
    fn angles(&mut self, rope: &RopeSpec, positions: usize) -> VectorId {
        let rope = rope.clone();
        let cols = rope.dim;
        self.recorder.vector(VectorDecl {
            source: VectorSource::Computed(Arc::new(move || rope.table(positions))),
            rows: positions,
            cols,
            elements: Elements::Fixed(DType::F32),
        })
    }
}
