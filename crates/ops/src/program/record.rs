use std::ops::Range;

use tensor::DType;

use super::{
    Axis, CacheDecl, CacheId, Elements, InPlace, Input, Node, Op, Operand, Output, Program, Shape,
    Val, ValueDecl, VectorDecl, VectorId, WeightDecl, WeightId,
};
use crate::handles::{DrawnTokens, StepBatch};
use crate::op::{
    AddRmsNorm, Attend, Embed, GatedActivation, GatherRows, HeadNorm, Linear, ResolveTokens,
    RmsNorm, RopeStoreKv, Sample,
};
use crate::{Activation, Heads, Recorded};

/// Writes down a program, op by op; each gives the value that it leaves.
#[derive(Debug, Default)]
pub struct Recorder {
    program: Program,
    layer: Option<u16>,
}

/// An attention layer, but for the rows that it works on.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Shape of the heads.
    pub heads: Heads,
    /// Normalisation of query heads, and of key heads.
    pub norms: Option<[HeadNorm<Recorded>; 2]>,
    /// Cosines and sines.
    pub table: VectorId,
    /// Keys and values.
    pub cache: CacheId,
    /// Factor of the scores.
    pub scale: f32,
    /// How many positions a token sees; all when absent.
    pub window: Option<usize>,
    /// Bound of the scores.
    pub soft_cap: Option<f32>,
    /// A logit a head that takes weight and gives nothing.
    pub sinks: Option<VectorId>,
}

/// Queries, keys and values of every token.
#[derive(Clone, Copy, Debug)]
pub enum Projected {
    /// Side by side in one value.
    Together(Val),
    /// A value each.
    Apart([Val; 3]),
}

impl Recorder {
    /// Ops from now on belong to this layer, or to none.
    pub fn layer(&mut self, layer: Option<usize>) {
        self.layer = layer.map(|layer| layer as u16);
    }

    /// Declares a matrix of weights.
    pub fn weight(&mut self, decl: WeightDecl) -> WeightId {
        self.program.weights.push(decl);
        WeightId(self.program.weights.len() as u32 - 1)
    }

    /// Declares a vector or a table.
    pub fn vector(&mut self, decl: VectorDecl) -> VectorId {
        self.program.vectors.push(decl);
        VectorId(self.program.vectors.len() as u32 - 1)
    }

    /// Declares keys and values of a layer.
    pub fn cache(&mut self, decl: CacheDecl) -> CacheId {
        self.program.caches.push(decl);
        CacheId(self.program.caches.len() as u32 - 1)
    }

    /// Columns of a value that has some.
    pub fn cols(&self, value: Val) -> usize {
        let cols = self.program.value(value).shape.cols;
        cols.expect("a matrix has columns")
    }

    /// What the executor gives.
    pub fn input(&mut self, input: Input) -> Val {
        let mut values = self.program.values.iter();
        if let Some(place) = values.position(|value| value.input == Some(input)) {
            return Val(place as u32);
        }
        let axis = match input {
            Input::StagedTokens | Input::Positions | Input::Slots => Axis::Tokens,
            Input::LastTokens => Axis::TableRows,
            Input::SampledPlaces | Input::HiddenRows => Axis::Sampled,
        };
        self.declare(axis, None, Elements::Fixed(DType::U32), Some(input))
    }

    /// Tokens of the step.
    pub fn tokens(&mut self) -> Val {
        let (staged, last) = (
            self.input(Input::StagedTokens),
            self.input(Input::LastTokens),
        );
        let out = self.declare(Axis::Tokens, None, Elements::Fixed(DType::U32), None);
        self.push(Op::ResolveTokens(ResolveTokens {
            staged: staged.into(),
            last: last.into(),
            out,
        }));
        out
    }

    /// Rows of a table, times a factor.
    pub fn embed(&mut self, ids: Val, table: WeightId, scale: f32) -> Val {
        let cols = self.program.weights[table.index()].cols;
        let out = self.activations(Axis::Tokens, cols);
        self.push(Op::Embed(Embed {
            ids: ids.into(),
            table,
            scale,
            out,
        }));
        out
    }

    /// Normalised rows.
    pub fn rms_norm(&mut self, x: Val, weight: VectorId, eps: f32) -> Val {
        let out = self.alike(x);
        self.push(Op::RmsNorm(RmsNorm {
            x: x.into(),
            weight,
            eps,
            out,
        }));
        out
    }

    /// The residual with `x` added, and the same normalised.
    pub fn add_rms_norm(
        &mut self,
        (x, residual): (Val, Val),
        weight: VectorId,
        eps: f32,
    ) -> (Val, Val) {
        let (sum, out) = (self.alike(residual), self.alike(residual));
        self.push(Op::AddRmsNorm(AddRmsNorm {
            x: x.into(),
            residual: InPlace {
                from: residual,
                to: sum,
                first: 0,
                cols: None,
            },
            weight,
            eps,
            out,
        }));
        (sum, out)
    }

