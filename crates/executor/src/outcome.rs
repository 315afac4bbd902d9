use ops::Readback;
use sampling::TokenLogProbs;
use scheduler::{RowOutcome, Sample, SampledToken, StepId, StepOutcome, StepPlan};

use crate::DeviceLost;
use crate::scores::ScoreShape;
use crate::tables::Tables;

/// A step whose results are on their way to the host.
pub(crate) struct Pending {
    pub(crate) id: StepId,
    pub(crate) readback: Box<dyn Readback>,
    pub(crate) shape: OutcomeShape,
}

/// How to read the bytes of a [`Pending`] step.
#[derive(Default)]
pub(crate) struct OutcomeShape {
    pub(crate) rows: Vec<RowShape>,
    /// Where the sampled tokens are: `[1, sampled]` u32.
    pub(crate) tokens: usize,
    /// Log-probabilities of sampled tokens, when any row wants them.
    pub(crate) sampled: Option<ScoredBlock>,
    /// Log-probabilities of prompt tokens, in slices.
    pub(crate) scored: Vec<ScoredBlock>,
}

/// One row of the plan.
pub(crate) struct RowShape {
    pub(crate) row: scheduler::Row,
    pub(crate) samples: bool,
    /// Top and chosen tokens wanted with the sampled token.
    pub(crate) wanted: Option<Wanted>,
    /// Prompt tokens scored in this step.
    pub(crate) scored: Vec<(u32, Wanted)>,
}

/// How much of a block's columns a position asked for.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) top: usize,
    pub(crate) chosen: Vec<u32>,
}

/// Matrices that one `log_probs` op wrote.
pub(crate) struct ScoredBlock {
    pub(crate) shape: ScoreShape,
    /// `[rows, 1]` f32 at this byte: the sampled or prompt tokens.
    pub(crate) own: usize,
    /// `[rows, chosen]` f32 at this byte: the tokens asked for.
    pub(crate) chosen: usize,
    /// `[rows, top]` u32 and `[rows, top]` f32 at these bytes.
    pub(crate) top_tokens: usize,
    pub(crate) top_log_probs: usize,
}

impl ScoredBlock {
    fn read(&self, bytes: &[u8], row: usize, token: u32, wanted: &Wanted) -> TokenLogProbs {
        let shape = self.shape;
        let top = (0..wanted.top.min(shape.top)).map(|place| {
            let at = 4 * (row * shape.top + place);
            (
                word(bytes, self.top_tokens + at),
                float(bytes, self.top_log_probs + at),
            )
        });
        let chosen = wanted.chosen.iter().enumerate().map(|(column, &token)| {
            (
                token,
                float(bytes, self.chosen + 4 * (row * shape.chosen + column)),
            )
        });
        let log_prob = float(bytes, self.own + 4 * row);
        TokenLogProbs {
            token,
            log_prob,
            top: top.collect(),
            chosen: chosen.collect(),
        }
    }
}

impl OutcomeShape {
    /// What the rows of a plan will yield.
    pub(crate) fn of(plan: &StepPlan, tables: &Tables) -> Self {
        let rows = plan.rows.iter().map(|row| {
            let state = tables.state(row.row);
            let wanted = state.log_probs().map(|asked| Wanted {
                top: asked.top as usize,
                chosen: asked.token_ids.clone(),
            });
            let scored = row.scored.clone().map(|position| {
                let wanted = wanted.clone().unwrap_or(Wanted {
                    top: 0,
                    chosen: Vec::new(),
                });
                (state.open.history[position as usize], wanted)
            });
            let scored = scored.collect();
            RowShape {
                row: row.row,
                samples: row.sample != Sample::No,
                wanted,
                scored,
            }
        });
        Self {
            rows: rows.collect(),
            ..Self::default()
        }
    }

    fn outcome(&self, id: StepId, bytes: &[u8]) -> StepOutcome {
        let mut sampled_so_far = 0;
        let mut scored_so_far = self
            .scored
            .iter()
            .flat_map(|block| (0..block.shape.rows).map(move |row| (block, row)));
        let rows = self.rows.iter().map(|row| {
            let prompt_log_probs = row
                .scored
                .iter()
                .map(|(token, wanted)| {
                    let (block, place) = scored_so_far.next().expect("a result per scored token");
                    block.read(bytes, place, *token, wanted)
                })
                .collect();
            let mut sampled = Vec::new();
            if row.samples {
                let token = word(bytes, self.tokens + 4 * sampled_so_far);
                let log_probs = row.wanted.as_ref().map(|wanted| {
                    let block = self
                        .sampled
                        .as_ref()
                        .expect("scores were computed, since a row wants them");
                    block.read(bytes, sampled_so_far, token, wanted)
                });
                sampled.push(SampledToken { token, log_probs });
                sampled_so_far += 1;
            }
            RowOutcome {
                row: row.row,
                sampled,
                prompt_log_probs,
            }
        });
        StepOutcome {
            id,
            rows: rows.collect(),
        }
    }
}

impl Pending {
    /// Waits for the device and reads the results; the readback may be used again.
    pub(crate) fn wait(mut self) -> Result<(StepOutcome, Box<dyn Readback>), DeviceLost> {
        let outcome = self.shape.outcome(self.id, self.readback.wait()?);
        Ok((outcome, self.readback))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn float(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(word(bytes, at))
}
