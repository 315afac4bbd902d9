use bytemuck::{Pod, Zeroable};
use tensor::{DType, View, ViewMut};

use super::{dims, dims_mut, shape, typed};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError, rng};

/// How one row is sampled; laid out as kernels read it.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct SampleParams {
    /// Key of the row's random numbers.
    pub seed: u64,
    /// Zero takes the largest logit.
    pub temperature: f32,
    /// Share of probability kept.
    pub top_p: f32,
    /// Least share of the largest probability kept.
    pub min_p: f32,
    /// Number of tokens kept; `u32::MAX` keeps all.
    pub top_k: u32,
    /// Subtracted a time a token was produced.
    pub frequency: f32,
    /// Subtracted once a token was produced.
    pub presence: f32,
    /// Divides the logit of tokens that were produced; 1 does nothing.
    pub repetition: f32,
    /// Keeps the size a multiple of eight.
    pub reserved: u32,
}

impl SampleParams {
    /// Size in bytes.
    pub const BYTES: usize = size_of::<Self>();

    /// Takes the largest logit.
    pub const GREEDY: Self = Self {
        seed: 0,
        temperature: 0.0,
        top_p: 1.0,
        min_p: 0.0,
        top_k: u32::MAX,
        frequency: 0.0,
        presence: 0.0,
        repetition: 1.0,
        reserved: 0,
    };

    /// Row `row` of a `[rows, BYTES]` host matrix.
    pub fn read(params: &View<'_>, row: usize) -> Self {
        bytemuck::pod_read_unaligned(params.row::<u8>(row))
    }

    /// True when produced tokens are treated differently.
    pub fn penalises(&self) -> bool {
        self.frequency != 0.0 || self.presence != 0.0 || (self.repetition - 1.0).abs() > 0.0
    }

    /// True when the largest logit wins, as it is.
    pub fn takes_largest(&self) -> bool {
        self.temperature <= 0.0 && !self.penalises()
    }

    /// A logit of a token that was produced `count` times.
    pub fn penalised(&self, logit: f32, count: u16) -> f32 {
        let scaled = if logit > 0.0 {
            logit / self.repetition
        } else {
            logit * self.repetition
        };
        scaled - f32::from(count) * self.frequency - self.presence
    }

    /// True when no token is left out before drawing.
    pub fn keeps_all(&self) -> bool {
        self.top_k == u32::MAX && self.top_p >= 1.0 && self.min_p <= 0.0
    }
}

/// Draws one token a row and remembers it.
///
/// With temperature t > 0: p = softmax(logits / t); in order of falling p (equal ones by rising id) the first `top_k`
/// are kept, of these the shortest run whose predecessors sum to less than `top_p`, of these those with
/// p ≥ `min_p` · max p; the token with the largest logit / t + Gumbel(seed, position, token) among the kept is drawn.
/// With t = 0 the largest logit wins, the lowest id among equals; rows of NaN draw token 0.
/// logits: `[sampled, vocabulary]` f32; params: `[sampled, size of SampleParams]` u8; positions, table_rows, out:
/// `[1, sampled]` u32; last: `[1, max rows]` u32.
#[derive(Clone, Copy, Debug)]
pub struct Sample<H: Handles> {
    /// Unnormalised log-probabilities.
    pub logits: H::In,
    /// How rows draw, and where tokens go.
    pub draw: H::Draw,
}

op_fields!(Sample { logits, draw });

/// What drawing takes besides logits.
pub struct Draw<'a> {
    /// One [`SampleParams`] a row.
    pub params: View<'a>,
    /// Output position of each row: the counter of its random numbers.
    pub positions: View<'a>,
    /// The row of `last` of each row of `logits`.
    pub table_rows: View<'a>,
    /// The drawn tokens.
    pub out: ViewMut<'a>,
    /// The last token of every row; those of `table_rows` change.
    pub last: ViewMut<'a>,
}

impl Draw<'_> {
    /// Checks shapes and types, for so many rows.
    pub(super) fn check(&self, op: &'static str, rows: usize) -> Result<(), OpError> {
        shape(
            op,
            "params",
            dims(&self.params),
            (rows, SampleParams::BYTES),
        )?;
        shape(op, "positions", dims(&self.positions), (1, rows))?;
        shape(op, "table_rows", dims(&self.table_rows), (1, rows))?;
        shape(op, "out", dims_mut(&self.out), (1, rows))?;
        typed(op, "last", self.last.dtype(), DType::U32)
    }
}

impl Sample<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        typed("sample", "logits", self.logits.dtype(), DType::F32)?;
        self.draw.check("sample", self.logits.rows())
    }

    /// The meaning.
    pub fn reference(self) {
        let mut draw = self.draw;
        for row in 0..self.logits.rows() {
            let params = SampleParams::read(&draw.params, row);
            let position = draw.positions.row::<u32>(0)[row];
            let token = draw_token(self.logits.row::<f32>(row), &params, position);
            draw.out.row_mut::<u32>(0)[row] = token;
            draw.last.row_mut::<u32>(0)[draw.table_rows.row::<u32>(0)[row] as usize] = token;
        }
    }
}

/// Draws a token from one row of logits.
fn draw_token(logits: &[f32], params: &SampleParams, position: u32) -> u32 {
    if params.temperature <= 0.0 {
        return largest(logits.iter().copied());
    }
    let scaled: Vec<f32> = logits
        .iter()
        .map(|&logit| logit / params.temperature)
        .collect();
    let max = scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = scaled.iter().map(|&x| f64::from(x - max).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| {
        weights[b as usize]
            .total_cmp(&weights[a as usize])
            .then(a.cmp(&b))
    });
    order.truncate(params.top_k as usize);
    let mut before = 0.0;
    let mut kept = vec![false; logits.len()];
    for token in order {
        let p = weights[token as usize] / total;
        if before >= f64::from(params.top_p) || p < f64::from(params.min_p) / total {
            break;
        }
        kept[token as usize] = true;
        before += p;
    }
    largest(
        scaled
            .iter()
            .zip(&kept)
            .enumerate()
            .map(|(token, (&x, &kept))| {
                if kept {
                    x + rng::gumbel(params.seed, position, token as u32)
                } else {
                    f32::NEG_INFINITY
                }
            }),
    )
}

fn largest(values: impl Iterator<Item = f32>) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, value) in values.enumerate() {
        if value > best.1 {
            best = (token as u32, value);
        }
    }
    best.0
}
