use tensor::{DType, Scope, ViewMut};

/// Top and named tokens that one position may be asked for.
pub const MAX_SCORES: usize = 512;

/// How much is computed and brought to the host where rows are scored together. One row's likeliest tokens and another's
/// named ones widen the matrices of all, so both widths are counted in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScoreShape {
    pub(crate) rows: usize,
    /// Named tokens of the row that names most.
    pub(crate) chosen: usize,
    /// Likeliest tokens of the row that wants most.
    pub(crate) top: usize,
}

impl ScoreShape {
    /// Of rows that ask for as much as they may, each for something else.
    pub(crate) fn largest(rows: usize) -> Self {
        Self {
            rows,
            chosen: MAX_SCORES,
            top: MAX_SCORES,
        }
    }

    /// Bytes of all results.
    pub(crate) fn bytes(self) -> usize {
        let numbers = self.rows * (1 + self.chosen + 2 * self.top);
        numbers * DType::F32.size()
    }
}

/// Where the results of scored rows lie on the device.
pub(crate) struct ScoreMemory<'s> {
    /// `[rows, 1]` f32: the sampled or prompt tokens.
    pub(crate) own: ViewMut<'s>,
    /// `[rows, chosen]` f32.
    pub(crate) chosen: ViewMut<'s>,
    /// `[rows, top]` u32.
    pub(crate) top_tokens: ViewMut<'s>,
    /// `[rows, top]` f32.
    pub(crate) top_log_probs: ViewMut<'s>,
}

impl<'s> ScoreMemory<'s> {
    pub(crate) fn take(scope: &'s Scope<'_>, shape: ScoreShape) -> Self {
        let ScoreShape { rows, chosen, top } = shape;
        Self {
            own: scope.matrix(rows, 1, DType::F32),
            chosen: scope.matrix(rows, chosen, DType::F32),
            top_tokens: scope.matrix(rows, top, DType::U32),
            top_log_probs: scope.matrix(rows, top, DType::F32),
        }
    }
}
