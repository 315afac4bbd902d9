use tensor::DType;

use super::{dims, dims_mut, float, shape, typed};
use crate::handles::op_fields;
use crate::{Bound, Handles, Heads, OpError};

/// Softmax attention of every new token over its own sequence, up to and including itself.
///
/// query, out: `[tokens, query heads × head dim]`. The token at place j of the n new ones of a sequence of length l
/// stands at position l − n + j and sees positions max(0, position − window + 1) ..= position. Scores are
/// scale · q·k, then soft_cap · tanh(score / soft_cap) when given; a sink adds exp(sink − max) to the denominator.
/// The result for a token depends on its own sequence alone. On a CPU the order of summation is one: the same bits in any batch and for
/// any chunking of the prompt. On a GPU that holds for decoding tokens in any batch, but not in chains nor for chunks of prompts.
#[derive(Clone, Copy, Debug)]
pub struct Attend<H: Handles> {
    /// Rotated queries.
    pub query: H::In,
    /// Keys and values, those of this step included.
    pub cache: H::Cache,
    /// Which tokens belong to whom.
    pub batch: H::Batch,
    /// Shape of the heads.
    pub heads: Heads,
    /// Factor of the scores.
    pub scale: f32,
    /// How many positions a token sees, itself included; all when absent.
    pub window: Option<usize>,
    /// Bound of the scores.
    pub soft_cap: Option<f32>,
    /// `[1, query heads]` f32: a logit a head that takes weight and gives nothing.
    pub sinks: Option<H::Vector>,
    /// Results.
    pub out: H::Out,
}

op_fields!(Attend {
    query,
    cache,
    batch,
    heads,
    scale,
    window,
    soft_cap,
    sinks,
    out
});

impl Attend<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "attend";
        float(op, "query", self.query.dtype())?;
        shape(
            op,
            "query",
            dims(&self.query),
            (self.query.rows(), self.heads.query_width()),
        )?;
        shape(op, "out", dims_mut(&self.out), dims(&self.query))?;
        shape(
            op,
            "keys",
            dims(&self.cache.keys()),
            (self.cache.slots(), self.heads.kv_width()),
        )?;
        shape(
            op,
            "starts",
            dims(&self.batch.starts),
            (1, self.batch.rows() + 1),
        )?;
        shape(
            op,
            "table_rows",
            dims(&self.batch.table_rows),
            (1, self.batch.rows()),
        )?;
        typed(op, "page_table", self.batch.page_table.dtype(), DType::U32)?;
        match &self.sinks {
            Some(sinks) => shape(op, "sinks", dims(sinks), (1, self.heads.query)),
            None => Ok(()),
        }
    }

    /// The meaning.
    pub fn reference(mut self) {
        let batch = self.batch;
        for row in 0..batch.rows() {
            let starts = batch.starts.row::<u32>(0);
            let (first, end) = (starts[row] as usize, starts[row + 1] as usize);
            let length = batch.lengths.row::<u32>(0)[row] as usize;
            for token in first..end {
                let position = length - (end - token);
                for head in 0..self.heads.query {
                    self.attend_one(row, token, position, head);
                }
            }
        }
    }

    fn slot(&self, row: usize, position: usize) -> usize {
        let table_row = self.batch.table_rows.row::<u32>(0)[row] as usize;
        let page =
            self.batch.page_table.row::<u32>(table_row)[position / self.batch.page_size] as usize;
        page * self.batch.page_size + position % self.batch.page_size
    }

    fn attend_one(&mut self, row: usize, token: usize, position: usize, head: usize) {
        let dim = self.heads.dim;
        let (from, kv) = (head * dim, head / self.heads.group() * dim);
        let oldest = self
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        let slots: Vec<usize> = (oldest..=position).map(|p| self.slot(row, p)).collect();
        let (keys, values) = (self.cache.keys(), self.cache.values());
        let scores: Vec<f64> = slots
            .iter()
            .map(|&slot| {
                let products = (0..dim).map(|i| {
                    f64::from(self.query.value(token, from + i))
                        * f64::from(keys.value(slot, kv + i))
                });
                let score = products.sum::<f64>() * f64::from(self.scale);
                self.soft_cap.map_or(score, |cap| {
                    f64::from(cap) * (score / f64::from(cap)).tanh()
                })
            })
            .collect();
        let sink = self.sinks.map(|sinks| f64::from(sinks.value(0, head)));
        let max = scores
            .iter()
            .copied()
            .chain(sink)
            .fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - max).exp());
        for i in 0..dim {
            let mixed: f64 = slots
                .iter()
                .zip(&weights)
                .map(|(&slot, weight)| weight * f64::from(values.value(slot, kv + i)))
                .sum();
            self.out.set(token, from + i, (mixed / total) as f32);
        }
    }
}