    /// Products with a matrix, and perhaps a bias.
    pub fn linear(&mut self, x: Val, weight: WeightId, bias: Option<VectorId>) -> Val {
        self.multiply(x, weight, bias, Elements::Activation)
    }

    fn multiply(
        &mut self,
        x: Val,
        weight: WeightId,
        bias: Option<VectorId>,
        elements: Elements,
    ) -> Val {
        let axis = self.program.value(x).shape.axis;
        let rows = self.program.weights[weight.index()].rows();
        let out = self.declare(axis, Some(rows), elements, None);
        self.push(Op::Linear(Linear {
            x: x.into(),
            weight,
            bias,
            out,
        }));
        out
    }

    /// What the heads of every token see.
    pub fn attend(&mut self, projected: Projected, layer: &Attention) -> Val {
        let heads = layer.heads;
        let (query, kv) = (heads.query_width(), heads.kv_width());
        let (positions, slots) = (self.input(Input::Positions), self.input(Input::Slots));
        let [q, k, v] = match projected {
            Projected::Together(qkv) => {
                let rotated = self.alike(qkv);
                let value = query + kv..query + 2 * kv;
                [
                    (qkv, rotated, 0..query),
                    (qkv, rotated, query..query + kv),
                    (qkv, rotated, value),
                ]
            }
            Projected::Apart([q, k, v]) => [
                (q, self.alike(q), 0..query),
                (k, self.alike(k), 0..kv),
                (v, v, 0..kv),
            ],
        };
        let rotated = |(from, to, columns): (Val, Val, Range<usize>)| InPlace {
            from,
            to,
            first: columns.start,
            cols: Some(columns.len()),
        };
        let query = Operand::columns(q.1, q.2.clone());
        self.push(Op::RopeStoreKv(RopeStoreKv {
            query: rotated(q),
            key: rotated(k),
            value: Operand::columns(v.0, v.2),
            heads,
            query_norm: layer.norms.map(|[query, _]| query),
            key_norm: layer.norms.map(|[_, key]| key),
            positions: positions.into(),
            table: layer.table,
            slots: slots.into(),
            cache: layer.cache,
        }));
        let out = self.activations(Axis::Tokens, heads.query_width());
        self.push(Op::Attend(Attend {
            query,
            cache: layer.cache,
            batch: StepBatch,
            heads,
            scale: layer.scale,
            window: layer.window,
            soft_cap: layer.soft_cap,
            sinks: layer.sinks,
            out,
        }));
        out
    }

    /// The curve of gates times what they gate; both lie side by side.
    pub fn gated_activation(&mut self, gate_up: Val, activation: Activation) -> Val {
        let (axis, width) = (
            self.program.value(gate_up).shape.axis,
            self.cols(gate_up) / 2,
        );
        let out = self.activations(axis, width);
        self.push(Op::GatedActivation(GatedActivation {
            gate_up: gate_up.into(),
            activation,
            out,
        }));
        out
    }

    /// The end of a decoder: hidden rows, logits of those that are sampled after, and the largest of each.
    pub fn head(&mut self, hidden: Val, weight: WeightId) {
        let places = self.input(Input::SampledPlaces);
        let cols = self.program.value(hidden).shape.cols;
        let rows = self.declare(Axis::Sampled, cols, Elements::Activation, None);
        self.push(Op::GatherRows(GatherRows {
            x: hidden.into(),
            indices: places.into(),
            out: rows,
        }));
        self.output(Output::Hidden, hidden);
        self.argmax(rows, weight);
    }

    /// The token with the largest score of every row; without a model around it.
    pub fn argmax(&mut self, x: Val, weight: WeightId) {
        let logits = self.multiply(x, weight, None, Elements::Fixed(DType::F32));
        let axis = self.program.value(x).shape.axis;
        let tokens = self.declare(axis, None, Elements::Fixed(DType::U32), None);
        self.push(Op::Sample(Sample {
            logits: logits.into(),
            draw: DrawnTokens(tokens),
        }));
        self.output(Output::Logits, logits);
        self.output(Output::Tokens, tokens);
    }

    /// Something that a step leaves.
    pub fn output(&mut self, output: Output, value: Val) {
        self.program.outputs.push((output, value));
    }

    /// The program.
    pub fn finish(self) -> Program {
        self.program
    }

    fn push(&mut self, op: Op) {
        let layer = self.layer;
        self.program.nodes.push(Node { op, layer });
    }

    fn activations(&mut self, axis: Axis, cols: usize) -> Val {
        self.declare(axis, Some(cols), Elements::Activation, None)
    }

    fn alike(&mut self, value: Val) -> Val {
        let decl = *self.program.value(value);
        self.declare(decl.shape.axis, decl.shape.cols, decl.elements, None)
    }

    fn declare(
        &mut self,
        axis: Axis,
        cols: Option<usize>,
        elements: Elements,
        input: Option<Input>,
    ) -> Val {
        self.program.values.push(ValueDecl {
            shape: Shape { axis, cols },
            elements,
            input,
        });
        Val(self.program.values.len() as u32 - 1)
    }
}
