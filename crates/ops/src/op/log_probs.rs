use tensor::{DType, View, ViewMut};

use super::{dims, dims_mut, shape, typed};
use crate::OpError;

/// The most likely tokens of each row.
pub struct TopLogProbs<'a> {
    /// `[rows, k]` u32, by falling probability, equal ones by rising id.
    pub tokens: ViewMut<'a>,
    /// `[rows, k]` f32.
    pub log_probs: ViewMut<'a>,
}

/// log_probs\[i, j\] = log softmax(logits\[i\] / temperatures\[i\])\[targets\[i, j\]\], and the k most likely tokens
/// if asked.
///
/// logits: `[rows, vocabulary]` f32; targets: `[rows, m]` u32; temperatures: `[1, rows]` f32, zero counts as one;
/// log_probs: `[rows, m]` f32.
pub struct LogProbs<'a> {
    /// Unnormalised log-probabilities.
    pub logits: View<'a>,
    /// The tokens asked for in each row.
    pub targets: View<'a>,
    /// Divides the logits.
    pub temperatures: View<'a>,
    /// Results.
    pub log_probs: ViewMut<'a>,
    /// The most likely tokens.
    pub top: Option<TopLogProbs<'a>>,
}

impl LogProbs<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let (op, rows) = ("log_probs", self.logits.rows());
        typed(op, "logits", self.logits.dtype(), DType::F32)?;
        shape(
            op,
            "targets",
            dims(&self.targets),
            (rows, self.log_probs.cols()),
        )?;
        shape(op, "temperatures", dims(&self.temperatures), (1, rows))?;
        shape(
            op,
            "log_probs",
            dims_mut(&self.log_probs),
            (rows, self.targets.cols()),
        )?;
        match &self.top {
            Some(top) => {
                shape(
                    op,
                    "top.tokens",
                    dims_mut(&top.tokens),
                    (rows, top.log_probs.cols()),
                )?;
                shape(
                    op,
                    "top.log_probs",
                    dims_mut(&top.log_probs),
                    (rows, top.tokens.cols()),
                )
            }
            None => Ok(()),
        }
    }

    /// The meaning.
    pub fn reference(mut self) {
        for row in 0..self.logits.rows() {
            let temperature = self.temperatures.row::<f32>(0)[row];
            let divisor = if temperature > 0.0 {
                f64::from(temperature)
            } else {
                1.0
            };
            let scaled: Vec<f64> = self
                .logits
                .row::<f32>(row)
                .iter()
                // Minus zero counts as zero.
                .map(|&x| f64::from(x) / divisor + 0.0)
                .collect();
            let max = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let norm = max + scaled.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            for (out, &target) in self
                .log_probs
                .row_mut::<f32>(row)
                .iter_mut()
                .zip(self.targets.row::<u32>(row))
            {
                *out = (scaled[target as usize] - norm) as f32;
            }
            if let Some(top) = &mut self.top {
                let mut order: Vec<u32> = (0..scaled.len() as u32).collect();
                order.sort_by(|&a, &b| {
                    scaled[b as usize]
                        .total_cmp(&scaled[a as usize])
                        .then(a.cmp(&b))
                });
                for (place, &token) in order.iter().take(top.tokens.cols()).enumerate() {
                    top.tokens.row_mut::<u32>(row)[place] = token;
                    top.log_probs.row_mut::<f32>(row)[place] =
                        (scaled[token as usize] - norm) as f32;
                }
            }
        }
    }
}
